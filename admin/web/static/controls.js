// What an operator may change. Each change is confirmed, needs the token, and enters the list of changes.

import { attr, byID, el, sync, text } from "./dom.js";
import { confirm, toast } from "./dialogs.js";
import { clock, count, counted, duration, instant, sentence, utc } from "./format.js";
import { send } from "./live.js";
import { fillRows, none } from "./structures.js";
import { OPS } from "./words.js";

const enc = encodeURIComponent;
const AGAIN = "URLs in BEAST's queues after the current one are placed again.";

const labelled = (label, field) => el("label", {}, label, field);

// nameField is a field for a host, PLD or network.
const nameField = (label, name, placeholder) =>
  labelled(label, el("input", { name, placeholder, required: true, autocapitalize: "none", spellcheck: "false" }));

// choice is a field with a list of values and their texts.
const choice = (label, name, options) =>
  labelled(label, el("select", { name }, ...Object.entries(options).map(([value, words]) => el("option", { value, text: words }))));

export class Controls {
  // changed is called after a change, to ask for limits and changes again.
  constructor(changed) {
    this.changed = changed;
    this.state = "";
    byID("control-cards").prepend(
      this.run(),
      this.limits(),
      this.seeds(),
      this.delays(),
      this.blocks(),
      this.budgets(),
      this.functions(),
      this.priorities(),
    );
  }

  // make confirms and makes a change.
  make(question) {
    confirm({
      ...question,
      change: async () => {
        const answer = await question.change();
        this.changed();
        return question.done ? question.done(answer) : undefined;
      },
    });
  }

  run() {
    this.pause = el("button", { type: "button", onclick: () => this.askPause(), text: "Pause" });
    this.drain = el("button", { type: "button", onclick: () => this.askDrain(), text: "Drain" });
    return el(
      "div",
      { class: "card control" },
      el("h3", { text: "Run" }),
      (this.now = el("p", { class: "lead", text: "–" })),
      el(
        "div",
        { class: "buttons" },
        this.pause,
        el("button", { type: "button", text: "Write a checkpoint", onclick: () => this.askCheckpoint() }),
        this.drain,
        el("button", { type: "button", class: "danger", text: "Stop", onclick: () => this.askStop() }),
      ),
    );
  }

  get paused() {
    return this.state === "paused" || Boolean(this.settings?.paused);
  }

  get draining() {
    return this.state === "draining" || Boolean(this.settings?.drain);
  }

  askPause() {
    const op = this.paused ? "resume" : "pause";
    this.make({
      title: this.paused ? "Resume the crawl?" : "Pause the crawl?",
      action: this.paused ? "Resume" : "Pause",
      lines: [
        this.paused
          ? "Requests to sites start again."
          : "No new request starts; those under way finish. Passes and checkpoints continue. A restart keeps the pause.",
      ],
      change: () => send("POST", op),
      done: () => (op === "pause" ? "The crawl pauses." : "The crawl resumes."),
    });
  }

  askCheckpoint() {
    this.make({
      title: "Write a checkpoint now?",
      action: "Write it",
      lines: ["The crawl continues meanwhile. It writes what changed since the last checkpoint."],
      change: () => send("POST", "checkpoint"),
      done: () => "The checkpoint begins.",
    });
  }

  askDrain() {
    const on = !this.draining;
    this.make({
      title: on ? "Drain the crawl?" : "End draining?",
      action: on ? "Drain" : "End draining",
      danger: on,
      lines: [
        on
          ? "The crawl finishes what is queued and drops new links. Dropped links can be found again later."
          : "New links are queued again.",
      ],
      change: () => send("POST", "drain", { on }),
      done: () => (on ? "The crawl drains." : "The crawl queues new links again."),
    });
  }

  askStop() {
    this.make({
      title: "Stop the crawl?",
      action: "Stop",
      danger: true,
      lines: [
        "Requests under way end, a checkpoint follows, and the process exits. This page then stops updating. The same command resumes the crawl.",
      ],
      change: () => send("POST", "stop"),
      done: () => "The crawl stops.",
    });
  }

