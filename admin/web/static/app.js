// The start of the page: it connects the API to the panels, and keys to actions.

import { attr, byID, el, Samples, text } from "./dom.js";
import { clock, duration, instant, sentence } from "./format.js";
import { ask, startSearch } from "./explain.js";
import { Controls, showChanges } from "./controls.js";
import { askToken, frame, open, startTips } from "./dialogs.js";
import { APIError, get, Live, Poll, takeToken } from "./live.js";
import { more, startNav, tabs } from "./nav.js";
import { over, Overview, showNothing } from "./overview.js";
import { addLines, showResources, startLog } from "./resources.js";
import { Ring } from "./ring.js";
import { showAnswers, showHosts, showPLDs } from "./sites.js";
import { showModel, showStructures } from "./structures.js";
import { ago, historyPath, RATES, rates, Trends } from "./trends.js";

const STALE = 3000; // ms without a status after which numbers are marked
const WINDOW = 30; // seconds over which flows are means

// Flow keeps the status of the last half minute and tells how fast a number changes.
class Flow {
  constructor() {
    this.samples = new Samples(2 * WINDOW);
    this.uses = new Samples(4);
  }

  // use takes the means of the connections by use: they see connections that a sample each second misses.
  use(body) {
    const used = (body.uses || []).filter((u) => u.name === "exchange" || u.name === "parse and store");
    this.uses.push({ at: performance.now(), busy: used.reduce((sum, u) => sum + u.now, 0) });
  }

  // busy returns the mean number of busy connections in the last seconds.
  busy() {
    const list = this.uses.list.filter((u) => performance.now() - u.at < 13_000);
    if (!list.length) return this.mean((x) => x.connections?.busy || 0, 10);
    return list.reduce((sum, u) => sum + u.busy, 0) / list.length;
  }

  push(s) {
    const last = this.samples.last;
    const t = new Date(s.time).getTime() / 1000;
    if (last && (last.s.crawl !== s.crawl || last.s.started !== s.started || t < last.t || t - last.t > WINDOW))
      this.samples.list = [];
    const { time, crawl, started, counters, places, unique, connections, rates } = s;
    this.samples.push({ t, s: { time, crawl, started, counters, places, unique, connections, rates } });
    while (this.samples.list.length > 2 && t - this.samples.list[0].t > WINDOW) this.samples.list.shift();
  }

  // within returns the samples of the last seconds.
  within(seconds) {
    const { list } = this.samples;
    return list.filter((x) => x.t >= list[list.length - 1].t - seconds - 0.5);
  }

  // rate returns the change of f(status) a second over the last seconds, null if it is not known yet.
  rate(f, seconds = WINDOW) {
    const list = this.within(seconds);
    if (list.length < 2) return null;
    const [a, b] = [list[0], list[list.length - 1]];
    return b.t - a.t < 0.5 ? null : (f(b.s) - f(a.s)) / (b.t - a.t);
  }

  // mean returns the mean of f(status) over the last seconds.
  mean(f, seconds) {
    const list = this.within(seconds);
    return list.reduce((sum, x) => sum + f(x.s), 0) / Math.max(1, list.length);
  }
}

const flow = new Flow();
const overview = new Overview();
const ring = new Ring();
const polls = {};
const controls = new Controls(() => refresh());
const actions = (host, dialog) => controls.actions(host, dialog);
const explain = (what) => ask(what, actions);
const trends = new Trends(() => {
  polls.history.seconds = trends.range.every;
  polls.history.now();
});

let last = null;

function refresh() {
  polls.limits.now();
  polls.changes.now();
}

function show(s) {
  last = s;
  flow.push(s);
  overview.show(s, flow);
  ring.show(s, flow);
  showAnswers(s);
  showResources(s);
  showModel(s.model);
  controls.showState(s);
  if (byID("cluster-link").hidden === Boolean(s.cluster)) {
    byID("cluster-link").hidden = !s.cluster;
    more();
  }
  fresh();
}

// fresh marks numbers that are old.
let failure = null;
const live = new Live({
  status: (s) => {
    failure = null;
    show(s);
  },
  event: (name, body) => {
    if (name === "log") addLines([body]);
    else if (name === "change") refresh();
    else if (name === "problem") failed(new APIError(body.status, body.detail || body.title));
  },
  fail: failed,
});

function failed(e) {
  failure = e;
  if (e.status === 401) needToken(e.message);
  fresh();
}

// needToken asks for the token until the reader closes the dialog without one.
let declined = false;

async function needToken(why) {
  if (declined) return;
  declined = !(await askToken(sentence(why) + "."));
  if (!declined) live.retry();
}

let since = performance.now(); // when the page became visible

function fresh() {
  const { age } = live;
  const old = Math.min(age, performance.now() - since) > STALE;
  const box = byID("fresh");
  const ended = Boolean(last) && over(last);
  if (ended) {
    attr(box, "data-level", "off");
    text(byID("fresh-text"), "Finished");
  } else if (!old) {
    attr(box, "data-level", last ? "ok" : "off");
    text(byID("fresh-text"), last ? "Live" : "Connecting");
  } else {
    attr(box, "data-level", "bad");
    text(byID("fresh-text"), failure?.status ? "No status" : "No answer");
    const t = last && instant(last.time);
    const why = failure ? sentence(failure.message).replace(/\.?$/, ".") : "The server does not answer.";
    text(
      byID("stale-text"),
      t ? "These numbers are from " + clock(t) + ", " + duration(Math.round(age / 1000)) + " ago. " + why : why,
    );
    if (!last && byID("health-text").textContent !== why) showNothing(why);
  }
  if (old && !ended && byID("stale").hidden) text(byID("announce"), "No answer from the server.");
  byID("stale").hidden = !old || ended; // after the end the banner says of when the numbers are
  attr(document.body, "data-stale", old && !ended ? "" : null);
}

