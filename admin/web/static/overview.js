// The first screen: health, speed, progress, what limits the crawl, what is wrong. One status fills all but the
// connections by use.

import { attr, byID, el, prose, Samples, size, svg, sync, text, tip } from "./dom.js";
import { bytes, compact, count, counted, duration, fixed, instant, NONE, percent, rate, sentence, utc } from "./format.js";
import { ENDED, SLOTS, TERMS } from "./words.js";

const SPARK = 300; // samples of a sparkline
const ANNOUNCE = 20_000; // ms between two announcements to screen readers

const SHAPES = {
  ok: "M5 12.5l4.5 4.5L19 7.5",
  warn: "M12 5v9M12 19v.01",
  bad: "M7 7l10 10M17 7L7 17",
  off: "M6 12h12",
};
export const LEVELS = { ok: "Healthy", warn: "Warning", bad: "In trouble", off: "Unknown" };
const STATES = {
  working: "Working",
  waiting: "Waiting by choice",
  slow: "Slow by a fault",
  "standing-still": "Standing still",
  complete: "Complete",
  ended: "Ended",
  failed: "Failed",
};

// icon draws a level.
export function icon(level) {
  const known = SHAPES[level] ? level : "off";
  return svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: SHAPES[known] }));
}

// Spark is a small line of recent values.
class Spark {
  constructor(id) {
    this.samples = new Samples(SPARK);
    this.area = svg("path", { class: "area" });
    this.line = svg("path");
    byID(id).append(
      svg("svg", { viewBox: "0 0 300 40", preserveAspectRatio: "none", "aria-hidden": "true" }, this.area, this.line),
    );
  }

  draw() {
    const { list } = this.samples;
    const high = Math.max(1e-9, ...list) * 1.08;
    const x = (i) => (300 - (list.length - 1 - i) * (300 / (SPARK - 1))).toFixed(1);
    const line = list.map((v, i) => (i ? "L" : "M") + x(i) + " " + (39 - (v / high) * 38).toFixed(1)).join("");
    attr(this.line, "d", line || null);
    attr(this.area, "d", list.length > 1 ? line + "L300 40L" + x(0) + " 40Z" : null);
  }
}

// showNothing says on the first screen why there is no status.
export function showNothing(words) {
  byID("health").dataset.level = "off";
  byID("health-icon").replaceChildren(icon("off"));
  text(byID("health-text"), words);
  text(byID("announce"), words);
}

const health = { at: 0, said: "" };

function showHealth(s) {
  const h = s.health || {};
  const level = SHAPES[h.level] ? h.level : "off";
  const card = byID("health");
  if (card.dataset.level !== level || !byID("health-icon").firstChild) {
    card.dataset.level = level;
    byID("health-icon").replaceChildren(icon(level));
  }
  const name = STATES[h.state] || LEVELS[level];
  const words = name + ". " + (h.text || "");
  prose(byID("health-text"), h.text || LEVELS[level]);
  text(byID("state"), s.state || NONE);
  byID("state").dataset.state = s.state || "";
  const runs = s.active > s.elapsed + 60 ? "; " + duration(s.active) + " over all runs" : "";
  const more = [name, s.state || NONE, "this run " + duration(s.elapsed) + runs];
  if (h.next) more.push("try: " + h.next);
  if (s.limits) more.push("limits " + s.limits);
  prose(byID("health-more"), more.join(" · "));
  const now = performance.now();
  if (words !== health.said && (health.level !== level || now - health.at > ANNOUNCE)) {
    Object.assign(health, { said: words, at: now, level });
    text(byID("announce"), words);
  }
  const problems = (h.problems || []).slice(0, 20);
  if (!problems.length) problems.push({ level: "ok", what: "", text: h.state === "waiting" ? "Nothing: the wait is chosen." : "Nothing." });
  sync(
    byID("problems"),
    problems,
    (p) => p.level + p.what + p.text + p.next,
    (p) =>
      el(
        "li",
        { "data-level": p.level },
        el("span", { class: "level-icon" }, icon(p.level)),
        el(
          "span",
          {},
          el("span", { class: "hidden", text: p.what ? LEVELS[p.level] + ": " : "" }),
          p.what ? el("b", { text: sentence(p.what) + ". " }) : null,
          el("span", { text: p.text + (p.next ? " Try: " + p.next : "") }),
        ),
      ),
  );
}

// counts returns what the places hold: all URLs, those that ended, and those that wait.
export function counts(s) {
  const places = {};
  let ended = 0;
  let queued = 0;
  for (const p of s.places || []) {
    places[p.name] = p.urls;
    if (ENDED.has(p.name)) ended += p.urls;
    else queued += p.urls;
  }
  return { places, ended, queued };
}

