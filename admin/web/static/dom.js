// Building and updating elements. All text enters the page as text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || (value === false && !name.startsWith("aria-"))) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? (name.startsWith("aria-") ? "true" : "") : value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

// el makes an HTML element, svg one of a drawing. An attribute "onclick" adds a listener; "text" sets the text.
export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// byID returns an element that must exist.
export function byID(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error("no element " + id);
  return element;
}

// text sets the text of an element if it differs, so that selections and screen readers are left alone.
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

// prose sets a text whose flags, such as --host-delay, and percentages do not break across lines.
export function prose(element, value) {
  if (element.textContent === value) return;
  element.replaceChildren(
    ...value.split(/(--[\w-]+|\d+ %)/).map((part, i) => (i % 2 ? el("span", { class: "flag", text: part }) : part)),
  );
}

// attr sets or removes an attribute if it differs.
export function attr(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// sync makes the children of parent agree with items, keeps the elements of keys that stay, and orders them.
// create(item) makes an element; update(element, item, index) fills it.
export function sync(parent, items, key, create, update) {
  const have = new Map();
  for (const child of parent.children) have.set(child.dataset.key, child);
  let at = parent.firstElementChild;
  items.forEach((item, index) => {
    const k = String(key(item, index));
    let child = have.get(k);
    if (child) have.delete(k);
    else {
      child = create(item, index);
      child.dataset.key = k;
    }
    if (update) update(child, item, index);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  });
  for (const child of have.values()) child.remove();
  while (at) {
    const next = at.nextElementSibling;
    if (!items.length || have.has(at.dataset.key) || !at.dataset.key) at.remove();
    at = next;
  }
}

// size sets a length in a style property, from 0 to 1 of the parent.
export const size = (element, property, share) => {
  const value = (Math.max(0, Math.min(1, share || 0)) * 100).toFixed(2) + "%";
  if (element.style[property] !== value) element.style[property] = value;
};

// tip makes a word with an explanation: shown on hover, focus and touch.
export const tip = (word, explanation) =>
  explanation
    ? el("button", { type: "button", class: "term", "data-tip": explanation, text: word })
    : el("span", { text: word });

// Samples is a list of at most limit values, oldest first.
export class Samples {
  constructor(limit) {
    this.limit = limit;
    this.list = [];
  }

  push(value) {
    this.list.push(value);
    if (this.list.length > this.limit) this.list.splice(0, this.list.length - this.limit);
  }

  get last() {
    return this.list[this.list.length - 1];
  }
}
