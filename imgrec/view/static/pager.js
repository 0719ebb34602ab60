// Navigation between pages: previous, next, first, last, or by number.

import { counted, h } from "./dom.js";

export function showPager(nav, { start, total, size, onStart }) {
  const pages = Math.max(1, Math.ceil(total / size));
  const page = Math.floor(start / size) + 1;
  const go = (to) => onStart((Math.min(Math.max(to, 1), pages) - 1) * size);
  const step = (to, sign, label, isOff) =>
    h("button", { class: "button", type: "button", "aria-label": label, title: label, disabled: isOff, onclick: () => go(to) }, sign);
  const input = h("input", {
    type: "text",
    inputmode: "numeric",
    "aria-label": "Page",
    value: counted(page),
    "--digits": String(counted(pages)).length,
    onfocus: (event) => event.target.select(),
    onchange: (event) => {
      const wanted = Number(event.target.value.replace(/\D/g, ""));
      if (wanted) go(wanted);
      else event.target.value = counted(page);
    },
  });
  nav.hidden = pages === 1;
  nav.replaceChildren(
    step(1, "«", "First page", page <= 1),
    step(page - 1, "‹", "Previous page", page <= 1),
    h("span", { class: "where" }, input, h("span", { class: "quiet" }, `of ${counted(pages)}`)),
    step(page + 1, "›", "Next page", page >= pages),
    step(pages, "»", "Last page", page >= pages),
  );
}
