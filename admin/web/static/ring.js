// The crawler as docs/ARCHITECTURE.md draws it: the places of URLs, and what flows between them.

import { attr, byID, el, svg, sync, text } from "./dom.js";
import { compact, count, fixed, NONE } from "./format.js";
import { counts } from "./overview.js";
import { PLACE_NAMES, PLACES } from "./words.js";

const plus = (n) => (n === null ? NONE : (n > 0 ? "+" : n < 0 ? "−" : "") + compact(Math.abs(n)));

// NODES: title, place or name below it, tooltip, kind (place, end, or nothing).
const NODES = {
  links: { title: "links", name: "seeds, pages", tip: "Links of fetched pages, seeds and sitemaps." },
  unstreamed: { title: "URLseen", name: "unstreamed", kind: "place" },
  star: { title: "STAR", name: "star", kind: "place" },
  beast: { title: "BEAST", name: "beast", kind: "place" },
  failed: { title: "QF", name: "failed", kind: "place" },
  robotscheck: { title: "RobotsCache", name: "robotscheck", kind: "place" },
  awaitrobots: { title: "QR", name: "awaitrobots", kind: "place" },
  deferred: { title: "Calendar", name: "deferred", kind: "place" },
  ready: { title: "Q", name: "ready", kind: "place" },
  ram: { title: "Host and IP heaps", name: "ram", kind: "place" },
  fetch: { title: "Fetch", name: "connections", tip: "Requests under way, of the connections allowed." },
  fetched: { title: "Page store", name: "fetched", kind: "place end" },
  parse: { title: "Parse", name: "links found", tip: "Pages are parsed for links." },
  refused: { title: "Refused", name: "refused", kind: "place end" },
  held: { title: "Held", name: "held", kind: "place end" },
};

// The layouts: boxes as [x, y, width, height], edges as [id, path, label x, label y, anchor].
const WIDE = {
  box: "0 0 1300 580", h: 92,
  at: { links: [10, 30, 124], unstreamed: [204, 30, 190], star: [470, 30, 180], beast: [726, 30, 190], robotscheck: [990, 30, 110], ready: [1176, 30, 114],
    failed: [600, 206, 176], awaitrobots: [850, 206, 136], deferred: [1026, 206, 136],
    ram: [1120, 366, 170], fetch: [800, 366, 180], fetched: [540, 366, 180], parse: [270, 366, 180], refused: [890, 480, 170], held: [1120, 480, 170] },
  edges: [
    ["links", "M134 76H198", 166, 66], ["unique", "M394 76H464", 429, 66], ["placed", "M650 76H720", 685, 66], ["released", "M916 76H984", 950, 66], ["allowed", "M1100 76H1170", 1135, 66],
    ["over", "M766 122V200", 774, 168, "start"], ["scanned", "M610 206V128", 602, 168, "end"],
    ["unknown", "M1006 122L946 200", 950, 168, "end"], ["due", "M1094 206V128", 1102, 152, "start"], ["put", "M1190 366L1150 304", 1140, 338, "end"],
    ["admitted", "M1240 122V360", 1248, 250, "start"], ["granted", "M1120 412H986", 1060, 402], ["stored", "M800 412H726", 763, 402], ["pages", "M540 412H456", 498, 402],
    ["parsed", "M270 412H72V128", 80, 320, "start"], ["refused", "M860 458V526H884", 852, 500, "end"],
  ],
};
const NARROW = {
  box: "0 0 370 1226", h: 84,
  at: { links: [30, 8, 150], unstreamed: [30, 136, 150], star: [30, 264, 150], beast: [30, 392, 150], robotscheck: [30, 520, 150], ready: [30, 648, 150], ram: [30, 776, 150],
    fetch: [30, 904, 150], fetched: [30, 1032, 150], parse: [30, 1140, 150], failed: [230, 328, 136], awaitrobots: [230, 520, 136], deferred: [230, 712, 136], refused: [230, 904, 136], held: [230, 1032, 136] },
  edges: [
    ["links", "M105 92V130", 114, 117, "start"], ["unique", "M105 220V258", 114, 245, "start"], ["placed", "M105 348V386", 114, 373, "start"], ["released", "M105 476V514", 114, 501, "start"],
    ["allowed", "M105 604V642", 114, 629, "start"], ["admitted", "M105 732V770", 114, 757, "start"], ["granted", "M105 860V898", 114, 885, "start"], ["stored", "M105 988V1026", 114, 1013, "start"], ["pages", "M105 1116V1134", 114, 1131, "start"],
    ["over", "M180 420L250 416", 240, 434, "start"], ["scanned", "M270 328V306H186", 226, 298, "start"], ["unknown", "M180 562H224", 202, 552],
    ["put", "M180 800L224 780", 190, 822, "start"], ["due", "M298 712V660H200V590H186", 306, 690, "start"], ["refused", "M180 946H224", 202, 936], ["parsed", "M30 1182H10V50H24", 16, 640, "start"],
  ],
};

export class Ring {
  constructor() {
    this.box = byID("ring");
    this.nodes = {};
    this.flows = {};
    const narrow = matchMedia("(max-width: 760px)");
    const draw = () => this.draw(narrow.matches ? NARROW : WIDE);
    narrow.addEventListener("change", draw);
    draw();
  }

