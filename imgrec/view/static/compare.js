// Compare two classes side by side, each with its own pages.

import { getPage } from "./api.js";
import { byId, chip, className, counted, h, number } from "./dom.js";
import { Grid } from "./grid.js";
import { showPager } from "./pager.js";
import { change, state } from "./state.js";

const PAGE = 48;
const SIDES = ["a", "b"];
const grids = {};
let abort = new AbortController();

export const comparedGrids = () => Object.values(grids);

/** The grid that has the focus, or the first. */
export const focusedGrid = () => SIDES.map((side) => grids[side]).find((grid) => grid?.list.contains(document.activeElement)) ?? grids.a;

export async function showCompare(dataset, onOpen) {
  const place = byId("compare");
  if (!dataset.classes.length || dataset.gathered !== null) {
    place.replaceChildren(h("p", { class: "nothing" }, dataset.classes.length ? "Classes can be compared when all records have been read." : "This dataset has no classes."));
    return null;
  }
  if (!grids.a?.list.isConnected) {
    place.replaceChildren(...SIDES.map((side) => panel(side, dataset, onOpen)));
  }
  abort.abort();
  abort = new AbortController();
  const pages = await Promise.all(SIDES.map((side) => showSide(side, dataset)));
  return pages[0];
}

function panel(side, dataset, onOpen) {
  const list = h("ul", { class: "grid" });
  grids[side] = new Grid(list, dataset, (record) => onOpen(record, state[side]));
  const select = h(
    "select",
    { "aria-label": `${side === "a" ? "First" : "Second"} class`, onchange: (event) => change({ [side]: Number(event.target.value), [`start${side}`]: 0 }) },
    ...dataset.classes.map((name, label) => h("option", { value: label }, name)),
  );
  return h(
    "section",
    { class: "side", id: `side-${side}` },
    h("div", { class: "bar" }, h("span", { class: "pick" }, select), h("p", { class: "summary", role: "status" }), h("nav", { class: "pager", "aria-label": `Pages of the ${side === "a" ? "first" : "second"} class` })),
    list,
  );
}

async function showSide(side, dataset) {
  const label = Math.min(state[side], dataset.classes.length - 1);
  const start = state[`start${side}`];
  const page = await getPage({ ...state, class: [String(label)] }, start, PAGE, abort.signal);
  const place = byId(`side-${side}`);
  place.setAttribute("aria-label", className(dataset, label));
  place.querySelector("select").value = label;
  place.querySelector(".pick").replaceChildren(chip(dataset, label).firstChild, place.querySelector("select"));
  place.querySelector(".summary").textContent = summary(dataset, page);
  showPager(place.querySelector(".pager"), { start, total: page.total, size: PAGE, onStart: (to) => change({ [`start${side}`]: to }) });
  grids[side].show(page.rows).catch(() => {});
  if (!page.rows.length) grids[side].list.replaceChildren(h("li", { class: "nothing" }, "No image of this class matches the filters."));
  return page;
}

function summary(dataset, page) {
  const splits = dataset.splits.map((name, at) => [name, page.counts.split[at]]).filter(([name, count]) => count && (!state.split.length || state.split.includes(name)));
  const parts = splits.length > 1 ? `: ${splits.map(([name, count]) => `${counted(count)} ${name}`).join(", ")}` : "";
  return number(page.total, "image") + parts;
}
