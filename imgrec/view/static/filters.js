// The filters beside the images, each with the number of images it would leave.

import { byId, chip, className, counted, h, hueOf, number } from "./dom.js";
import { change, noFilters, state } from "./state.js";

const MOST_CLASSES = 200;
let wantedClass = "";

/** Show the filters, and the active ones above the images. */
export function showFilters(dataset, counts) {
  const aside = byId("filters");
  const focused = document.activeElement?.id;
  const scrolled = aside.querySelector(".classes")?.scrollTop ?? 0;
  aside.replaceChildren(...sections(dataset, counts).filter(Boolean));
  if (focused && aside.contains(byId(focused))) byId(focused).focus();
  const classes = aside.querySelector(".classes");
  if (classes) classes.scrollTop = scrolled;
  byId("chosen").replaceChildren(...chosen(dataset));
}

function sections(dataset, counts) {
  const isPartial = dataset.gathered !== null;
  return [
    h(
      "div",
      { class: "aside-head" },
      h("h2", {}, "Filters"),
      h("button", { class: "button quiet", type: "button", hidden: !isFiltered(), onclick: () => change(noFilters) }, "Clear all"),
    ),
    isPartial ? gathering(dataset) : null,
    section("Split", options("split", named(dataset.splits, counts.split))),
    isPartial || state.view === "compare" || !dataset.classes.length ? null : classSection(dataset, counts.class),
    isPartial ? null : section("Format", options("format", named(dataset.formats, counts.format))),
    isPartial ? null : sizeSection(dataset, counts.size),
    about(dataset),
    h("button", { class: "button primary only-narrow", type: "button", onclick: () => byId("toggle-filters").click() }, "Show images"),
  ];
}

const isFiltered = () => Object.keys(noFilters).some((name) => String(state[name]) !== String(noFilters[name]));

const section = (title, ...children) => h("fieldset", {}, h("legend", {}, title), ...children);

const named = (names, counts) =>
  names.map((name, at) => ({ value: name, name: name || "unknown", count: counts[at] })).filter(({ value, count }) => value || count);

function options(facet, values) {
  const most = Math.max(1, ...values.map(({ count }) => count));
  return h("ul", { class: facet === "class" ? "options classes" : "options" }, ...values.map((value) => option(facet, value, most)));
}

function option(facet, { value, name, count, label }, most) {
  const isOn = state[facet].includes(String(value));
  const box = h("input", { type: "checkbox", id: `${facet}-${value}`, checked: isOn, onchange: () => toggle(facet, String(value)) });
  const dot = label === undefined ? null : h("span", { class: label < 0 ? "dot none" : "dot", "--hue": hueOf(label), "aria-hidden": "true" });
  return h(
    "li",
    { class: count || isOn ? "" : "none-left" },
    h(
      "label",
      { title: name, "--part": count / most },
      box,
      dot,
      h("span", { class: "cut" }, name),
      h("span", { class: "count" }, counted(count)),
    ),
  );
}

function toggle(facet, value) {
  const rest = state[facet].filter((other) => other !== value);
  change({ [facet]: rest.length === state[facet].length ? [...rest, value] : rest });
}

function classSection(dataset, counts) {
  const all = counts.map((count, at) => ({ value: at - 1, label: at - 1, name: className(dataset, at - 1), count }));
  const there = all.filter(({ label, count }) => label >= 0 || count);
  const list = h("div", {});
  const fill = () => {
    const fitting = there.filter(({ name }) => name.toLowerCase().includes(wantedClass.toLowerCase()));
    const hidden = fitting.length - MOST_CLASSES;
    const more = hidden > 0 ? h("p", { class: "note" }, `${number(hidden, "more class", "more classes")}. Search to find them.`) : null;
    list.replaceChildren(...[options("class", fitting.slice(0, MOST_CLASSES)), more].filter(Boolean));
  };
  const find = h("input", {
    id: "find-class",
    type: "search",
    placeholder: `Search ${number(dataset.classes.length, "class", "classes")}`,
    "aria-label": "Search classes",
    value: wantedClass,
    oninput: (event) => {
      wantedClass = event.target.value;
      fill();
    },
  });
  fill();
  return section("Class", there.length > 8 ? find : null, list);
}

/** Return the name and the bounds of a size group. */
function sizeRange(sizes, at) {
  const [least, most] = [at ? sizes[at - 1] + 1 : 1, sizes[at] ?? 0];
  return { least, most, name: most ? `${counted(least)} – ${counted(most)}` : `${counted(least)} or more` };
}

function sizeSection(dataset, counts) {
  const most = Math.max(1, ...counts);
  const groups = counts.map((count, at) => ({ count, ...sizeRange(dataset.sizes, at) })).filter(({ count }) => count);
  const bound = (name, label) =>
    h("input", {
      id: `size-${name}`,
      type: "number",
      min: 0,
      placeholder: label,
      "aria-label": `Longer side, ${label}, in pixels`,
      value: state[name] || "",
      onchange: (event) => change({ [name]: Math.max(0, Math.floor(Number(event.target.value))) || 0 }),
    });
  const bars = groups.map(({ count, least, most: last, name }) => {
    const isOn = state.min === least && state.max === last;
    const press = () => change(isOn ? { min: 0, max: 0 } : { min: least, max: last });
    return h(
      "li",
      {},
      h(
        "label",
        { "--part": count / most },
        h("input", { type: "checkbox", id: `size-${least}`, checked: isOn, onchange: press }),
        h("span", { class: "cut" }, `${name} px`),
        h("span", { class: "count" }, counted(count)),
      ),
    );
  });
  return section("Longer side", h("ul", { class: "options" }, ...bars), h("div", { class: "bounds" }, bound("min", "from"), "–", bound("max", "to"), "px"));
}

function gathering(dataset) {
  const part = dataset.gathered / Math.max(dataset.records, 1);
  return h(
    "div",
    { class: "note gathering", role: "status" },
    h("progress", { value: part, max: 1, "aria-label": "Records read" }),
    `This dataset has no samples.parquet, so all ${counted(dataset.records)} records are being read. Filters by class, format, size and name appear when this is done.`,
  );
}

function about(dataset) {
  const copy = h("button", { class: "button", type: "button", onclick: () => copied(copy, dataset.load) }, "Copy");
  return h("div", { class: "about" }, h("h3", {}, "Load it"), h("code", {}, dataset.load), copy);
}

/** Copy text to the clipboard, and confirm it on the button. */
export async function copied(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function chosen(dataset) {
  const remove = (text, part) =>
    h("button", { class: "chosen-one", type: "button", "aria-label": `Remove filter ${text.textContent ?? text}`, onclick: () => change(part) }, text, h("span", { "aria-hidden": "true" }, "×"));
  const without = (facet, value) => ({ [facet]: state[facet].filter((other) => other !== value) });
  const all = state.view === "compare" ? [] : state.class.map((value) => remove(chip(dataset, Number(value)), without("class", value)));
  return [
    ...state.split.map((value) => remove(value, without("split", value))),
    ...all,
    ...state.format.map((value) => remove(value || "unknown", without("format", value))),
    ...(state.min || state.max ? [remove(sides(), { min: 0, max: 0 })] : []),
    ...(state.q ? [remove(`“${state.q}”`, { q: "" })] : []),
  ];
}

function sides() {
  if (!state.max) return `from ${counted(state.min)} px`;
  return state.min ? `${counted(state.min)} – ${counted(state.max)} px` : `up to ${counted(state.max)} px`;
}
