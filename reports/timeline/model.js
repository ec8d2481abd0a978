// Events in memory: typed arrays over all of them, one slice per lane, and a pyramid over each slice to draw it from.
const FAN = 4;

/**
 * @typedef {{tracks: Track[], lanes: Lane[], start: Float64Array, end: Float64Array, name: Uint32Array,
 *   link: Int32Array, group: Uint32Array, bytes: Float64Array, lane: Uint32Array, kinds: string[],
 *   names: [number, string, string, string][], groups: string[], marks: [string, number, number, string?, string][],
 *   startNs: bigint, length: number, heads: Int32Array, items: Int32Array}} Model
 * @typedef {{id: string, parent: string, kind: string, title: string, note: string, open: boolean, reason: string,
 *   unit: string, samples: [number, number | null][], lanes: Lane[], merged: Merged?, active: Lane?,
 *   steps?: number[], devices?: Lane[]}} Track
 * @typedef {{from: number, to: number, start: Float64Array, end: Float64Array, kind: Uint8Array, levels: Level[],
 *   reach: Float64Array, track?: number, depth?: number}} Lane
 * @typedef {{start: Float64Array, end: Float64Array, busy: Float64Array, kind: Uint8Array, reach: Float64Array}} Level
 * @typedef {{start: Float64Array, end: Float64Array, count: Float64Array, busy: Float64Array, kind: Uint8Array,
 *   reach: Float64Array}} Merged
 */

/** The payload's bytes, inflated. */
async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Numbers from 0 in seven bits a byte, `count` of them; returns where the next column begins. */
function readColumn(bytes, at, count, each) {
  for (let i = 0; i < count; i++) {
    let value = 0;
    let scale = 1;
    let byte = bytes[at++];
    while (byte > 127) {
      value += (byte & 127) * scale;
      scale *= 128;
      byte = bytes[at++];
    }
    each(i, value + byte * scale);
  }
  return at;
}

/** Events by the collective that they are part of. @returns {Map<number, number[]>} */
function groupsOf(model) {
  const found = new Map();
  model.group.forEach((group, event) => group && (found.get(group)?.push(event) ?? found.set(group, [event])));
  return found;
}

const unzigzag = (n) => (n % 2 ? -(n + 1) / 2 : n / 2);

/** @returns {Model} */
function decode(bytes) {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const total = head.chunks.reduce((sum, c) => sum + (c[0] === "events" ? c[3] : 0), 0);
  const model = {
    ...head, startNs: BigInt(head.start), total,
    start: new Float64Array(total), end: new Float64Array(total), bytes: new Float64Array(total),
    name: new Uint32Array(total), link: new Int32Array(total), group: new Uint32Array(total), lane: new Uint32Array(total),
    lanes: [],
  };
  model.kind = Uint8Array.from(model.names, (n) => n[0]);
  for (const track of model.tracks) Object.assign(track, { lanes: [], merged: null, active: null });
  model.byId = new Map(model.tracks.map((t) => [t.id, t]));
  let [at, first] = [4 + size, 0];
  for (const [what, number, depth, count, base, length] of head.chunks) {
    if (what === "merged") model.tracks[number].merged = readMerged(bytes, at, count, base);
    else {
      readEvents(model, bytes, at, first, count, base);
      addLane(model, number, depth, first, first + count);
      first += count;
    }
    at += length;
  }
  linkBack(model);
  model.byGroup = groupsOf(model);
  for (const track of model.tracks) if (track.kind === "device") track.active = activeOf(model, track);
  for (const track of model.tracks) if (track.kind === "process") track.steps = stepsOf(model, track);
  for (const track of model.tracks) if (track.kind === "sum") track.devices = activesBelow(model, track.parent);
  return model;
}

function readEvents(model, bytes, at, first, count, base) {
  let start = base;
  let link = 0;
  at = readColumn(bytes, at, count, (i, v) => (model.start[first + i] = start += v));
  at = readColumn(bytes, at, count, (i, v) => (model.end[first + i] = model.start[first + i] + v));
  at = readColumn(bytes, at, count, (i, v) => (model.name[first + i] = v));
  at = readColumn(bytes, at, count, (i, v) => (model.link[first + i] = (link += unzigzag(v)) - 1));
  at = readColumn(bytes, at, count, (i, v) => (model.group[first + i] = v));
  readColumn(bytes, at, count, (i, v) => (model.bytes[first + i] = v - 1));
}

function readMerged(bytes, at, count, base) {
  const merged = { kind: new Uint8Array(count) };
  for (const column of ["start", "end", "count", "busy"]) merged[column] = new Float64Array(count);
  let start = base;
  at = readColumn(bytes, at, count, (i, v) => (merged.start[i] = start += v));
  at = readColumn(bytes, at, count, (i, v) => (merged.end[i] = merged.start[i] + v));
  at = readColumn(bytes, at, count, (i, v) => (merged.count[i] = v));
  at = readColumn(bytes, at, count, (i, v) => (merged.busy[i] = v));
  readColumn(bytes, at, count, (i, v) => (merged.kind[i] = v));
  merged.reach = reachOf(merged.end);
  return merged;
}

