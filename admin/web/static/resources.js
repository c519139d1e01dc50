// Checkpoints, RAM and disk against their limits, and the log.

import { attr, byID, el, size, sync, text, tip } from "./dom.js";
import { bytes, clock, count, duration, instant, NONE, percent, utc, wholeSeconds } from "./format.js";
import { backupAge, warned } from "./overview.js";
import { facts } from "./structures.js";
import { TERMS } from "./words.js";

const LINES = 500; // of the log

// NAMES are the parts of RAM and disk that do not explain themselves.
const NAMES = {
  polite: ["hosts and addresses", "URLs in RAM, by host and by address, and their delays."],
  heap: ["rest of the process", "Connections, parsers and everything else."],
  bodies: ["bodies of pages", "Responses being read, parsed and stored."],
  caches: ["caches of URLs and names"],
  queues: ["queues"],
  "url-cache": ["cache of URLs", "URLs found lately, so that most links need no lookup on disk."],
  "edge-cache": ["cache of domain links"],
  content: ["contents seen"],
  walk: ["random walk"],
  urlseen: ["URLseen"],
  pldindegree: ["in-degrees of domains"],
  "pldindegree-edges": ["links between domains"],
  robotscache: ["RobotsCache"],
  robotsrequested: ["RobotsRequested"],
  names: ["names of hosts and domains"],
};

function parts(id, list, total) {
  const sorted = (list || []).filter((p) => p.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  const high = Math.max(1, ...sorted.map((p) => p.bytes));
  sync(
    byID(id),
    sorted,
    (p) => p.name,
    (p) =>
      el(
        "li",
        {},
        tip(NAMES[p.name]?.[0] || p.name.replaceAll("-", " "), NAMES[p.name]?.[1]),
        el("span", { class: "track" }, el("i")),
        el("b", { class: "n" }),
        el("span", { class: "n muted" }),
      ),
    (item, p) => {
      size(item.children[1].firstChild, "width", p.bytes / high);
      text(item.children[2], bytes(p.bytes));
      text(item.children[3], total ? percent(p.bytes / total) : "");
    },
  );
}

// meter fills a bar of use and limit.
function meter(id, share, warn, bad) {
  const box = byID(id);
  if (!box.firstChild) box.append(el("i"));
  size(box.firstChild, "width", share);
  attr(box, "data-level", share >= bad ? "bad" : share >= warn ? "warn" : null);
}

function showCheckpoint(s, now) {
  const c = s.checkpoint || {};
  const b = s.backup;
  const t = instant(c.time);
  const age = t ? Math.round((now - t) / 1000) : 0;
  text(byID("cp-lead"), t ? (age > 0 ? wholeSeconds(age) + " ago" : "just now") : "None yet");
  attr(byID("cp-lead"), "title", t ? utc(t) : null);
  facts(byID("cp-facts"), [
    ["Number", count(c.number), TERMS.checkpoint],
    ["Time", t ? clock(t) : NONE, null, t ? utc(t) : null],
    ["Took", t ? duration(c.total) : NONE],
    ["Written", t ? bytes(c.bytes) : NONE],
    ["Pause", t ? duration(c.pause) : NONE, TERMS.pause],
    ["Stall", t ? duration(c.stall) : NONE, TERMS.stall],
    ["Longest pause", t ? duration(c.longestPause) : NONE, TERMS.pause],
    ["Longest stall", t ? duration(c.longestStall) : NONE, TERMS.stall],
    ...(b
      ? [
          ["Backup", backupAge(s), TERMS.backup, b.number > 0 ? utc(instant(b.time)) : null],
          ["Backup in", b.place],
        ]
      : []),
  ]);
}

export function showResources(s) {
  const now = instant(s.time) || new Date();
  showCheckpoint(s, now);
  const { ram = {}, disk = {} } = s;
  text(
    byID("ram-lead"),
    bytes(ram.used) + (ram.limit ? " of " + bytes(ram.limit) + " (" + percent(ram.used / ram.limit) + ")" : ""),
  );
  meter("ram-bar", ram.limit ? ram.used / ram.limit : 0, 1, 1.1);
  parts("ram-parts", ram.parts, ram.limit);
  text(
    byID("disk-lead"),
    bytes(disk.used) +
      (disk.limit ? " of " + bytes(disk.limit) + " (" + percent(disk.used / disk.limit) + ")" : " used, no limit"),
  );
  byID("disk-bar").hidden = !disk.limit;
  meter("disk-bar", disk.limit ? disk.used / disk.limit : 0, 0.9, 0.97);
  parts("disk-parts", disk.parts, disk.used);
  sync(
    byID("disk-dirs"),
    disk.dirs || [],
    (d) => d.path,
    (d) =>
      el(
        "li",
        {},
        el("div", { class: "head" }, el("span", { class: "mono", text: d.path }), el("b")),
        el("div", { class: "progress" }, el("i")),
        el("p", { class: "sub" }, el("span"), tip("keep free", TERMS.keepfree), el("span")),
      ),
    (item, d) => {
      text(item.children[0].lastChild, bytes(d.free) + " free");
      size(item.children[1].firstChild, "width", d.size ? 1 - d.free / d.size : 0);
      attr(
        item.children[1],
        "data-level",
        !d.keepFree || d.free >= 2 * d.keepFree ? null : d.free < d.keepFree ? "bad" : "warn",
      );
      text(item.children[2].firstChild, "of " + bytes(d.size) + "; ");
      text(item.children[2].lastChild, " " + bytes(d.keepFree));
    },
  );
}

const levelOf = (line) => String(line.level || "info").toLowerCase();

let warnings = []; // of the log, newest first

// addLines appends lines to the log. It follows the end unless the reader has scrolled up.
export function addLines(lines, reset) {
  const list = byID("lines");
  const follow = reset || list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  if (reset || list.querySelector(".none")) list.replaceChildren();
  const warns = lines.filter((line) => /^(warn|error)$/.test(levelOf(line)));
  warnings = [...warns.reverse(), ...(reset ? [] : warnings)].slice(0, LINES);
  if (reset || warns.length) warned(warnings);
  for (const line of lines.slice(-LINES)) {
    const level = levelOf(line);
    const t = instant(line.time);
    list.append(
      el(
        "li",
        { "data-level": level },
        el("time", { datetime: line.time, title: t ? utc(t) : null, text: t ? clock(t) : "" }),
        el("span", { class: level === "error" ? "bad" : level === "warn" ? "warn" : "muted", text: level }),
        el("span", { text: line.text }),
      ),
    );
  }
  while (list.children.length > LINES) list.firstElementChild.remove();
  if (!list.children.length) list.append(el("li", { class: "none muted", text: "No line yet" }));
  if (follow) list.scrollTop = list.scrollHeight;
}

// startLog makes the buttons of the log work.
export function startLog() {
  const buttons = [...document.querySelectorAll("#log .tabs button")];
  for (const b of buttons) {
    b.addEventListener("click", () => {
      for (const other of buttons) attr(other, "aria-pressed", String(other === b));
      byID("lines").dataset.only = b.dataset.level;
      byID("lines").scrollTop = byID("lines").scrollHeight;
    });
  }
}
