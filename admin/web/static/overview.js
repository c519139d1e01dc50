// The first screen: health, speed, progress, what limits the crawl, what is wrong. One status fills all but the
// connections by use.

import { attr, byID, el, prose, Samples, size, svg, sync, text, tip } from "./dom.js";
import { bytes, clock, compact, count, counted, duration, fixed, instant, NONE, percent, rate, sentence, utc, wholeSeconds } from "./format.js";
import { Banner, icon, LEVELS, levelOf, STATES } from "./level.js";
import { ENDED, SLOTS, TERMS, TITLES } from "./words.js";

const SPARK = 300; // samples of a sparkline
const ANNOUNCE = 20_000; // ms between two announcements to screen readers
const MEAN = 10; // seconds over which the numbers of the first screen are means

// Spark is a small line of recent values. It fills its card, however few they are.
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
    const x = (i) => ((300 * i) / Math.max(1, list.length - 1)).toFixed(1);
    const line = list.map((v, i) => (i ? "L" : "M") + x(i) + " " + (39 - (v / high) * 38).toFixed(1)).join("");
    attr(this.line, "d", list.length > 1 ? line : null);
    attr(this.area, "d", list.length > 1 ? line + "L300 40L0 40Z" : null);
  }
}

const banner = new Banner(byID("health"));

// showNothing says on the first screen why there is no status.
export function showNothing(words) {
  banner.show("off", words, []);
  text(byID("announce"), words);
}

const health = { at: 0, said: "" };

function showHealth(s) {
  const h = s.health || {};
  const level = levelOf(h.level);
  const name = STATES[h.state] || LEVELS[level];
  const runs = s.active > s.elapsed + 60 ? ", all runs " + duration(s.active) : "";
  const more = [name, (over(s) ? "the run took " : "this run ") + duration(s.elapsed) + runs];
  const ended = over(s) && instant(s.time);
  if (ended) more.push("last numbers from " + clock(ended));
  if (h.next) more.push("try: " + h.next);
  if (s.limits && !over(s)) more.push("limits " + s.limits);
  banner.show(level, h.text || name, more);
  text(byID("state"), s.state || NONE);
  byID("state").dataset.state = s.state || "";
  const words = name + ". " + (h.text || "");
  const now = performance.now();
  if (words !== health.said && (health.level !== level || now - health.at > ANNOUNCE)) {
    Object.assign(health, { said: words, at: now, level });
    text(byID("announce"), words);
  }
  showProblems(h, over(s));
}

// backupAge tells the age of the newest backup; "" without --backup.
export function backupAge(s) {
  if (!s.backup) return "";
  const made = s.backup.number > 0 && instant(s.backup.time);
  if (!made) return "none yet";
  const age = Math.round((new Date(s.time) - made) / 1000);
  return age > 0 ? wholeSeconds(age) + " ago" : "just now";
}

// showChecks shows what was looked at, where nothing is wrong.
function showChecks(s, flow) {
  const box = byID("checks");
  box.hidden = over(s) || (s.health?.problems || []).length > 0;
  const saved = instant(s.checkpoint?.time);
  const age = saved ? Math.round((new Date(s.time) - saved) / 1000) : 0;
  const backup = backupAge(s);
  const free = (s.disk?.dirs || []).reduce((least, d) => Math.min(least, d.free), Infinity);
  const made = flow.rate((x) => x.counters?.attempts ?? 0, MEAN);
  const failed = flow.mean((x) => x.rates?.errors ?? 0, MEAN);
  sync(
    box,
    [
      ["Failed requests", made > 0 ? percent(Math.min(1, failed / made)) : NONE],
      ["Last checkpoint", !saved ? "none yet" : age > 0 ? wholeSeconds(age) + " ago" : "just now"],
      ...(backup ? [["Last backup", backup]] : []),
      ["RAM", s.ram?.limit ? percent(s.ram.used / s.ram.limit) + " of its limit" : NONE],
      ["Disk", free < Infinity ? bytes(free) + " free" : NONE],
    ],
    ([name]) => name,
    ([name]) => el("div", {}, el("dt", { text: name }), el("dd")),
    (node, [, words]) => text(node.lastChild, words),
  );
}

