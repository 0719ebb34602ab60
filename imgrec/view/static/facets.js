// The parts of a filter: lists of values with counts, bounds, and a search in long lists.

import { counted, h, hueOf, number } from "./dom.js";

const MOST_VALUES = 200;
const MANY_VALUES = 8;
const wanted = {}; // the text in the search field of each list
const isOpen = {}; // whether each section is open, if the user has chosen

/** Return a section that can be folded. */
export function section(key, title, children, startsOpen = true) {
  const open = isOpen[key] ?? startsOpen;
  const part = h("details", { open, ontoggle: () => (isOpen[key] = part.open) }, h("summary", { title }, h("span", { class: "cut" }, title)), ...children.filter(Boolean));
  return part;
}

/** Return a list of values to tick: `{ value, name, count, isOn, toggle, label }`. A label has a dot. */
export function options(key, values) {
  const most = Math.max(1, ...values.map(({ count }) => count));
  return h("ul", { class: "options", id: `options-${key}` }, ...values.map((one) => option(key, one, most)));
}

function option(key, { value, name, count, isOn, toggle, label }, most) {
  const box = h("input", { type: "checkbox", id: `${key}-${value}`, checked: isOn, onchange: toggle });
  const dot = label === undefined ? null : h("span", { class: label < 0 ? "dot none" : "dot", "--hue": hueOf(label), "aria-hidden": "true" });
  return h(
    "li",
    { class: count || isOn ? "" : "none-left" },
    h("label", { title: name, "--part": count / most }, box, dot, h("span", { class: "cut" }, name), h("span", { class: "count" }, counted(count))),
  );
}

/** Return a list of values, with a search field if it is long. */
export function searchable(key, values, [one, many]) {
  const isLong = values.length > MANY_VALUES;
  const list = h("div", { class: isLong ? "long" : "", id: `long-${key}` });
  const fill = () => {
    const fitting = values.filter(({ name }) => name.toLowerCase().includes((wanted[key] ?? "").toLowerCase()));
    // What is ticked comes first, so that it is never cut off.
    const ticked = fitting.filter(({ isOn }) => isOn);
    const shown = fitting.length > MOST_VALUES ? [...ticked, ...fitting.filter(({ isOn }) => !isOn)] : fitting;
    const hidden = fitting.length - MOST_VALUES;
    const more = hidden > 0 ? h("p", { class: "note" }, `${number(hidden, `more ${one}`, `more ${many}`)}. Search to find them.`) : null;
    const none = fitting.length ? null : h("p", { class: "note" }, `No ${one} has this text.`);
    list.replaceChildren(...[options(key, shown.slice(0, MOST_VALUES)), more, none].filter(Boolean));
  };
  fill();
  if (!isLong) return [list];
  const oninput = (event) => {
    wanted[key] = event.target.value;
    fill();
  };
  const find = { id: `find-${key}`, type: "search", placeholder: `Search ${number(values.length, one, many)}`, "aria-label": `Search ${many}` };
  return [h("input", { ...find, value: wanted[key] ?? "", oninput }), list];
}

/** Return two fields for bounds: `onBound("from" or "to", text)` gets what is entered. */
export function bounds(key, title, values, hints, unit, onBound) {
  const field = (bound) =>
    h("input", {
      id: `${key}-${bound}`,
      type: "number",
      step: "any",
      placeholder: hints[bound] ?? bound,
      "aria-label": `${title}, ${bound}${unit && ", in pixels"}`,
      value: values[bound] ?? "",
      onchange: (event) => onBound(bound, event.target.value),
    });
  return h("div", { class: "bounds" }, field("from"), "–", field("to"), unit);
}
