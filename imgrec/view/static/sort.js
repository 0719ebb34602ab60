// The order of the images.

import { byId, h } from "./dom.js";
import { change, state } from "./state.js";

const NAMES = { "": "as stored", name: "by name", class: "by class", size: "by pixels", bytes: "by bytes" };

/** Offer the orders of a dataset. A leading minus stands for descending. */
export function showSort(dataset) {
  const isReady = dataset.gathered === null;
  const names = { ...NAMES, ...(dataset.has_copies ? { copies: "copies together" } : {}) };
  if (!dataset.classes.length) delete names.class;
  for (const name of Object.keys(dataset.columns)) names[`column ${name}`] = `by ${name}`;
  const select = byId("sort");
  select.disabled = !isReady;
  select.replaceChildren(...Object.entries(names).map(([key, name]) => h("option", { value: key }, name)));
  select.value = key();
  const isDown = state.sort.startsWith("-");
  const button = byId("direction");
  button.disabled = !isReady;
  button.textContent = isDown ? "↓" : "↑";
  button.title = isDown ? "Descending" : "Ascending";
  button.ariaLabel = `${button.title}. Reverse the order`;
}

const key = () => state.sort.replace(/^-/, "");

byId("sort").addEventListener("change", (event) => change({ sort: event.target.value }));
byId("direction").addEventListener("click", () => change({ sort: state.sort.startsWith("-") ? key() : `-${key()}` }));
