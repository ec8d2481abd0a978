// Questions to the model, none of which draws: what a stretch looks like, what lies at a point, what is linked to what.

const MOST_CONNECTIONS = 40;
const BLUR = 1; // pixels within which events may be drawn as one

/** First index in [low, high) whose value is not below `wanted`, in a rising array. */
function bisect(values, wanted, low = 0, high = values.length) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Columns of one pixel over a view: how much of each is busy, and the kind that is busiest in it.
 * @typedef {{from: number, scale: number, cover: Float32Array, best: Float32Array, kind: Uint8Array, wide: number[],
 *   least: number}} Columns
 * @returns {Columns}
 */
function columnsOf(count) {
  const [cover, best] = [new Float32Array(count), new Float32Array(count)];
  return { from: 0, scale: 1, cover, best, kind: new Uint8Array(count), wide: [], least: 0 };
}

/**
 * Paint a lane into columns. Blocks of the pyramid stand for their events where they are at most BLUR pixels wide.
 * Events of `least` pixels and more go, by their index in the lane, to `wide` instead.
 * @param {Lane} lane @param {{from: number, to: number}} view @param {Columns} columns
 */
function paint(lane, view, columns, least) {
  columns.cover.fill(0);
  columns.best.fill(0);
  const scale = columns.cover.length / (view.to - view.from);
  Object.assign(columns, { from: view.from, scale, wide: [], least });
  // Levels with far fewer blocks in view than columns hold none that is narrow enough.
  for (let height = lane.levels.length - 1; ; height--) {
    const { reach, start } = height < 0 ? lane : lane.levels[height];
    const [first, last] = [bisect(reach, view.from), bisect(start, view.to)];
    if (height < 0) return paintEvents(lane, first, last, columns);
    if (last - first > columns.cover.length / (FAN * BLUR)) return paintBlocks(lane, height, first, last, columns);
  }
}

function paintBlocks(lane, height, first, last, columns) {
  const { start, end, busy, kind } = lane.levels[height];
  const { from, scale } = columns;
  const below = height ? lane.levels[height - 1].start.length : lane.start.length;
  for (let block = first; block < last; block++) {
    const x0 = (start[block] - from) * scale;
    const x1 = (end[block] - from) * scale;
    if (x1 <= 0) continue;
    if (x1 - x0 <= BLUR) paintSpan(columns, x0, x1, busy[block] * scale, kind[block]);
    else if (height) paintBlocks(lane, height - 1, block * FAN, Math.min(below, (block + 1) * FAN), columns);
    else paintEvents(lane, block * FAN, Math.min(below, (block + 1) * FAN), columns);
  }
}

function paintEvents(lane, first, last, columns) {
  const { start, end, kind } = lane;
  const { from, scale, cover, least } = columns;
  for (let i = first; i < last; i++) {
    const x0 = (start[i] - from) * scale;
    const x1 = (end[i] - from) * scale;
    if (x1 < 0) continue;
    if (x0 >= cover.length) break;
    if (x1 - x0 >= least) columns.wide.push(i);
    else paintSpan(columns, x0, x1, x1 - x0, kind[i]);
  }
}

/** Spread what is busy evenly over the columns from x0 to x1. */
function paintSpan(columns, x0, x1, length, kind) {
  const busy = length < 0.02 ? 0.02 : length; // what has no length is still there to be seen
  const column = x0 > 0 ? Math.floor(x0) : 0;
  if (x1 <= column + 1) return paintColumn(columns, column, busy, kind);
  const density = busy / (x1 - x0);
  const last = Math.min(columns.cover.length, Math.ceil(x1));
  for (let c = column; c < last; c++) paintColumn(columns, c, density * (Math.min(x1, c + 1) - Math.max(x0, c)), kind);
}

function paintColumn(columns, column, amount, kind) {
  columns.cover[column] += amount;
  if (amount > columns.best[column]) {
    columns.best[column] = amount;
    columns.kind[column] = kind;
  }
}

/** How much of each of `count` equal stretches of the view a lane is busy, from 0 to 1. @returns {Float32Array} */
function shares(lane, view, count) {
  const columns = columnsOf(count);
  paint(lane, view, columns, Infinity);
  return columns.cover.map((share) => Math.min(1, share));
}

/** Mean share over lanes. @param {Lane[]} lanes */
function meanShares(lanes, view, count) {
  const sum = new Float32Array(count);
  for (const lane of lanes) shares(lane, view, count).forEach((share, i) => (sum[i] += share / lanes.length));
  return sum;
}

/** The event of a lane at a time, else the nearest within `slack`; -1 where there is none. */
function eventAt(lane, time, slack) {
  let nearest = -1;
  let distance = slack;
  const first = bisect(lane.reach, time - slack);
  for (let i = first; i < lane.start.length && lane.start[i] <= time + slack; i++) {
    const away = Math.max(lane.start[i] - time, time - lane.end[i], 0);
    // Of two that cover the time the later one is the shorter or the one drawn on top.
    if (away < distance || (away === 0 && distance === 0) || nearest < 0) {
      if (away <= slack) [nearest, distance] = [i, away];
    }
  }
  return nearest < 0 ? -1 : lane.from + nearest;
}

/** Annotations open at an instant on a thread, innermost first. @param {Track} thread */
function openAt(thread, time) {
  const found = [];
  for (const lane of thread.lanes) {
    if (!lane) continue;
    for (let i = bisect(lane.reach, time + 0.5); i < lane.start.length && lane.start[i] <= time; i++)
      if (lane.end[i] > time) found.push(lane.from + i);
  }
  return found.reverse();
}

