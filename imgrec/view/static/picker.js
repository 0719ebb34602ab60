// A dialog to choose a class or a split by typing a part of its name.

import { byId, h, hueOf, number } from "./dom.js";

const MOST = 60;
let asked; // { title, names, first, chosen, isMany, hasDots, resolve }
let fitting = [];
let active = 0;

/**
 * Ask for one of some names, or for several; return their places, or null if nobody chose.
 * `first` are the places to offer first. With `canAdd`, the last may be a new name instead of a place.
 */
export function pick({ title, names, first = [], chosen = [], isMany = false, hasDots = false, canAdd = false }) {
  return new Promise((resolve) => {
    asked = { title, names, first, chosen: new Set(chosen), isMany, hasDots, canAdd, resolve };
    const isShort = names.length < 8 && !canAdd;
    byId("picker-title").textContent = title;
    byId("picker-text").value = "";
    byId("picker-apply").hidden = !isMany;
    byId("picker-text").hidden = isShort;
    byId("picker").showModal();
    list();
    (isShort ? byId("picker-list") : byId("picker-text")).focus();
  });
}

/** Return the places of the names to offer: recent ones first, then those that start with the text. */
function found(text) {
  const { names, first } = asked;
  if (!text) {
    const rest = [];
    for (let at = 0; at < names.length && rest.length < MOST; at++) if (!first.includes(at)) rest.push(at);
    return { places: [...first, ...rest], total: names.length };
  }
  const [starting, containing] = [[], []];
  names.forEach((name, at) => {
    const place = name.toLowerCase().indexOf(text);
    if (place >= 0) (place ? containing : starting).push(at);
  });
  return { places: [...starting, ...containing], total: starting.length + containing.length };
}

function list() {
  const text = byId("picker-text").value.trim();
  const { places, total } = found(text.toLowerCase());
  fitting = places.slice(0, MOST);
  if (asked.canAdd && text && !asked.names.includes(text)) fitting.push(text);
  active = 0;
  byId("picker-list").replaceChildren(...fitting.map(option));
  const more = total - Math.min(total, MOST);
  byId("picker-more").textContent = !fitting.length ? "No name has this text." : more > 0 ? `${number(more, "more name")}. Type to find them.` : "";
  activate(0);
}

function option(place, at) {
  const isNew = typeof place === "string";
  const name = isNew ? `New class: ${place}` : asked.names[place];
  const dot = asked.hasDots && !isNew ? h("span", { class: "dot", "--hue": hueOf(place), "aria-hidden": "true" }) : null;
  const choose = () => {
    activate(at);
    take();
  };
  return h("li", { role: "option", id: `option-${at}`, "aria-selected": String(asked.chosen.has(place)), onclick: choose }, dot, h("span", { class: "cut" }, name), h("span", { class: "tick", "aria-hidden": "true" }, "✓"));
}

function activate(at) {
  const items = byId("picker-list").children;
  items[active]?.classList.remove("active");
  active = Math.max(0, Math.min(at, items.length - 1));
  items[active]?.classList.add("active");
  items[active]?.scrollIntoView({ block: "nearest" });
  for (const id of ["picker-text", "picker-list"]) {
    if (items.length) byId(id).setAttribute("aria-activedescendant", `option-${active}`);
    else byId(id).removeAttribute("aria-activedescendant");
  }
}

/** Choose the active name; of several, tick it or remove its tick. */
function take() {
  const place = fitting[active];
  if (place === undefined) return;
  if (typeof place === "string") return end(asked.isMany ? [...asked.chosen, place] : [place]);
  if (!asked.isMany) return end([place]);
  const isOn = !asked.chosen.delete(place);
  if (isOn) asked.chosen.add(place);
  byId("picker-list").children[active].setAttribute("aria-selected", isOn);
}

function end(places) {
  const { resolve } = asked;
  asked = null;
  byId("picker").close();
  resolve(places);
}

byId("picker-text").addEventListener("input", list);
byId("picker-apply").addEventListener("click", () => asked.chosen.size && end([...asked.chosen]));
byId("picker").addEventListener("close", () => asked && end(null));
byId("picker").addEventListener("click", (event) => event.target === byId("picker") && byId("picker").close());
byId("picker").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) activate(active + step);
  else if (event.key === "Enter" && event.ctrlKey) byId("picker-apply").click();
  else if (event.key === "Enter" && !event.target.matches("button")) take();
  else return;
  event.preventDefault();
});
