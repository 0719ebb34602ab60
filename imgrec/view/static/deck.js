// The bar of actions below the images: decide about what is selected, undo, and apply.

import { decide, getDataset } from "./api.js";
import { ACTIONS, actionsOf, KINDS } from "./decisions.js";
import { byId, counted, h, number } from "./dom.js";
import { copied } from "./filters.js";
import { pick } from "./picker.js";
import * as selection from "./selection.js";
import { change } from "./state.js";

const MOST_RECENT = 5;
let recent = []; // the labels chosen last
let host; // { dataset, target, rowOf, refresh }
let last = Promise.resolve();

/**
 * Set up the bar. `target()` returns the number of the record that has the attention, or null;
 * `rowOf(number)` what is known of it; `refresh()` shows what is decided now.
 */
export function setUpDeck(made) {
  host = made;
  const { dataset } = host;
  if (!dataset.corrections) return;
  byId("acts").replaceChildren(...actionButtons(dataset));
  byId("command").textContent = dataset.edit;
  byId("corrections").textContent = dataset.corrections;
  byId("select-all").hidden = false;
  document.body.classList.add("decidable");
}

/** Return a button for each action; given the decision about one image, show what is on. */
export const actionButtons = (dataset, decision) =>
  actionsOf(dataset).map(({ action, name, key, title }) => {
    const isOn = { flag: decision?.is_flagged, drop: decision?.is_dropped }[action];
    return h("button", { class: `button act ${action}`, type: "button", title, "data-action": action, "aria-pressed": isOn === undefined ? null : String(isOn), "aria-keyshortcuts": key, onclick: () => act(action) }, name, h("kbd", { "aria-hidden": "true" }, key));
  });

/** Show the numbers of decisions, and what can be undone. */
export function showDeck(page) {
  if (!page.decisions) return;
  const { decided, flagged, ...kinds } = page.decisions;
  const texts = [decided || !flagged ? number(decided, "decision") : "", flagged ? number(flagged, "flag") : ""].filter(Boolean);
  byId("open-decisions").firstChild.textContent = texts.join(", ");
  for (const [id, verb, what] of [["undo", "Undo", page.undo], ["redo", "Redo", page.redo]]) {
    byId(id).disabled = !what;
    byId(id).title = what ? `${verb}: ${what}` : `Nothing to ${id}`;
  }
  byId("tally").replaceChildren(...Object.entries({ ...kinds, flagged }).filter(([kind, count]) => count && kind !== "undecided").map(tally));
  byId("apply").hidden = !decided;
  byId("none-yet").hidden = Boolean(decided || flagged);
  byId("deck").dataset.isUsed = Boolean(decided || flagged || page.undo || page.redo);
  showSelection();
}

function tally([kind, count]) {
  const show = () => {
    byId("decisions").close();
    change({ view: "grid", decision: [kind] });
  };
  return h("li", {}, h("button", { class: "button", type: "button", onclick: show }, `${counted(count)} ${KINDS[kind].toLowerCase()}`));
}

function showSelection() {
  const count = selection.count();
  byId("picked").hidden = byId("acts").hidden = !count;
  byId("picked-count").textContent = `${counted(count)} selected`;
  document.body.classList.toggle("picking", count > 0);
  byId("deck").hidden = !host?.dataset.corrections || (!count && byId("deck").dataset.isUsed !== "true");
}

/** Show what was done, or why it was not, where the user looks. */
export function say(text, isBad = false) {
  for (const place of document.querySelectorAll(".done")) {
    place.textContent = text;
    place.classList.toggle("bad", isBad);
  }
  if (isBad) byId("deck").hidden = false;
}

/** Do an action to what has the attention: the open record, what is selected, or the focused image. */
export async function act(action) {
  const { dataset } = host;
  if (!dataset.corrections) return;
  const isStep = action === "undo" || action === "redo";
  const isSelection = !byId("record").open && selection.count() > 0;
  const record = isStep || isSelection ? null : host.target();
  if (!isStep && !isSelection && record === null) return say("Select an image first.", true);
  const order = isStep ? {} : isSelection ? selection.chosen() : { numbers: [record] };
  const more = await details(action, isSelection ? selection.count() : 1, record);
  if (more === null) return;
  // One after the other, in the order of the keys.
  last = last.then(() => send({ action, ...order, ...more }, isSelection));
  await last;
}

async function send(order, isSelection) {
  try {
    const done = await decide(order);
    if (isSelection) selection.clear();
    if (order.new_class) {
      Object.assign(host.dataset, await getDataset());
      byId("command").textContent = host.dataset.edit;
    }
    await host.refresh();
    say(done);
  } catch (error) {
    say(error instanceof TypeError ? "imgrec view has stopped, so this is not saved." : error.message, true);
  }
}

/** Ask for what an action needs; null if the user chose nothing. */
async function details(action, count, record) {
  const { dataset } = host;
  if (!actionsOf(dataset).some((one) => one.action === action)) return action === "undo" || action === "redo" ? {} : null;
  if (action === "move") {
    const places = await pick({ title: `Move ${number(count, "image")} to`, names: dataset.splits });
    return places && { split: places[0] };
  }
  if (action !== "relabel") return {};
  const row = record === null ? null : host.rowOf(record);
  const chosen = dataset.is_multilabel && row ? (row.decision?.labels.length ? row.decision.labels : row.labels) : [];
  const labels = await pick({ title: `Relabel ${number(count, "image")} as`, names: dataset.classes, first: recent, chosen, isMany: dataset.is_multilabel, hasDots: true, canAdd: true });
  if (!labels) return null;
  const known = labels.filter((label) => typeof label === "number");
  const [added] = labels.filter((label) => typeof label === "string");
  recent = [...known, ...recent.filter((label) => !known.includes(label))].slice(0, MOST_RECENT);
  return added ? { labels: known, new_class: added } : { labels: known };
}

/** Handle a key; return whether it had a meaning. */
export function pressInDeck(key) {
  const keys = { ...Object.fromEntries(ACTIONS.map((one) => [one.key, one.action])), Delete: "drop", u: "undo", U: "redo" };
  if (!host.dataset.corrections || !keys[key]) return false;
  act(keys[key]);
  return true;
}

selection.onSelect(showSelection);
byId("unpick").addEventListener("click", selection.clear);
byId("undo").addEventListener("click", () => act("undo"));
byId("redo").addEventListener("click", () => act("redo"));
byId("open-decisions").addEventListener("click", () => byId("decisions").showModal());
byId("copy-command").addEventListener("click", (event) => copied(event.target, host.dataset.edit));
