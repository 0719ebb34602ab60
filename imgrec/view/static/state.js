// The state of the page, kept in the address: it can be shared, and the back button works.

const LISTS = ["split", "class", "format"];
// `of` is the class of the side of a comparison in which a record was opened.
const NUMBERS = { min: 0, max: 0, start: 0, record: null, of: null, a: 0, b: 1, starta: 0, startb: 0 };
const TEXTS = { view: "grid", q: "", tile: "m" };
export const FILTERS = [...LISTS, "min", "max", "q"];

const listeners = [];
export let state = parse(location.search);

function parse(search) {
  const parameters = new URLSearchParams(search);
  const found = {};
  for (const name of LISTS) found[name] = parameters.getAll(name);
  for (const [name, usual] of Object.entries(NUMBERS)) {
    const text = parameters.get(name) ?? "";
    found[name] = /^\d{1,15}$/.test(text) ? Number(text) : usual;
  }
  for (const [name, usual] of Object.entries(TEXTS)) found[name] = parameters.get(name) ?? usual;
  return found;
}

function written(values) {
  const parameters = new URLSearchParams();
  for (const name of LISTS) for (const value of values[name]) parameters.append(name, value);
  for (const [name, usual] of Object.entries({ ...NUMBERS, ...TEXTS })) {
    if (values[name] !== usual) parameters.set(name, values[name]);
  }
  const text = parameters.toString();
  return text ? `?${text}` : location.pathname;
}

/** Call a function with the previous state after each change. */
export const onChange = (listener) => listeners.push(listener);

function become(next) {
  const before = state;
  state = next;
  for (const listener of listeners) listener(before);
}

/** Change part of the state. `replace` adds no entry to the browser's history. */
export function change(part, { replace = false } = {}) {
  const next = { ...state, ...part };
  if (FILTERS.some((name) => name in part) && !("start" in part)) {
    Object.assign(next, { start: 0, starta: 0, startb: 0 });
  }
  const [now, then] = [written(state), written(next)];
  if (now !== then) history[replace ? "replaceState" : "pushState"](null, "", then);
  become(next);
}

/** Return whether two states differ in some of their values. */
export const differs = (one, other, names) => names.some((name) => String(one[name]) !== String(other[name]));

export const noFilters = { split: [], class: [], format: [], min: 0, max: 0, q: "" };

window.addEventListener("popstate", () => become(parse(location.search)));