const trackOf = (model, event) => model.tracks[model.lanes[model.lane[event]].track];
const threadOf = (model, track) => (track.kind === "launches" ? model.tracks.find((t) => t.id === track.parent) : track);
const launchedBy = (model, event) => model.items.subarray(model.heads[event], model.heads[event + 1]);

/** What belongs to an event: [relation, event] pairs, nearest first, one more than `most` where there are more.
 * @returns {[string, number][]} */
function connections(model, event, most = MOST_CONNECTIONS) {
  const found = [];
  const track = trackOf(model, event);
  const launch = track.kind === "stream" ? model.link[event] : event;
  if (track.kind === "stream" && launch >= 0) found.push(["launched by", launch]);
  if (track.kind === "launches") for (const each of launchedBy(model, event)) found.push(["started", each]);
  if (launch >= 0) {
    const thread = threadOf(model, trackOf(model, launch));
    const around = openAt(thread, model.start[launch]).filter((e) => e !== event && model.end[e] >= model.end[launch]);
    const deeper = track.kind === "thread" ? around.filter((e) => depthOf(model, e) < depthOf(model, event)) : around;
    for (const each of deeper) found.push(["inside", each]);
  }
  if (model.group[event])
    for (const each of model.byGroup.get(model.group[event])) if (each !== event) found.push(["same collective", each]);
  if (track.kind === "thread") for (const each of inside(model, track, event, most)) found.push(["contains", each]);
  return found.slice(0, most + 1);
}

const depthOf = (model, event) => model.lanes[model.lane[event]].depth;

/** Annotations one level below an annotation, then calls made while it was the innermost or an outer one. */
function inside(model, thread, event, most) {
  const launches = model.tracks.find((t) => t.parent === thread.id && t.kind === "launches");
  const next = thread.lanes[depthOf(model, event) + 1];
  const found = [];
  for (const lane of [next, ...(launches?.lanes ?? [])]) {
    if (!lane) continue;
    for (let i = bisect(lane.start, model.start[event]); i < lane.start.length && lane.start[i] < model.end[event]; i++) {
      found.push(lane.from + i);
      if (found.length > most) return found;
    }
  }
  return found;
}

/** Events whose name holds the words, in order of time. @returns {Int32Array} */
function search(model, words) {
  const wanted = words.toLowerCase();
  const matches = model.names.map(([, name, short]) => name.toLowerCase().includes(wanted) || short.toLowerCase().includes(wanted));
  const found = [];
  if (wanted) for (let i = 0; i < model.total; i++) if (matches[model.name[i]]) found.push(i);
  return Int32Array.from(found).sort((a, b) => model.start[a] - model.start[b] || a - b);
}

/** The part of an address that brings back a view and a selection. */
function toHash(model, view, selected) {
  const time = `t=${Math.round(view.from)}..${Math.round(view.to)}`;
  if (selected < 0) return `#${time}`;
  const lane = model.lanes[model.lane[selected]];
  return `#${time}&sel=${encodeURIComponent(`${model.tracks[lane.track].id}/${lane.depth}@${model.start[selected]}`)}`;
}

/** @returns {{view: {from: number, to: number}?, selected: number}} */
function fromHash(model, hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const [from, to] = (given.get("t") ?? "").split("..").map(Number);
  const view = to > from ? { from, to } : null;
  const [, id, depth, start] = /^(.*)\/(\d+)@(-?\d+)$/.exec(given.get("sel") ?? "") ?? [];
  const lane = model.tracks.find((t) => t.id === id)?.lanes[depth];
  const i = lane ? bisect(lane.start, Number(start)) : -1;
  return { view, selected: lane && lane.start[i] === Number(start) ? lane.from + i : -1 };
}

/** Round instants for a ruler, at most about `most` of them, and how each is written. */
function ticks(view, most) {
  const least = (view.to - view.from) / most;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least) ?? 1;
  const [unit, name] = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]].findLast(([u]) => u <= Math.max(1, view.to)) ?? [1, "ns"];
  const digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  const found = [];
  for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) found.push(at);
  return { found, text: (at) => `${(at / unit).toFixed(digits).replace("-", "−")}\u00a0${name}` };
}

/** A duration of three significant digits, one unit, as the other pages print it. */
function duration(ns) {
  if (ns < 0) return `−${duration(-ns)}`;
  if (ns === 0) return "0\u00a0s";
  for (const [unit, name] of [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]]) {
    const value = ns / unit;
    const text = value < 999.5 ? String(Number(value.toPrecision(3))) : String(Math.round(value));
    if (Number(text) < 1000 || unit === 1e9) return `${text}\u00a0${name}`;
  }
}

/** An instant as a time of day, UTC, to the nanosecond. */
function clock(model, at) {
  const ns = model.startNs + BigInt(Math.round(at));
  const day = new Date(Number(ns / 1_000_000n)).toISOString();
  return `${day.slice(11, 19)}.${String(ns % 1_000_000_000n).padStart(9, "0")}\u00a0UTC`;
}

const countText = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");
const bytesText = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 999.5 && unit < units.length - 1) [n, unit] = [n / 1024, unit + 1];
  return `${Number(n.toPrecision(3))}\u00a0${units[unit]}`;
};
