// The panes below the tracks: what is selected, and what it is connected to.
const WORDS = {
  compute: "kernel", communication: "communication kernel", memory: "copy or fill", launch: "launch", sync: "synchronization",
  step: "step", annotation: "annotation",
};

/** A track with what it is part of, but for its node: "stream 7, GPU 0, rank 2". */
function trackWords(model, track) {
  const found = [];
  for (let each = track; each && each.kind !== "node"; each = model.byId.get(each.parent))
    found.push(each.title.replace(/^process, /, ""));
  return found.join(", ");
}

/** What is known of an event, as [words, value, is it a name of the program]. @returns {[string, string, boolean?][]} */
function facts(model, event) {
  const track = trackOf(model, event);
  const [kind, name, , detail] = model.names[model.name[event]];
  const [start, end, launch] = [model.start[event], model.end[event], model.link[event]];
  const isKernel = track.kind === "stream" && model.kinds[kind] !== "memory";
  const delay = launch < 0 ? 0 : start - model.start[launch];
  const delayed = launch < 0 ? "its launch is not on this page" : delay < 0 ? "unknown: it starts before its launch" : duration(delay);
  const begun = launch >= 0 ? model.start[launch] : start;
  const step = model.marks.find(([, from, to]) => from <= begun && begun < to);
  const found = [
    ["Name", name, true], ["Start", sinceStart(model, start)], ["Duration", duration(end - start)],
    ["Track", trackWords(model, track)], ["UTC", clock(model, start)], [isKernel ? "Class" : "Kind", detail],
    ["Size", model.bytes[event] >= 0 ? bytesText(model.bytes[event]) : ""],
    ["Launch delay", track.kind === "stream" ? delayed : ""],
    ["Started", model.kinds[kind] === "launch" ? `${launchedBy(model, event).length} device events` : ""],
    ["Step", step?.[0]], ["Collective", model.groups[model.group[event] - 1], true],
  ];
  return found.filter(([, value]) => value);
}

/** An instant of the window, in one unit on the whole page. */
function sinceStart(model, at) {
  const [unit, name, digits] = model.length < 1e6 ? [1e3, "µs", 3] : model.length < 1e9 ? [1e6, "ms", 3] : [1e9, "s", 6];
  return `${(at / unit).toFixed(digits).replace("-", "−")}\u00a0${name}`;
}

function showSelection(model, event, box) {
  const [words, list] = [box.querySelector("h2 span"), box.querySelector("section > dl")];
  words.textContent = event < 0 ? "" : WORDS[model.kinds[model.kind[model.name[event]]]];
  list.hidden = event < 0;
  box.querySelector("div").hidden = event >= 0;
  if (event < 0) return;
  list.replaceChildren(...facts(model, event).flatMap(([term, value, isName], i) => {
    const [dt, dd] = [make("dt", term), make("dd", value)];
    if (isName) dd.className = "mono";
    if (i === 0) dd.classList.add("whole");
    return [dt, dd];
  }));
}

/** One row per connection; its button centres the view on it. @param {(event: number) => void} choose */
function showConnections(model, event, box, choose) {
  const found = event < 0 ? [] : connections(model, event);
  box.querySelector("table").hidden = !found.length;
  const isCut = found.length > MOST_CONNECTIONS;
  const note = box.querySelector("p");
  note.hidden = found.length > 0 && !isCut;
  if (event < 0) note.textContent = "Nothing is selected.";
  else note.textContent = isCut ? `More than ${MOST_CONNECTIONS}; the first are listed.` : "Nothing on this page is connected to it.";
  box.querySelector("tbody").replaceChildren(...found.slice(0, MOST_CONNECTIONS).map(([relation, other]) => {
    const row = make("tr");
    const [, name, short] = model.names[model.name[other]];
    const button = Object.assign(make("button", short || name), { type: "button", className: "tl-link mono", title: name });
    button.onclick = () => choose(other);
    const [start, end] = [model.start[other], model.end[other]];
    const cells = [relation, button, trackWords(model, trackOf(model, other)), sinceStart(model, start), duration(end - start)];
    cells.forEach((content, i) => {
      const cell = make("td");
      cell.className = ["muted", "", "x", "num x", "num"][i];
      cell.append(content);
      row.append(cell);
    });
    row.onclick = () => choose(other);
    return row;
  }));
}

/** What the pointer is over: what, its class, how long, and the share of the window. */
function hint(model, event) {
  const [kind, name, short] = model.names[model.name[event]];
  const length = model.end[event] - model.start[event];
  const list = make("dl");
  const share = (100 * length) / model.length;
  const percent = share > 0 && share < 0.05 ? "<\u00a00.1\u00a0%" : `${share.toFixed(share < 9.95 ? 1 : 0)}\u00a0%`;
  const start = sinceStart(model, model.start[event]);
  for (const [term, value] of [["class", WORDS[model.kinds[kind]]], ["start", start], ["duration", duration(length)], ["of the whole", percent]])
    list.append(make("dt", term), make("dd", value));
  const words = short || name;
  return [make("b", words.length > 120 ? `${words.slice(0, 70)}…${words.slice(-40)}` : words), list];
}

/** The same for a block of short events, where there is one at that time. @param {Merged?} merged */
function mergedHint(merged, time) {
  const i = merged ? bisect(merged.start, time + 0.5) - 1 : -1;
  if (i < 0 || merged.end[i] < time) return null;
  const busy = `busy ${duration(merged.busy[i])} of ${duration(merged.end[i] - merged.start[i])}`;
  return [make("b", `${countText(merged.count[i])} short events, merged`), make("div", busy)];
}
