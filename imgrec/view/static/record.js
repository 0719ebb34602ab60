// One record in full: its image, facts and raw features.

import { getRecord, imageAddress } from "./api.js";
import { byId, bytes, chip, counted, h, lastPart } from "./dom.js";
import { actionButtons } from "./deck.js";
import { badges } from "./decisions.js";
import { copied } from "./filters.js";
import { change, state } from "./state.js";
import { togetherWith } from "./together.js";

const TINY = 256;
let shown = null;
let waiting = []; // steps requested while a record was loading
let abort = new AbortController();

export const isBusy = () => shown?.number !== state.record;
export const isOpen = () => byId("record").open;

/** Show the record of the state, or close the dialog. */
export async function showRecord(dataset) {
  const dialog = byId("record");
  if (state.record === null) {
    shown = null;
    waiting = [];
    if (dialog.open) dialog.close();
    return;
  }
  abort.abort();
  abort = new AbortController();
  const filters = state.of === null ? state : { ...state, class: [String(state.of)] };
  const record = await getRecord(filters, state.record, abort.signal).catch((error) => {
    if (error.name === "AbortError") return null;
    return { number: state.record, error: error.message };
  });
  if (!record || state.record !== record.number) return;
  shown = record;
  const focused = dialog.contains(document.activeElement) ? document.activeElement.ariaLabel : "";
  dialog.replaceChildren(...parts(dataset, record));
  if (!dialog.open) dialog.showModal();
  const again = [...dialog.querySelectorAll("button")].find((button) => focused && button.ariaLabel === focused && !button.disabled);
  (again ?? dialog.querySelector(".round")).focus();
  if (waiting.length) step(waiting.shift());
}

/** Go to the previous or next record; return whether there is one. */
export function step(direction) {
  if (isBusy()) {
    waiting.push(direction);
    return true;
  }
  const to = direction < 0 ? shown?.previous : shown?.next;
  if (to === undefined) return false;
  const at = shown.at + direction;
  change({ record: to, ...(state.view === "grid" ? { start: at - (at % 100) } : {}) }, { replace: true });
  return true;
}

/** Return what is known of the record that is open, or null. */
export const shownRow = () => (isOpen() ? shown : null);

/** Show what is decided about the open record now. It keeps its neighbours, even if no filter matches it any more. */
export async function refreshRecord(dataset) {
  if (!isOpen() || !shown) return;
  const { number } = shown;
  const { decision, together } = await getRecord(state, number);
  if (shown?.number !== number) return;
  Object.assign(shown, { decision, together });
  byId("record").querySelector(".together-with").replaceChildren(...togetherWith(dataset, shown, abort.signal));
  const old = byId("record").querySelector(".decide");
  const focused = old.contains(document.activeElement) ? document.activeElement.dataset.action : "";
  const made = deciding(dataset, decision);
  old.replaceWith(made);
  made.querySelector(`[data-action="${focused}"]`)?.focus();
}

const deciding = (dataset, decision) =>
  h("div", { class: "decide" }, h("p", { class: "badges" }, ...badges(dataset, decision)), h("div", { class: "acts", role: "group", "aria-label": "Decide" }, ...actionButtons(dataset, decision ?? { is_flagged: false, is_dropped: false })), h("p", { class: "done", role: "status" }));

export const close = () => change({ record: null, of: null }, { replace: true });

function parts(dataset, record) {
  const name = record.filename || `record ${record.number}`;
  const goes = (direction, sign, label) =>
    h(
      "button",
      { class: "button", type: "button", "aria-label": label, title: label, disabled: (direction < 0 ? record.previous : record.next) === undefined, onclick: () => step(direction) },
      sign,
    );
  const where = record.at === undefined ? "" : `${counted(record.at + 1)} of ${counted(record.total)}`;
  return [
    h(
      "div",
      { class: "record-bar" },
      goes(-1, "‹", "Previous record"),
      goes(1, "›", "Next record"),
      h("span", { class: "quiet", role: "status" }, where),
      h("button", { class: "button round", type: "button", "aria-label": "Close", title: "Close", onclick: close }, "×"),
    ),
    h("div", { class: "record-body" }, stage(record, name), h("div", { class: "facts" }, ...facts(dataset, record, name))),
  ];
}

