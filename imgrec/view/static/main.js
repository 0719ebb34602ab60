// The whole page. Everything shown follows from the state.

import { getDataset, getPage } from "./api.js";
import { comparedGrids, focusedGrid, showCompare } from "./compare.js";
import { act, pressInDeck, setUpDeck, showDeck } from "./deck.js";
import { byId, counted, h, number } from "./dom.js";
import { showFilters } from "./filters.js";
import { Grid } from "./grid.js";
import { showPager } from "./pager.js";
import * as record from "./record.js";
import { differs, FILTERS, noFilters, selection as parameters } from "./query.js";
import * as selection from "./selection.js";
import { showSort } from "./sort.js";
import { change, onChange, state } from "./state.js";

const PAGE = 100;
const POLL_MS = 1000;
const TYPING_MS = 150;
let dataset;
let grid;
let total = 0;
let shown;
let abort = new AbortController();

function showError(error) {
  if (error.name === "AbortError") return;
  const isGone = error instanceof TypeError;
  byId("trouble").textContent = isGone ? "imgrec view has stopped. Start it again and open the address it prints." : error.message;
  byId("trouble").hidden = false;
}

async function showPage() {
  abort.abort();
  abort = new AbortController();
  const page = await getPage(state, state.start, PAGE, abort.signal);
  total = page.total;
  byId("trouble").hidden = true;
  showFilters(dataset, page.counts);
  showSort(dataset);
  showDeck(page);
  byId("select-all").disabled = !total;
  const of = total === dataset.records ? "" : ` of ${counted(dataset.records)}`;
  byId("found").textContent = of ? `${counted(total)}${of} images` : number(total, "image");
  for (const nav of document.querySelectorAll("#browse .pager")) {
    showPager(nav, { start: state.start, total, size: PAGE, onStart: goTo });
  }
  const filled = grid.show(page.rows);
  if (!page.rows.length) grid.list.replaceChildren(nothing());
  filled.catch(showError);
}

function nothing() {
  const clear = h("button", { class: "button", type: "button", onclick: () => change({ ...noFilters, start: 0 }) }, "Clear all filters");
  return h("li", { class: "nothing" }, h("p", {}, dataset.records ? "No image matches these filters." : "This dataset has no images."), dataset.records ? clear : null);
}

function goTo(start) {
  change({ start });
  window.scrollTo({ top: 0 });
}

async function show() {
  const isComparing = state.view === "compare";
  byId("browse").hidden = isComparing;
  byId("compare").hidden = !isComparing;
  byId("view-grid").setAttribute("aria-pressed", !isComparing);
  byId("view-compare").setAttribute("aria-pressed", isComparing);
  for (const button of byId("tiles").children) button.setAttribute("aria-pressed", button.value === state.tile);
  if (document.activeElement !== byId("text")) byId("text").value = state.q;
  if (!isComparing) return showPage();
  grid.clear();
  const page = await showCompare(dataset, open);
  if (!page) return;
  const all = await getPage({ ...state, class: [] }, 0, 1);
  showFilters(dataset, all.counts);
  showDeck(all);
}

/** The grid that the keys act on. */
const activeGrid = () => (state.view === "compare" ? focusedGrid() : grid);

/** Show what is decided now. */
const refresh = () => Promise.all([show(), record.refreshRecord(dataset)]);

const open = (number, label = null) => change({ record: number, of: label });

onChange((before) => {
  if (differs(before, state, [...FILTERS, "view"])) selection.clear();
  const names = [...FILTERS, "sort", "view", "tile", "start", "a", "b", "starta", "startb"];
  if (differs(before, state, names)) shown = show().catch(showError);
  if (before.record !== state.record) {
    record.showRecord(dataset).catch(showError);
    if (state.record === null) activeGrid()?.focus(before.record);
  }
});

