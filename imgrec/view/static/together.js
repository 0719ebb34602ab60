// The copies of an open record, to see which of them to keep.

import { getThumbnails } from "./api.js";
import { badges } from "./decisions.js";
import { chip, counted, h, lastPart } from "./dom.js";
import { change } from "./state.js";

const TINY = 64;

/** Return the copies of a record as small pictures that open them, or nothing. */
export function togetherWith(dataset, record, signal) {
  const rows = record.together ?? [];
  if (rows.length < 2) return [];
  const tiles = new Map(rows.map((row) => [row.number, tile(dataset, row, row.number === record.number)]));
  const fill = (number, blob) => blob && tiles.get(number).firstChild.append(picture(blob));
  getThumbnails([...tiles.keys()], dataset.sides[0], fill, signal).catch(() => {}); // the names are there
  const more = record.alike > rows.length ? `, the first ${rows.length}` : "";
  return [h("h3", {}, `${counted(record.alike)} together${more}`), h("div", { class: "alike" }, ...tiles.values())];
}

function tile(dataset, row, isShown) {
  const labels = row.labels.length ? row.labels : [-1];
  return h(
    "button",
    { class: "copy", type: "button", title: row.name, "aria-label": row.name, "data-tiny": row.width > 0 && Math.max(row.width, row.height) <= TINY, "aria-current": isShown ? "true" : null, onclick: () => isShown || change({ record: row.number }, { replace: true }) },
    h("span", { class: "frame" }),
    h("span", { class: "badges" }, ...badges(dataset, row.decision)),
    h("span", { class: "chips" }, chip(dataset, labels[0])),
    h("span", { class: "line" }, h("span", { class: "cut quiet" }, lastPart(row.name)), h("span", { class: "split" }, dataset.splits[row.split])),
  );
}

function picture(blob) {
  const image = h("img", { alt: "", onload: () => URL.revokeObjectURL(image.src) });
  image.src = URL.createObjectURL(blob);
  return image;
}
