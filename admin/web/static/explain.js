// Explains a URL, a host, a domain or an address in readable form.

import { attr, byID, el, text } from "./dom.js";
import { frame, open } from "./dialogs.js";
import { bytes, clock, count, duration, instant, localTimes, NONE, sentence, utc } from "./format.js";
import { get } from "./live.js";
import { facts } from "./structures.js";
import { PLACES, placeText, reasonMore, reasonText, TERMS } from "./words.js";

const PLACE_WORDS = {
  ...PLACES,
  unseen: "The crawl has never found it.",
  link: "It was found, but URLseen has not checked it yet.",
  ended: "It is done: fetched or refused.",
  "not-scanned": "It is known; its place was not searched.",
  unknown: "A file that may hold it cannot be read.",
};

const at = (value) => {
  const t = instant(value);
  return t ? clock(t) : undefined;
};
const full = (value) => {
  const t = instant(value);
  return t ? utc(t) : null;
};

// part makes a section with facts; rows without a value are left out.
function part(title, rows) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== "");
  if (!shown.length) return null;
  const list = el("dl", { class: "facts" });
  facts(
    list,
    shown.map(([term, value, explanation, hint]) => [term, String(value), explanation, hint]),
  );
  shown.forEach(([, value], i) => list.children[i].classList.toggle("long", String(value).length > 24));
  return el("section", {}, el("h3", { text: title }), list);
}

const some = (n, write = count) => (n ? write(n) : undefined);
const pairs = (map) =>
  Object.entries(map || {})
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);

const site = (s) =>
  s &&
  part("Domain " + s.pld, [
    ["In-degree", count(s.indegree), TERMS.indegree],
    ["Rank", some(s.rank)],
    ["Budget", some(s.budget), TERMS.budget],
    ["URLs per queue", some(s.pages_per_queue)],
    ["Placed", count(s.placed), TERMS.placed],
    ["Responses", count(s.fetched)],
    ["Bytes", bytes(s.bytes)],
    ["Next queue", some(s.next_queue)],
    ["Its URLs there", some(s.used)],
    ["Budget checks waiting", some(s.checks_waiting)],
    ["First seen", at(s.first_seen), null, full(s.first_seen)],
  ]);

const origin = (o) =>
  o &&
  part("robots.txt of " + o.origin, [
    ["State", o.state + (o.stale ? ", outdated" : "")],
    ["Rules", count(o.rules)],
    ["Group", o.own_group ? "for this agent" : undefined],
    ["Delay", o.delay ? duration(o.delay) : undefined],
    ["Set by", o.delay_why],
    ["Crawl-delay", some(o.crawl_delay, duration)],
    ["Fetched", at(o.fetched), null, full(o.fetched)],
    ["Expires", at(o.expires), null, full(o.expires)],
    ["Next try", at(o.retry_at), null, full(o.retry_at)],
    ["Failures", some(o.failures)],
    ["TLS", o.tls],
    ["Request", o.asking],
    ["Addresses", (o.addresses || []).join(", ")],
    ["Health", o.health?.text],
  ]);

const delays = (list) =>
  list?.length &&
  part(
    "Back-offs",
    list.map((d) => [d.who, "until " + (at(d.until) || NONE), null, full(d.until)]),
  );

// linkNow says what would become of a link to the URL that a page has now.
function linkNow(link) {
  const cause = (link.why || "").replace(/^(taken|dropped)(: )?/, "");
  const listed = link.blocked && !cause.includes("blacklist");
  const more = [cause, listed && "it is blacklisted", link.rewritten && "as " + link.rewritten];
  const why = more.filter(Boolean).join("; ");
  return el(
    "section",
    {},
    el("h3", { text: "A link to it now" }),
    el("p", { text: "The crawl would " + (link.taken ? "follow it" : "not follow it") + (why ? ": " + why : "") + "." }),
  );
}

function ofURL(r) {
  const q = r.queue;
  const rec = r.record || {};
  const e = r.ended;
  return [
    part("The URL", [
      ["Place", r.place && placeText(r.place), PLACE_WORDS[r.place]],
      ["Queue", q && "Q(" + q.number + "), " + count(q.ahead) + " ahead", TERMS.queue],
      ["Due", at(r.due), null, full(r.due)],
      ["Host", r.host],
      ["PLD", r.pld, TERMS.pld],
    ]),
    e &&
      part("Result", [
        ["Status", some(e.status, String)],
        ["Reason", reasonText(e.reason), reasonMore(e.reason)],
        ["Type", e.mime],
        ["Time", at(e.time), null, full(e.time)],
        ["Address", e.ip],
        ["Size", some(e.bytes, bytes)],
        ["Redirect to", e.redirect],
        ["Not followed", e.dropped],
        ["Cut", e.truncated],
        ["File", e.file],
        ["Offset", some(e.offset)],
      ]),
    part("Record", [
      ["Found", at(rec.found), null, full(rec.found)],
      ["Depth", r.record && count(rec.depth)],
      ["Found on", rec.parent_url],
      ["Attempts", some(rec.attempts)],
      ["Deferrals", some(rec.waits)],
      ["Last reason", reasonText(rec.reason), reasonMore(rec.reason)],
      ["Redirects", some(rec.redirects)],
    ]),
    r.verdict &&
      part("robots.txt verdict", [
        ["Decision", r.verdict.decision],
        ["Allowed", r.verdict.allowed ? "yes" : "no"],
        ["Rule", r.verdict.rule],
        ["Until", at(r.verdict.until)],
      ]),
    r.link && linkNow(r.link),
    site(r.site),
    origin(r.robots),
    delays(r.delays),
  ];
}

