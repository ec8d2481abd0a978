// What a frame shows: the rows in sight, marks and ruler, the selection and its arrows.
const MAP = 58; // height of the whole window's strip; the ruler stands below it
const RULER = 26;
const BINS = 320;

const toX = (state, at) => ((at - state.view.from) / (state.view.to - state.view.from)) * state.width;
const toTime = (state, x) => state.view.from + (x / state.width) * (state.view.to - state.view.from);

/** The tracks' canvas. @param {Painter} painter */
function drawTracks(state, painter) {
  const { colour, view } = state;
  const { width, height } = painter.begin(colour.surface);
  state.width = width;
  const shown = state.rows.filter((r) => r.y + r.height > state.scroll && r.y < state.scroll + height);
  for (const at of ticks(view, Math.max(2, width / 110)).found) painter.rect(Math.round(toX(state, at)), 0, 1, height, colour.line);
  shade(state, painter, height);
  const strips = [];
  for (const row of shown) strips.push(...drawRow(state, painter, row, row.y - state.scroll));
  painter.lanes(strips, view, width, state.palette);
  for (const each of strips) drawWide(state, painter, each);
  for (const row of shown) painter.rect(0, row.y + row.height - state.scroll, width, 1, colour.line);
  drawSelection(state, painter);
}

/** Steps' edges, and the time of the selection. */
function shade(state, painter, height) {
  const { model, colour } = state;
  if (state.selected >= 0) {
    const [x0, x1] = [model.start[state.selected], model.end[state.selected]].map((at) => toX(state, at));
    painter.context.globalAlpha = 0.08;
    painter.rect(x0, 0, Math.max(1, x1 - x0), height, colour.accent);
    painter.context.globalAlpha = 1;
  }
  if (model.marks.length > 40 && visibleMarks(state).length > 40) return;
  for (const [, start, end] of visibleMarks(state))
    for (const at of [start, end]) painter.rect(Math.round(toX(state, at)), 0, 1, height, colour.line2);
}

const visibleMarks = ({ model, view }) => model.marks.filter(([, start, end]) => end > view.from && start < view.to);

/** Draw what a row has besides events, and return the lanes that it shows. */
function drawRow(state, painter, row, y) {
  const { colour } = state;
  const { track } = row;
  const device = state.activePalette;
  const bar = (lane, inset) => [{ lane, y: y + inset, height: row.height - 2 * inset, palette: device, row }];
  if (track.reason) nothing(state, painter, track, y, row.height);
  if (track.kind === "sum" && !track.reason) {
    painter.bars(meanShares(track.devices, state.view, BINS), 0, y + 5, state.width, row.height - 8, colour.active);
  }
  if (track.kind === "counter" && track.samples.length) drawCounter(state, painter, track, y, row.height);
  if (track.kind === "device" && track.active) return bar(track.active, 3);
  if (track.kind === "process") return drawProcess(state, painter, row, y, bar);
  if (track.merged) drawMerged(state, painter, track, y, row.height);
  return row.lanes.map(({ lane, ...at }) => ({ lane, y: at.y - state.scroll, height: at.height, row, named: true }));
}

/** Hatched and named, for what is unknown is not empty. */
function nothing(state, painter, track, y, height) {
  painter.hatch(0, y + 3, state.width, height - 6, state.colour.hatch);
  painter.text(track.reason, 12, y + height / 2, state.width - 24, state.colour.ink2, { ground: state.colour.surface });
}

/** A closed process shows its first device, an open one its steps. */
function drawProcess(state, painter, row, y, bar) {
  const { model, colour } = state;
  const device = model.tracks.find((t) => t.parent === row.track.id && t.active);
  if (!row.isOpen && device) return bar(device.active, 3);
  for (const step of row.track.steps) {
    const [x0, x1] = [model.start[step], model.end[step]].map((at) => toX(state, at));
    if (x1 < 0 || x0 > state.width) continue;
    painter.rect(x0, y + 3, x1 - x0, row.height - 6, colour.step);
    painter.rect(x0, y + 3, Math.min(2, x1 - x0), row.height - 6, colour.accent);
    const name = model.names[model.name[step]][1];
    const left = Math.max(0, x0) + 6;
    painter.text(name, left, y + row.height / 2, Math.min(x1, state.width) - left - 4, colour.ink);
  }
  return [];
}

/** Readings as steps: each tells of the time since the one before. Ratios are of the whole, others of the largest. */
function drawCounter(state, painter, track, y, height) {
  const most = track.unit === "ratio" ? 1 : Math.max(1e-12, ...track.samples.map(([, v]) => v ?? 0));
  track.samples.forEach(([at, value], i) => {
    const [x0, x1] = [toX(state, track.samples[i - 1]?.[0] ?? at), toX(state, at)];
    if (x1 < 0 || x0 > state.width) return;
    const left = Math.max(0, x0);
    if (value === null) return painter.hatch(left, y + 3, Math.min(x1, state.width) - left, height - 6, state.colour.hatch);
    const up = (height - 6) * Math.min(1, value / most);
    painter.context.globalAlpha = 0.35;
    painter.rect(x0, y + height - 3 - up, x1 - x0, up, state.colour.launch);
    painter.context.globalAlpha = 1;
    painter.rect(x0, y + height - 3 - up, x1 - x0, 1.5, state.colour.compute);
  });
}

