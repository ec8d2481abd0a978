// The timeline of one stretch of a job: state, keys, pointer and wheel. A frame is drawn when something changed.
const part = (name) => document.querySelector(`[data-tl=${name}]`);
const [head, body, scroller] = [part("head"), part("body"), part("scroll")];
const state = {
  model: /** @type {Model} */ (decode(await unpacked(part("data").textContent))),
  view: { from: 0, to: 1 }, selected: -1, found: new Int32Array(0), tracks: [], open: new Set(), rows: [], height: 0,
  scroll: 0, width: 1, overview: null, colour: null, palette: [], activePalette: [],
};
const { model } = state;
state.tracks = model.tracks;
for (const track of model.tracks) if (track.open) state.open.add(track.id);
const painters = { head: new Painter(head), body: new Painter(body) };
const frames = []; // script time of each frame in milliseconds, for whoever measures

let isAsked = false;
function ask() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    frame();
  });
}

function frame() {
  const began = performance.now();
  state.scroll = scroller.scrollTop;
  drawTracks(state, painters.body);
  drawHead(state, painters.head);
  if (frames.length > 10_000) frames.length = 0;
  frames.push(performance.now() - began);
}

function recolour() {
  state.colour = colours();
  state.palette = paletteOf(model.kinds, state.colour);
  state.activePalette = [swatch(state.colour, "active", [[0, 1]])];
  ask();
}

function arrange() {
  Object.assign(state, layout(state.tracks, state.open));
  names.show(state.rows, state.height, state.selected < 0 ? "" : trackOf(model, state.selected).id);
  part("canvas-room").style.height = `${state.height}px`;
  ask();
}

let addressTimer = 0;
function look(view) {
  state.view = clamped(view, model.length);
  part("span").textContent = `${duration(state.view.to - state.view.from)} in view`;
  const middle = centre();
  part("step").value = String(model.marks.findIndex(([, start, end]) => start <= middle && middle < end));
  // A browser refuses many changes of the address in a row.
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, "", toHash(model, state.view, state.selected)), 200);
  ask();
}

const centre = () => (state.view.from + state.view.to) / 2;
const span = () => state.view.to - state.view.from;
const zoom = (by, at = centre()) => look(zoomed(state.view, by, at));
const pan = (share) => look(panned(state.view, share * span()));
const whole = () => look({ from: -model.length * 0.01, to: model.length * 1.01 });

function select(event, isCentred = false) {
  state.selected = event;
  showSelection(model, event, part("selection"));
  showConnections(model, event, part("connections"), (other) => select(other, true));
  if (event >= 0 && isCentred) reveal(event);
  arrange();
  look(state.view);
}

/** Bring an event into sight: its track opened, its time in the middle, wide enough to be seen. */
function reveal(event) {
  const track = trackOf(model, event);
  for (const id of [...around(model.tracks, track.id), track.id]) state.open.add(id);
  arrange();
  const length = model.end[event] - model.start[event];
  const wanted = Math.min(Math.max(span(), length * 1.5), Math.max(length * 60, 1000));
  const middle = (model.start[event] + model.end[event]) / 2;
  look({ from: middle - wanted / 2, to: middle + wanted / 2 });
  const row = rowOf(state.rows, model.tracks, track.id);
  const [top, room] = [scroller.scrollTop, scroller.clientHeight];
  if (row.y < top || row.y + row.height > top + room) scroller.scrollTop = row.y - room / 2;
}

function fit() {
  if (state.selected < 0) return whole();
  const [start, end] = [model.start[state.selected], model.end[state.selected]];
  const margin = Math.max((end - start) * 0.6, 20);
  look({ from: start - margin, to: end + margin });
}

/** The next or previous event on the selected one's lane; without a selection the first in view of the current track. */
function step(by) {
  if (state.selected < 0) return first();
  const lane = model.lanes[model.lane[state.selected]];
  const next = state.selected + by;
  if (next >= lane.from && next < lane.to) select(next, model.start[next] > state.view.to || model.end[next] < state.view.from);
}

function first() {
  const shown = state.rows.filter((r) => r.lanes.length);
  const lane = (shown.find((r) => r.track.id === names.current) ?? shown[0])?.lanes[0].lane;
  const i = lane ? bisect(lane.reach, Math.max(0, state.view.from)) : -1;
  if (lane && i < lane.start.length) select(lane.from + i, true);
}

const names = new Names(part("names"), {
  toggle: (id) => {
    state.open.has(id) ? state.open.delete(id) : state.open.add(id);
    arrange();
  },
  move: (id, other, behind) => reorder(movedTo(state.tracks, id, other, behind)),
  shift: (id, by) => reorder(moved(state.tracks, id, by)),
});
function reorder(tracks) {
  state.tracks = tracks;
  arrange();
}
