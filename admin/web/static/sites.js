// What sites answer: status codes, refusals, deferrals, hosts in trouble, and the top domains.

import { attr, byID, el, size, sync, text, tip } from "./dom.js";
import { bytes, clock, compact, count, duration, instant, localTimes, NONE, percent, sentence, utc, wholeSeconds } from "./format.js";
import { fillShort, none } from "./structures.js";
import { code, reasonMore, reasonText, TERMS } from "./words.js";

// bars fills a list of names with numbers, largest first.
function bars(id, values, empty, label, kind) {
  const list = Object.entries(values || {})
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const total = list.reduce((sum, [, n]) => sum + n, 0);
  const shown = list.length ? list.slice(0, 16) : [["", 0]];
  sync(
    byID(id),
    shown,
    ([name]) => name || "none",
    ([name]) =>
      name
        ? el(
            "li",
            { class: kind?.(name) },
            label(name),
            el("span", { class: "track" }, el("i")),
            el("b", { class: "n" }),
            el("span", { class: "n muted" }),
          )
        : el("li", { class: "none", text: empty }),
    (item, [name, n]) => {
      if (!name) return;
      size(item.children[1].firstChild, "width", n / shown[0][1]);
      text(item.children[2], compact(n));
      attr(item.children[2], "title", count(n));
      text(item.children[3], percent(n / total));
    },
  );
}

export function showAnswers(s) {
  const status = (name) => el("span", {}, name, el("span", { class: "muted", text: "  " + code(name) }));
  bars("codes", s.codes, "No response yet", status, (name) => "c" + name[0]);
  const cause = (name) => tip(reasonText(name), reasonMore(name));
  bars("refused", s.refused, "No URL is refused", cause);
  bars("deferred", s.deferred, "No URL is deferred", cause);
  const late = Math.max(s.deferredLate || 0, s.visitsLate || 0);
  text(byID("deferred-late"), late >= 2 ? "the first has been due for " + duration(late) : "");
}

// standing names the state of a host in a word and a level. It reads the text of the API.
export function standing(state) {
  if (/given up/.test(state)) return ["given up", "bad"];
  const no = /not welcome|asks for payment/.exec(state);
  if (no) return [no[0], "bad"];
  if (/backs off|back-off/.test(state)) return ["back-off", "warn"];
  if (state === "ok" || state === "healthy") return ["ok", "ok"];
  return [state.length > 16 ? "failing" : state, "warn"];
}

// until writes how long a back-off still lasts.
export function until(t, now = Date.now()) {
  const left = t ? (t.getTime() - now) / 1000 : 0;
  return left > 0 ? "in " + wholeSeconds(Math.ceil(left)) : NONE;
}

// reason is the part of a host's state that the badge and the time do not say.
export function reason(state) {
  const parts = state
    .split("; ")
    .map((part) => part.replace(/^backs off until \S+ ?/, "").replace(/ for good$/, ""))
    .filter((part) => part && !/^(back-off|failing|not welcome|asks for payment|given up|ok)$/i.test(part));
  const words = parts.join("; ").replace(/\b1 (failure|refusal|back-off)s\b/, "1 $1");
  return sentence(words);
}

const forGood = (h) => /for good/.test(h.state || "");

// inTrouble tells whether a host's back-off lasts: a host whose back-off has ended is out of trouble, unless it was
// given up for good.
export function inTrouble(h, now = Date.now()) {
  const t = instant(h.until);
  return !t || t.getTime() > now || forGood(h);
}

export function showHosts(body, ask) {
  const hosts = (body.hosts || []).filter((h) => inTrouble(h));
  text(byID("hosts-count"), hosts.length ? "the last " + count(hosts.length) : "");
  fillShort(
    byID("hosts"),
    hosts.length ? hosts : [none(4, "No host is in trouble")],
    (h) => h.key || h.host,
    (h) =>
      el(
        "tr",
        { role: "row" },
        el(
          "td",
          { role: "cell", class: "wrap" },
          h.host
            ? el("button", { type: "button", class: "link cut", onclick: () => ask(h.host), title: h.host, text: h.host })
            : el("span", { class: "muted mono", title: "Only the host's key is known so far", text: h.key || NONE }),
        ),
        el("td", { role: "cell" }, el("span")),
        el("td", { role: "cell", class: "n" }),
        el("td", { role: "cell", class: "wrap" }, el("span", { class: "two" })),
      ),
    (row, h) => {
      const cell = row.children;
      const [word, level] = standing(h.state || "");
      text(cell[1].firstChild, word);
      attr(cell[1].firstChild, "class", "badge " + level);
      const t = instant(h.until);
      text(cell[2], forGood(h) ? "for good" : until(t));
      attr(cell[2], "title", t ? utc(t) : null);
      text(cell[3].firstChild, localTimes(h.why || reason(h.state || "")));
      attr(cell[3].firstChild, "title", localTimes(h.why || h.state || ""));
    },
  );
}

export function showPLDs(body, ask) {
  const plds = body.plds || [];
  const asOf = instant(body.asOf);
  text(byID("plds-asof"), asOf ? "The sorted column is current; the rest is from the checkpoint at " + clock(asOf) : "");
  const placed = plds.some((p) => p.placed !== undefined && p.queued === undefined);
  sync(
    byID("pld-queued"),
    [placed ? "Placed" : "Queued"],
    (name) => name,
    (name) => tip(name, placed ? TERMS.placed : "Waiting URLs of the domain."),
  );
  fillShort(
    byID("plds"),
    plds.length ? plds : [none(7, "No domain is known yet")],
    (p) => p.key || p.pld,
    (p) =>
      el(
        "tr",
        { class: "far" },
        el("td", { class: "n" }),
        el(
          "td",
          { class: "wrap" },
          p.pld
            ? el("button", { type: "button", class: "link", onclick: () => ask(p.pld), text: p.pld })
            : el("span", {
                class: "muted mono",
                title: "Only the domain's key is known so far",
                text: p.key || NONE,
              }),
        ),
        ...[0, 1, 2, 3, 4].map(() => el("td", { class: "n" })),
      ),
    (row, p) => {
      const cell = row.children;
      text(cell[0], count(p.rank));
      text(cell[2], count(p.indegree));
      text(cell[3], count(p.budget) + (p.pinned ? " pinned" : ""));
      text(cell[4], count(p.pages));
      text(cell[5], count(p.queued ?? p.placed));
      text(cell[6], bytes(p.bytes));
    },
  );
}