export class Overview {
  constructor() {
    this.pages = new Spark("spark-pages");
    this.bits = new Spark("spark-bits");
    byID("bar-busy").append(el("i"));
    byID("bar-fetched").append(el("i"));
    this.p = el("span");
    byID("t-found-p").replaceChildren(tip("p", TERMS.p), " = ", this.p);
  }

  // past fills the sparklines with rates of the last minutes, oldest first.
  past(pages, bits) {
    const put = (spark, values) => {
      const later = spark.samples.list;
      spark.samples.list = values.concat(later).slice(-SPARK);
      spark.draw();
    };
    put(this.pages, pages);
    put(this.bits, bits);
  }

  // show fills the first screen. flow has the status of the last half minute.
  show(s, flow) {
    showHealth(s);
    const c = s.counters || {};
    const r = s.rates || {};
    this.pages.samples.push(r.pages || 0);
    this.bits.samples.push((r.bits || 0) / 1e6);
    this.pages.draw();
    this.bits.draw();
    text(byID("t-pages"), rate(r.pages));
    text(byID("t-bits"), rate(r.bits / 1e6));
    text(byID("t-pages-sub"), s.active > 1 ? "mean " + rate((c.pages || 0) / s.active) + " pages/s" : "");
    text(byID("t-bits-sub"), c.received_bytes === undefined ? "" : bytes(c.received_bytes) + " in all");
    const { places, ended, queued } = counts(s);
    const fetched = byID("t-fetched");
    text(fetched, compact(c.pages ?? places.fetched));
    attr(fetched, "title", count(c.pages ?? places.fetched));
    size(byID("bar-fetched").firstChild, "width", s.unique ? ended / s.unique : 0);
    text(byID("t-fetched-sub"), s.unique ? percent(ended / s.unique) + " of all URLs done" : "no URL yet");
    text(byID("t-found"), compact(s.unique));
    attr(byID("t-found"), "title", count(s.unique));
    text(this.p, fixed(s.uniqueShare, 4));
    text(byID("t-found-sub"), compact(s.plds) + (s.plds === 1 ? " PLD, " : " PLDs, ") + compact(s.hosts) + (s.hosts === 1 ? " host" : " hosts"));
    text(byID("t-queued"), compact(queued));
    attr(byID("t-queued"), "title", count(queued));
    const grows = flow.rate((x) => counts(x).queued);
    text(
      byID("t-queued-trend"),
      grows === null || Math.abs(grows) < 0.5
        ? "steady"
        : (grows > 0 ? "grows by " : "shrinks by ") + compact(Math.round(Math.abs(grows))) + "/s",
    );
    text(byID("t-queued-sub"), compact(places.failed) + " over budget");
    const { busy = 0, limit = 0, robots = 0 } = s.connections || {};
    text(byID("t-busy"), count(busy));
    text(byID("t-busy-of"), "of " + count(limit));
    size(byID("bar-busy").firstChild, "width", limit ? busy / limit : 0);
    text(byID("t-busy-sub"), counted(robots, "robots.txt request"));
    const over = s.state === "finished";
    prose(
      byID("waiting"),
      over ? "The crawl has ended." : s.waiting ? sentence(s.waiting) : "Nothing: nearly all connections are busy",
    );
    const about = [
      "drumbeat " + (s.version || ""),
      "crawl " + (s.crawl || NONE),
      "process " + (s.pid || NONE),
      (s.dirs || []).join(", "),
      "contact " + (s.contact || NONE),
    ];
    const began = instant(s.crawlStarted);
    if (began) about.push("crawl started " + utc(began));
    const started = instant(s.started);
    if (started) about.push("this run started " + utc(started));
    text(byID("about"), about.join(" · "));
    text(byID("who"), (s.agent || "") + (s.host ? " on " + s.host : ""));
    document.title =
      ({ ok: "", warn: "⚠ ", bad: "✖ " }[s.health?.level] || "") +
      rate(r.pages) +
      " pages/s · " +
      (s.agent || "drumbeat");
  }

  // slots draws the connections by use.
  slots(body) {
    const total = body.total || 0;
    const all = (body.uses || []).map((u, i) => ({ ...u, kind: i % 12, share: total ? u.now / total : 0 }));
    const uses = all.filter((u) => u.share >= 0.0005);
    sync(
      byID("slots-now"),
      uses,
      (u) => u.name,
      (u) => el("i", { class: "k" + u.kind }),
      (node, u) => size(node, "width", u.share),
    );
    attr(
      byID("slots-now"),
      "aria-label",
      "Connections by use: " + uses.map((u) => u.name + " " + percent(u.share)).join(", "),
    );
    sync(
      byID("slots-legend"),
      [...uses].sort((a, b) => b.share - a.share),
      (u) => u.name,
      (u) => el("li", {}, el("span", { class: "swatch k" + u.kind }), tip(u.name, SLOTS[u.name]), el("b")),
      (node, u) => text(node.lastChild, percent(u.share)),
    );
  }
}