function addLane(model, number, depth, from, to) {
  const kind = new Uint8Array(to - from);
  for (let i = from; i < to; i++) kind[i - from] = model.kind[model.name[i]];
  model.lane.fill(model.lanes.length, from, to);
  const lane = makeLane(model.start.subarray(from, to), model.end.subarray(from, to), kind);
  Object.assign(lane, { from, to, track: number, depth });
  model.lanes.push(lane);
  model.tracks[number].lanes[depth] = lane;
}

/** A lane over events in order of their starts. @returns {Lane} */
function makeLane(start, end, kind) {
  const events = { start, end, kind, busy: start.map((s, i) => end[i] - s), reach: reachOf(end) };
  const levels = [];
  for (let below = events; below.start.length > FAN; below = levels.at(-1)) levels.push(levelOver(below));
  return { from: 0, to: start.length, ...events, levels };
}

/** The latest end so far, which rises: a binary search in it finds the first that is still open. */
function reachOf(end) {
  const reach = new Float64Array(end.length);
  let latest = -Infinity;
  for (let i = 0; i < end.length; i++) reach[i] = latest = Math.max(latest, end[i]);
  return reach;
}

/** One block per FAN events or blocks: from the first start to the last end, how long busy, and what with most. @returns {Level} */
function levelOver(below) {
  const count = Math.ceil(below.start.length / FAN);
  const [start, end, busy] = [0, -Infinity, 0].map((zero) => new Float64Array(count).fill(zero));
  const level = { start, end, busy, kind: new Uint8Array(count) };
  for (let block = 0; block < count; block++) {
    let longest = -1;
    level.start[block] = below.start[block * FAN];
    for (let i = block * FAN; i < below.start.length && i < (block + 1) * FAN; i++) {
      level.busy[block] += below.busy[i];
      level.end[block] = Math.max(level.end[block], below.end[i]);
      if (below.busy[i] > longest) {
        longest = below.busy[i];
        level.kind[block] = below.kind[i];
      }
    }
  }
  return { ...level, reach: reachOf(level.end) };
}

/** Events by the launch that started them: items[heads[n] .. heads[n + 1]] for event n. */
function linkBack(model) {
  const heads = new Int32Array(model.total + 1);
  for (const launch of model.link) if (launch >= 0) heads[launch + 1]++;
  for (let i = 0; i < model.total; i++) heads[i + 1] += heads[i];
  const next = heads.slice();
  const items = new Int32Array(heads[model.total]);
  for (let i = 0; i < model.total; i++) if (model.link[i] >= 0) items[next[model.link[i]]++] = i;
  Object.assign(model, { heads, items });
}

/** What the devices of a node did. @returns {Lane[]} */
function activesBelow(model, node) {
  return model.tracks.filter((t) => t.active && model.byId.get(t.parent).parent === node).map((t) => t.active);
}

/** The steps that a process marks, on any of its threads, in order of time. @returns {number[]} */
function stepsOf(model, process) {
  const lanes = model.tracks.filter((t) => t.parent === process.id && t.kind === "thread").flatMap((t) => t.lanes);
  const isStep = (event) => model.kinds[model.kind[model.name[event]]] === "step";
  const found = lanes.flatMap((lane) => (lane ? Array.from(lane.start, (_, i) => lane.from + i).filter(isStep) : []));
  return found.sort((a, b) => model.start[a] - model.start[b]);
}

/** When any stream of a device was busy: the union of its events. Of a merged block only the sum is known, which is
 * put at its start: so the share is right over any stretch longer than a block. @returns {Lane} */
function activeOf(model, device) {
  const spans = [];
  for (const track of model.tracks.filter((t) => t.parent === device.id)) {
    for (const lane of track.lanes) spans.push([lane.start, lane.end]);
    if (track.merged) spans.push([track.merged.start, track.merged.start.map((s, i) => s + track.merged.busy[i])]);
  }
  return makeLane(...union(spans));
}

/** Disjoint intervals that cover the given ones. @param {[Float64Array, Float64Array][]} spans each in order of starts */
function union(spans) {
  const at = spans.map(() => 0);
  const size = spans.reduce((sum, [start]) => sum + start.length, 0);
  const [start, end] = [new Float64Array(size), new Float64Array(size)];
  let n = 0;
  for (let taken = 0; taken < size; taken++) {
    let next = -1;
    for (let s = 0; s < spans.length; s++)
      if (at[s] < spans[s][0].length && (next < 0 || spans[s][0][at[s]] < spans[next][0][at[next]])) next = s;
    const [from, to] = [spans[next][0][at[next]], spans[next][1][at[next]++]];
    if (n && from <= end[n - 1]) end[n - 1] = Math.max(end[n - 1], to);
    else [start[n], end[n++]] = [from, to];
  }
  return [start.slice(0, n), end.slice(0, n), new Uint8Array(n)];
}