function ofHost(r) {
  return [
    part("The host", [
      ["Host", r.host],
      ["Responses stored", r.stored === undefined ? undefined : count(r.stored)],
      ["Next due", at(r.next_due), null, full(r.next_due)],
      ["URLs in RAM", r.live?.inRam === undefined ? undefined : count(r.live.inRam)],
      ["State", r.live?.state],
      ["Delay now", some(r.pace?.delay, duration)],
      ["Steps sooner", r.pace && count(r.pace.steps) + " of " + count(r.pace.all_steps)],
    ]),
    part(
      "Its URLs by place",
      pairs(r.places).map(([name, n]) => [placeText(name), count(n), PLACES[name]]),
    ),
    part(
      "Deferred by reason",
      pairs(r.deferred).map(([name, n]) => [reasonText(name), count(n), reasonMore(name)]),
    ),
    site(r.site),
    ...(r.origins || []).slice(0, 8).map(origin),
    delays(r.delays),
  ];
}

const ofPLD = (r) => [site({ placed: 0, fetched: r.pages, ...r })];

// opening is the first sentence of an answer that has none.
function opening(r, asked) {
  if (!r.pld) return "The crawl knows the following about " + asked + ".";
  if (r.known === false) return "The crawl has found no links to " + r.pld + " yet.";
  return (
    (r.indegree === 1 ? "1 other domain links" : count(r.indegree || 0) + " other domains link") +
    " to " +
    r.pld +
    (r.rank ? ", which makes it number " + count(r.rank) : "") +
    "."
  );
}

// answer shows what the API knows.
function answer(body, asked) {
  const report =
    body.url && typeof body.url === "object"
      ? body.url
      : body.host && typeof body.host === "object"
        ? body.host
        : body.site && !body.why
          ? body.site
          : body;
  const kind = "place" in report && "seen" in report ? ofURL : "host" in report || "origins" in report ? ofHost : ofPLD;
  const asOf = report.as_of;
  const out = [];
  if (report.error) out.push(el("p", { class: "error", text: report.error }));
  const [first, ...rest] = report.why?.length ? report.why : [opening(report, asked)];
  out.push(el("p", { class: "lead", text: sentence(localTimes(first)) }));
  out.push(...rest.map((line) => el("p", { text: sentence(localTimes(line)) })));
  out.push(...kind(report).filter(Boolean));
  if (body.at?.length)
    out.push(
      el(
        "section",
        {},
        el("h3", { text: "Hosts at this address with URLs in RAM" }),
        el(
          "ul",
          { class: "why" },
          body.at.map((h) => el("li", { text: `${h.host || h.key}: ${count(h.inRam)} URLs, ${h.state}` })),
        ),
      ),
    );
  if (report.damage?.length)
    out.push(
      el(
        "section",
        {},
        el("h3", { text: "Unreadable files" }),
        el(
          "ul",
          { class: "why" },
          report.damage.map((line) => el("li", { text: line })),
        ),
      ),
    );
  if (asOf)
    out.push(
      el("p", {
        class: "sub",
        text:
          "As of checkpoint " +
          count(asOf.checkpoint) +
          ", " +
          duration(asOf.age_seconds) +
          " old; read " +
          bytes(asOf.bytes_read) +
          (report.key ? "; key " + report.key : "") +
          ".",
      }),
    );
  out.push(
    el(
      "details",
      { class: "alt" },
      el("summary", { text: "Show the answer as JSON" }),
      el("pre", { tabindex: 0, text: JSON.stringify(body, null, 2).slice(0, 200_000) }),
    ),
  );
  return { parts: out, host: report.host || asked };
}

// ask opens the panel with the answer. actions(host) returns buttons.
export async function ask(question, actions) {
  const asked = question.trim();
  if (!asked) return;
  const status = el("p", { class: "muted", role: "status", text: "Reading the crawl's files" });
  const result = el("div", { class: "answer" });
  const dialog = frame(asked, "side", status, result);
  open(dialog);
  try {
    const { parts, host } = answer(await get("explain?" + new URLSearchParams({ url: asked }), 60_000), asked);
    status.remove();
    result.append(...parts, el("div", { class: "buttons" }, actions(host, dialog)));
  } catch (e) {
    attr(status, "class", "error");
    text(status, e.message);
  }
}

export function startSearch(actions) {
  byID("search").addEventListener("submit", (e) => {
    e.preventDefault();
    ask(byID("asked").value, actions);
  });
}