  // card makes a card with a form. submit(form values) makes the change.
  card(title, fields, button, submit, ...rest) {
    const form = el(
      "form",
      {
        onsubmit: (e) => {
          e.preventDefault();
          submit(Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, String(v).trim()])), form);
        },
      },
      el("div", { class: "fields" }, ...fields),
      el("div", { class: "buttons" }, el("button", { class: button === "Block" ? "danger" : "primary", text: button })),
    );
    return el("div", { class: "card control" }, el("h3", { text: title }), form, ...rest);
  }

  limits() {
    const field = (name, label, placeholder) =>
      labelled(label, el("input", { name, placeholder, autocomplete: "off", maxlength: 500 }));
    return this.card(
      "Limits",
      [
        field("rate", "Requests per second", "100"),
        field("bandwidth", "Bandwidth", "80M"),
        field("connections", "Connections", "500"),
      ],
      "Change limits",
      (v, form) => {
        const body = {};
        for (const name of ["rate", "bandwidth", "connections"])
          if ((form.elements[name].dataset.was || "") !== v[name]) body[name] = v[name];
        if (!Object.keys(body).length) return toast("You have not changed any limit.");
        const lines = Object.entries(body).map(
          ([name, value]) => name + ": " + (value || "back to the flag's value"),
        );
        this.make({
          title: "Change limits?",
          action: "Change",
          lines,
          change: () => send("PUT", "limits", body),
          done: () => "The limits are in force.",
        });
      },
      (this.limitsNow = el("p", { class: "sub", text: " " })),
      el("p", {
        class: "sub",
        text: "Schedules work as in the flags. An empty field restores the flag's value.",
      }),
    );
  }

  seeds() {
    return this.card(
      "Add seeds",
      [
        labelled(
          "URLs or hosts, one per line",
          el("textarea", { name: "seeds", rows: 4, required: true, spellcheck: "false" }),
        ),
      ],
      "Add seeds",
      (v, form) => {
        const seeds = v.seeds
          .split("\n")
          .map((s) => s.trim())
          .filter(Boolean);
        if (!seeds.length) return;
        this.make({
          title: "Add " + counted(seeds.length, "seed") + "?",
          action: "Add",
          lines: [seeds.slice(0, 5).join(", ") + (seeds.length > 5 ? ", …" : "")],
          change: () => send("POST", "seeds", { seeds }),
          done: (a) => {
            const refused = a.refused || [];
            form.elements.seeds.value = refused.map((r) => r.line).join("\n");
            return (
              count(a.accepted) +
              " added" +
              (refused.length
                ? ", " +
                  count(refused.length) +
                  " refused: " +
                  refused
                    .slice(0, 3)
                    .map((r) => r.line + " (" + r.why + ")")
                    .join(", ")
                : "") +
              "."
            );
          },
        });
      },
    );
  }

  delays() {
    this.delayList = el("ul", { class: "inforce" });
    return this.card(
      "Delay of a host",
      [
        nameField("Host", "host", "www.example.com"),
        labelled(
          "Seconds",
          el("input", { name: "delay", type: "number", min: 0, step: "any", required: true, placeholder: "120" }),
        ),
      ],
      "Set the delay",
      (v) => this.askDelay(v.host, Number(v.delay)),
      this.delayList,
    );
  }

  askDelay(host, delay) {
    this.make({
      title: "Set the delay of " + host + "?",
      action: "Set",
      lines: ["The crawl waits " + duration(delay) + " from the end of a response to its next request to this host."],
      change: () => send("PUT", "hosts/" + enc(host) + "/delay", { delay }),
      done: () => host + " has a delay of " + duration(delay) + ".",
    });
  }

  blocks() {
    this.blockList = el("ul", { class: "inforce" });
    return this.card(
      "Block",
      [
        choice("Kind", "kind", { host: "Host", pld: "PLD", net: "Network" }),
        nameField("Name or address", "value", "example.com"),
      ],
      "Block",
      (v) => this.askBlock(v.kind + " " + v.value),
      this.blockList,
    );
  }

  askBlock(rule) {
    this.make({
      title: "Block " + rule + "?",
      action: "Block",
      danger: true,
      lines: [
        "The crawl never contacts it again. Its queued URLs are refused when their turn comes; unblocking does not bring refused URLs back.",
      ],
      change: () => send("POST", "blocks", { rule }),
      done: () => rule + " is blocked.",
    });
  }

  budgets() {
    this.budgetList = el("ul", { class: "inforce" });
    return this.card(
      "Pin a budget",
      [
        nameField("PLD", "pld", "example.com"),
        labelled(
          "URLs per queue",
          el("input", { name: "budget", type: "number", min: 1, step: 1, required: true, placeholder: "500" }),
        ),
      ],
      "Pin the budget",
      (v) => this.askBudget(v.pld, Number(v.budget)),
      this.budgetList,
    );
  }

  askBudget(pld, budget) {
    this.make({
      title: "Pin the budget of " + pld + "?",
      action: "Pin",
      lines: ["At most " + count(budget) + " of its URLs enter each queue of BEAST, whatever its in-degree."],
      change: () => send("PUT", "plds/" + enc(pld) + "/budget", { budget }),
      done: () => "The budget of " + pld + " is " + count(budget) + ".",
    });
  }

  functions() {
    const number = (name, label, placeholder) =>
      labelled(label, el("input", { name, type: "number", min: 1, step: 1, required: true, placeholder }));
    const kinds = ["paper", "equal", "popular", "inverse", "proportional", "supporters"];
    const back = el("button", {
      type: "button",
      text: "Back to the flags",
      onclick: () =>
        this.make({
          title: "Use the budget function set by flags?",
          action: "Use it",
          lines: [AGAIN],
          change: () => send("DELETE", "budget"),
          done: () => "The budget function set by flags is in force.",
        }),
    });
    const card = this.card(
      "Budget function",
      [
        choice("Function", "function", Object.fromEntries(kinds.map((k) => [k, sentence(k)]))),
        number("default", "Least", "10"),
        number("max", "Most", "10000"),
      ],
      "Change the function",
      (v) =>
        this.make({
          title: "Change the budget function?",
          action: "Change",
          danger: true,
          lines: [
            sentence(v.function) +
              ": from " +
              count(Number(v.default)) +
              " to " +
              count(Number(v.max)) +
              " URLs per queue. " +
              AGAIN,
          ],
          change: () => send("PUT", "budget", { function: v.function, default: Number(v.default), max: Number(v.max) }),
          done: (a) =>
            "The budget function is in force" +
            ((a.moves ?? a.moved) === undefined ? "." : "; " + counted(a.moves ?? a.moved, "URL is", "URLs are") + " placed again."),
        }),
      (this.functionNow = el("p", { class: "sub", text: " " })),
    );
    card.querySelector(".buttons").append(back);
    return card;
  }

  priorities() {
    const back = el("button", {
      type: "button",
      text: "Back to the flags",
      onclick: () =>
        this.make({
          title: "Use the priority set by flags?",
          action: "Use it",
          lines: [AGAIN],
          change: () => send("DELETE", "priority"),
          done: () => "The priority set by flags is in force.",
        }),
    });
    const card = this.card(
      "Priority",
      [
        choice("First", "priority", PRIORITIES),
        labelled(
          "Weights of the lanes",
          el("input", { name: "weights", placeholder: "8 4 2 1", inputmode: "numeric", autocomplete: "off", maxlength: 200 }),
        ),
      ],
      "Change the priority",
      (v) => {
        const weights = v.weights.split(/[\s,:]+/).filter(Boolean).map(Number);
        if (!weights.every((w) => Number.isInteger(w) && w >= 0))
          return toast("A weight is a whole number.");
        this.make({
          title: "Change the priority?",
          action: "Change",
          danger: true,
          lines: [
            PRIORITIES[v.priority] +
              ", with " +
              (weights.length ? "weights " + weights.join(" ") : "the weights set by flags") +
              ". " +
              AGAIN,
          ],
          change: () => send("PUT", "priority", weights.length ? { priority: v.priority, weights } : { priority: v.priority }),
          done: (a) =>
            "The priority is in force" + (a.moves === undefined ? "." : "; " + counted(a.moves, "URL is", "URLs are") + " placed again."),
        });
      },
      (this.priorityNow = el("p", { class: "sub", text: " " })),
      el("p", { class: "sub", text: "One weight for each lane, the first lane first. No weights: those of the flags." }),
    );
    card.querySelector(".buttons").append(back);
    return card;
  }

  // showState follows the status.
  showState(s) {
    this.state = s.state;
    text(this.now, s.state ? s.state[0].toUpperCase() + s.state.slice(1) : "–");
    text(this.pause, this.paused ? "Resume" : "Pause");
    text(this.drain, this.draining ? "End draining" : "Drain");
    attr(this.pause, "class", this.paused ? "primary" : null);
    const over = s.state === "finished"; // nothing takes a change any more
    for (const b of byID("control-cards").querySelectorAll("button")) if (b.disabled !== over) b.disabled = over;
  }

  showLimits(body) {
    const changed = (this.settings = body.changed || { paused: body.paused, drain: body.drain });
    text(
      this.limitsNow,
      "In force: requests per second: " +
        (body.rate || "none") +
        "; bandwidth: " +
        (body.bandwidth || "none") +
        "; connections: " +
        (body.connectionsNow || body.connections || "none") +
        ".",
    );
    for (const name of ["rate", "bandwidth", "connections"]) {
      const input = document.querySelector('#control-cards input[name="' + name + '"]');
      const value = changed[name] || "";
      if (input.dataset.was === value) continue;
      if (document.activeElement !== input && (input.value === "" || input.value === input.dataset.was))
        input.value = value;
      input.dataset.was = value;
    }
    const delays = body.hostDelays
      ? body.hostDelays.map((d) => [d.host, d.delay])
      : Object.entries(changed.hostDelays || {});
    this.inForce(
      this.delayList,
      delays,
      ([host, d]) => host + ": " + duration(d),
      "Back to normal",
      ([host]) => ({
        title: "Set " + host + " back to its normal delay?",
        action: "Back to normal",
        lines: [],
        change: () => send("DELETE", "hosts/" + enc(host) + "/delay"),
      }),
    );
    const blocked = (body.blocked || changed.blocked || []).map((r) => String(r).replace(/^- /, ""));
    this.inForce(
      this.blockList,
      blocked,
      (r) => r,
      "Unblock",
      (rule) => ({
        title: "Unblock " + rule + "?",
        action: "Unblock",
        lines: ["The crawl may contact it again."],
        change: () => send("DELETE", "blocks?" + new URLSearchParams({ rule })),
      }),
    );
    const f = changed.function;
    text(
      this.functionNow,
      f
        ? "In force: " + f.name + ", from " + count(f.default) + " to " + count(f.max) + " URLs per queue."
        : "In force: the function set by flags.",
    );
    text(this.priorityNow, "In force: " + (changed.priority ? priority(changed.priority) : "the priority set by flags") + ".");
    const budgets = Array.isArray(body.pinned)
      ? body.pinned.map((p) => [p.pld, p.budget])
      : Object.entries(changed.budgets || {});
    this.inForce(
      this.budgetList,
      budgets,
      ([pld, n]) => pld + ": " + count(n),
      "Unpin",
      ([pld]) => ({
        title: "Unpin the budget of " + pld + "?",
        action: "Unpin",
        lines: ["Its in-degree sets the budget again."],
        change: () => send("DELETE", "plds/" + enc(pld) + "/budget"),
      }),
    );
  }

  inForce(list, items, write, button, question) {
    sync(
      list,
      items.slice(0, 100),
      (i) => write(i),
      (i) =>
        el(
          "li",
          {},
          el("span", { text: write(i) }),
          el("button", {
            type: "button",
            class: "small",
            text: button,
            "aria-label": button + ": " + write(i),
            onclick: () => this.make({ done: () => "Done.", ...question(i) }),
          }),
        ),
    );
  }

  // actions are the buttons of an answer of explain.
  actions(host, dialog) {
    const button = (words, danger, run) =>
      el("button", {
        type: "button",
        class: danger ? "danger" : "",
        text: words,
        onclick: () => {
          dialog.close();
          run();
        },
      });
    const name = host.replace(/^[a-z]+:\/\//, "").split(/[/:?#]/)[0];
    if (!name) return [];
    return [
      button("Set the delay of " + name, false, () => this.prefill("host", name)),
      button("Block " + name, true, () => this.askBlock("host " + name)),
    ];
  }

  prefill(field, value) {
    const input = document.querySelector('#control-cards input[name="' + field + '"]');
    input.value = value;
    input.closest(".card").querySelector("input:last-of-type, input[type=number]").focus();
    input.closest(".card").scrollIntoView({ block: "center" });
  }
}

