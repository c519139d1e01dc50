// The page about the nodes of a cluster: it asks the node that serves it every five seconds.

import { attr, byID, el, text } from "./dom.js";
import { bytes, clock, count, counted, duration, fixed, instant, NONE, percent } from "./format.js";
import { get, takeToken } from "./live.js";

const EVERY = 5000; // ms

// state says in a few words what a node does.
function state(n) {
  const s = n.status;
  if (!s) return "never heard of";
  if (!n.heard) return "not heard of";
  if (s.ended) return "ended: " + s.ended;
  if (s.paused) return "paused: " + (s.waits || "by the operator");
  if (s.idle) return "waits for the other nodes";
  return s.waits ? "waits for " + s.waits : "running";
}

const row = (cells) => el("tr", {}, cells.map(([value, kind]) => el("td", { class: kind }, value)));
const badge = (words) => el("span", { class: "badge bad", text: words });

function nodeRow(n, o) {
  const s = n.status;
  const words = o.givenUp?.includes(n.node) ? "abandoned" : state(n);
  if (!s) return row([[String(n.node)], [NONE], [badge(words)], ["never"], ...Array(6).fill([NONE, "n"])]);
  const share = s.diskLimit > 0 ? percent(s.diskUsed / s.diskLimit) : NONE;
  const saved = instant(s.saved);
  return row([
    [String(n.node)],
    [s.host || NONE],
    [n.heard ? words : badge(words)],
    [n.age < 1 ? "now" : duration(Math.round(n.age)) + " ago"],
    [count(s.pages), "n"],
    [s.ended ? NONE : fixed(s.pagesPerSecond, 1), "n"],
    [count(s.queued), "n"],
    [s.waiting ? count(s.waiting) + ", " + bytes(s.waitingBytes) : "0", "n"],
    [share + (n.node === o.fullest ? " (fullest)" : ""), "n"],
    [s.checkpoint ? s.checkpoint + (saved ? ", " + clock(saved) : "") : NONE, "n"],
  ]);
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
    [p.stalled > 0 ? duration(Math.round(p.stalled)) : NONE],
    [count(p.published), "n"],
    [count(p.resends), "n"],
    [count(p.taken), "n"],
    [count(p.holes), "n"],
  ]);
}

function show(c) {
  const o = c.overview;
  text(byID("node"), "node " + c.self.node + " of " + c.self.nodes);
  const words = [counted(o.pages, "page") + ", " + fixed(o.pagesPerSecond, 1) + " pages/s."];
  for (const p of c.health.problems.slice(1, 10)) words.push(p.text);
  words.unshift(c.health.text);
  text(byID("cluster-text"), words.join(" "));
  const level = c.self.broker.connected ? c.health.level : "bad";
  attr(byID("cluster-card"), "data-level", level);
  const since = clock(instant(c.self.broker.since));
  text(
    byID("broker-text"),
    c.self.broker.connected ? "Connected to the broker since " + since + "." : "Without the broker since " + since + ".",
  );
  byID("nodes").replaceChildren(...c.nodes.map((n) => nodeRow(n, o)));
  const leases = c.nodes.filter((n) => n.status?.leases);
  byID("leases-card").hidden = !leases.length;
  byID("leases").replaceChildren(...leases.map(leaseRow));
  byID("pairs").replaceChildren(...c.pairs.map(pairRow));
  for (const card of ["nodes-card", "pairs-card"]) byID(card).hidden = false; // they would move while rows come in
}

async function ask() {
  try {
    show(await get("cluster"));
  } catch (e) {
    text(byID("cluster-text"), e.status === 401 ? "Open this page from the dashboard, which asks for the token." : e.message);
    attr(byID("cluster-card"), "data-level", "off");
  }
  setTimeout(ask, EVERY);
}

takeToken();
ask();