  draw(layout) {
    const arrow = (id, kind) => svg("marker", { id, viewBox: "0 0 8 8", refX: 4, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { class: kind, d: "M0 0L8 4L0 8z" }));
    const drawing = svg("svg", { viewBox: layout.box, role: "group", "aria-label": "The crawler: URLs in each place and the flows between them" },
      svg("defs", {}, arrow("head", "arrow"), arrow("head-busy", "arrow busy")));
    for (const [id, d, x, y, anchor = "middle"] of layout.edges) {
      const path = svg("path", { class: "edge", d, "marker-end": "url(#head)" });
      const figure = svg("tspan", { class: "figure" });
      const unit = svg("tspan");
      drawing.append(path, svg("text", { class: "flow", x, y, "text-anchor": anchor }, figure, unit));
      this.flows[id] = { path, figure, unit };
    }
    for (const [id, node] of Object.entries(NODES)) {
      const [x, y, w] = layout.at[id];
      const value = svg("text", { class: "value", x: x + w / 2, y: y + 57, "text-anchor": "middle" });
      const extra = svg("text", { class: "extra", x: x + w / 2, y: y + 75, "text-anchor": "middle" });
      const group = svg("g", { class: "node " + (node.kind || ""), tabindex: 0, role: "img", "data-tip": node.tip || PLACES[node.name] },
        svg("rect", { class: "box", x, y, width: w, height: layout.h, rx: 10 }),
        svg("text", { class: "title", x: x + w / 2, y: y + 20, "text-anchor": "middle", text: node.title }),
        svg("text", { class: "name", x: x + w / 2, y: y + 36, "text-anchor": "middle", text: node.name }), value, extra);
      this.nodes[id] = { group, value, extra };
      if (id === "unstreamed") {
        group.append(svg("rect", { class: "meter", x: x + 12, y: y + layout.h - 9, width: w - 24, height: 4, rx: 2 }));
        this.meter = svg("rect", { class: "meter on", x: x + 12, y: y + layout.h - 9, width: 0, height: 4, rx: 2 });
        this.meterWidth = w - 24;
        group.append(this.meter);
      }
      drawing.append(group);
    }
    this.box.replaceChildren(drawing);
    if (this.last) this.show(...this.last);
    if (this.body) this.structures(this.body);
  }

  node(id, value, extra) {
    const n = this.nodes[id];
    text(n.value, value);
    text(n.extra, extra || "");
    attr(n.group, "aria-label", NODES[id].title + (NODES[id].name ? ", " + NODES[id].name : "") + ": " + value + (extra ? ", " + extra : ""));
  }

  flow(id, perSecond, unit = "/s") {
    const f = this.flows[id];
    const known = perSecond !== null && Number.isFinite(perSecond);
    const busy = known && perSecond >= 0.5;
    text(f.figure, known ? compact(Math.max(0, Math.round(perSecond))) : NONE);
    text(f.unit, unit);
    attr(f.path, "class", busy ? "edge busy" : "edge");
    attr(f.path, "marker-end", busy ? "url(#head-busy)" : "url(#head)");
    f.path.style.strokeWidth = busy ? Math.min(5, 1.5 + Math.log10(1 + perSecond) * 0.6).toFixed(1) : "";
  }

  // show fills the drawing. Flows that no counter has follow from the balance of places: what enters a place and
  // does not stay has left it.
  show(s, flow) {
    this.last = [s, flow];
    const { places } = counts(s);
    const d = {};
    for (const name of PLACE_NAMES) d[name] = flow.rate((x) => counts(x).places[name] ?? 0);
    const c = (name) => flow.rate((x) => x.counters?.[name] ?? 0);
    for (const name of PLACE_NAMES) {
      const change = d[name] === null || Math.abs(d[name]) < 0.5 ? "" : plus(Math.round(d[name])) + "/s";
      this.node(name, compact(places[name] ?? 0), change);
    }
    const sum = (...list) => (list.some((v) => v === null) ? null : list.reduce((a, b) => a + b, 0));
    const minus = (v) => (v === null ? null : -v);
    const unique = sum(flow.rate((x) => x.unique), minus(d.unstreamed));
    const placed = sum(unique, minus(d.star), minus(d.failed));
    const released = sum(placed, minus(d.beast));
    const links = c("links_checked");
    this.flow("links", links);
    this.flow("unique", unique);
    this.flow("placed", placed);
    this.flow("over", d.failed === null ? null : Math.max(0, d.failed));
    this.flow("scanned", d.failed === null ? null : Math.max(0, -d.failed));
    this.flow("released", released);
    this.flow("unknown", c("robots_attempts"));
    const ended = sum(d.fetched, d.refused, d.held);
    const granted = c("attempts");
    this.flow("allowed", sum(granted, d.ram, d.ready));
    this.flow("admitted", sum(granted, d.ram));
    this.flow("granted", granted);
    this.flow("put", c("deferrals"));
    this.flow("due", sum(c("deferrals"), minus(d.deferred)));
    this.flow("stored", d.fetched);
    this.flow("pages", c("pages"));
    this.flow("parsed", c("links"));
    this.flow("refused", d.refused);
    this.node("links", compact(s.counters?.links ?? 0), "in all");
    this.node("fetch", count(s.connections?.busy ?? 0), "of " + count(s.connections?.limit ?? 0));
    this.node("parse", compact(c("links") === null ? NaN : Math.round(c("links"))), "links/s");
    this.ended = ended;
    sync(byID("places"), PLACE_NAMES, (name) => name,
      (name) => el("tr", {}, el("th", { scope: "row", text: name }), el("td", { class: "n" }), el("td", { class: "n" }), el("td", { class: "wrap", text: PLACES[name] })),
      (row, name) => {
        text(row.children[1], count(places[name] ?? 0));
        text(row.children[2], d[name] === null ? NONE : fixed(d[name], 1));
      });
  }

  // structures adds URLseen's fill.
  structures(body) {
    this.body = body;
    const seen = (body.drums || []).find((x) => x.name === "urlseen");
    if (seen) attr(this.meter, "width", (Math.max(0, Math.min(1, seen.full)) * this.meterWidth).toFixed(1));
  }
}
