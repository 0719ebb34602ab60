"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);

  // Show tiny images with sharp pixels instead of blurring them.
  for (const image of all("img")) {
    if (Math.max(image.getAttribute("width"), image.getAttribute("height")) < 65) image.classList.add("coarse");
  }

  // The strip at the top: one image of each class in turn, reusing data of the page.
  const strip = one(".strip");
  const classes = all("#classes-shown [data-class]").map((part) => all("img", part)).filter((some) => some.length);
  const deepest = Math.max(0, ...classes.map((some) => some.length));
  const inTurn = Array.from({ length: deepest }, (_, depth) => classes.map((some) => some[depth])).flat().filter(Boolean);
  if (strip && inTurn.length > 5) {
    const step = classes.length > 12 ? classes.length / 12 : 1;
    for (let at = 0; at < Math.min(12, inTurn.length); at += 1) {
      const copy = inTurn[Math.floor(at * step)].cloneNode();
      copy.alt = "";
      copy.loading = "eager";
      strip.append(copy);
    }
  }

  // The first entries of a long list are shown, or all of them.
  for (const button of all("button[data-expands]")) {
    const list = document.getElementById(button.dataset.expands);
    const more = button.textContent;
    button.addEventListener("click", () => {
      const isShort = list.classList.toggle("short");
      button.textContent = isShort ? more : "Show fewer";
      button.setAttribute("aria-expanded", !isShort);
      if (isShort) button.scrollIntoView({ block: "center" });
    });
  }

  // Filters hide classes without the text, and show how many are left.
  for (const input of all("input[data-filters]")) {
    const status = document.getElementById(input.getAttribute("aria-describedby"));
    const rows = all(input.dataset.filters);
    const button = one("button[data-expands]", input.closest("section"));
    const list = button && document.getElementById(button.dataset.expands);
    input.addEventListener("input", () => {
      const text = input.value.trim().toLowerCase();
      if (button) {
        button.hidden = text !== "";
        list.classList.toggle("short", !text && button.getAttribute("aria-expanded") === "false");
      }
      let left = 0;
      for (const row of rows) {
        row.hidden = !row.dataset.class.toLowerCase().includes(text);
        left += !row.hidden;
      }
      status.textContent = text ? `${left} of ${rows.length}` : "";
    });
  }

  const orders = {
    label: (a, b) => a.dataset.label - b.dataset.label,
    most: (a, b) => b.dataset.total - a.dataset.total || a.dataset.label - b.dataset.label,
    fewest: (a, b) => a.dataset.total - b.dataset.total || a.dataset.label - b.dataset.label,
    name: (a, b) => a.dataset.class.localeCompare(b.dataset.class),
  };
  one("#sort")?.addEventListener("change", (event) => {
    const body = one("#balance-rows");
    body.append(...all("tr", body).sort(orders[event.target.value]));
  });

  // The enlarged view. Arrow keys go through all visible images.
  const dialog = one("dialog");
  let current = null;
  const visible = () => all("button.shot").filter((button) => button.offsetParent !== null);
  const show = (button) => {
    current = button;
    const image = one("img", button);
    const large = one("img", dialog);
    large.src = image.src;
    large.alt = image.alt;
    large.classList.toggle("coarse", image.classList.contains("coarse"));
    one("h2", dialog).textContent = button.dataset.name;
    const facts = one("dl", dialog);
    facts.replaceChildren();
    for (const [key, title] of [["label", "Class"], ["split", "Split"], ["shape", "Size"], ["format", "Format"], ["bytes", "Record"], ["reason", "Note"]]) {
      if (!button.dataset[key]) continue;
      const term = document.createElement("dt");
      const value = document.createElement("dd");
      term.textContent = title;
      value.textContent = button.dataset[key];
      facts.append(term, value);
    }
  };
  const step = (by) => {
    const buttons = visible();
    const next = buttons[(buttons.indexOf(current) + by + buttons.length) % buttons.length];
    if (next) show(next);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.shot");
    if (button) {
      show(button);
      dialog.showModal();
    }
  });
  if (dialog) {
    one(".before", dialog).addEventListener("click", () => step(-1));
    one(".after", dialog).addEventListener("click", () => step(1));
    one(".close", dialog).addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => current?.focus());
    dialog.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) step(by);
    });
  }

  for (const button of all("button.copy")) {
    button.addEventListener("click", async () => {
      const code = one("code", button.closest(".snippet"));
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