/** Turn a page by keyboard, and keep the focus in the grid. */
async function turn(direction) {
  const start = state.start + direction * PAGE;
  if (state.view !== "grid" || start < 0 || start >= total) return;
  const isInGrid = grid.list.contains(document.activeElement);
  goTo(start);
  await shown;
  if (isInGrid) grid.focusEnd(direction < 0);
}

const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input:not([type=checkbox]), select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) {
    const step = { z: event.shiftKey ? "redo" : "undo", y: "redo" }[event.key.toLowerCase()];
    if (!step || isTyping || event.altKey || isAsking()) return;
    act(step);
    return event.preventDefault();
  }
  if (isTyping) {
    if (event.key === "Escape" && event.target === byId("text")) event.target.blur();
    return;
  }
  if (isAsking()) return;
  if (record.isOpen()) {
    const direction = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (direction && ((event.repeat && record.isBusy()) || record.step(direction))) event.preventDefault();
    else if (!direction && pressInDeck(event.key)) event.preventDefault();
    return;
  }
  if (press(event)) event.preventDefault();
});

const isAsking = () => ["help", "picker", "decisions"].some((id) => byId(id).open);

/** Handle a key; return whether it had a meaning. */
function press({ key, shiftKey }) {
  const active = activeGrid();
  if (pressInDeck(key)) return true;
  if (dataset.corrections) {
    if (shiftKey && ARROWS.includes(key)) return active?.extend(key), true;
    if (key === "x") return active?.toggle(), true;
    if (key === "a" && state.view === "grid") return byId("select-all").click(), true;
    if (key === "Escape" && selection.count()) return selection.clear(), true;
  }
  if (ARROWS.includes(key) || key === "Home" || key === "End") {
    const left = active?.move(key);
    if (left) turn(left);
  } else if (key === "PageDown" || key === "PageUp") turn(key === "PageDown" ? 1 : -1);
  else if (key === "/") byId("text").select();
  else if (key === "s") byId("sort").focus();
  else if (key === "r") byId("direction").click();
  else if (key === "?") byId("help").showModal();
  else if (key === "c") change({ view: state.view === "compare" ? "grid" : "compare" });
  else return false;
  return true;
}

let typing;
byId("text").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ q: event.target.value }, { replace: state.q !== "" }), TYPING_MS);
});
byId("view-grid").addEventListener("click", () => change({ view: "grid" }));
byId("view-compare").addEventListener("click", () => change({ view: "compare" }));
byId("tiles").addEventListener("click", (event) => event.target.value && change({ tile: event.target.value }, { replace: true }));
byId("select-all").addEventListener("click", () => total && selection.addAll(parameters(state).toString(), total));
selection.onSelect(() => {
  for (const one of [grid, ...comparedGrids()]) one?.paint();
});
byId("open-help").addEventListener("click", () => byId("help").showModal());
byId("toggle-filters").addEventListener("click", (event) => {
  const isOpen = document.body.classList.toggle("filters-open");
  event.currentTarget.setAttribute("aria-expanded", isOpen);
});

/** Poll the progress while the server reads records and looks at images. */
async function poll() {
  while (dataset.gathered !== null || dataset.looked !== null) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    const { gathered, looked } = dataset;
    Object.assign(dataset, await getDataset());
    if (gathered !== dataset.gathered && dataset.gathered === null) await show();
    else if (looked !== null && dataset.looked === null) await show();
    const bar = document.querySelector(".gathering progress");
    if (bar) bar.value = (dataset.gathered ?? dataset.looked) / Math.max(dataset.records, 1);
  }
}

async function start() {
  dataset = await getDataset();
  document.title = `${dataset.name} ${dataset.version} · imgrec view`;
  byId("name").textContent = dataset.name;
  byId("version").textContent = dataset.version;
  grid = new Grid(byId("grid"), dataset, open);
  const target = () => (record.isOpen() ? state.record : activeGrid()?.focused() ?? null);
  setUpDeck({ dataset, target, rowOf: (number) => record.shownRow() ?? activeGrid()?.rows.get(number), refresh });
  await show();
  await record.showRecord(dataset);
  await poll();
}

start().catch(showError);
