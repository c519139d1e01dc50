// The crawler as docs/ARCHITECTURE.md draws it: the places of URLs, and what flows between them.

import { attr, byID, el, svg, sync, text } from "./dom.js";
import { compact, count, fixed, NONE } from "./format.js";
import { counts } from "./overview.js";
import { PLACE_NAMES, PLACES, placeText } from "./words.js";

const plus = (n) => (n === null ? NONE : (n > 0 ? "+" : n < 0 ? "−" : "") + compact(Math.abs(n)));

// FLOWS are the counters of the edges.
const FLOWS = {
  links: "links_checked",
  placed: "urls_placed",
  over: "urls_over_budget",
  scanned: "urls_scanned",
  released: "urls_released",
  unknown: "urls_unknown",
  back: "urls_answered",
  allowed: "urls_allowed",
  denied: "urls_denied",
  admitted: "urls_admitted",
  granted: "attempts",
  put: "deferrals",
  due: "urls_due",
  pages: "pages",
  parsed: "links",
};

// NODES: title, place or name below it, tooltip, kind (place, end, or nothing).
const NODES = {
  links: { title: "links", name: "seeds, pages", tip: "Links of fetched pages, seeds and sitemaps." },
  unstreamed: { title: "URLseen", name: "unstreamed", kind: "place" },
  star: { title: "STAR", name: "star", kind: "place" },
  beast: { title: "BEAST", name: "beast", kind: "place" },
  failed: { title: "QF", name: "over budget", kind: "place" },
  robotscheck: { title: "RobotsCache", name: "robotscheck", kind: "place" },
  awaitrobots: { title: "QR", name: "for robots.txt", kind: "place" },
  deferred: { title: "Calendar", name: "deferred", kind: "place" },
  ready: { title: "Q", name: "ready", kind: "place" },
  ram: { title: "Host and IP heaps", name: "ram", kind: "place" },
  fetch: { title: "Fetch", name: "connections", tip: "Requests under way, of the connections allowed." },
  fetched: { title: "Page store", name: "fetched", kind: "place end" },
  parse: { title: "Parse", name: "links found", tip: "Pages are parsed for links." },
  refused: { title: "Refused", name: "refused", kind: "place end" },
  held: { title: "Not allowed", name: "by flags", kind: "place end" },
};

// The layouts: boxes as [x, y, width, height], edges as [id, path, label x, label y, anchor].
const WIDE = {
  box: "0 0 1300 580",
  h: 92,
  at: {
    links: [10, 30, 116],
    unstreamed: [190, 30, 176],
    star: [436, 30, 170],
    beast: [676, 30, 170],
    robotscheck: [916, 30, 150],
    ready: [1136, 30, 154],
    failed: [556, 206, 170],
    awaitrobots: [830, 206, 130],
    deferred: [1000, 206, 146],
    ram: [1120, 366, 170],
    fetch: [790, 366, 170],
    fetched: [530, 366, 170],
    parse: [270, 366, 170],
    refused: [880, 480, 170],
    held: [1120, 480, 170],
  },
  edges: [
    ["links", "M126 76H184", 155, 66],
    ["unique", "M366 76H430", 398, 66],
    ["placed", "M606 76H670", 638, 66],
    ["released", "M846 76H910", 878, 66],
    ["allowed", "M1066 76H1130", 1098, 66],
    ["over", "M701 122V200", 709, 168, "start"],
    ["scanned", "M581 206V128", 573, 168, "end"],
    ["unknown", "M946 122V200", 922, 160, "end"],
    ["back", "M930 206V128", 922, 188, "end"],
    ["due", "M1030 206V128", 1038, 168, "start"],
    ["put", "M1133 366V304", 1125, 340, "end"],
    ["denied", "M980 122V474", 988, 350, "start"],
    ["admitted", "M1240 122V360", 1232, 250, "end"],
    ["granted", "M1120 412H966", 1050, 402],
    ["stored", "M790 412H706", 748, 402],
    ["pages", "M530 412H446", 488, 402],
    ["parsed", "M270 412H68V128", 76, 320, "start"],
    ["refused", "M850 458V526H874", 842, 500, "end"],
  ],
};