const PRIORITIES = {
  none: "No URL before others",
  depth: "Few links away from a seed",
  indegree: "Many PLDs that link to the PLD",
  hook: "As the hook says",
  sitemap: "As sitemaps say",
};

// priority writes a priority that somebody has set.
const priority = (p) => p.name + (p.weights?.length ? ", weights " + p.weights.join(" ") : "");

const VALUES = ["rate", "bandwidth", "connections", "host", "delay", "rule", "pld", "budget", "count"];

// values writes the values of a change.
function values(c) {
  const from = { ...c.args, ...c };
  if (c.op === "function")
    return c.function
      ? c.function.name + ", from " + count(c.function.default) + " to " + count(c.function.max)
      : "of the flags";
  if (c.op === "priority") return c.priority ? priority(c.priority) : "of the flags";
  const list = VALUES.filter((k) => from[k] !== undefined && from[k] !== null && from[k] !== "").map((k) =>
    k === "delay"
      ? "delay " + duration(from[k])
      : k === "rule" || k === "host" || k === "pld"
        ? String(from[k])
        : k + " " + from[k],
  );
  return list.join(", ") || (from.on === undefined ? "" : from.on ? "on" : "off");
}

export function showChanges(body) {
  const list = [...(body.changes || [])].sort((a, b) => b.seq - a.seq);
  fillRows(
    byID("changes"),
    list.length ? list : [none(4, "Nobody has changed this crawl")],
    (c) => c.seq,
    (c) => {
      const t = instant(c.time);
      return el(
        "tr",
        {},
        el("td", { class: "nowrap", title: t ? utc(t) : null, text: t ? clock(t) : "" }),
        el("td", { class: "wrap", text: c.who || "" }),
        el("td", { class: "nowrap", text: OPS[c.op] || c.op }),
        el("td", { class: "wrap", text: values(c) }),
      );
    },
    (row, c) => attr(row, "id", "change-" + c.seq),
  );
}
