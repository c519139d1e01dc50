// URLseen's buckets and passes, BEAST's queues, all repositories and queues, and I/O measured and predicted.

import { attr, byID, el, size, sync, text, tip } from "./dom.js";
import { bytes, compact, count, duration, fixed, NONE, percent } from "./format.js";
import { PLACES, placeText, TERMS } from "./words.js";

const BARS = 120; // most bars of BEAST

// facts fills a list of terms and values: [term, value, tooltip, title].
export function facts(list, items) {
  sync(
    list,
    items,
    (i) => i[0],
    ([term, , explanation]) => el("div", {}, el("dt", {}, tip(term, explanation)), el("dd")),
    (node, [, value, , title]) => {
      text(node.lastChild, value);
      attr(node.lastChild, "title", title);
    },
  );
}

// none fills a table without rows.
export const none = (columns, words) => ({ none: true, columns, words });

const SHORT = 10; // rows of a table before its button is pressed; app.css hides the others

// shorten hides all but the first rows of a table behind a button.
function shorten(body, rows) {
  const card = body.closest(".card");
  const short = body.querySelector(".far") ? SHORT + 2 : SHORT; // rows of one line leave room for more
  let button = card.querySelector(".more");
  if (!button) {
    attr(body, "data-short", "");
    button = el("button", {
      type: "button",
      class: "small more",
      onclick: () => {
        attr(body, "data-short", "short" in body.dataset ? null : "");
        shorten(body, Number(button.dataset.rows));
      },
    });
    card.querySelector(".scroll").after(button);
  }
  button.dataset.rows = rows;
  button.hidden = rows <= short;
  text(button, "short" in body.dataset ? "Show all " + count(rows) : "Show the first " + short);
}

// fillShort fills a table that shows ten rows at first.
export function fillShort(body, items, ...rest) {
  fillRows(body, items, ...rest);
  shorten(body, items.length);
}

// fillRows fills a table body. cells(item) returns strings, or new nodes when the row's text changes.
export function fillRows(body, items, key, make, update) {
  sync(
    body,
    items,
    (i, n) => (i.none ? "none" : key(i, n)),
    (i) => (i.none ? el("tr", {}, el("td", { class: "none", colspan: i.columns, text: i.words })) : make(i)),
    (row, i, n) => {
      if (!i.none) update(row, i, n);
    },
  );
}

const DRUMS = {
  urlseen: TERMS.urlseen,
  "pldindegree-edges": "Links between domains, each once.",
  pldindegree: "The in-degree of each domain.",
  robotscache: "robots.txt rules and addresses by origin.",
  robotsrequested: "Prevents duplicate requests for robots.txt.",
  names: "The names of hosts and domains.",
};
const QUEUES = {
  ...PLACES,
  robotsfetch: "QD: hosts waiting for a robots.txt request.",
  robotsdeferred: "Requests for robots.txt due later.",
};

const QUEUE_NAMES = {
  robotsfetch: "Requests for robots.txt",
  robotsdeferred: "robots.txt due later",
  render: "Pages to render",
  ordered: "Enqueued by the operator",
  objects: "Files to upload",
  walklog: "Steps of the walk",
};

function showSeen(drum) {
  if (!drum) return;
  const state = drum.running
    ? "A pass is looking up all waiting links."
    : drum.pending
      ? "The buckets of waiting links are " + percent(drum.full) + " full."
      : "No links are waiting.";
  text(byID("seen-state"), state);
  const fill = drum.fill || [];
  const strip = byID("seen-fill");
  const full = drum.full || 0;
  const words = !fill.length ? "No bucket data" : full >= 0.01 ? "" : drum.pending ? "nearly empty" : "empty";
  attr(strip, "class", words ? "strip low" : "strip");
  sync(
    strip,
    [...fill, ...(words ? ["words"] : [])],
    (v, i) => (v === "words" ? v : i),
    (v) => (v === "words" ? el("span", { class: "empty" }) : el("i")),
    (bar, v) => {
      if (v === "words") return text(bar, words);
      size(bar, "height", v);
      attr(bar, "class", v >= 0.995 ? "full" : null);
    },
  );
  const group = fill.length ? Math.round(drum.buckets / fill.length) : 0;
  text(byID("seen-bar"), group > 1 ? "a bar is the mean of " + count(group) + " buckets" : group ? "a bar is a bucket" : "");
  const high = fill.reduce((a, b) => Math.max(a, b), 0);
  const low = fill.reduce((a, b) => Math.min(a, b), fill.length ? 1 : 0);
  attr(
    strip,
    "aria-label",
    `Fill of ${count(drum.buckets)} buckets: from ${percent(low)} to ${percent(high)}, mean ${percent(drum.full)}`,
  );
  facts(byID("seen-facts"), [
    ["URLs known", compact(drum.keys), TERMS.urlseen, count(drum.keys)],
    ["Links waiting", compact(drum.pending), TERMS.fill, count(drum.pending)],
    ["Size waiting", bytes(drum.pendingBytes)],
    ["Buckets", count(drum.buckets)],
    ["Fullest bucket", percent(high), TERMS.fill],
    ["Passes", count(drum.passes), TERMS.pass],
    ["Last pass", drum.lastPassSeconds ? duration(drum.lastPassSeconds) : NONE],
    ["A pass now takes", drum.nextPassSeconds ? "≈ " + duration(drum.nextPassSeconds) : NONE],
  ]);
}