// poll asks for a path while one of the elements is visible; its note shows errors.
function poll(name, ids, path, seconds, done) {
  const note = document.querySelector('[data-error="' + name + '"]');
  polls[name] = new Poll([ids].flat().map(byID), path, seconds, done, (e) => {
    if (e?.status === 401) needToken(e.message);
    if (note) text(note, e && e.status ? "Not shown: " + e.message : "");
  });
}

let order = "indegree";

function startPolls() {
  poll("slots", ["slots-now", "t-busy", "ring"], "slots", 3, (b) => {
    flow.use(b);
    overview.slots(b);
  });
  poll(
    "history",
    "trends",
    () => trends.path(),
    trends.range.every,
    (b) => trends.show(b),
  );
  poll("structures", ["ring", "structures"], "structures", 3, (b) => {
    ring.structures(b);
    showStructures(b);
  });
  poll("hosts", "hosts", "hosts?sort=trouble&limit=50", 10, (b) => showHosts(b, explain));
  poll(
    "plds",
    "plds",
    () => "plds?limit=50&sort=" + order,
    30,
    (b) => showPLDs(b, explain),
  );
  poll("limits", "control-cards", "limits", 30, (b) => controls.showLimits(b));
  poll("changes", "changes", "changes?limit=100", 30, showChanges);
  poll("log", "lines", "log?lines=200", 600, (b) => addLines(b.lines || [], true));
  get(historyPath(ago(300), RATES, 300)).then(
    (b) => {
      const { pages, bits } = rates(b);
      overview.past(pages, bits);
    },
    () => {
      /* the sparklines begin now */
    },
  );
  const sorts = { indegree: "In-degree", pages: "Pages", bytes: "Bytes" };
  byID("pld-sort").append(
    ...Object.entries(sorts).map(([name, title]) =>
      el("button", {
        type: "button",
        text: title,
        "aria-pressed": name === order,
        onclick: (e) => {
          order = name;
          for (const b of byID("pld-sort").children) attr(b, "aria-pressed", String(b === e.currentTarget));
          polls.plds.now();
        },
      }),
    ),
  );
}

const THEMES = ["system", "light", "dark"];

function nextTheme() {
  const now = document.documentElement.dataset.theme || "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  attr(document.documentElement, "data-theme", next === "system" ? null : next);
  try {
    localStorage.setItem("drumbeat-theme", next);
  } catch {
    /* not kept */
  }
  nameTheme();
}

function nameTheme() {
  const now = document.documentElement.dataset.theme || "system";
  for (const name of ["aria-label", "title"])
    attr(byID("theme"), name, "Colours: " + (now === "system" ? "as the system" : now));
}

const KEYS = [
  ["/", "Explain a URL, host, domain or address", () => byID("asked").focus()],
  ["r", "Next time range of the trends", () => trends.next()],
  ["t", "Colours: system, light, dark", nextTheme],
  ["p", "Pause or resume (asks first)", () => controls.askPause()],
  ["c", "Write a checkpoint (asks first)", () => controls.askCheckpoint()],
  ["?", "This list", () => help()],
];

let keysOn = true;
try {
  keysOn = localStorage.getItem("drumbeat-keys") !== "off";
} catch {
  /* on */
}

function help() {
  if (document.querySelector("dialog[open]")) return;
  const box = el("input", {
    type: "checkbox",
    onchange: () => {
      keysOn = box.checked;
      try {
        localStorage.setItem("drumbeat-keys", keysOn ? "on" : "off");
      } catch {
        /* not kept */
      }
    },
  });
  box.checked = keysOn;
  const rows = [
    ...KEYS.slice(0, -1),
    ["1–" + tabs.length, "Go to a section"],
    ["Esc", "Close"],
    ["?", "This list"],
  ];
  open(
    frame(
      "Keyboard shortcuts",
      "",
      el(
        "dl",
        { class: "keys" },
        rows.flatMap(([key, what]) => [el("dt", {}, el("kbd", { text: key })), el("dd", { text: what })]),
      ),
      el("label", { class: "check" }, box, "Use single-key shortcuts"),
      el("p", {
        class: "muted",
        text: "Words with a dotted line have an explanation: point at them, touch them or move to them with Tab. Times are local; their tooltips show UTC.",
      }),
    ),
  );
}

function startKeys() {
  document.addEventListener("keydown", (e) => {
    if (
      !keysOn ||
      e.ctrlKey ||
      e.metaKey ||
      e.altKey ||
      document.querySelector("dialog[open]") ||
      e.target.closest("input, textarea, select")
    )
      return;
    const tab = tabs[Number(e.key) - 1];
    const run = tab ? () => tab.click() : KEYS.find(([key]) => key === e.key)?.[2];
    if (!run) return;
    e.preventDefault();
    run();
  });
}

takeToken();
window.addEventListener("hashchange", () => {
  takeToken();
  live.retry();
});
startTips();
startKeys();
startNav();
startLog();
startSearch(actions);
nameTheme();
byID("theme").addEventListener("click", nextTheme);
byID("help").addEventListener("click", help);
byID("retry").addEventListener("click", () => {
  declined = false;
  live.retry();
});
document.addEventListener("visibilitychange", () => {
  since = performance.now();
  fresh();
});
setInterval(fresh, 500);
startPolls();
live.run();
