// The names of the tracks: a tree that the keyboard can walk, whose rows can be closed, opened and put in another order.
class Names {
  /** @param {HTMLElement} box @param {{toggle: (id: string) => void, move: (id: string, other: string, behind: boolean) => void,
   *   shift: (id: string, by: number) => void}} act */
  constructor(box, act) {
    this.box = box;
    this.act = act;
    this.current = null;
    box.addEventListener("keydown", (event) => this.key(event));
    box.addEventListener("focusin", (event) => (this.current = event.target.dataset.track ?? this.current));
    box.addEventListener("pointerdown", (event) => this.grab(event));
  }

  /** @param {Row[]} rows */
  show(rows, height, selectedTrack) {
    const hadFocus = this.box.contains(document.activeElement);
    if (!rows.some((r) => r.track.id === this.current)) this.current = rows[0]?.track.id;
    this.rows = rows;
    this.box.style.height = `${height}px`;
    this.box.replaceChildren(...rows.map((row) => this.item(row, row.track.id === selectedTrack)));
    if (hadFocus) this.focus(this.current);
  }

  item(row, isSelected) {
    const item = make("div");
    const { track } = row;
    item.dataset.track = track.id;
    item.className = `tl-name ${track.kind}`;
    const line = row.lanes.length > 1 ? 20 : row.height;
    const left = 16 + row.level * 14;
    item.style.cssText = `top:${row.y}px;height:${row.height}px;line-height:${line}px;padding-left:${left}px`;
    item.tabIndex = track.id === this.current ? 0 : -1;
    for (const [name, value] of Object.entries({ role: "treeitem", "aria-level": row.level + 1, "aria-selected": isSelected }))
      item.setAttribute(name, value);
    if (row.hasChildren) {
      item.setAttribute("aria-expanded", row.isOpen);
      item.append(Object.assign(make("i", row.isOpen ? "▾" : "▸"), { ariaHidden: "true" }));
    }
    item.append(make("b", track.title), make("small", track.note));
    item.title = [track.title, track.note, track.reason].filter(Boolean).join(" · ");
    return item;
  }

  focus(id) {
    this.current = id;
    for (const item of this.box.children) item.tabIndex = item.dataset.track === id ? 0 : -1;
    this.box.querySelector('[tabindex="0"]')?.focus({ preventScroll: false });
  }

  /** The keys of a tree, as the ARIA practices have them; with Alt they move the track. */
  key(event) {
    const at = this.rows.findIndex((r) => r.track.id === this.current);
    const row = this.rows[at];
    if (!row) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && event.altKey) this.act.shift(this.current, step);
    else if (step) this.focus(this.rows[Math.min(this.rows.length - 1, Math.max(0, at + step))].track.id);
    else if (event.key === "ArrowRight" && row.hasChildren && !row.isOpen) this.act.toggle(this.current);
    else if (event.key === "ArrowRight") this.focus(this.rows[Math.min(this.rows.length - 1, at + (row.isOpen ? 1 : 0))].track.id);
    else if (event.key === "ArrowLeft" && row.hasChildren && row.isOpen) this.act.toggle(this.current);
    else if (event.key === "ArrowLeft") this.focus(row.track.parent || this.current);
    else if (event.key === "Enter" || event.key === " ") this.act.toggle(this.current);
    else if (event.key === "Home") this.focus(this.rows[0].track.id);
    else if (event.key === "End") this.focus(this.rows.at(-1).track.id);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** A click opens or closes; a drag puts the track before or behind a sibling. */
  grab(event) {
    const item = event.target.closest("[data-track]");
    if (!item || event.button) return;
    const [id, y0] = [item.dataset.track, event.clientY];
    let target = null;
    const move = (e) => {
      if (Math.abs(e.clientY - y0) < 5 && !target) return;
      item.classList.add("moved");
      for (const each of this.box.children) each.classList.remove("before", "behind");
      const over = document.elementFromPoint(e.clientX, e.clientY)?.closest?.("[data-track]");
      if (!over || over.parentElement !== this.box) return;
      const box = over.getBoundingClientRect();
      target = { id: over.dataset.track, behind: e.clientY > box.top + box.height / 2 };
      over.classList.add(target.behind ? "behind" : "before");
    };
    const end = (e) => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      if (target) this.act.move(id, target.id, target.behind);
      else if (e.type === "pointerup") {
        this.focus(id);
        this.act.toggle(id);
      }
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }
}
