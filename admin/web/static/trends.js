// Charts of the history. Counters are differentiated here; times without a run are gaps.

import { attr, byID, el, sync, text } from "./dom.js";
import { clock, compact, count, day, instant, NONE, percent, rate, utc } from "./format.js";
import { get } from "./live.js";

/* global uPlot */

export const RANGES = [
  { name: "1 h", seconds: 3600, every: 15 },
  { name: "1 d", seconds: 86_400, every: 60 },
  { name: "7 d", seconds: 7 * 86_400, every: 300 },
  { name: "All", seconds: 0, every: 300 },
];

const INTEGERS = Array.from({ length: 33 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
const POINTS = 600;
const TABLE_ROWS = 24;
// The metrics, as in /metrics without the prefix.
const PAGES = "pages_total";
const BYTES = "received_bytes_total";
const FAILED = "attempts_failed_total";
const SAMPLES = "slot_samples_total";
const SLOT_NAMES = [
  "exchange",
  "parse and store",
  "cpu",
  "limit",
  "politeness",
  "admission",
  "dns",
  "robots.txt",
  "disk",
  "deferred",
  "space or outage",
  "new links",
];
const slotMetric = (name) => 'slots_sampled_total{use="' + name + '"}';

export const RATES = [PAGES, BYTES];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function median(list) {
  return [...list].sort((a, b) => a - b)[list.length >> 1] ?? 0;
}

// derive turns totals into rates a second at the same times. It leaves a gap where a value is missing, where a
// total falls (a crash took the crawl back to its checkpoint), after a start, and where points are far apart.
export function derive(times, totals, step, starts = []) {
  const out = [null];
  const far = 10 * Math.max(step, median(times.slice(1).map((t, i) => t - times[i])));
  let next = 0;
  for (let i = 1; i < times.length; i++) {
    const dt = times[i] - times[i - 1];
    while (next < starts.length && starts[next] <= times[i - 1]) next++;
    const began = next < starts.length && starts[next] <= times[i];
    const [a, b] = [totals?.[i - 1], totals?.[i]];
    const gap = typeof a !== "number" || typeof b !== "number" || b < a || dt <= 0 || dt > far || began;
    out.push(gap ? null : (b - a) / dt);
  }
  return out.slice(0, times.length);
}

// historyPath asks for the time from a date until now.
export function historyPath(from, metrics, points = POINTS) {
  return (
    "history?" +
    new URLSearchParams({ points, metrics: metrics.join(","), from: from.toISOString(), to: new Date().toISOString() })
  );
}

// ago is the date some seconds ago.
export const ago = (seconds) => new Date(Date.now() - seconds * 1000);

// rates returns the rates of a history's counters for each second, without gaps and without steps.
export function rates(body) {
  const times = body.times || [];
  const seconds = (i) => Math.max(1, Math.min(60, Math.round(times[i] - times[i - 1])));
  const of = (name, factor) => {
    let was = null;
    return derive(times, body.series?.[name], body.step || 1).flatMap((v, i) => {
      if (v === null) return [];
      const from = was ?? v;
      was = v;
      return Array.from({ length: seconds(i) }, (_, k) => (from + ((v - from) * (k + 1)) / seconds(i)) * factor);
    });
  };
  return { pages: of(PAGES, 1), bits: of(BYTES, 8e-6) };
}

const starts = (body) =>
  (body.events || [])
    .filter((e) => e.what === "start")
    .map((e) => new Date(e.time).getTime() / 1000)
    .sort((a, b) => a - b);

// Chart is a card with a plot, a readout, and a table.
class Chart {
  constructor(id, title, unit, options) {
    Object.assign(this, { title, unit, data: [[]], names: [title], stacked: false, kinds: [0], format: rate }, options);
    this.card = byID(id);
    this.readout = el("span", { class: "readout muted" });
    this.box = el("div", { class: "plot", role: "img", "aria-label": title });
    this.empty = el("p", { class: "empty", text: "No history yet" });
    this.box.append(this.empty);
    this.body = el("tbody");
    this.headRow = el("tr");
    this.details = el(
      "details",
      { class: "alt" },
      el("summary", { text: "Show as a table" }),
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
        el("table", {}, el("thead", {}, this.headRow), this.body),
      ),
    );
    this.details.addEventListener("toggle", () => this.table());
    this.legend = this.stacked ? el("ul", { class: "legend" }) : null;
    this.card.append(
      el("figcaption", {}, el("h3", { text: unit ? title + ", " + unit : title }), this.readout),
      this.box,
      ...(this.legend ? [this.legend] : []),
      this.details,
    );
    new ResizeObserver(() => this.resize()).observe(this.box);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (this.plot && width && (width !== this.plot.width || height !== this.plot.height))
      this.plot.setSize({ width, height });
  }

  // show draws series over times (Unix seconds). marks are the events.
  show(times, series, marks) {
    this.times = times;
    this.series = series;
    this.marks = marks;
    const any = series.some((list) => list.some((v) => v !== null));
    this.none = any && series.every((list) => list.every((v) => !v));
    this.empty.hidden = any && !(this.none && this.nothing);
    text(this.empty, this.none && this.nothing ? this.nothing : "No history yet");
    let drawn = series;
    if (this.stacked) {
      const sum = times.map(() => 0);
      drawn = series.map((list) => list.map((v, i) => (v === null ? null : (sum[i] += v)))).reverse();
    }
    const key = series.length + this.names.join() + this.none;
    if (this.key !== key) {
      this.plot?.destroy();
      this.plot = null;
      this.key = key;
    }
    const data = [times, ...drawn];
    if (!any) {
      this.plot?.destroy();
      this.plot = null;
    } else if (this.plot) this.plot.setData(data);
    else this.plot = new uPlot(this.options(), data, this.box);
    this.say(null);
    this.table();
  }

  options() {
    const kinds = this.stacked ? [...this.kinds].reverse() : this.kinds;
    const axis = {
      stroke: () => css("--muted"),
      grid: { stroke: () => css("--line"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    return {
      width: this.box.clientWidth,
      height: this.box.clientHeight,
      padding: [10, 28, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: "trends" },
        points: { show: !this.stacked, size: 7 },
        y: false,
        drag: { x: false, y: false },
      },
      scales: { x: { time: true }, y: { range: (u, low, high) => [0, this.high || high * 1.08 || 1] } },
      axes: [
        {
          ...axis,
          size: 30,
          space: 64,
          values: (u, splits, i, s, step) => splits.map((v) => label(new Date(v * 1000), step)),
        },
        {
          ...axis,
          size: 52,
          space: 34,
          // Counts have no tenths, and nothing but zero has no scale.
          ...(this.stacked ? { incrs: INTEGERS } : {}),
          splits: this.none ? () => [0] : undefined,
          values: (u, splits) => splits.map((v) => (v >= 10_000 ? compact(v) : String(Math.round(v * 1000) / 1000))),
        },
      ],
      series: [
        {},
        ...kinds.map((kind) => ({
          stroke: () => css("--c" + kind),
          width: this.stacked ? 0 : 1.6,
          spanGaps: false,
          points: { show: false },
          fill: () => css("--c" + kind) + (this.stacked ? "" : "24"),
        })),
      ],
      hooks: { draw: [(u) => this.mark(u)], setCursor: [(u) => this.say(u.cursor.idx)] },
    };
  }

  // mark draws the events: a line for starts, stops, crashes and changes, a tick below for checkpoints.
  mark(u) {
    const { ctx, bbox } = u;
    ctx.save();
    for (const e of this.marks || []) {
      const x = Math.round(u.valToPos(e.at, "x", true)) + 0.5;
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const minor = e.what === "checkpoint";
      ctx.strokeStyle = css(e.what === "crash" ? "--bad" : e.what === "start" ? "--ok" : "--muted");
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash(minor ? [] : [4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, minor ? bbox.top + bbox.height - 4 * devicePixelRatio : bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  // say writes the values at the cursor, or a summary.
  say(index) {
    const at = typeof index === "number" && this.times ? index : null;
    if (!this.series?.length) return;
    if (this.stacked) {
      const i = at ?? lastIndex(this.series[0]);
      const t = i === null ? null : new Date(this.times[i] * 1000);
      text(this.readout, t ? (at === null ? "last " : "") + clock(t) : "");
      sync(
        this.legend,
        this.names.map((name, k) => ({ name, k })),
        (n) => n.name,
        ({ name, k }) =>
          el("li", {}, el("span", { class: "swatch k" + this.kinds[k] }), el("span", { text: name }), el("b")),
        (node, { k }) =>
          text(
            node.lastChild,
            i === null || this.series[k][i] === null ? NONE : percent(this.series[k][i] / (this.high || 1)),
          ),
      );
      this.summarize(
        i === null ? "no values" : this.names.map((n, k) => n + " " + count(this.series[k][i])).join(", "),
      );
      return;
    }
    const list = this.series[0].filter((v) => v !== null);
    if (at !== null) {
      const v = this.series[0][at];
      text(
        this.readout,
        clock(new Date(this.times[at] * 1000)) +
          "  " +
          (v === null ? "no value" : this.format(v) + (this.unit ? " " + this.unit : "")),
      );
      return;
    }
    const sum = list.length
      ? "mean " +
        this.format(list.reduce((a, b) => a + b, 0) / list.length) +
        "  max " +
        this.format(list.reduce((a, b) => Math.max(a, b), 0))
      : "";
    text(this.readout, sum);
    this.summarize(sum || "no values");
  }

  summarize(words) {
    attr(this.box, "aria-label", this.title + ": " + words);
  }

  // table fills the table with at most TABLE_ROWS times, if it is open.
  table() {
    if (!this.details.open || !this.series) return;
    sync(
      this.headRow,
      ["Time", ...this.names],
      (n) => n,
      (n) => el("th", { scope: "col", class: n === "Time" ? "" : "n", text: n }),
    );
    const step = Math.max(1, Math.ceil(this.times.length / TABLE_ROWS));
    const rows = [];
    for (let i = this.times.length - 1; i >= 0; i -= step) rows.push(i);
    this.body.replaceChildren(
      ...rows.map((i) => {
        const t = new Date(this.times[i] * 1000);
        return el(
          "tr",
          {},
          el("td", { class: "nowrap", title: utc(t), text: clock(t) }),
          ...this.series.map((list) => el("td", { class: "n", text: list[i] === null ? NONE : this.format(list[i]) })),
        );
      }),
    );
  }

  recolor() {
    this.plot?.redraw(false);
  }
}

function lastIndex(list) {
  for (let i = list.length - 1; i >= 0; i--) if (list[i] !== null) return i;
  return null;
}

const two = (n) => String(n).padStart(2, "0");

// label writes a time on the axis: the day at midnight or on long axes.
function label(t, step) {
  if (step >= 86_400 || (t.getHours() === 0 && t.getMinutes() === 0 && t.getSeconds() === 0)) return day(t).slice(5);
  return two(t.getHours()) + ":" + two(t.getMinutes()) + (step < 60 ? ":" + two(t.getSeconds()) : "");
}

export class Trends {
  constructor(changed) {
    this.range = RANGES[0];
    this.pages = new Chart("chart-pages", "Pages", "pages/s");
    this.bits = new Chart("chart-bits", "Download", "Mbit/s");
    this.failures = new Chart("chart-failures", "Failed requests", "per second", { kinds: [10], nothing: "None in this period" });
    this.slots = new Chart("chart-slots", "Connections by use", "", {
      stacked: true,
      names: [],
      kinds: [],
      format: count,
    });
    const buttons = RANGES.map((r) =>
      el("button", { type: "button", text: r.name, "aria-pressed": r === this.range, onclick: () => this.choose(r) }),
    );
    byID("ranges").append(...buttons);
    this.changed = changed;
    new MutationObserver(() => this.recolor()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
  }

  choose(range) {
    this.range = range;
    [...byID("ranges").children].forEach((b, i) => attr(b, "aria-pressed", String(RANGES[i] === range)));
    this.changed();
  }

  // next chooses the next range.
  next() {
    this.choose(RANGES[(RANGES.indexOf(this.range) + 1) % RANGES.length]);
  }

  recolor() {
    for (const c of [this.pages, this.bits, this.failures, this.slots]) c.recolor();
  }

  // path asks for the metrics of the charts.
  async path() {
    const from = this.range.seconds ? ago(this.range.seconds) : await this.begin();
    return historyPath(from, [...RATES, SAMPLES, FAILED, ...SLOT_NAMES.map(slotMetric)]);
  }

  // begin returns the start of the crawl: the first event or sample of its history.
  async begin() {
    if (!this.began) {
      const body = await get(historyPath(new Date(0), [PAGES], 1));
      const known = [
        ...(body.events || []).map((e) => new Date(e.time).getTime()),
        ...(body.times || []).map((t) => t * 1000),
      ];
      if (!known.length) return ago(3600);
      this.began = new Date(known.reduce((a, b) => Math.min(a, b)) - 1000);
    }
    return this.began;
  }

  show(body) {
    const times = (body.times || []).map(Number);
    const step = body.step || 1;
    const from = starts(body);
    const events = (body.events || [])
      .map((e) => ({ ...e, at: new Date(e.time).getTime() / 1000 }))
      .filter((e) => instant(e.time));
    const marks = events.filter((e) => e.what !== "checkpoint" || this.range.seconds === 3600);
    const derived = (name, factor = 1) =>
      derive(times, body.series?.[name], step, from).map((v) => (v === null ? null : v * factor));
    this.pages.show(times, [derived(PAGES)], marks);
    this.bits.show(times, [derived(BYTES, 8e-6)], marks);
    // Failures have no value before the first one.
    const failed = times.map(
      (_, i) => body.series?.[FAILED]?.[i] ?? (typeof body.series?.[PAGES]?.[i] === "number" ? 0 : null),
    );
    this.failures.show(times, [derive(times, failed, step, from)], marks);
    this.showSlots(times, body.series || {}, marks, step, from);
    const listed = events
      .filter((e) => e.what !== "checkpoint" && (!times.length || e.at >= times[0] - step))
      .sort((a, b) => b.at - a.at)
      .slice(0, 12);
    if (!listed.length) listed.push({ what: "none", text: "Only checkpoints" });
    sync(
      byID("events"),
      listed,
      (e) => e.time + e.what + e.text,
      (e) => {
        const t = instant(e.time);
        return el("li", {
          "data-what": e.what,
          class: t ? "" : "none muted",
          title: t ? utc(t) : null,
          text: (t ? clock(t) + " " : "") + (e.text || e.what),
        });
      },
    );
  }

  // showSlots draws the mean number of slots by use: the sum over the samples of an interval by their number.
  showSlots(times, series, marks, step, from) {
    const samples = derive(times, series[SAMPLES], step, from);
    const used = SLOT_NAMES.map((name, kind) => ({
      name,
      kind,
      list: derive(times, series[slotMetric(name)], step, from).map((v, i) =>
        v === null || !samples[i] ? null : v / samples[i],
      ),
    })).filter((u) => u.list.some((v) => v >= 0.1));
    const chart = this.slots;
    chart.names = used.map((u) => u.name);
    chart.kinds = used.map((u) => u.kind);
    const lists = used.map((u) => u.list);
    chart.high = times.reduce(
      (high, _, i) =>
        Math.max(
          high,
          lists.reduce((sum, l) => sum + (l[i] || 0), 0),
        ),
      0,
    );
    chart.show(times, lists, marks);
  }
}
