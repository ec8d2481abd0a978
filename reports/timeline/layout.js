// Which rows the tree shows, in which order, and how high each is. Pure: the names and the canvas both follow it.
const HEIGHTS = { node: 22, counter: 30, sum: 38, process: 20, device: 20, stream: 20, launches: 20, thread: 20 };
const LANE = 16;

/**
 * @typedef {{track: Track, level: number, y: number, height: number, hasChildren: boolean, isOpen: boolean,
 *   lanes: {lane: Lane, y: number, height: number}[]}} Row
 */

/**
 * @param {Track[]} tracks in the reader's order @param {Set<string>} open ids of open tracks
 * @returns {{rows: Row[], height: number}}
 */
function layout(tracks, open) {
  const children = Map.groupBy(tracks, (t) => t.parent);
  const rows = [];
  let y = 0;
  const place = (track, level) => {
    const below = children.get(track.id) ?? [];
    const isOpen = open.has(track.id);
    const lanes = isOpen || track.kind !== "thread" ? track.lanes.filter(Boolean) : track.lanes.filter(Boolean).slice(0, 1);
    const height = rowHeight(track, lanes.length);
    const room = (height - 4) / Math.max(1, lanes.length);
    rows.push({
      track, level, y, height, isOpen,
      hasChildren: below.length > 0 || track.lanes.length > 1,
      lanes: lanes.map((lane, i) => ({ lane, y: y + 2 + i * room, height: room - 1 })),
    });
    y += height + 1;
    if (isOpen) for (const child of below) place(child, level + 1);
  };
  for (const track of children.get("") ?? []) place(track, 0);
  return { rows, height: y };
}

function rowHeight(track, lanes) {
  if (track.kind === "counter" && !track.samples.length) return 20;
  if (lanes > 1) return lanes * LANE + 4;
  return HEIGHTS[track.kind] ?? 20;
}

/** The tracks with one moved before or behind its neighbour; the same order where it has none on that side. */
function moved(tracks, id, by) {
  const track = tracks.find((t) => t.id === id);
  const siblings = tracks.filter((t) => t.parent === track.parent);
  return movedTo(tracks, id, siblings[siblings.indexOf(track) + by]?.id ?? id, by > 0);
}

/** The tracks with one put before a sibling, or behind it. */
function movedTo(tracks, id, other, behind) {
  const [track, at] = [id, other].map((each) => tracks.find((t) => t.id === each));
  if (!at || at === track || at.parent !== track.parent) return tracks;
  const rest = tracks.filter((t) => t !== track);
  rest.splice(rest.indexOf(at) + (behind ? 1 : 0), 0, track);
  return rest;
}

/** The row of a track, or of the nearest track around it that is shown. @returns {Row?} */
function rowOf(rows, tracks, id) {
  for (let track = tracks.find((t) => t.id === id); track; track = tracks.find((t) => t.id === track.parent)) {
    const row = rows.find((r) => r.track === track);
    if (row) return row;
  }
  return null;
}

/** Tracks around one, which must be open for it to be shown. @returns {string[]} */
function around(tracks, id) {
  const found = [];
  for (let track = tracks.find((t) => t.id === id); track?.parent; ) {
    found.push(track.parent);
    track = tracks.find((t) => t.id === track.parent);
  }
  return found;
}

/** The view kept inside the window with a margin, and no narrower than ten nanoseconds. */
function clamped(view, length) {
  const margin = length * 0.05;
  const span = Math.min(Math.max(view.to - view.from, 10), length + 2 * margin);
  const from = Math.min(Math.max(view.from, -margin), length + margin - span);
  return { from, to: from + span };
}

/** The view zoomed about an instant that stays where it is. */
const zoomed = (view, by, at) => ({ from: at - (at - view.from) * by, to: at + (view.to - at) * by });
const panned = (view, by) => ({ from: view.from + by, to: view.to + by });