// meters fills lines of name, bar and value; the longest bar is the largest value.
function meters(id, rows) {
  const high = Math.max(1e-9, ...rows.map(([, n]) => n));
  sync(
    byID(id),
    rows,
    (r) => r[0],
    ([name, , , explanation]) =>
      el(
        "div",
        { class: "meterline" },
        tip(name, explanation),
        el("div", { class: "progress" }, el("i")),
        el("b", { class: "n" }),
      ),
    (node, [, n, words]) => {
      size(node.children[1].firstChild, "width", n / high);
      text(node.children[2], words);
    },
  );
}

function showBeast(b) {
  if (!b) return;
  const failed = typeof b.failed === "object" ? b.failed : { urls: b.failed };
  const lanes = b.lanes || [];
  const several = lanes.length > 1;
  const nameOf = (q) => "Q(" + q.number + ")" + (several ? " of lane " + q.lane : "");
  const currentOf = (q) => (several && lanes[q.lane] ? lanes[q.lane].current : b.current);
  const queues = [...(b.queues || [])].sort((a, c) => (a.lane || 0) - (c.lane || 0) || a.number - c.number);
  const waiting = queues.reduce((sum, q) => sum + q.urls, 0);
  text(
    byID("beast-state"),
    queues.length || failed.urls
      ? "Queue Q(" + b.current + ") is read now" + (b.scanning ? ", and so are the URLs over budget." : ".")
      : "The queues are empty.",
  );
  const shown = queues.slice(0, BARS);
  const high = Math.max(1, ...shown.map((q) => q.urls));
  const bars = shown.map((q, i) => ({
    key: (q.lane || 0) + "/" + q.number,
    urls: q.urls,
    kind: [q.number === currentOf(q) && "current", i && q.lane !== shown[i - 1].lane && "lane"].filter(Boolean).join(" "),
    name: nameOf(q),
  }));
  const box = byID("beast-bars");
  sync(
    box,
    bars.length ? bars : [{ key: "none" }],
    (x) => x.key,
    (x) => (x.key === "none" ? el("span", { class: "empty", text: "The queues are empty" }) : el("i")),
    (bar, x) => {
      if (x.key === "none") return;
      size(bar, "height", x.urls / high);
      attr(bar, "class", x.kind || null);
      attr(bar, "title", x.name + ": " + count(x.urls) + " URLs");
    },
  );
  attr(
    box,
    "aria-label",
    `BEAST: ${count(waiting)} URLs in ${count(queues.length)} queues from Q(${b.current}), ${count(failed.urls)} in QF`,
  );
  text(byID("beast-high"), bars.length ? compact(high) : "\u00a0");
  text(byID("beast-first"), shown.length ? nameOf(shown[0]) : "");
  text(byID("beast-last"), shown.length > 1 ? nameOf(shown[shown.length - 1]) : "");
  meters("beast-share", [
    ["In the queues", waiting, compact(waiting), TERMS.beast],
    ["Over budget (QF)", failed.urls || 0, compact(failed.urls), PLACES.failed],
  ]);
  facts(byID("beast-facts"), [
    ["Read now", "Q(" + b.current + ")", TERMS.queue],
    ["Queues ahead", count(b.horizon), TERMS.horizon],
    ["Scans of QF", count(b.scans), PLACES.failed],
    ...(several ? [["Priority", b.priority, TERMS.lane]] : []),
    ...(several ? lanes : []).map((l, i) => [
      "Lane " + i + ", weight " + count(l.weight),
      compact(l.urls) + (l.failed ? " + " + compact(l.failed) + " in QF" : ""),
      TERMS.lane,
      count(l.urls) + " URLs in queues, " + count(l.failed) + " in QF",
    ]),
  ]);
  const rows = [...queues.slice(0, 200), { number: "QF", urls: failed.urls || 0, bytes: failed.bytes }];
  fillRows(
    byID("beast-table"),
    rows,
    (q) => (q.lane || 0) + "/" + q.number,
    () => el("tr", {}, el("th", { scope: "row" }), el("td", { class: "n" }), el("td", { class: "n" })),
    (row, q) => {
      text(row.children[0], q.number === "QF" ? "QF" : nameOf(q));
      text(row.children[1], count(q.urls));
      text(row.children[2], bytes(q.bytes));
    },
  );
}