function stage(record, name) {
  const box = h("div", { class: "stage" });
  if (record.error) {
    box.append(h("p", { class: "fault" }, h("strong", {}, "This record is damaged"), record.error, record.hint ? h("em", {}, record.hint) : null));
    return box;
  }
  const image = h("img", {
    alt: name,
    "data-tiny": Math.max(record.width, record.height) <= TINY,
    onerror: async () => {
      const answer = await fetch(imageAddress(record.number)).catch(() => null);
      const why = answer && !answer.ok ? (await answer.json()).error : "The browser cannot decode it.";
      box.replaceChildren(h("p", { class: "fault" }, h("strong", {}, "Cannot show this image"), why));
    },
    onclick: () => box.classList.toggle("actual"),
    title: "Click to switch between full size and fit",
  });
  image.src = imageAddress(record.number);
  box.append(image);
  return box;
}

function facts(dataset, record, name) {
  const rows = [
    ["Findings", (record.findings ?? []).join(", ")],
    ["File", record.filename ?? ""],
    ["Split", `${record.split}, record ${counted(record.split_place ?? 0)}`],
    ["Label", (record.labels ?? []).join(", ") || "none"],
    ["Size", record.width ? `${counted(record.width)} × ${counted(record.height)} pixels, ${channels(record.channels)}` : ""],
    ["Image", record.bytes ? `${record.format || "unknown"}, ${bytes(record.bytes)}` : ""],
    ["Shard", record.shard ? `${record.shard}, record ${counted(record.place)}` : ""],
  ].filter(([, value]) => value);
  const labels = record.labels?.length ? record.labels : [-1];
  const line = `imgrec.open_dataset(${JSON.stringify(dataset.path)})[${JSON.stringify(record.split ?? "")}][${record.split_place}]`;
  const copy = h("button", { class: "button", type: "button", onclick: () => copied(copy, line) }, "Copy");
  return [
    h("h2", { id: "record-name", title: name }, lastPart(name)),
    record.error ? null : h("p", { class: "chips" }, ...labels.map((label) => chip(dataset, label))),
    dataset.corrections ? deciding(dataset, record.decision) : null,
    h("div", { class: "together-with" }, ...togetherWith(dataset, record, abort.signal)),
    h("table", {}, h("tbody", {}, ...rows.map(([title, value]) => h("tr", {}, h("th", { scope: "row" }, title), h("td", {}, value))))),
    record.features ? h("h3", {}, "Raw features") : null,
    record.features ? features(record.features) : null,
    record.split ? h("h3", {}, "In Python") : null,
    record.split ? h("div", { class: "about" }, h("code", {}, line), copy) : null,
  ].filter(Boolean);
}

const channels = (count) => ({ 1: "grey", 2: "grey and alpha", 3: "RGB", 4: "RGB and alpha" })[count] ?? `${count} channels`;

function features(listed) {
  const row = ({ name, kind, count, bytes: size, text }) => {
    const type = `${kind}${count === 1 ? "" : ` × ${counted(count)}`}${kind === "bytes" ? `, ${bytes(size)}` : ""}`;
    return h("tr", {}, h("th", { scope: "row" }, name, h("span", { class: "quiet" }, type)), h("td", {}, h("code", {}, text)));
  };
  return h("table", { class: "features" }, h("tbody", {}, ...listed.map(row)));
}

byId("record").addEventListener("cancel", (event) => {
  event.preventDefault();
  close();
});
byId("record").addEventListener("click", (event) => {
  if (event.target === byId("record")) close(); // a click on the backdrop
});
