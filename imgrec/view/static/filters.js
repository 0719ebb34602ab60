// The filters beside the images, each with the number of images it would leave.

import { byId, chip, className, counted, h } from "./dom.js";
import { KINDS } from "./decisions.js";
import { bounds, options, searchable, section } from "./facets.js";
import { isFiltered, noFilters, withColumn } from "./query.js";
import { change, state } from "./state.js";

const MOST_OPEN_COLUMNS = 3;
const GROUPED = ["leaks", "near_leaks", "conflicts", "near_conflicts", "duplicates", "near"];

/** Show the filters, and the active ones above the images. */
export function showFilters(dataset, counts) {
  const aside = byId("filters");
  const focused = document.activeElement?.id;
  const tops = [...aside.querySelectorAll(".long")].map(({ id, scrollTop }) => [id, scrollTop]);
  aside.replaceChildren(...sections(dataset, counts).filter(Boolean));
  if (focused && aside.contains(byId(focused))) byId(focused).focus();
  for (const [id, top] of tops) if (byId(id)) byId(id).scrollTop = top;
  byId("chosen").replaceChildren(...chosen(dataset));
}

function sections(dataset, counts) {
  const isPartial = dataset.gathered !== null;
  const head = h(
    "div",
    { class: "aside-head" },
    h("h2", {}, "Filters"),
    h("button", { class: "button quiet", type: "button", hidden: !isFiltered(state), onclick: () => change(noFilters) }, "Clear all"),
  );
  const show = h("button", { class: "button primary only-narrow", type: "button", onclick: () => byId("toggle-filters").click() }, "Show images");
  const splits = section("split", "Split", [options("split", named("split", dataset.splits, counts.split))]);
  if (isPartial) return [head, gathering(dataset), splits, about(dataset), show];
  return [
    head,
    splits,
    state.view === "compare" || !dataset.classes.length ? null : classSection(dataset, counts.class),
    findingSection(dataset, counts.finding),
    decisionSection(dataset, counts.decision),
    ...Object.entries(dataset.columns).map(([name, column]) => columnSection(dataset, name, column, counts[`column ${name}`])),
    sizeSection(dataset, counts.size),
    section("format", "Format", [options("format", named("format", dataset.formats, counts.format))]),
    about(dataset),
    show,
  ];
}

/** Return a value of a filter, as the lists of `facets.js` show it. */
function value(facet, text, name, count, label) {
  const rest = state[facet].filter((other) => other !== text);
  const isOn = rest.length < state[facet].length;
  return { value: text, name, count, label, isOn, toggle: () => change({ [facet]: isOn ? rest : [...state[facet], text] }) };
}

const named = (facet, names, counts) =>
  names.map((name, at) => value(facet, name, name || "unknown", counts[at])).filter(({ value: text, count }) => text || count);

function classSection(dataset, counts) {
  const all = counts.map((count, at) => value("class", String(at - 1), className(dataset, at - 1), count, at - 1));
  const there = all.filter(({ label, count, isOn }) => label >= 0 || count || isOn);
  return section("class", "Class", searchable("class", there, ["class", "classes"]));
}

function findingSection(dataset, counts) {
  const all = Object.entries(dataset.findings).map(([key, title], at) => {
    const one = value("finding", key, title, counts[at]);
    return { ...one, toggle: () => change(toggled(key)) };
  });
  const looking = dataset.looked === null ? null : progress(dataset, dataset.looked, "Looking for images that are blank, dark, bright or unreadable.");
  return all.length || looking ? section("finding", "Findings", [all.length ? options("finding", all) : null, looking]) : null;
}

/** Return what changes with a finding. Copies come group by group, unless the user has chosen an order. */
function toggled(key) {
  const rest = state.finding.filter((other) => other !== key);
  const finding = rest.length < state.finding.length ? rest : [...rest, key];
  const isGrouped = finding.some((one) => GROUPED.includes(one));
  if (isGrouped && !state.sort) return { finding, sort: "copies" };
  return !isGrouped && state.sort === "copies" ? { finding, sort: "" } : { finding };
}

function decisionSection(dataset, counts) {
  if (!dataset.corrections) return null;
  const all = Object.entries(KINDS).map(([key, title], at) => value("decision", key, title, counts[at]));
  // Until something is decided, "undecided" is all images.
  const there = all.filter(({ count, isOn, value: kind }) => isOn || (count && (kind !== "undecided" || all.some((one) => one.value !== kind && one.count))));
  const none = h("p", { class: "note" }, "None yet. Select images with their boxes, then flag, drop, relabel or move them.");
  return section("decision", "Decisions", [there.length ? options("decision", there) : none]);
}

const setColumn = (name, values) => change({ columns: withColumn(state.columns, name, values) });

function columnSection(dataset, name, column, counts) {
  const isActive = ["in", "from", "to", "has"].some((kind) => state.columns[`${kind}.${name}`]);
  const isOpen = isActive || Object.keys(dataset.columns).length <= MOST_OPEN_COLUMNS;
  return section(`column-${name}`, name, columnFilter(name, column, counts), isOpen);
}