/** Blocks that stand for many short events: low, as high as they were busy. */
function drawMerged(state, painter, track, y, height) {
  const { merged } = track;
  const last = bisect(merged.start, state.view.to);
  for (let i = bisect(merged.reach, state.view.from); i < last; i++) {
    const [x0, x1] = [toX(state, merged.start[i]), toX(state, merged.end[i])];
    const share = Math.max(0.15, merged.busy[i] / Math.max(1, merged.end[i] - merged.start[i]));
    const up = (height - 4) * Math.min(1, share);
    painter.context.globalAlpha = 0.45;
    painter.rect(x0, y + height - 2 - up, Math.max(1, x1 - x0), up, state.palette[merged.kind[i]].css);
    painter.context.globalAlpha = 1;
  }
}

/** Events that are wide enough to be seen one by one, with their names. */
function drawWide(state, painter, { lane, wide, y, height, palette, named }) {
  const { model } = state;
  for (const i of wide) {
    const x0 = Math.max(-2, toX(state, lane.start[i]));
    const x1 = Math.min(state.width + 2, toX(state, lane.end[i]));
    const look = (palette ?? state.palette)[lane.kind[i]];
    const width = x1 - x0 > 4 ? x1 - x0 - 1 : x1 - x0; // neighbours of one colour have a gap between them
    for (const [from, to] of look.shape) painter.rect(x0, y + from * height, width, (to - from) * height, look.css);
    if (look.edge) painter.rect(x0, y, Math.min(2, width), height, look.edge);
    if (!named || width < 28) continue;
    const [, name, short] = model.names[model.name[lane.from + i]];
    painter.text(short || name, x0 + 5, y + height / 2 + 0.5 + (look.shape[0][0] ? height / 8 : 0), width - 9, look.edge ? state.colour.ink : look.ink);
  }
}

/** Where an event is drawn: its own lane, or the row of a closed track around it. */
function placeOf(state, event) {
  const { model } = state;
  const lane = model.lanes[model.lane[event]];
  const row = rowOf(state.rows, model.tracks, model.tracks[lane.track].id);
  const own = row.lanes.find((each) => each.lane === lane) ?? { y: row.y + 2, height: row.height - 4 };
  return { x0: toX(state, model.start[event]), x1: toX(state, model.end[event]), y: own.y - state.scroll, height: own.height };
}

function drawSelection(state, painter) {
  const { model, selected, colour } = state;
  if (selected < 0) return;
  const g = painter.context;
  const outline = (event) => {
    const at = placeOf(state, event);
    g.strokeStyle = colour.ink;
    g.lineWidth = 2;
    g.strokeRect(at.x0 - 1, at.y, Math.max(3, at.x1 - at.x0) + 2, at.height);
  };
  for (const [launch, event] of arrowsOf(model, selected)) {
    const [from, to] = [placeOf(state, launch), placeOf(state, event)];
    painter.arrow(from.x0 + 1, from.y + from.height / 2, to.x0, to.y + to.height / 2, colour.bad);
    outline(event === selected ? launch : event);
  }
  outline(selected);
}

/** Arrows of a selection, from launch to device event; of a graph's thousands the first ones. @returns {[number, number][]} */
function arrowsOf(model, selected) {
  const launch = model.link[selected] >= 0 ? model.link[selected] : selected;
  const started = model.link[selected] >= 0 ? [selected] : [...launchedBy(model, launch)].slice(0, 32);
  return started.map((event) => [launch, event]);
}

/** The whole window and the ruler. */
function drawHead(state, painter) {
  const { model, colour, view } = state;
  const { width } = painter.begin(colour.surface);
  painter.rect(0, 0, width, MAP, colour.page);
  const whole = { view: { from: 0, to: model.length }, width };
  if (state.overview) painter.bars(state.overview, 0, 18, width, MAP - 22, colour.active);
  else nothing({ width, colour }, painter, { reason: "no device activity was recorded" }, 14, MAP - 16);
  drawMarks(whole, model, painter, colour);
  const [x0, x1] = [view.from, view.to].map((at) => toX(whole, at));
  painter.context.globalAlpha = 0.14;
  painter.rect(x0, 0, x1 - x0, MAP, colour.accent);
  painter.context.globalAlpha = 1;
  painter.context.strokeStyle = colour.accent;
  painter.context.lineWidth = 1.5;
  painter.context.strokeRect(x0, 1, Math.max(2, x1 - x0), MAP - 2);
  painter.rect(0, MAP, width, 1, colour.line2);
  const { found, text } = ticks(view, Math.max(2, width / 110));
  for (const at of found) {
    const x = Math.round(toX({ view, width }, at));
    painter.rect(x, MAP + 1, 1, RULER, colour.line);
    painter.text(text(at), x + 4, MAP + RULER / 2, 104, colour.ink3);
  }
  painter.rect(0, MAP + RULER - 1, width, 1, colour.line2);
}

/** Steps as lines; unusual ones as a triangle with its words, where they do not overlap. */
function drawMarks(whole, model, painter, colour) {
  if (model.marks.length < 60) for (const [, start] of model.marks) painter.rect(toX(whole, start), 0, 1, MAP, colour.line2);
  let free = 0;
  for (const [label, start, end, kind] of model.marks.filter((m) => m[3]).slice(0, 8)) {
    const x = Math.max(6, toX(whole, start));
    if (x < free) continue;
    painter.triangle(x, 4, colour.bad);
    const words = `${label}, ${kind.replace("_", "-")}`;
    painter.text(words, x + 9, 9, whole.width - x - 12, colour.ink2);
    painter.rect(x, 15, Math.max(1, toX(whole, end) - x), 1, colour.bad);
    free = x + 16 + painter.measure(words);
  }
}
