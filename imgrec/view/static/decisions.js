// What is decided about an image, in words and badges.

import { className, h } from "./dom.js";

/** The filter of decisions, in the order of the server's counts. */
export const KINDS = { decided: "Decided", flagged: "Flagged", dropped: "To drop", relabelled: "Relabelled", moved: "To move", undecided: "Undecided" };

export const ACTIONS = [
  { action: "flag", name: "Flag", key: "f", title: "Look at it again later" },
  { action: "drop", name: "Drop", key: "d", title: "Leave it out of the next version" },
  { action: "relabel", name: "Relabel…", key: "l", title: "Choose another class" },
  { action: "move", name: "Move…", key: "m", title: "Choose another split" },
  { action: "reset", name: "Reset", key: "0", title: "Forget what is decided about it" },
];

/** Return the actions that a dataset allows. */
export const actionsOf = (dataset) =>
  ACTIONS.filter(({ action }) => (action !== "relabel" || dataset.classes.length > 0) && (action !== "move" || dataset.splits.length > 1));

/** Return a badge for each part of a decision. */
export function badges(dataset, decision) {
  if (!decision) return [];
  const badge = (kind, text) => h("span", { class: `badge ${kind}`, title: text }, text);
  const labels = decision.labels.map((label) => className(dataset, label)).join(", ");
  return [
    decision.is_flagged ? badge("flag", "Flag") : null,
    decision.is_dropped ? badge("drop", "Drop") : null,
    labels ? badge("relabel", `→ ${labels}`) : null,
    decision.split >= 0 ? badge("move", `→ ${dataset.splits[decision.split]}`) : null,
  ].filter(Boolean);
}
