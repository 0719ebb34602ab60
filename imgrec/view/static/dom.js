// Create elements. Names from a dataset may be hostile, so they only ever become text.

/** Create an element. Strings among the children become text, never markup. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Format 1234567 as 1,234,567. */
export const counted = (number) => number.toLocaleString("en-US");

/** Return a count with its noun. */
export const number = (count, one, many = `${one}s`) => `${counted(count)} ${count === 1 ? one : many}`;

/** Return a number of bytes with a unit. */
export function bytes(count) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (count < 1024) return `${unit === "B" ? count : count.toFixed(1)} ${unit}`;
    count /= 1024;
  }
  return `${count.toFixed(1)} GiB`;
}

/** Return the hue of a class. The golden angle makes neighbours differ. */
export const hueOf = (label) => (label < 0 ? 0 : (label * 137.508 + 215) % 360);

/** Return the last part of a path. */
export const lastPart = (path) => path.slice(path.lastIndexOf("/") + 1);

/** Return the name of a class. Images without a label have class -1. */
export const className = (dataset, label) => (label < 0 ? "no label" : dataset.classes[label] ?? `class ${label}`);

/** Return a dot in the colour of a class, and its name. */
export function chip(dataset, label) {
  const name = className(dataset, label);
  const dot = h("span", { class: label < 0 ? "dot none" : "dot", "--hue": hueOf(label), "aria-hidden": "true" });
  return h("span", { class: "chip", title: name }, dot, h("span", { class: "cut" }, name));
}