function columnFilter(name, column, counts) {
  const key = `column-${name}`;
  if (column.values) {
    const chosenValues = state.columns[`in.${name}`] ?? [];
    const values = column.values.map((text, at) => {
      const rest = chosenValues.filter((other) => other !== text);
      const isOn = rest.length < chosenValues.length;
      return { value: text, name: text || "(empty)", count: counts[at], isOn, toggle: () => setColumn(`in.${name}`, isOn ? rest : [...chosenValues, text]) };
    });
    return searchable(key, values, ["value", "values"]);
  }
  if (column.range) {
    const now = { from: state.columns[`from.${name}`]?.[0], to: state.columns[`to.${name}`]?.[0] };
    const hints = { from: column.range[0], to: column.range[1] };
    return [bounds(key, name, now, hints, "", (bound, text) => setColumn(`${bound}.${name}`, text ? [text] : []))];
  }
  const onchange = (event) => setColumn(`has.${name}`, event.target.value ? [event.target.value] : []);
  const find = { id: key, type: "search", placeholder: "Contains", "aria-label": `${name} contains`, value: state.columns[`has.${name}`]?.[0] ?? "" };
  return [h("input", { ...find, onchange })];
}

/** Return the name and the bounds of a size group. */
function sizeRange(sizes, at) {
  const [least, most] = [at ? sizes[at - 1] + 1 : 1, sizes[at] ?? 0];
  return { least, most, name: most ? `${counted(least)} – ${counted(most)} px` : `${counted(least)} px or more` };
}

function sizeSection(dataset, counts) {
  const groups = counts.map((count, at) => ({ count, ...sizeRange(dataset.sizes, at) })).filter(({ count }) => count);
  const values = groups.map(({ count, least, most, name }) => {
    const isOn = state.min === least && state.max === most;
    return { value: least, name, count, isOn, toggle: () => change(isOn ? { min: 0, max: 0 } : { min: least, max: most }) };
  });
  const pixels = (text) => Math.max(0, Math.floor(Number(text))) || 0;
  const onBound = (bound, text) => change({ [{ from: "min", to: "max" }[bound]]: pixels(text) });
  const now = { from: state.min || "", to: state.max || "" };
  return section("size", "Longer side", [options("size", values), bounds("size", "Longer side", now, {}, "px", onBound)]);
}

const gathering = (dataset) =>
  progress(
    dataset,
    dataset.gathered,
    `This dataset has no samples.parquet, so all ${counted(dataset.records)} records are being read. Other filters, search and sorting work when this is done.`,
  );

function progress(dataset, done, text) {
  const bar = h("progress", { value: done / Math.max(dataset.records, 1), max: 1, "aria-label": "Records read" });
  return h("div", { class: "note gathering", role: "status" }, bar, text);
}

function about(dataset) {
  const copy = h("button", { class: "button", type: "button", onclick: () => copied(copy, dataset.load) }, "Copy");
  return h("div", { class: "about" }, h("h3", {}, "Load it"), h("code", { tabindex: "0" }, dataset.load), copy);
}

/** Copy text to the clipboard, and confirm it on the button. */
export async function copied(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function chosen(dataset) {
  const remove = (text, part) =>
    h(
      "button",
      { class: "chosen-one", type: "button", title: text.textContent ?? text, "aria-label": `Remove filter ${text.textContent ?? text}`, onclick: () => change(part) },
      h("span", { class: "cut" }, text),
      h("span", { "aria-hidden": "true" }, "×"),
    );
  const without = (facet, value) => ({ [facet]: state[facet].filter((other) => other !== value) });
  const all = state.view === "compare" ? [] : state.class.map((value) => remove(chip(dataset, Number(value)), without("class", value)));
  return [
    ...state.split.map((value) => remove(value, without("split", value))),
    ...all,
    ...state.format.map((value) => remove(value || "unknown", without("format", value))),
    ...state.finding.map((value) => remove(dataset.findings[value] ?? value, without("finding", value))),
    ...state.decision.map((value) => remove(KINDS[value] ?? value, without("decision", value))),
    ...Object.entries(state.columns).flatMap(([name, values]) => values.map((text) => remove(columnText(name, text), { columns: withColumn(state.columns, name, values.filter((other) => other !== text)) }))),
    ...(state.min || state.max ? [remove(sides(), { min: 0, max: 0 })] : []),
    ...(state.q ? [remove(`“${state.q}”`, { q: "" })] : []),
  ];
}

/** Return what a filter of a column asks for: `site: arm`, `age ≥ 18`. */
function columnText(parameter, text) {
  const [kind, name] = [parameter.slice(0, parameter.indexOf(".")), parameter.slice(parameter.indexOf(".") + 1)];
  return { in: `${name}: ${text || "(empty)"}`, from: `${name} ≥ ${text}`, to: `${name} ≤ ${text}`, has: `${name}: “${text}”` }[kind];
}

function sides() {
  if (!state.max) return `from ${counted(state.min)} px`;
  return state.min ? `${counted(state.min)} – ${counted(state.max)} px` : `up to ${counted(state.max)} px`;
}
