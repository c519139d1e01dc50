// The connection to the API: requests, the stream of events, and polling that stops while the page is hidden.

const BASE = "api/v1/";
const TOKEN = "drumbeat-token";
const QUIET = 8000; // ms without an event after which the stream counts as dead
const POLLED = 30_000; // ms of polling before the stream is tried again
const MAX_EVENT = 4 << 20; // characters

// APIError is an answer with an error (RFC 9457), or no answer (status 0).
export class APIError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// storage is sessionStorage, or a variable where that is not allowed.
const memory = {};
const storage = {
  get: () => {
    try {
      return sessionStorage.getItem(TOKEN);
    } catch {
      return memory.token;
    }
  },
  set: (v) => {
    try {
      sessionStorage.setItem(TOKEN, v);
    } catch {
      memory.token = v;
    }
  },
  clear: () => {
    memory.token = undefined;
    try {
      sessionStorage.removeItem(TOKEN);
    } catch {
      /* not stored */
    }
  },
};

export const token = storage;

// takeToken moves the token from the address into the storage.
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  storage.set(given);
  history.replaceState(null, "", location.pathname + location.search);
}

const headers = (more) => (storage.get() ? { ...more, Authorization: "Bearer " + storage.get() } : more || {});

async function fault(response) {
  let detail = "";
  try {
    const problem = await response.json();
    detail = String(problem.detail || problem.title || "");
  } catch {
    /* the answer is not JSON: its status must do */
  }
  return new APIError(response.status, detail || "The server answered with status " + response.status + ".");
}

async function request(path, options, timeout) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), timeout);
  try {
    const response = await fetch(BASE + path, {
      cache: "no-store",
      credentials: "same-origin",
      ...options,
      signal: stop.signal,
    });
    if (!response.ok) throw await fault(response);
    const body = await response.text();
    return body ? JSON.parse(body) : {};
  } catch (e) {
    if (e instanceof APIError) throw e;
    if (e instanceof SyntaxError) throw new APIError(0, "The server's answer cannot be read.");
    throw new APIError(
      0,
      stop.signal.aborted
        ? "The server did not answer within " + timeout / 1000 + " s."
        : "The server cannot be reached.",
    );
  } finally {
    clearTimeout(timer);
  }
}

export const get = (path, timeout = 20_000) => request(path, { headers: headers() }, timeout);

// send makes a change.
export function send(method, path, body) {
  const options = { method, headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }) };
  if (body !== undefined) options.body = JSON.stringify(body);
  return request(path, options, 60_000);
}

const sleep = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        done();
      },
      { once: true },
    );
  });

const shown = () =>
  new Promise((done) => {
    if (!document.hidden) return done();
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
  });

// Live follows the crawl. It calls on.status(body), on.event(name, body) and on.fail(error).
export class Live {
  constructor(on) {
    this.on = on;
    this.heard = 0; // performance.now() of the last status, 0 before the first
    this.tries = 0;
    this.wake = new AbortController();
    document.addEventListener("visibilitychange", () => this.retry());
    window.addEventListener("online", () => this.retry());
    window.addEventListener("offline", () => this.stream?.abort());
  }

  // age is the time in ms since the last status.
  get age() {
    return this.heard ? performance.now() - this.heard : Infinity;
  }

  // retry ends the present wait, or the stream of a hidden page.
  retry() {
    if (!document.hidden) this.tries = 0;
    this.wake.abort();
    this.wake = new AbortController();
    if (document.hidden) this.stream?.abort();
  }

  hear(body) {
    this.heard = performance.now();
    this.tries = 0;
    this.on.status(body);
  }

  async run() {
    get("status").then(
      (body) => this.heard || this.hear(body),
      (e) => this.heard || this.on.fail(e),
    );
    for (;;) {
      await shown();
      try {
        await this.follow();
      } catch (e) {
        if (document.hidden) continue;
        this.on.fail(e);
        if (e.status === 429 || e.status === 503 || e.status === 404) await this.poll();
      }
      if (!document.hidden)
        await sleep(Math.min(15_000, 500 * 2 ** this.tries++) * (0.75 + Math.random() / 2), this.wake.signal);
    }
  }

  // poll asks for the status where no stream is to be had. It returns after a failure, or after POLLED.
  async poll() {
    for (const end = performance.now() + POLLED; performance.now() < end && !document.hidden; ) {
      try {
        this.hear(await get("status", 5000));
      } catch (e) {
        this.on.fail(e);
        return;
      }
      await sleep(2000, this.wake.signal);
    }
  }

  // follow reads the stream until it ends. fetch, unlike EventSource, can send the token.
  async follow() {
    const stop = (this.stream = new AbortController());
    let timer = setTimeout(() => stop.abort(), QUIET);
    try {
      const response = await fetch(BASE + "events", {
        cache: "no-store",
        headers: headers({ Accept: "text/event-stream" }),
        signal: stop.signal,
      });
      if (!response.ok) throw await fault(response);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => stop.abort(), QUIET);
        const parts = (rest + value.replaceAll("\r", "")).split("\n\n");
        rest = parts.pop();
        if (rest.length > MAX_EVENT) throw new APIError(0, "The event stream cannot be read.");
        for (const part of parts) this.event(part);
      }
    } catch (e) {
      if (e instanceof APIError) throw e;
      throw new APIError(0, "The server cannot be reached.");
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  }

  event(block) {
    let name = "message";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      else if (line.startsWith("data:")) data += line.slice(5).trimStart();
    }
    if (!data) return;
    let body;
    try {
      body = JSON.parse(data);
    } catch {
      return; // an event cut off by a proxy
    }
    if (name === "status") this.hear(body);
    else this.on.event(name, body);
  }
}

// Poll asks for a path once at the start, so that panels have their size before the reader comes to them, and again
// and again while the page and one of the elements are visible.
export class Poll {
  constructor(elements, path, seconds, done, failed) {
    Object.assign(this, { path, seconds, done, failed, visible: false, due: 0, busy: false, faults: 0, asked: false });
    const visible = new Set();
    const observer = new IntersectionObserver(
      (entries) => {
        for (const e of entries) visible[e.isIntersecting ? "add" : "delete"](e.target);
        this.visible = visible.size > 0;
        if (this.visible) this.tick();
      },
      { rootMargin: "400px" },
    );
    for (const element of elements) observer.observe(element);
    this.tick();
    setInterval(() => this.tick(), 1000);
  }

  // now asks at once.
  now() {
    this.due = 0;
    this.again = this.busy;
    this.tick();
  }

  async tick() {
    if (this.busy || document.hidden || performance.now() < this.due) return;
    if (this.asked && !this.visible) return;
    this.busy = this.asked = true;
    try {
      const path = typeof this.path === "function" ? await this.path() : this.path;
      const body = await get(path);
      this.faults = 0;
      if (!this.again) this.done(body);
      this.failed(null);
    } catch (e) {
      this.faults++;
      this.failed(e);
    } finally {
      this.busy = false;
      this.due = this.again
        ? 0
        : performance.now() + 1000 * Math.min(120, this.seconds * 2 ** Math.min(this.faults, 5));
      this.again = false;
    }
  }
}
