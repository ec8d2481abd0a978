// The page's behaviour. It runs as a module of its own, after the libraries; nothing here is needed to read the numbers.
const root = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const make = (tag, text = "") => Object.assign(document.createElement(tag), { textContent: text });

// Theme: the system's unless the reader chose one.
const dark = matchMedia("(prefers-color-scheme: dark)");
const stored = (key, value) => {
  try {
    return value === undefined ? localStorage.getItem(key) : localStorage.setItem(key, value);
  } catch {
    return null; // a page opened from a file may have no storage
  }
};
const chosen = stored("tracelake-theme");
if (chosen) root.dataset.theme = chosen;
for (const button of all("[data-act=theme]"))
  button.onclick = () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    stored("tracelake-theme", root.dataset.theme);
  };

// Charts: a chart has one or more specifications and, where the reader can choose, a named view of data for each choice.
const charts = JSON.parse(document.getElementById("charts").textContent);
const drawn = new Map();
const errors = [];
const rowsOf = ({ fields, labels, rows }) =>
  rows.map((row) => Object.fromEntries(row.map((v, i) => [fields[i], labels && i === 0 ? labels[v] : v])));

function specification(chart, choice) {
  const view = chart.views?.[choice];
  const spec = structuredClone(chart.specs[view?.spec ?? 0]);
  if (view) {
    spec.datasets = { ...spec.datasets, chosen: rowsOf(view) };
    for (const p of spec.params ?? []) if (view.params && p.name in view.params) p.value = view.params[p.name];
  }
  return spec;
}

async function draw(element, choice) {
  const id = element.dataset.chart;
  try {
    drawn.get(id)?.finalize();
    const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
    drawn.set(id, await vegaEmbed(element, specification(charts[id], choice), options));
  } catch (error) {
    errors.push(`${id}: ${error}`);
  }
  document.body.dataset.done = drawn.size;
  document.body.dataset.err = errors.join("|");
}

// Vega measures text, so the fonts come first. A page without embedded fonts has nothing to wait for.
const fonts = Promise.all(["400 11px Inter", "600 11px Inter"].map((f) => document.fonts.load(f))).catch(() => 0);
const choiceOf = (element) => document.querySelector(`[data-for="${element.dataset.chart}"]`)?.value;
fonts
  .then(() => Promise.all(all("[data-chart]").map((e) => draw(e, choiceOf(e)))))
  .then(() => (document.body.dataset.ready = "1"));
document.body.dataset.charts = all("[data-chart]").length;

for (const select of all("select[data-for]"))
  select.onchange = () => {
    const say = document.getElementById(`${select.dataset.for}-say`);
    if (say) say.textContent = select.selectedOptions[0].dataset.say;
    const chart = document.querySelector(`[data-chart="${select.dataset.for}"]`);
    if (chart) draw(chart, select.value);
  };
for (const select of all("select[data-top]")) {
  const panel = select.closest(".panel");
  const apply = () => {
    for (const row of all("[data-k]", panel)) row.hidden = Number(row.dataset.k) >= Number(select.value);
    for (const row of all("[data-rest]", panel)) row.hidden = row.dataset.rest !== select.value;
  };
  select.onchange = apply;
  apply(); // a reloaded page may come back with another choice
}

// Tips: a definition on click, a bar's row on hover.
const tip = Object.assign(make("div"), { className: "tip", hidden: true });
tip.setAttribute("role", "status");
document.body.append(tip);
function show(at, ...content) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const box = at.getBoundingClientRect();
  const left = Math.min(box.left, root.clientWidth - tip.offsetWidth - 12);
  const below = box.bottom + 6 + tip.offsetHeight < innerHeight || box.top < tip.offsetHeight + 60;
  tip.style.left = `${Math.max(12, left) + scrollX}px`;
  tip.style.top = `${(below ? box.bottom + 6 : box.top - 6 - tip.offsetHeight) + scrollY}px`;
}
const hide = () => (tip.hidden = true);
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#def-"]');
  if (!link) return hide();
  const entry = document.getElementById(link.getAttribute("href").slice(1));
  event.preventDefault();
  show(link, make("b", entry.querySelector("dt").textContent), make("div", entry.querySelector("dd").textContent));
});
addEventListener("keydown", (event) => event.key === "Escape" && hide());
addEventListener("resize", hide);
for (const bar of all("td > .bar")) {
  const row = bar.closest("tr");
  const heads = all("thead th", row.closest("table"));
  bar.parentElement.onmouseenter = () => {
    const list = make("dl");
    [...row.cells].forEach((cell, i) => {
      const value = cell.querySelector("summary")?.textContent ?? cell.textContent;
      if (value && cell !== bar.parentElement) list.append(make("dt", heads[i].textContent || "what"), make("dd", value));
    });
    show(bar.parentElement, list);
  };
  bar.parentElement.onmouseleave = hide;
}
// The full name on hover, without a second copy of it in the page.
for (const name of all("details.name"))
  name.onmouseenter = () => (name.title = name.open ? "" : name.querySelector(".full").textContent);

// Where the reader is, in the rail.
const rail = all(".rail a");
const sections = rail.map((a) => document.querySelector(a.getAttribute("href")));
function locate() {
  const passed = sections.filter((s) => s.getBoundingClientRect().top < 120).length;
  const at = scrollY < 40 ? 0 : Math.max(0, passed - 1);
  rail.forEach((a, i) => (i === at ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current")));
}
addEventListener("scroll", locate, { passive: true });
locate();
