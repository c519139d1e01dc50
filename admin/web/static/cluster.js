// The page about the nodes of a cluster: it asks the node that serves it every five seconds.

import { attr, byID, el, Samples, size, svg, sync, text } from "./dom.js";
import { bytes, clock, compact, count, counted, duration, fixed, instant, NONE, percent, rate, sentence } from "./format.js";
import { Banner, icon, STATES } from "./level.js";
import { get, takeToken } from "./live.js";

const EVERY = 5000; // ms
const PAST = 360; // values of a line: half an hour

// state says in a few words what a node does.
function state(n) {
  const s = n.status;
  if (!s) return "never reported";
  if (!n.heard) return "not reporting";
  if (s.ended) return "ended: " + s.ended;
  if (s.paused) return "paused: " + (s.waits || "by the operator");
  if (s.idle) return "waits for the other nodes";
  return s.waits ? "waits for " + s.waits : "running";
}

const row = (cells) => el("tr", {}, cells.map(([value, kind]) => el("td", { class: kind }, value)));
const badge = (words) => el("span", { class: "badge bad", text: words });

function nodeRow(n, o) {
  const s = n.status;
  const abandoned = o.givenUp?.includes(n.node);
  const words = o.departed?.includes(n.node) ? "departed" : abandoned ? "abandoned" : state(n);
  const health = abandoned ? NONE : !n.heard ? badge("bad") : s.ended ? "ok" : s.level || "ok";
  if (!s) return row([[String(n.node)], [NONE], [health], [badge(words)], ["never"], ...Array(7).fill([NONE, "n"])]);
  const share = s.diskLimit > 0 ? percent(s.diskUsed / s.diskLimit) : NONE;
  const saved = instant(s.saved);
  return row([
    [String(n.node)],
    [s.host || NONE],
    [health],
    [n.heard ? words : badge(words)],
    [n.age < 1 ? "now" : duration(Math.round(n.age)) + " ago"],
    [count(s.pages), "n"],
    [s.ended ? NONE : fixed(s.pagesPerSecond, 1), "n"],
    [count(s.queued), "n"],
    [s.waiting ? count(s.waiting) + ", " + bytes(s.waitingBytes) : "0", "n"],
    [count(s.quarantined || 0), "n"],
    [share + (n.node === o.fullest ? " (fullest)" : ""), "n"],
    [s.checkpoint ? s.checkpoint + (saved ? ", " + clock(saved) : "") : NONE, "n"],
  ]);
}

// sumRow has the sums of all nodes.
function sumRow({ health, nodes, overview: o }) {
  const bad = nodes.reduce((n, { status }) => n + (status?.quarantined || 0), 0);
  const sums = [count(o.pages), fixed(o.pagesPerSecond, 1), count(o.queued), count(o.waiting), count(bad), "", ""];
  return row([["all"], [""], [health.level], [""], [""], ...sums.map((s) => [s, "n"])]);
}

function leaseRow(n) {
  const l = n.status.leases;
  const rests = l.starting ? "since its start" : l.resting ? badge("yes") : "no";
  return row([
    [String(n.node)],
    [count(l.held), "n"],
    [count(l.wanted), "n"],
    [l.wanted ? duration(Math.round(l.longest || 0)) : NONE, "n"],
    [count(l.urls), "n"],
    [count(l.taken), "n"],
    [count(l.handedOver), "n"],
    [count(l.lost), "n"],
    [rests],
  ]);
}

function pairRow(p) {
  return row([
    ["node " + p.node],
    [count(p.added), "n"],
    [count(p.waiting), "n"],
    [bytes(p.waitingBytes), "n"],
    [p.stalled > 0 ? duration(Math.round(p.stalled)) : NONE, "n"],
    [count(p.published), "n"],
    [count(p.resends), "n"],
    [count(p.taken), "n"],
    [count(p.holes), "n"],
  ]);
}

// Lines are rows of a name, a bar, a value and the values since the page was opened.
class Lines {
  constructor(id) {
    this.list = byID(id);
    this.past = new Map();
  }

