// The crawler as its architecture page draws it: the places of URLs, and what flows between them.

import { attr, byID, el, svg, sync, text } from "./dom.js";
import { compact, count, fixed, NONE } from "./format.js";
import { counts, over } from "./overview.js";
import { ENDED, PLACE_NAMES, PLACES, TITLES } from "./words.js";

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

const titleOf = (id) => TITLES[id] || NODES[id].title;

// NODES are the boxes that are no place, and what a place has of its own. A box has one name.
const NODES = {
  links: { title: "Links", tip: "Links of fetched pages, seeds and sitemaps." },
  fetch: { title: "Fetch", tip: "Requests under way, of the connections allowed." },
  parse: { title: "Parse", tip: "Pages are parsed for links." },
  refused: { tip: "URLs without a response, with a reason; and those that this run's flags forbid." },
};

// The layouts: boxes as [x, y, width], edges as [id, path, label x, label y, anchor]. No edge crosses another one.
const WIDE = {
  box: "0 0 1300 452",
  h: 80,
  at: {
    links: [10, 20, 124],
    unstreamed: [200, 20, 156],
    star: [422, 20, 140],
    beast: [628, 20, 150],
    robotscheck: [846, 20, 250],
    ready: [1162, 20, 128],
    failed: [506, 190, 150],
    awaitrobots: [758, 190, 150],
    refused: [946, 190, 116],
    deferred: [1072, 190, 130],
    ram: [1072, 360, 218],
    fetch: [846, 360, 156],
    fetched: [600, 360, 156],
    parse: [354, 360, 156],
  },
  edges: [
    ["links", "M134 60H194", 164, 50],
    ["unique", "M356 60H416", 386, 50],
    ["placed", "M562 60H622", 592, 50],
    ["released", "M778 60H840", 809, 50],
    ["allowed", "M1096 60H1156", 1126, 50],
    ["over", "M642 100V184", 650, 150, "start"],
    ["scanned", "M534 190V106", 526, 150, "end"],
    ["unknown", "M862 100V184", 854, 150, "end"],
    ["back", "M892 190V106", 900, 150, "start"],
    ["denied", "M1004 100V184", 996, 150, "end"],
    ["due", "M1084 190V106", 1092, 150, "start"],
    ["put", "M1134 360V276", 1126, 320, "end"],
    ["admitted", "M1244 100V354", 1252, 146, "start"],
    ["granted", "M1072 400H1008", 1040, 390],
    ["stored", "M846 400H762", 804, 390],
    ["pages", "M600 400H516", 558, 390],
    ["parsed", "M354 400H72V106", 80, 320, "start"],
    ["refused", "M974 360V276", 966, 320, "end"],
  ],
};

// narrow puts the way of a URL into one column, with the side ways at its right.
function narrow() {
  const h = 76;
  const pitch = 118;
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
    failed: y("star") + 59,
    awaitrobots: y("robotscheck"),
    deferred: y("ready") + 59,
    refused: y("fetch"),
  };
  for (const [id, top] of Object.entries(side)) at[id] = [238, top, 128];
  edges.push(
    ["scanned", "M302 " + at.failed[1] + "V" + (y("star") + 38) + "H196", 310, y("star") + 32, "start"],
    ["over", "M190 " + (y("beast") + 38) + "H302V" + (at.failed[1] + h + 6), 198, y("beast") + 56, "start"],
    ["unknown", "M190 " + (y("robotscheck") + 26) + "h42", 211, y("robotscheck") + 16],
    ["back", "M238 " + (y("robotscheck") + 52) + "h-42", 217, y("robotscheck") + 70],
    [
      "due",
      "M302 " + at.deferred[1] + "V" + (y("ready") - 16) + "H180V" + (y("robotscheck") + h + 6),
      196,
      y("ready") - 22,
      "start",
    ],
    ["put", "M190 " + (y("ram") + 38) + "H302V" + (at.deferred[1] + h + 6), 198, y("ram") + 56, "start"],
    ["refused", "M190 " + (y("fetch") + 38) + "h42", 211, y("fetch") + 28],
    ["parsed", "M30 " + (y("parse") + 38) + "H12V46H24", 18, y("ready") - 12, "start"],
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
    for (const [id, [x, y, w]] of Object.entries(layout.at)) {
      const node = NODES[id] || {};
      const kind = TITLES[id] ? (ENDED.has(id) ? "place end" : "place") : "";
      const value = svg("text", { class: "value", x: x + w / 2, y: y + 44, "text-anchor": "middle" });
      const extra = svg("text", { class: "extra", x: x + w / 2, y: y + 62, "text-anchor": "middle" });
      const group = svg(
        "g",
        { class: "node " + kind, tabindex: 0, role: "img", "data-tip": node.tip || PLACES[id] },
        svg("rect", { class: "box", x, y, width: w, height: layout.h, rx: 10 }),
        svg("text", { class: "title", x: x + w / 2, y: y + 20, "text-anchor": "middle", text: titleOf(id) }),
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
      titleOf(id) + ": " + value + (extra ? ", " + extra : ""),
    );
  }

  flow(id, perSecond) {
    const f = this.flows[id];
    if (!f) return;
    const known = perSecond !== null && Number.isFinite(perSecond);
    const busy = known && perSecond >= 0.5;
    text(f.figure, busy ? compact(Math.round(perSecond)) : ""); // a figure only where something flows
    text(f.unit, busy ? "/s" : "");
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
      const held = name === "refused" && places.held ? compact(places.held) + " not allowed" : "";
      if (this.nodes[name]) this.node(name, compact(places[name] ?? 0), held || change);
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
    this.node("links", compact(s.counters?.links ?? 0), "found in all");
    const busy = over(s) ? 0 : flow.busy();
    this.node("fetch", busy > 0 && busy < 9.95 ? fixed(busy, 1) : count(busy), "of " + count(s.connections?.limit ?? 0) + " connections");
    this.node("parse", compact(c("links") === null ? NaN : Math.round(c("links"))), "links/s");
    sync(
      byID("places"),
      PLACE_NAMES,
      (name) => name,
      (name) =>
        el(
          "tr",
          {},
          el("th", { scope: "row", text: TITLES[name] }),
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