// narrow puts the way of a URL into one column, with the side ways at its right.
function narrow() {
  const h = 92;
  const pitch = 134;
  const at = {};
  const edges = [];
  const main = ["links", "unstreamed", "star", "beast", "robotscheck", "ready", "ram", "fetch", "fetched", "parse"];
  const flows = ["links", "unique", "placed", "released", "allowed", "admitted", "granted", "stored", "pages"];
  main.forEach((id, i) => {
    at[id] = [30, 8 + i * pitch, 160];
  });
  flows.forEach((id, i) =>
    edges.push([id, "M110 " + (8 + i * pitch + h) + "v36", 119, 8 + i * pitch + h + 25, "start"]),
  );
  const y = (id) => at[id][1];
  const side = {
    failed: y("star") + 67,
    awaitrobots: y("robotscheck"),
    deferred: y("ready") + 67,
    refused: y("fetch"),
    held: y("fetched"),
  };
  for (const [id, top] of Object.entries(side)) at[id] = [238, top, 128];
  edges.push(
    ["scanned", "M302 " + at.failed[1] + "V" + (y("star") + 46) + "H196", 310, y("star") + 40, "start"],
    ["over", "M190 " + (y("beast") + 46) + "H302V" + (at.failed[1] + h + 6), 198, y("beast") + 64, "start"],
    ["unknown", "M190 " + (y("robotscheck") + 36) + "h42", 211, y("robotscheck") + 26],
    ["back", "M238 " + (y("robotscheck") + 62) + "h-42", 217, y("robotscheck") + 80],
    [
      "due",
      "M302 " + at.deferred[1] + "V" + (y("ready") - 16) + "H180V" + (y("robotscheck") + h + 6),
      196,
      y("ready") - 22,
      "start",
    ],
    ["put", "M190 " + (y("ram") + 46) + "H302V" + (at.deferred[1] + h + 6), 198, y("ram") + 64, "start"],
    ["refused", "M190 " + (y("fetch") + 46) + "h42", 211, y("fetch") + 36],
    ["parsed", "M30 " + (y("parse") + 46) + "H12V54H24", 18, y("ready") - 12, "start"],
  );
  return { box: "0 0 370 " + (y("parse") + h + 8), h, at, edges };
}

export class Ring {
  constructor() {
    this.box = byID("ring");
    this.nodes = {};
    this.flows = {};
    const phone = matchMedia("(max-width: 760px)");
    const draw = () => this.draw(phone.matches ? narrow() : WIDE);
    phone.addEventListener("change", draw);
    draw();
  }

  draw(layout) {
    this.flows = {};
    this.wide = layout === WIDE;
    const arrow = (id, kind) =>
      svg(
        "marker",
        {
          id,
          viewBox: "0 0 8 8",
          refX: 4,
          refY: 4,
          markerWidth: 8,
          markerHeight: 8,
          markerUnits: "userSpaceOnUse",
          orient: "auto",
        },
        svg("path", { class: kind, d: "M0 0L8 4L0 8z" }),
      );
    const drawing = svg(
      "svg",
      {
        viewBox: layout.box,
        role: "group",
        "aria-label": "The crawler: URLs in each place and the flows between them",
      },
      svg("defs", {}, arrow("head", "arrow"), arrow("head-busy", "arrow busy")),
    );
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
      const group = svg(
        "g",
        { class: "node " + (node.kind || ""), tabindex: 0, role: "img", "data-tip": node.tip || PLACES[node.name] },
        svg("rect", { class: "box", x, y, width: w, height: layout.h, rx: 10 }),
        svg("text", { class: "title", x: x + w / 2, y: y + 20, "text-anchor": "middle", text: node.title }),
        svg("text", { class: "name", x: x + w / 2, y: y + 36, "text-anchor": "middle", text: node.name }),
        value,
        extra,
      );
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
    attr(
      n.group,
      "aria-label",
      NODES[id].title + (NODES[id].name ? ", " + NODES[id].name : "") + ": " + value + (extra ? ", " + extra : ""),
    );
  }

  flow(id, perSecond) {
    const f = this.flows[id];
    if (!f) return;
    const known = perSecond !== null && Number.isFinite(perSecond);
    const busy = known && perSecond >= 0.5;
    text(f.figure, known ? compact(Math.max(0, Math.round(perSecond))) : NONE);
    text(f.unit, "/s");
    attr(f.path, "class", busy ? "edge busy" : "edge");
    attr(f.path, "marker-end", busy ? "url(#head-busy)" : "url(#head)");
    f.path.style.strokeWidth = busy ? Math.min(5, 1.5 + Math.log10(1 + perSecond) * 0.6).toFixed(1) : "";
  }

  // show fills the drawing.
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
    for (const [id, counter] of Object.entries(FLOWS)) this.flow(id, c(counter));
    this.flow(
      "unique",
      flow.rate((x) => x.unique),
    );
    this.flow("stored", d.fetched);
    const denied = c("urls_denied");
    // The wide layout has an edge of its own for what RobotsCache refuses and sets aside.
    const refused = flow.rate((x) => (counts(x).places.refused ?? 0) + (counts(x).places.held ?? 0));
    this.flow("refused", this.wide && refused !== null ? refused - denied : refused);
    this.node("links", compact(s.counters?.links ?? 0), "in all");
    this.node("fetch", count(s.connections?.busy ?? 0), "of " + count(s.connections?.limit ?? 0));
    this.node("parse", compact(c("links") === null ? NaN : Math.round(c("links"))), "links/s");
    sync(
      byID("places"),
      PLACE_NAMES,
      (name) => name,
      (name) =>
        el(
          "tr",
          {},
          el("th", { scope: "row", text: placeText(name) }),
          el("td", { class: "n" }),
          el("td", { class: "n" }),
          el("td", { class: "wrap", text: PLACES[name] }),
        ),
      (row, name) => {
        text(row.children[1], count(places[name] ?? 0));
        text(row.children[2], d[name] === null ? NONE : fixed(d[name], 1));
      },
    );
  }

  // structures adds URLseen's fill.
  structures(body) {
    this.body = body;
    const seen = (body.drums || []).find((x) => x.name === "urlseen");
    if (seen) attr(this.meter, "width", (Math.max(0, Math.min(1, seen.full)) * this.meterWidth).toFixed(1));
  }
}