// showProblems lists what is wrong.
function showProblems(h, ended) {
  const problems = (h.problems || []).slice(0, 20);
  attr(byID("problems").parentElement, "data-filled", "");
  const nothing = ended ? "Nothing." : h.state === "waiting" ? "Nothing: the wait is by choice." : "Nothing now.";
  if (!problems.length) problems.push({ level: "ok", what: "", text: nothing });
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

const WARNINGS = 5; // of the log, as many of them as there is room

// warned shows the last warnings of the log, newest first, below the problems.
export function warned(lines) {
  const seen = new Set();
  const list = lines.filter((line) => !seen.has(line.text) && seen.add(line.text)).slice(0, WARNINGS);
  sync(
    byID("warnings"),
    list.length ? list : [{ text: "No warning in the last lines" }],
    (line) => line.time + line.text,
    (line) => {
      const t = instant(line.time);
      return el(
        "li",
        { title: line.text },
        t ? el("time", { datetime: line.time, title: utc(t), text: clock(t) }) : null,
        sentence(line.text),
      );
    },
  );
}

// over tells whether a crawl has ended.
export const over = (s) => s.state === "finished";

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
    showChecks(s, flow);
    const c = s.counters || {};
    const ended = over(s);
    const r = this.rates(s, flow);
    if (!ended && r.known) {
      this.pages.samples.push(r.pages);
      this.bits.samples.push(r.bits / 1e6);
      this.pages.draw();
      this.bits.draw();
    }
    text(byID("t-pages"), rate(r.pages));
    text(byID("t-bits"), rate(r.bits / 1e6));
    const mean = s.active > 1 ? "mean " + rate((c.pages || 0) / s.active) + " pages/s" : "";
    text(byID("t-pages-sub"), ended ? "mean of all runs" : mean);
    text(byID("t-bits-sub"), c.received_bytes === undefined ? "" : bytes(c.received_bytes) + " in all");
    const { places, ended: done, queued } = counts(s);
    const fetched = byID("t-fetched");
    text(fetched, compact(c.pages ?? places.fetched));
    attr(fetched, "title", count(c.pages ?? places.fetched));
    const p = s.progress || { ended: done, queued };
    const share = p.ended / (p.ended + p.queued || 1);
    size(byID("bar-fetched").firstChild, "width", share);
    text(byID("t-fetched-sub"), p.ended + p.queued ? percent(share) + " of URLs done" : "no URL yet");
    attr(byID("t-fetched-sub"), "title", p.text || null);
    text(byID("t-found"), compact(s.unique));
    attr(byID("t-found"), "title", count(s.unique));
    text(this.p, fixed(s.uniqueShare, 4));
    text(byID("t-found-sub"), counted(s.plds, "PLD") + ", " + counted(s.hosts, "host"));
    text(byID("t-queued"), compact(p.queued));
    attr(byID("t-queued"), "title", count(p.queued));
    text(byID("t-queued-trend"), this.rest(p, ended));
    text(byID("t-queued-sub"), (places.failed ? "and " : "") + compact(places.failed) + " over budget");
    const limit = s.connections?.limit || 0;
    const busy = ended ? 0 : flow.busy();
    const robots = ended ? 0 : Math.round(flow.mean((x) => x.connections?.robots || 0, MEAN));
    text(byID("t-busy"), busy > 0 && busy < 9.95 ? fixed(busy, 1) : count(busy));
    text(byID("t-busy-of"), "of " + count(limit));
    const bar = byID("bar-busy").firstChild;
    size(bar, "width", limit ? busy / limit : 0);
    attr(bar, "class", busy > 0 ? "some" : null);
    text(byID("t-busy-sub"), counted(robots, "robots.txt request"));
    this.limits(s, limit ? busy / limit : 0);
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
      (ended ? "ended" : rate(r.pages) + " pages/s") +
      " · " +
      (s.agent || "drumbeat");
  }

  // rest says how long the queued URLs take, or that they become more.
  rest(p, ended) {
    if (ended) return p.queued ? "left at the end" : "none is left";
    if (p.grows >= 0.5) return "grows by " + compact(Math.round(p.grows)) + "/s";
    return p.left > 0 ? "about " + wholeSeconds(p.left) + " left" : "\u00a0";
  }

  // rates returns pages and bits a second over the last seconds if they are known, at the end those of all runs.
  rates(s, flow) {
    const c = s.counters || {};
    if (over(s)) return { pages: (c.pages || 0) / (s.active || 1), bits: (8 * (c.received_bytes || 0)) / (s.active || 1) };
    const pages = flow.rate((x) => x.counters?.pages ?? 0, MEAN);
    const bits = flow.rate((x) => 8 * (x.counters?.received_bytes ?? 0), MEAN);
    if (pages === null) return { pages: s.rates?.pages ?? 0, bits: s.rates?.bits ?? 0 };
    return { pages: Math.max(0, pages), bits: Math.max(0, bits), known: true };
  }

  // limits says what limits the crawl, or that it has ended.
  limits(s, busy) {
    const ended = over(s);
    text(byID("limits-title"), ended ? "How it ended" : "What limits it");
    if ((this.ended = ended)) {
      const { places, queued } = counts(s);
      const left = ["Left", queued - (places.failed || 0), 1];
      const parts = ["fetched", "refused", "held", "failed"].map((p, i) => [TITLES[p], places[p], [0, 10, 11, 3][i]]);
      const shares = [...parts, left].map(([name, n, kind]) => ({ name, kind, share: (n || 0) / (s.unique || 1) }));
      this.divide("URLs found", shares);
    }
    const why = s.reason === "done" ? "no URL is left to fetch" : s.reason || "";
    prose(
      byID("waiting"),
      ended
        ? (why ? sentence(why) : "The crawl has ended") + "."
        : s.waiting
          ? sentence(s.waiting)
          : busy > 0.75
            ? "The number of connections: nearly all are busy"
            : "Nothing delays it",
    );
  }

  // slots draws the connections by use.
  slots(body) {
    const total = body.total || 0;
    const uses = (body.uses || []).map((u, i) => ({ name: u.name, kind: i % 12, share: total ? u.now / total : 0 }));
    if (!this.ended) this.divide("Connections by use", uses);
  }

  // divide draws the bar of shares and its legend.
  divide(title, all) {
    const uses = all.filter((u) => u.share >= 0.0005);
    const words = uses.map((u) => u.name + " " + percent(u.share)).join(", ");
    const key = (u) => u.name;
    attr(byID("slots-now"), "aria-label", title + ": " + words);
    sync(
      byID("slots-now"),
      uses,
      key,
      (u) => el("i", { class: "k" + u.kind }),
      (node, u) => size(node, "width", u.share),
    );
    sync(
      byID("slots-legend"),
      [...uses].sort((a, b) => b.share - a.share),
      key,
      (u) => el("li", {}, el("span", { class: "swatch k" + u.kind }), tip(u.name, SLOTS[u.name]), el("b")),
      (node, u) => text(node.lastChild, percent(u.share)),
    );
  }
}