  // show fills the rows: [name, number, words].
  show(rows) {
    const high = Math.max(1e-9, ...rows.map(([, n]) => n || 0));
    sync(
      this.list,
      rows,
      (r) => r[0],
      ([name]) =>
        el(
          "li",
          {},
          el("span", { text: name, title: name }),
          el("span", { class: "track" }, el("i")),
          el("b", { class: "n" }),
          svg("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("path")),
        ),
      (item, [name, n, words]) => {
        if (!this.past.has(name)) this.past.set(name, new Samples(PAST));
        const past = this.past.get(name);
        past.push(n || 0);
        size(item.children[1].firstChild, "width", n / high);
        text(item.children[2], words);
        attr(item.children[3].firstChild, "d", curve(past.list));
      },
    );
  }
}

// curve is the path of a line that fills a box of 100 by 24.
function curve(list) {
  if (list.length < 2) return null;
  const high = Math.max(1e-9, ...list) * 1.1;
  const x = (i) => ((100 * i) / (list.length - 1)).toFixed(1);
  return list.map((v, i) => (i ? "L" : "M") + x(i) + " " + (23 - (v / high) * 22).toFixed(1)).join("");
}

const banner = new Banner(byID("cluster-card"));
const speeds = new Lines("speeds");
const links = new Lines("links");

// showLinks shows the records that wait from this node to each other one, and from each other node to all.
function showLinks(c) {
  const words = (n, size) => (n ? counted(n, "record") + ", " + bytes(size) : "none");
  const self = c.self.node;
  const own = c.pairs.map((p) => [
    "node " + self + " → node " + p.node,
    p.waiting,
    words(p.waiting, p.waitingBytes) + (p.stalled >= 10 ? "; none received for " + duration(Math.round(p.stalled)) : ""),
  ]);
  const others = c.nodes
    .filter((n) => n.status && n.node !== self)
    .map((n) => ["node " + n.node + " → all", n.status.waiting, words(n.status.waiting, n.status.waitingBytes)]);
  links.show([...own, ...others]);
}

function showWrong(problems) {
  const list = problems.length ? problems.slice(0, 20) : [{ level: "ok", text: "Nothing now." }];
  sync(
    byID("wrong"),
    list,
    (p) => p.level + p.text,
    (p) =>
      el(
        "li",
        { "data-level": p.level },
        el("span", { class: "level-icon" }, icon(p.level)),
        el("span", { text: p.text + (p.next ? " Try: " + p.next : "") }),
      ),
  );
}

function show(c) {
  const o = c.overview;
  text(byID("node"), "node " + c.self.node + " of " + c.self.nodes);
  const { broker } = c.self;
  const since = clock(instant(broker.since));
  banner.show(broker.connected ? c.health.level : "bad", c.health.text, [
    STATES[c.health.state] || "",
    compact(o.pages) + " pages, " + rate(o.pagesPerSecond) + " per second",
    broker.connected ? "connected to the broker since " + since : "Without the broker since " + since,
  ]);
  showWrong([
    ...(broker.connected ? [] : [{ level: "bad", text: "This node has been without the broker since " + since + "." }]),
    ...c.health.problems,
  ]);
  speeds.show([
    ["all nodes", o.pagesPerSecond, rate(o.pagesPerSecond) + " pages/s"],
    ...c.nodes.map((n) => {
      const s = n.status;
      const now = s && n.heard && !s.ended ? s.pagesPerSecond : 0;
      const words = !s || !n.heard ? "not reporting" : s.ended ? "ended" : rate(now) + " pages/s";
      return ["node " + n.node + (s?.host ? ", " + s.host : ""), now, words];
    }),
  ]);
  showLinks(c);
  byID("nodes").replaceChildren(...c.nodes.map((n) => nodeRow(n, o)));
  byID("sum").replaceChildren(sumRow(c));
  const leases = c.nodes.filter((n) => n.status?.leases);
  byID("leases-card").hidden = !leases.length;
  byID("leases").replaceChildren(...leases.map(leaseRow));
  byID("pairs").replaceChildren(...c.pairs.map(pairRow));
  byID("all").hidden = false; // it would move while rows come in
}

// ask asks the node. A crawl of one node has no cluster to ask for.
async function ask() {
  try {
    const status = known ? null : await get("status");
    if (status && !status.cluster) {
      banner.show("off", "This crawl has one node only.", ["the tabs above lead back to it"]);
      return;
    }
    known = true;
    show(await get("cluster"));
  } catch (e) {
    const words = e.status === 401 ? "Open this page from the dashboard, which asks for the token." : sentence(e.message);
    banner.show("off", words, []);
  }
  setTimeout(ask, EVERY);
}

let known = false; // that the crawl is a node of a cluster
takeToken();
document.querySelector(".sections a[aria-current]").scrollIntoView({ block: "nearest", inline: "end" });
ask();
