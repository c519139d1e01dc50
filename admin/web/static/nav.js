// The tabs of the sections: jumps that land, the tab of the section on the screen, and sections that fold on a phone.

import { attr, byID, el } from "./dom.js";

const LINE = 0.35; // of the height below the header: the section at this line is the current one
const SETTLE = 1500; // ms after a jump in which the page may still change its height
const OPEN = ["overview", "trends"]; // sections that are unfolded on a phone

export const tabs = [...document.querySelectorAll('.sections a[href^="#"]')];
const bar = document.querySelector(".sections");
const sectionOf = (tab) => document.querySelector(tab.hash);
const top = () => Math.max(0, document.querySelector(".top").getBoundingClientRect().bottom);

// jumped is the section of the last jump, until the reader scrolls.
let jumped = null;

function align() {
  const gap = jumped.getBoundingClientRect().top - top() - 12;
  if (Math.abs(gap) > 1) scrollBy({ top: gap, behavior: "instant" });
}

// jump shows a section at once and keeps it in place while panels above it fill.
function jump(section) {
  fold(section, false);
  jumped = section;
  section.focus({ preventScroll: true });
  align();
  const watch = new ResizeObserver(() => jumped === section && align());
  watch.observe(byID("main"));
  setTimeout(() => watch.disconnect(), SETTLE);
  mark();
}

// mark marks the tab of the section on the screen.
function mark() {
  const head = top();
  const line = head + (innerHeight - head) * LINE;
  const end = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
  let now = tabs[0];
  for (const tab of tabs) if (sectionOf(tab).getBoundingClientRect().top <= line) now = tab;
  if (end) now = tabs[tabs.length - 1];
  if (jumped) now = tabs.find((tab) => sectionOf(tab) === jumped) || now;
  if (now.hasAttribute("aria-current")) return;
  for (const tab of tabs) attr(tab, "aria-current", tab === now ? "true" : null);
  const [a, b] = [now.getBoundingClientRect(), bar.getBoundingClientRect()];
  if (a.left < b.left || a.right > b.right) bar.scrollLeft += a.left - b.left - 40;
}

// more marks the edges of the bar behind which there are more tabs.
export function more() {
  attr(bar, "data-before", bar.scrollLeft > 4 ? "" : null);
  attr(bar, "data-after", bar.scrollLeft + bar.clientWidth < bar.scrollWidth - 4 ? "" : null);
}

function fold(section, on) {
  attr(section, "data-folded", on ? "" : null);
  attr(section.querySelector(".fold"), "aria-expanded", String(!on));
}

// startFolds puts a button into the head of each section, which only a phone shows.
function startFolds() {
  for (const tab of tabs) {
    const section = sectionOf(tab);
    const title = section.querySelector("h2");
    const button = el("button", {
      type: "button",
      class: "fold",
      "aria-label": title.textContent + ": show or hide",
      onclick: () => fold(section, !("folded" in section.dataset)),
    });
    title.after(button);
    fold(section, !OPEN.includes(section.id));
  }
}

export function startNav() {
  startFolds();
  for (const tab of tabs)
    tab.addEventListener("click", (e) => {
      if (e.ctrlKey || e.metaKey || e.shiftKey) return;
      e.preventDefault();
      history.pushState(null, "", tab.hash);
      jump(sectionOf(tab));
    });
  addEventListener("popstate", () => {
    const tab = tabs.find((t) => t.hash === (location.hash || "#overview"));
    if (tab) jump(sectionOf(tab));
  });
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"])
    addEventListener(kind, (e) => e.target.closest?.(".sections") || (jumped = null), { passive: true });
  addEventListener("scroll", mark, { passive: true });
  bar.addEventListener("scroll", more, { passive: true });
  new ResizeObserver(more).observe(bar);
  const tab = location.hash && tabs.find((t) => t.hash === location.hash);
  if (tab) jump(sectionOf(tab));
  else mark();
}
