// Search of titles and headings, and buttons that copy commands. "pages" comes from layouts/_partials/search.html. Nothing else needs
// scripts.
"use strict";

const root = new URL(document.querySelector(".home").href.replace(/index\.html$/, ""));
const box = document.querySelector("search");
const input = box.querySelector("input");
const list = box.querySelector("ol");
const mostHits = 20; // more than anybody reads

const fold = (text) => text.toLowerCase().normalize("NFKD");
const entries = pages.flatMap((p) => [
  { url: p.url, text: p.title, page: "" },
  ...p.headings.map((h) => ({ url: p.url + "#" + h.id, text: h.text, page: p.title })),
]).map((e) => ({ ...e, folded: fold(e.text), all: fold(e.text + " " + e.page) }));

// Each word must be in a title or in a heading with its title. Titles come first, and among them what begins with the first word.
function hits(query) {
  const words = fold(query).split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const rank = (e) => (e.page ? 2 : 0) + (e.folded.startsWith(words[0]) ? 0 : 1);
  return entries.filter((e) => words.every((w) => e.all.includes(w)) && e.folded.includes(words[words.length - 1]))
    .sort((a, b) => rank(a) - rank(b)).slice(0, mostHits);
}

function show() {
  const found = hits(input.value);
  list.replaceChildren(...found.map((e) => {
    const link = document.createElement("a");
    link.href = new URL(e.url, root);
    link.textContent = e.text + " ";
    if (e.page) link.appendChild(document.createElement("small")).textContent = e.page;
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
  if (!found.length && input.value.trim()) list.appendChild(document.createElement("li")).textContent = "No title has these words.";
  list.hidden = !input.value.trim();
}

input.addEventListener("input", show);
input.addEventListener("focus", show);
box.addEventListener("keydown", (event) => {
  const links = [input, ...list.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && links[at + step]) {
    links[at + step].focus();
    event.preventDefault();
  } else if (event.key === "Enter" && at === 0 && links[1]) {
    links[1].click();
  } else if (event.key === "Escape") {
    input.value = "";
    input.blur();
    list.hidden = true;
  }
});
document.addEventListener("click", (event) => {
  if (!box.contains(event.target)) list.hidden = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement === document.body) {
    input.focus();
    event.preventDefault();
  }
});
box.hidden = false;

if (navigator.clipboard) {
  for (const block of document.querySelectorAll("pre")) {
    const button = document.createElement("button");
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      button.textContent = "Copied";
    });
    block.append(button);
  }
}
