// The state of the page: a plain value, which the address holds. Nothing here touches the page.

const LISTS = ["split", "class", "format", "finding", "decision"];
// `of` is the class of the side of a comparison in which a record was opened.
const NUMBERS = { min: 0, max: 0, start: 0, record: null, of: null, a: 0, b: 1, starta: 0, startb: 0 };
const TEXTS = { view: "grid", q: "", tile: "m", sort: "" };
const OF_COLUMN = /^(in|from|to|has)\./;

/** The value of every filter that matches all images. */
export const noFilters = { split: [], class: [], format: [], finding: [], decision: [], min: 0, max: 0, q: "", columns: {} };
export const FILTERS = Object.keys(noFilters);

/** Return the state in the search part of an address. */
export function parse(search) {
  const parameters = new URLSearchParams(search);
  const found = { columns: {} };
  for (const name of LISTS) found[name] = parameters.getAll(name);
  for (const [name, usual] of Object.entries(NUMBERS)) {
    const text = parameters.get(name) ?? "";
    found[name] = /^\d{1,15}$/.test(text) ? Number(text) : usual;
  }
  for (const [name, usual] of Object.entries(TEXTS)) found[name] = parameters.get(name) ?? usual;
  for (const name of parameters.keys()) if (OF_COLUMN.test(name)) found.columns[name] = parameters.getAll(name);
  return found;
}

/** Return the search part of the address that holds a state; empty for the usual state. */
export function written(state) {
  const parameters = new URLSearchParams();
  append(parameters, state, LISTS);
  for (const [name, usual] of Object.entries({ ...NUMBERS, ...TEXTS })) {
    if (state[name] !== usual) parameters.set(name, state[name]);
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

/** Return the filters and the order of a state, as parameters of a request. */
export function selection(state) {
  const parameters = new URLSearchParams();
  append(parameters, state, LISTS);
  for (const name of ["min", "max", "q", "sort"]) if (state[name]) parameters.set(name, state[name]);
  return parameters;
}

function append(parameters, state, lists) {
  for (const name of lists) for (const value of state[name]) parameters.append(name, value);
  for (const [name, values] of Object.entries(state.columns)) for (const value of values) parameters.append(name, value);
}

/** Return the filters of columns after one of them changed; an empty list removes it. */
export function withColumn(columns, name, values) {
  const { [name]: _, ...rest } = columns;
  return values.length ? { ...rest, [name]: values } : rest;
}

/** Return whether two states differ in some of their values. */
export const differs = (one, other, names) => names.some((name) => JSON.stringify(one[name]) !== JSON.stringify(other[name]));

export const isFiltered = (state) => differs(state, noFilters, FILTERS);
