// The words of the crawler (its glossary) in plain English, for tooltips. The server makes reasons.js.
import { sentence } from "./format.js";
import { REASONS } from "./reasons.js";

export const PLACES = {
  unstreamed: "New URLs of the running URLseen pass. Their text is still in its log.",
  star: "New URLs waiting for a check of their domain's budget.",
  beast: "URLs in BEAST's numbered queues. The crawl reads the queues in order.",
  failed: "QF: URLs over the budget of their domain. BEAST reads them again later.",
  robotscheck: "URLs waiting for a robots.txt check in RobotsCache.",
  awaitrobots: "QR: URLs waiting for the robots.txt or addresses of their host.",
  ready: "Q: URLs that robots.txt allows, with known addresses. They wait for room in RAM.",
  ram: "URLs in RAM: each waits for its host's next visit, or is being fetched.",
  deferred: "URLs waiting on disk for a due time, for example after a failure.",
  fetched: "URLs with a response, stored in a WARC file.",
  refused: "URLs without a response, with a reason.",
  held: "URLs that this run's flags forbid (--ports, --allow-net). A run with other flags tries them.",
};

// The names of places, as the drawing of the crawler has them.
export const TITLES = {
  unstreamed: "URLseen",
  star: "STAR",
  beast: "BEAST",
  failed: "Over budget",
  robotscheck: "RobotsCache",
  awaitrobots: "Need robots.txt",
  deferred: "Deferred",
  ready: "Ready",
  ram: "In RAM, by host",
  fetched: "Fetched",
  refused: "Refused",
  held: "Not allowed",
};

// placeText returns the name of a place in text.
export const placeText = (name) => TITLES[name] || name;

export const PLACE_NAMES = Object.keys(PLACES);
export const ENDED = new Set(["fetched", "refused", "held"]);

export const TERMS = {
  p: "Unique share p: new URLs per link found, over the whole crawl. It falls as the crawl sees more of the web.",
  pass: "One merge of a repository: all waiting keys are looked up by reading the disk in order.",
  fill: "How full each bucket is. A pass begins when a bucket is full, or early when fetching needs URLs.",
  queue: "BEAST's queue number. The crawl reads queue s; links go to queues up to s + h.",
  horizon: "The number of queues after the current one that BEAST may fill.",
  beast: "Budget enforcement with anti-spam tactics: each queue takes at most a budget of URLs of each domain.",
  lane: "BEAST's lanes share the budgets. The first lane goes first, by the weights (--priority).",
  urlseen: "The repository of all URLs ever found. It decides which URLs are new.",
  pause: "How long a checkpoint blocked changes to the crawl's state.",
  stall: "The longest transaction while a checkpoint ran.",
  checkpoint: "A durable snapshot of the whole crawl. After a crash the crawl continues from it.",
  backup: "A copy of a checkpoint elsewhere (--backup). drumbeat restore continues from it on another machine.",
  pld: "Pay-level domain: a public suffix and one more label, such as example.co.uk.",
  indegree: "The number of other domains that link to this one.",
  budget: "URLs of the domain that may enter each queue of BEAST.",
  placed: "URLs of the domain that entered BEAST.",
  io: "Bytes that URLseen reads and writes per link, measured and by the paper's formulas.",
  keepfree: "Fetching pauses while a file system has less free space than this.",
};

export const SLOTS = {
  exchange: "A request is under way: the slot waits for the site, the network or a CPU.",
  "parse and store": "A response is parsed and stored: the slot waits for a CPU or a disk write.",
  cpu: "A URL is due but not dispatched yet.",
  limit: "A URL is due, but --rate, --bandwidth or --connections allows no more now.",
  politeness: "The URLs in RAM wait for the delays of their hosts and servers.",
  admission: "URLs on disk are being admitted into RAM.",
  dns: "Requests for robots.txt are under way, most in a DNS lookup.",
  "robots.txt": "Requests for robots.txt are under way, most in the exchange.",
  disk: "URLs wait for a merge of URLseen, STAR or RobotsCache, or in BEAST.",
  deferred: "All URLs are deferred.",
  "space or outage": "Fetching pauses for disk space or slows for an outage.",
  "new links": "The only URLs left are under way.",
};

// reasonText returns a reason in words, reasonMore a sentence of details, if there are any.
export const reasonText = (name) => REASONS[name]?.[0] || name;
export const reasonMore = (name) => REASONS[name]?.[1] && sentence(REASONS[name][1] + ".");

const CODES = {
  200: "OK",
  204: "No content",
  206: "Partial content",
  301: "Moved permanently",
  302: "Found",
  303: "See other",
  304: "Not modified",
  307: "Temporary redirect",
  308: "Permanent redirect",
  400: "Bad request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not found",
  405: "Method not allowed",
  406: "Not acceptable",
  410: "Gone",
  429: "Too many requests",
  451: "Unavailable for legal reasons",
  500: "Server error",
  502: "Bad gateway",
  503: "Unavailable",
  504: "Gateway timeout",
};

const CLASSES = { 0: "Invalid", 1: "Informational", 2: "Success", 3: "Redirect", 4: "Client error", 5: "Server error" };

// code explains a status code or a class of them.
export const code = (name) => CODES[name] || CLASSES[String(name)[0]] || "";

export const OPS = {
  pause: "Paused",
  resume: "Resumed",
  drain: "Drain on",
  fill: "Drain off",
  limits: "Limits",
  "host-delay": "Host delay",
  "host-normal": "Host delay back to normal",
  block: "Blocked",
  unblock: "Unblocked",
  budget: "Budget pinned",
  "budget-free": "Budget unpinned",
  function: "Budget function",
  priority: "Priority",
  seeds: "Seeds added",
  enqueue: "URLs enqueued",
  reload: "Files reloaded",
  checkpoint: "Checkpoint",
  stop: "Stop",
  settings: "Settings",
};
