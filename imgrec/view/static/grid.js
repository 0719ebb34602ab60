// A grid of thumbnails with arrow-key navigation.

import { getThumbnails } from "./api.js";
import { chip, h, lastPart } from "./dom.js";
import { state } from "./state.js";

const TINY = 64;
const LEAST_PIXELS = { s: 96, m: 148, l: 232 };

export class Grid {
  constructor(list, dataset, onOpen) {
    this.list = list;
    this.dataset = dataset;
    this.onOpen = onOpen;
    this.tiles = new Map();
    this.current = null; // the number of the record that the keys act on
    this.addresses = [];
    this.abort = new AbortController();
    list.addEventListener("focusin", (event) => this.#rove(Number(event.target.closest(".tile")?.dataset.number)));
  }

  /** Show rows at once, and their thumbnails as they arrive. */
  async show(rows) {
    this.clear();
    this.list.dataset.tile = state.tile;
    for (const row of rows) this.tiles.set(row.number, this.#tile(row));
    this.list.replaceChildren(...[...this.tiles.values()].map((tile) => h("li", {}, tile)));
    if (!rows.length) return;
    this.#rove(rows[0].number);
    const side = this.dataset.sides.find((pixels) => pixels >= this.#pixels()) ?? this.dataset.sides.at(-1);
    await getThumbnails([...this.tiles.keys()], side, (...frame) => this.#fill(...frame), this.abort.signal);
  }

  clear() {
    this.abort.abort();
    this.abort = new AbortController();
    this.addresses.splice(0).forEach(URL.revokeObjectURL);
    this.tiles.clear();
    this.current = null;
    this.list.replaceChildren();
  }

  #pixels() {
    return LEAST_PIXELS[state.tile] * Math.min(devicePixelRatio, 2);
  }

  #tile(row) {
    const labels = row.labels.length ? row.labels : [-1];
    const more = labels.length > 2 ? h("span", { class: "quiet" }, `+${labels.length - 2}`) : null;
    const name = row.name || `record ${row.number}`;
    const size = row.width ? `, ${row.width} × ${row.height}` : "";
    return h(
      "button",
      {
        class: "tile",
        type: "button",
        tabindex: "-1",
        title: `${name}${size}`,
        "data-number": row.number,
        "data-tiny": row.width > 0 && Math.max(row.width, row.height) <= TINY,
        onclick: () => this.onOpen(row.number),
      },
      h("span", { class: "frame" }),
      h(
        "span",
        { class: "caption" },
        h("span", { class: "chips" }, ...labels.slice(0, 2).map((label) => chip(this.dataset, label)), more),
        h(
          "span",
          { class: "line" },
          h("span", { class: "cut quiet" }, lastPart(name)),
          h("span", { class: "split" }, this.dataset.splits[row.split]),
        ),
      ),
    );
  }

  #fill(number, blob, fault) {
    const tile = this.tiles.get(number);
    if (!tile) return;
    const frame = tile.querySelector(".frame");
    if (!blob) return broken(tile, frame, fault);
    const address = URL.createObjectURL(blob);
    this.addresses.push(address);
    const image = h("img", { alt: "", onerror: () => broken(tile, frame, "The browser cannot decode this image.") });
    image.src = address;
    frame.replaceChildren(image);
  }

  /** Let the Tab key reach this tile only. */
  #rove(number) {
    if (!this.tiles.has(number)) return;
    this.tiles.get(this.current)?.setAttribute("tabindex", "-1");
    this.tiles.get(number).setAttribute("tabindex", "0");
    this.current = number;
  }

  /** Move the focus. Return -1 or 1 if it would leave the grid at the start or end, else 0. */
  move(key) {
    const tiles = [...this.tiles.values()];
    const at = tiles.indexOf(document.activeElement);
    if (at < 0) {
      this.tiles.get(this.current)?.focus();
      return 0;
    }
    const across = getComputedStyle(this.list).gridTemplateColumns.split(" ").length;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across };
    const to = { Home: 0, End: tiles.length - 1 }[key] ?? at + steps[key];
    if (to < 0) return -1;
    if (to >= tiles.length) return 1;
    tiles[to].focus();
    return 0;
  }

  focus(number) {
    this.tiles.get(number)?.focus();
  }

  focusEnd(isLast) {
    const tiles = [...this.tiles.values()];
    tiles.at(isLast ? -1 : 0)?.focus();
  }
}

function broken(tile, frame, fault) {
  tile.classList.add("broken");
  tile.title = fault;
  frame.replaceChildren(h("span", { class: "fault" }, h("strong", {}, "Damaged"), fault));
}
