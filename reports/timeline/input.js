// Pointer, wheel, keys and controls of the timeline, and its first frame.
const at = (event, canvas = body) => {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
};

const rowAt = (y) => state.rows.find((r) => y + state.scroll >= r.y && y + state.scroll < r.y + r.height + 1);

/** The event under a point of the tracks' canvas, or -1. */
function under(x, y) {
  const depth = y + state.scroll;
  const row = rowAt(y);
  const lanes = row?.lanes.filter((each) => depth >= each.y - 1 && depth <= each.y + each.height + 1) ?? [];
  const slack = (3 / state.width) * span();
  for (const { lane } of lanes) {
    const event = eventAt(lane, toTime(state, x), slack);
    if (event >= 0) return event;
  }
  return -1;
}

body.addEventListener("wheel", (event) => {
  event.preventDefault();
  const sideways = event.shiftKey ? event.deltaY + event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
  const lines = event.deltaMode === 1 ? 30 : 1;
  if (sideways) return look(panned(state.view, ((sideways * lines) / state.width) * span()));
  zoom(Math.exp((event.deltaY * lines) / 500), toTime(state, at(event).x));
}, { passive: false });

// One pointer drags, two pinch; a press without a move selects.
const pointers = new Map();
let travelled = 0;
body.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  body.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, at(event));
  travelled = 0;
});
body.addEventListener("pointermove", (event) => {
  const now = at(event);
  const before = pointers.get(event.pointerId);
  if (!before) return hover(now);
  const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
  if (other) {
    const [was, is] = [Math.abs(before.x - other.x), Math.abs(now.x - other.x)];
    if (was > 8 && is > 8) zoom(was / is, toTime(state, (now.x + other.x) / 2));
  } else if ((travelled += Math.abs(now.x - before.x) + Math.abs(now.y - before.y)) > 3) {
    look(panned(state.view, ((before.x - now.x) / state.width) * span()));
    scroller.scrollTop += before.y - now.y;
  }
  pointers.set(event.pointerId, now);
});
for (const kind of ["pointerup", "pointercancel"])
  body.addEventListener(kind, (event) => {
    if (!pointers.delete(event.pointerId) || kind === "pointercancel" || travelled > 3) return;
    const { x, y } = at(event);
    body.focus({ preventScroll: true });
    select(under(x, y));
  });
body.addEventListener("pointerleave", hide);

function hover({ x, y }) {
  const event = under(x, y);
  body.style.cursor = event < 0 ? "grab" : "pointer";
  const told = event < 0 ? mergedHint(rowAt(y)?.track.merged, toTime(state, x)) : hint(model, event);
  if (!told) return hide();
  tip.replaceChildren(...told);
  tip.hidden = false;
  const box = body.getBoundingClientRect();
  const left = Math.min(box.left + x + 14, root.clientWidth - tip.offsetWidth - 12);
  const below = box.top + y + 16 + tip.offsetHeight < innerHeight;
  tip.style.left = `${Math.max(12, left) + scrollX}px`;
  tip.style.top = `${box.top + y + (below ? 16 : -10 - tip.offsetHeight) + scrollY}px`;
}

// The whole window's strip: a press brings the view there, and it follows.
const headMove = (event) => {
  const { x } = at(event, head);
  const middle = (x / state.width) * model.length;
  look({ from: middle - span() / 2, to: middle + span() / 2 });
};
head.addEventListener("pointerdown", (event) => {
  head.setPointerCapture(event.pointerId);
  headMove(event);
});
head.addEventListener("pointermove", (event) => event.buttons && headMove(event));

const KEYS = {
  w: () => zoom(0.8), s: () => zoom(1.25), a: () => pan(-0.15), d: () => pan(0.15), f: fit, 0: whole,
  ArrowUp: () => zoom(0.8), ArrowDown: () => zoom(1.25), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
  ",": () => step(-1), ".": () => step(1), "/": () => part("find").focus(), "?": () => part("help").showModal(),
  Escape: () => select(-1),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || part("help").open) return;
  if (event.target.closest?.("input, select")) return;
  if (event.key.startsWith("Arrow") && event.target !== body && event.target !== document.body) return;
  const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  act();
  event.preventDefault();
});

// Search: Enter goes to the next event of that name, Shift and Enter to the one before.
let foundAt = -1;
function find() {
  const words = part("find").value.trim();
  state.found = search(model, words);
  foundAt = -1;
  const count = state.found.length;
  part("count").textContent = words && (count ? `${countText(count)} found` : "none found");
}
function nextFound(by) {
  const count = state.found.length;
  if (!count) return;
  const inView = state.found.findIndex((e) => model.end[e] >= state.view.from);
  foundAt = foundAt >= 0 ? (foundAt + by + count) % count : by > 0 ? Math.max(0, inView) : count - 1;
  part("count").textContent = `${countText(foundAt + 1)} of ${countText(count)}`;
  select(state.found[foundAt], true);
}
part("find").oninput = find;
part("find").onkeydown = (event) => {
  if (event.key === "Enter") nextFound(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") body.focus();
};

// Steps and outliers.
const outliers = model.marks.filter((m) => m[3]);
const toMark = ([, start, end]) => look({ from: start - (end - start) * 0.05, to: end + (end - start) * 0.05 });
function toOutlier(by) {
  const beyond = outliers.filter(([, start, end]) => (by > 0 ? start > centre() : end < centre()));
  const next = (by > 0 ? beyond[0] : beyond.at(-1)) ?? outliers[0];
  if (next) toMark(next);
}
for (const [name, by] of [["previous", -1], ["next", 1]]) {
  part(name).onclick = () => toOutlier(by);
  part(name).hidden = !outliers.length;
}
part("step").append(...model.marks.slice(0, 2000).map(([label, , , kind], i) => new Option(kind ? `▲ ${label}, ${kind}` : label, i)));
part("step").onchange = () => toMark(model.marks[part("step").value]);
part("step").closest("label").hidden = !model.marks.length;
part("in").onclick = () => zoom(0.7);
part("out").onclick = () => zoom(1.4);
part("fit").onclick = fit;
part("help-open").onclick = () => part("help").showModal();
part("help-close").onclick = () => part("help").close();

// Whatever changes the page draws it again.
scroller.addEventListener("scroll", ask, { passive: true });
new ResizeObserver(() => {
  const lanes = model.tracks.filter((t) => t.active).map((t) => t.active);
  state.overview = lanes.length ? meanShares(lanes, { from: 0, to: model.length }, BINS) : null;
  body.style.height = `${scroller.clientHeight}px`; // as high as what is in sight, not as all tracks
  ask();
}).observe(scroller);
new MutationObserver(recolour).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
dark.addEventListener("change", recolour);
addEventListener("hashchange", followAddress);

function followAddress() {
  const { view, selected } = fromHash(model, location.hash);
  if (selected >= 0) select(selected, !view);
  if (view) look(view);
}

recolour();
arrange();
select(-1);
whole();
followAddress();
fonts.then(ask).then(() => requestAnimationFrame(() => (document.body.dataset.timeline = "drawn")));
// For tests and measurements only: nothing on the page reads it.
window.timeline = {
  state, model, frames, frame, look, select, under, toX, placeOf, arrowsOf, connections, search, layout, moved, ticks, duration,
  makeLane, union, shares, columnsOf, paint, eventAt, fromHash, toHash,
};