export function showStructures(body) {
  const drums = body.drums || [];
  showSeen(drums.find((d) => d.name === "urlseen"));
  showBeast(body.beast);
  fillRows(
    byID("drums"),
    drums.length ? drums : [none(11, "None yet")],
    (d) => d.name,
    (d) => {
      const bar = el("div", { class: "progress" }, el("i"));
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, tip(d.name, DRUMS[d.name])),
        el("td", { class: "n" }),
        el("td", { class: "n" }),
        el("td", { class: "fillcell" }, bar),
        el("td", { class: "nowrap" }),
        ...[0, 1, 2, 3, 4, 5].map(() => el("td", { class: "n" })),
      );
    },
    (row, d) => {
      const cell = row.children;
      text(cell[1], compact(d.keys));
      text(cell[2], compact(d.pending));
      size(cell[3].firstChild.firstChild, "width", d.full);
      attr(cell[3], "title", percent(d.full));
      text(cell[4], d.running ? "runs" : "idle");
      text(cell[5], count(d.passes));
      text(cell[6], d.lastPassSeconds ? duration(d.lastPassSeconds) : NONE);
      text(cell[7], bytes(d.diskBytes));
      text(cell[8], bytes(d.ioBytes));
      text(cell[9], d.tupleIOBytes ? bytes(d.tupleIOBytes) : NONE);
      text(cell[10], d.predictedTupleIOBytes ? bytes(d.predictedTupleIOBytes) : NONE);
    },
  );
  const queues = body.queues || [];
  fillRows(
    byID("queues"),
    queues.length ? queues : [none(3, "None yet")],
    (q) => q.name,
    (q) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, tip(QUEUE_NAMES[q.name] || placeText(q.name), QUEUES[q.name])),
        el("td", { class: "n" }),
        el("td", { class: "n" }),
      ),
    (row, q) => {
      text(row.children[1], compact(q.urls));
      text(row.children[2], bytes(q.bytes));
    },
  );
}

// showModel compares URLseen's I/O with the paper's formulas.
export function showModel(model) {
  const { measured = 0, predicted = 0 } = model || {};
  const high = Math.max(measured, predicted, 1e-9);
  const unit = model?.unit || "bytes of disk I/O per link";
  const rows =
    measured || predicted
      ? [
          ["Measured I/O", measured],
          ["Predicted I/O", predicted],
        ]
      : [];
  const box = byID("model");
  sync(
    box,
    [...rows, ["unit", unit]],
    (r) => r[0],
    ([name]) =>
      name === "unit"
        ? el("p", { class: "sub" }, tip(unit, TERMS.io), el("span"))
        : el(
            "div",
            { class: "meterline" },
            el("span", { text: name }),
            el("div", { class: "progress" }, el("i")),
            el("b", { class: "n" }),
          ),
    (node, [name, value]) => {
      if (name === "unit") {
        text(
          node.lastChild,
          rows.length
            ? predicted
              ? "; measured is " + percent(measured / predicted) + " of predicted"
              : ""
            : ": no pass has ended yet",
        );
        return;
      }
      size(node.children[1].firstChild, "width", value / high);
      text(node.children[2], fixed(value, 1));
    },
  );
}
