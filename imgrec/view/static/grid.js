// A grid of thumbnails with arrow-key navigation.

import { getThumbnails } from "./api.js";
import { badges } from "./decisions.js";
import { chip, h, lastPart } from "./dom.js";
import * as selection from "./selection.js";
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
    this.anchor = null; // the number of the record at which a range starts
    this.rows = new Map();
    this.addresses = new Map(); // the pictures that are there, by number
    this.abort = new AbortController();
    list.addEventListener("focusin", (event) => this.#rove(Number(event.target.closest("li")?.firstChild.dataset?.number)));
  }

  /** Show rows at once, and their thumbnails as they arrive. What is there already stays. */
  async show(rows) {
    const numbers = [...this.tiles.keys()];
    const isOldSize = this.list.dataset.tile === state.tile;
    this.rows = new Map(rows.map((row) => [row.number, row]));
    if (isOldSize && rows.length && rows.length === numbers.length && rows.every(({ number }, at) => number === numbers[at])) {
      for (const row of rows) this.#mark(row);
      return;
    }
    const place = this.list.contains(document.activeElement) ? numbers.indexOf(this.current) : -1;
    const kept = isOldSize ? this.addresses : new Map();
    if (isOldSize) this.addresses = new Map();
    this.clear();
    this.list.dataset.tile = state.tile;
    for (const row of rows) {
      this.tiles.set(row.number, this.#tile(row));
      this.#mark(row);
      if (kept.has(row.number)) this.#picture(row.number, kept.get(row.number));
      kept.delete(row.number);
    }
    kept.forEach((address) => URL.revokeObjectURL(address));
    this.list.replaceChildren(...[...this.tiles].map(([number, tile]) => h("li", {}, tile, this.#box(number))));
    this.#group(rows);
    this.paint();
    if (!rows.length) return;
    this.#rove(rows[Math.max(0, Math.min(place, rows.length - 1))].number);
    if (place >= 0) this.focus(this.current);
    const missing = [...this.tiles.keys()].filter((number) => !this.addresses.has(number));
    if (!missing.length) return;
    const side = this.dataset.sides.find((pixels) => pixels >= this.#pixels()) ?? this.dataset.sides.at(-1);
    await getThumbnails(missing, side, (...frame) => this.#fill(...frame), this.abort.signal);
  }

  /** Show which images belong together: every other group has a band behind it. */
  #group(rows) {
    let last = null;
    let isBanded = false;
    for (const { number, group } of rows) {
      if (!group) continue;
      const tile = this.tiles.get(number);
      if (group[0] !== last) {
        isBanded = !isBanded;
        tile.querySelector(".frame").append(h("span", { class: "together" }, `${group[1]} together`));
      }
      last = group[0];
      tile.parentElement.classList.toggle("banded", isBanded);
    }
  }

  clear() {
    this.abort.abort();
    this.abort = new AbortController();
    this.addresses.forEach((address) => URL.revokeObjectURL(address));
    this.addresses.clear();
    this.tiles.clear();
    this.current = null;
    this.anchor = null;
    this.list.replaceChildren();
  }

  /** Show which images are selected. */
  paint() {
    for (const [number, tile] of this.tiles) {
      const box = tile.nextElementSibling;
      const isSelected = selection.has(number);
      tile.parentElement.classList.toggle("selected", isSelected);
      if (box) box.checked = isSelected;
    }
  }

  /** Return the number of the record with the focus, or null. */
  focused() {
    const item = document.activeElement?.closest?.("li");
    return item?.parentElement === this.list && this.tiles.size ? this.current : null;
  }

  /** Select a record, or do not, from the keyboard. */
  toggle() {
    if (this.focused() === null) return;
    this.anchor = this.current;
    selection.toggle(this.current);
  }

  /** Move the focus, and select all from where the range started. */
  extend(key) {
    if (this.focused() === null) return;
    this.anchor ??= this.current;
    this.move(key);
    this.#range(this.current);
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
        onclick: (event) => this.#click(event, row.number),
      },
      h("span", { class: "frame" }),
      h("span", { class: "badges" }),
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

  #box(number) {
    if (!this.dataset.corrections) return "";
    const name = this.rows.get(number).name || `record ${number}`;
    // The keyboard reaches it as "x" on the tile, so that the Tab key does not stop twice.
    return h("input", { type: "checkbox", class: "box", tabindex: "-1", "aria-label": `Select ${name}`, onclick: (event) => this.#pick(event, number) });
  }

  #click(event, number) {
    const isPicking = event.shiftKey || event.ctrlKey || event.metaKey || (event.detail > 0 && selection.count() > 0);
    if (this.dataset.corrections && isPicking) this.#pick(event, number);
    else this.onOpen(number);
  }

  #pick(event, number) {
    if (event.shiftKey && this.tiles.has(this.anchor)) return this.#range(number);
    this.anchor = number;
    selection.toggle(number);
  }

  #range(number) {
    const numbers = [...this.tiles.keys()];
    const [first, last] = [numbers.indexOf(this.anchor), numbers.indexOf(number)].sort((one, other) => one - other);
    selection.add(numbers.slice(first, last + 1));
  }

  #mark({ number, decision }) {
    const tile = this.tiles.get(number);
    tile.querySelector(".badges").replaceChildren(...badges(this.dataset, decision));
    tile.classList.toggle("dropped", decision?.is_dropped ?? false);
  }

  #fill(number, blob, fault) {
    const tile = this.tiles.get(number);
    if (!tile) return;
    const frame = tile.querySelector(".frame");
    if (!blob) return broken(tile, frame, fault);
    this.#picture(number, URL.createObjectURL(blob));
  }

  #picture(number, address) {
    const tile = this.tiles.get(number);
    const frame = tile.querySelector(".frame");
    this.addresses.set(number, address);
    const image = h("img", { alt: "", onerror: () => broken(tile, frame, "The browser cannot decode this image.") });
    image.src = address;
    frame.querySelector("img")?.remove();
    frame.prepend(image);
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
  frame.querySelector("img")?.remove();
  frame.prepend(h("span", { class: "fault" }, h("strong", {}, "Damaged"), fault));
}
