// The list of jobs: rows are drawn as the reader scrolls; search, dates, states and order choose among all of them.
const jobs = JSON.parse(document.getElementById("jobs").textContent);
const STEP = 150;
const body = document.querySelector("#jobs-table tbody");
const count = document.querySelector("[data-count]");
const more = document.querySelector("[data-more]");
let found = jobs.rows;
let order = { column: "created", down: true };
let shown = 0;

const at = (row, column) => row[jobs.fields.indexOf(column)];
// Always UTC, to the minute. A job that nobody saw begin has none, and lies in no range of dates.
const instant = (seconds) => (seconds === null ? "" : new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " "));

function spark(levels) {
  // One letter per stretch of the job, a to z from 0 to 1; a dash is not recorded.
  const points = [...levels].map((c, i) => (c === "-" ? null : [i * (120 / levels.length), 20 - ((c.charCodeAt(0) - 97) / 25) * 18]));
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of Object.entries({ width: 120, height: 22, role: "img", "aria-label": "GPU active over time" }))
    svg.setAttribute(name, value);
  const line = document.createElementNS(svg.namespaceURI, "path");
  let pen = "M";
  let path = "";
  for (const point of points) {
    if (point) path += `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    pen = point ? "L" : "M";
  }
  for (const [name, value] of Object.entries({ d: path || "M0 0", fill: "none", stroke: "var(--compute)", "stroke-width": 1.4 }))
    line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

function cell(row, content, kind = "") {
  const td = make("td");
  if (kind) td.className = kind;
  td.append(content);
  row.append(td);
}

function draw_row(job) {
  const row = make("tr");
  const [kind, words, shape] = jobs.states[at(job, "state")] ?? ["off", at(job, "state"), "sq"];
  const pill = make("span", words);
  const mark = make("i");
  mark.className = shape;
  pill.className = `pill ${kind}`;
  pill.prepend(mark);
  const link = make("a", at(job, "name"));
  link.href = at(job, "href");
  link.className = "mono";
  const levels = at(job, "levels");
  const [high, medium] = [at(job, "high"), at(job, "medium")];
  cell(row, pill);
  cell(row, link);
  cell(row, at(job, "family"), "x");
  cell(row, instant(at(job, "created")) || "unknown", "x");
  cell(row, at(job, "duration_text"), "num x");
  cell(row, at(job, "devices"), "x");
  cell(row, levels ? spark(levels) : make("span", "not recorded"), "x");
  cell(row, at(job, "active_text"), "num");
  cell(row, high + medium ? [high ? `▲ ${high}` : "", medium ? `◆ ${medium}` : ""].filter(Boolean).join("  ") : "none", "x");
  cell(row, at(job, "idle_text"), "num x");
  return row;
}

function draw_more() {
  body.append(...found.slice(shown, shown + STEP).map(draw_row));
  shown = Math.min(found.length, shown + STEP);
  more.hidden = shown >= found.length;
  count.textContent = `${found.length.toLocaleString("en").replaceAll(",", "\u202f")} of ${jobs.rows.length.toLocaleString("en").replaceAll(",", "\u202f")} jobs`;
  document.body.dataset.shown = shown;
  document.body.dataset.found = found.length;
}

function choose() {
  const words = document.querySelector("[data-find]").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [from, to] = ["from", "to"].map((name) => document.querySelector(`[data-${name}]`).value);
  const states = new Set(all("[data-state]").filter((box) => box.checked).map((box) => box.dataset.state));
  found = jobs.rows.filter((row) => {
    const text = `${at(row, "name")} ${at(row, "family")} ${at(row, "user")}`.toLowerCase();
    const created = instant(at(row, "created")).slice(0, 10);
    const inRange = (!from || created >= from) && (!to || (created && created <= to));
    return states.has(at(row, "state")) && words.every((w) => text.includes(w)) && inRange;
  });
  const sign = order.down ? -1 : 1;
  const value = (row) => at(row, order.column);
  found.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null); // unknown comes last either way
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
  });
  body.replaceChildren();
  shown = 0;
  draw_more();
}

for (const button of all("[data-sort]"))
  button.onclick = () => {
    order = { column: button.dataset.sort, down: order.column === button.dataset.sort ? !order.down : true };
    for (const head of all("#jobs-table th")) head.removeAttribute("aria-sort");
    button.closest("th").setAttribute("aria-sort", order.down ? "descending" : "ascending");
    choose();
  };
for (const input of all("[data-find], [data-from], [data-to], [data-state]")) input.oninput = choose;
new IntersectionObserver((seen) => seen.some((e) => e.isIntersecting) && draw_more()).observe(more);
more.onclick = draw_more;
choose();
