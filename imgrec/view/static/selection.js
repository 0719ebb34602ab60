// Which images are selected: some by number, or all matches of a filter except some.

let numbers = new Set();
let all = null; // { query, total }; then `numbers` are the exceptions
const listeners = [];

/** Call a function after each change. */
export const onSelect = (listener) => listeners.push(listener);

export const has = (number) => numbers.has(number) !== (all !== null);
export const count = () => (all ? all.total - numbers.size : numbers.size);

/** Return the selection as a request names it. */
export const chosen = () => (all ? { query: all.query, except: [...numbers] } : { numbers: [...numbers] });

export function toggle(number) {
  if (!numbers.delete(number)) numbers.add(number);
  tell();
}

export function add(more) {
  for (const number of more) all ? numbers.delete(number) : numbers.add(number);
  tell();
}

/** Select all matches of a filter, which nobody needs to list. */
export function addAll(query, total) {
  numbers = new Set();
  all = { query, total };
  tell();
}

export function clear() {
  numbers = new Set();
  all = null;
  tell();
}

function tell() {
  if (!count()) [numbers, all] = [new Set(), null];
  for (const listener of listeners) listener();
}
