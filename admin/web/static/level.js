// The condition of a crawl or a cluster as icon, colour and banner.

import { attr, prose, svg, text } from "./dom.js";

const SHAPES = {
  ok: "M5 12.5l4.5 4.5L19 7.5",
  warn: "M12 5v9M12 19v.01",
  bad: "M7 7l10 10M17 7L7 17",
  off: "M6 12h12",
};
export const LEVELS = { ok: "Healthy", warn: "Warning", bad: "In trouble", off: "Unknown" };
// The states of package state/condition.
export const STATES = {
  working: "Working",
  waiting: "Waiting by choice",
  slow: "Slow by a fault",
  "standing-still": "Standing still",
  complete: "Complete",
  ended: "Ended",
  failed: "Failed",
};

// levelOf returns a known level.
export const levelOf = (level) => (SHAPES[level] ? level : "off");

// icon draws a level.
export const icon = (level) =>
  svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: SHAPES[levelOf(level)] }));

// split cuts a text after its first sentence, after the second one if the first says little.
export function split(words) {
  const after = (from) => words.slice(from).search(/\. (?=\p{Lu})/u) + from;
  let end = after(0);
  if (end >= 0 && end < 26) end = after(end + 1) > end ? after(end + 1) : -1;
  return end < 0 ? [words, ""] : [words.slice(0, end + 1), words.slice(end + 2)];
}

// Banner shows a condition: its first sentence large, the rest and more words below. Its height is fixed, so a
// longer sentence moves nothing; what does not fit is in the list of problems and in the tooltip.
export class Banner {
  constructor(card) {
    this.card = card;
    this.disc = card.querySelector(".level-icon");
    [this.head, this.more] = card.querySelectorAll(".health-words p");
  }

  show(level, words, more) {
    const known = levelOf(level);
    if (this.card.dataset.level !== known || !this.disc.firstChild) {
      attr(this.card, "data-level", known);
      this.disc.replaceChildren(icon(known));
    }
    const [head, rest] = split(words);
    prose(this.head, head);
    attr(this.head, "title", words);
    const second = [rest.replace(/\.$/, ""), ...more].filter(Boolean).join(" · ");
    if (second) prose(this.more, second);
    else text(this.more, "\u00a0");
    attr(this.more, "title", second);
  }
}
