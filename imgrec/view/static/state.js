// The present state of the page, kept in the address: it can be shared, and the back button works.

import { FILTERS, parse, written } from "./query.js";

const listeners = [];
export let state = parse(location.search);

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
  if ([...FILTERS, "sort"].some((name) => name in part) && !("start" in part)) {
    Object.assign(next, { start: 0, starta: 0, startb: 0 });
  }
  const [now, then] = [written(state), written(next)];
  if (now !== then) history[replace ? "replaceState" : "pushState"](null, "", then || location.pathname);
  become(next);
}

window.addEventListener("popstate", () => become(parse(location.search)));
