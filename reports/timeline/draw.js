// The canvases. Everything here reads the state and draws it; nothing changes it.
const WHOLE = [[0, 1]];
const UNDERLINED = [[0, 0.75], [0.875, 1]];
const LOW = [[0.25, 1]];
const SHAPES = {
  compute: WHOLE, launch: WHOLE, step: WHOLE, annotation: WHOLE, communication: UNDERLINED, memory: LOW, sync: LOW,
};
// A kind has a shape besides its colour: the parts of the height that it fills. So a strip has three rows of pixels,
// which stand for four bands of the height.
const STRIP = 3;
const BANDS = [[0, 0, 0.25], [1, 0.25, 0.75], [2, 0.75, 0.875], [1, 0.875, 1]];
const SHADES = 16;
const FONT = "500 11px Inter, system-ui, sans-serif";
const TOKENS = {
  compute: "--compute", communication: "--exposed-comm", memory: "--exposed-mem", launch: "--runtime", sync: "--sync",
  step: "--accent-soft", annotation: "--sunken", active: "--h5", surface: "--surface", page: "--page", line: "--line",
  line2: "--line-2", ink: "--ink", ink2: "--ink-2", ink3: "--ink-3", accent: "--accent", bad: "--bad", hatch: "--hatch",
};

/** The theme's colours now, as the canvas and as bytes want them. */
function colours() {
  const probe = document.body.appendChild(document.createElement("i"));
  const found = {};
  for (const [name, token] of Object.entries(TOKENS)) {
    probe.style.color = `var(${token})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  found.bytes = Object.fromEntries(Object.entries(found).map(([name, css]) => [name, css.match(/\d+/g).map(Number)]));
  return found;
}

/** Black or white, whichever can be read on a colour. */
const inkOn = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#10151c" : "#ffffff");

class Painter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.strips = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    this.widths = new Map(); // to measure text takes longer than to draw it
  }

  /** Fit the canvas to its place; whole device pixels, so that lines are sharp. */
  begin(colour) {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) Object.assign(this.canvas, { width: w, height: h });
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.fillStyle = colour;
    this.context.fillRect(0, 0, width, height);
    this.context.textBaseline = "middle";
    return { width, height };
  }

  rect(x, y, width, height, colour) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  measure(words) {
    let width = this.widths.get(words);
    this.context.font = FONT;
    if (width === undefined) this.widths.set(words, (width = this.context.measureText(words).width));
    return width;
  }

  /** Text shortened in the middle to fit; on a ground of its own where what lies below would make it hard to read. */
  text(words, x, y, room, colour, { ground = "" } = {}) {
    if (room < 22) return;
    const width = this.measure(words);
    if (width > room) words = this.shortened(words, room, Math.ceil((room / width) * words.length) - 1);
    if (!words) return;
    if (ground) this.rect(x - 5, y - 8, Math.min(width, room) + 10, 16, ground);
    this.context.fillStyle = colour;
    this.context.fillText(words, x, y);
  }

  /** Words with so many characters that they fit, empty where fewer than four would. */
  shortened(words, room, fits) {
    if (this.widths.size > 20_000) this.widths.clear();
    for (let n = fits; n >= 4; n--) {
      const short = `${words.slice(0, Math.ceil(n * 0.65))}…${words.slice(-Math.floor(n * 0.35))}`;
      if (this.measure(short) <= room) return short;
    }
    return "";
  }

  hatch(x, y, width, height, colour) {
    const g = this.context;
    g.save();
    g.beginPath();
    g.rect(x, y, width, height);
    g.clip();
    g.strokeStyle = colour;
    g.lineWidth = 1;
    g.beginPath();
    for (let i = -height; i < width; i += 6) {
      g.moveTo(x + i, y + height);
      g.lineTo(x + i + height, y);
    }
    g.stroke();
    g.restore();
  }

  /** Lanes as strips, one pixel a column, written at once and stretched to their heights. */
  lanes(shown, view, width, palette) {
    const ratio = devicePixelRatio || 1;
    const columns = Math.max(1, Math.round(width * ratio));
    this.room(columns, Math.max(1, shown.length * STRIP));
    const { pixels, painted, strips, context } = this;
    pixels.fill(0, 0, shown.length * STRIP * columns);
    shown.forEach((each, i) => {
      paint(each.lane, view, painted, 5 * ratio);
      each.wide = painted.wide;
      strip(pixels, i * STRIP * columns, columns, painted, each.palette ?? palette);
    });
    strips.putImageData(this.image, 0, 0, 0, 0, columns, shown.length * STRIP);
    context.imageSmoothingEnabled = false;
    shown.forEach(({ y, height }, i) => {
      for (const [row, from, to] of BANDS)
        context.drawImage(strips.canvas, 0, i * STRIP + row, columns, 1, 0, y + from * height, width, (to - from) * height);
    });
  }

  /** Memory for the strips, kept from frame to frame. */
  room(columns, height) {
    const { canvas } = this.strips;
    if (this.image && canvas.width === columns && canvas.height >= height) return;
    Object.assign(canvas, { width: columns, height });
    this.image = new ImageData(columns, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.painted = columnsOf(columns);
  }

  /** An area or steps from 0 at the bottom; `values` are from 0 to 1, NaN where unknown. */
  bars(values, x, y, width, height, colour) {
    const each = width / values.length;
    this.context.fillStyle = colour;
    this.context.beginPath();
    values.forEach((v, i) => v > 0 && this.context.rect(x + i * each, y + height * (1 - v), each + 0.3, height * v));
    this.context.fill();
  }

  triangle(x, y, colour) {
    const g = this.context;
    g.fillStyle = colour;
    g.beginPath();
    g.moveTo(x, y);
    g.lineTo(x + 5, y + 9);
    g.lineTo(x - 5, y + 9);
    g.fill();
  }

  /** A curve with a head, from a launch to what it started. */
  arrow(x0, y0, x1, y1, colour) {
    const g = this.context;
    const bend = Math.max(18, Math.min(80, Math.abs(y1 - y0) / 3));
    Object.assign(g, { strokeStyle: colour, fillStyle: colour, lineWidth: 1.6 });
    g.beginPath();
    g.moveTo(x0, y0);
    g.bezierCurveTo(x0 + 4, y0 + Math.sign(y1 - y0) * bend, x1 - bend, y1 - Math.sign(y1 - y0) * 8, x1 - 5, y1);
    g.stroke();
    g.beginPath();
    g.moveTo(x1, y1);
    g.lineTo(x1 - 8, y1 - 4);
    g.lineTo(x1 - 8, y1 + 4);
    g.fill();
  }
}

/** One lane's columns as the rows of pixels that BANDS stretches. */
function strip(pixels, at, columns, painted, palette) {
  const { cover, kind } = painted;
  for (let x = 0; x < columns; x++) {
    if (!cover[x]) continue;
    const { shades, hasTop, hasGap } = palette[kind[x]];
    const value = shades[cover[x] >= 1 ? SHADES : Math.floor(cover[x] * SHADES)];
    pixels[at + columns + x] = value;
    if (hasTop) pixels[at + x] = value;
    if (!hasGap) pixels[at + 2 * columns + x] = value;
  }
}

/** Of each kind its colour in its shape, the ink on it, and the edge of what is pale. */
function paletteOf(kinds, colour) {
  return kinds.map((kind) => {
    // What is pale as a box with an edge would not be seen as a line of one pixel.
    const thin = { step: "accent", annotation: "line2" }[kind] ?? kind;
    const edge = { step: colour.accent, annotation: colour.line2 }[kind];
    return { ...swatch(colour, thin, SHAPES[kind]), css: colour[kind], ink: inkOn(colour.bytes[kind]), edge };
  });
}

/** A colour as rectangles and as pixels are filled with it: paler where less of a pixel is busy, never unseen. */
function swatch(colour, name, shape) {
  const shades = Uint32Array.from({ length: SHADES + 1 }, (_, i) => {
    const share = 0.3 + (0.7 * i) / SHADES;
    const [r, g, b] = colour.bytes[name].map((part, c) => Math.round(part * share + colour.bytes.surface[c] * (1 - share)));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
  const fills = (at) => shape.some(([from, to]) => at >= from && at < to);
  return { css: colour[name], shades, hasTop: fills(0), hasGap: !fills(0.8), shape };
}
