// Drives Chromium by the DevTools protocol: see the script check.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [url, out, name] = process.argv.slice(2);
const VIEWS = [
  [390, 844, 3],
  [1440, 900, 1],
  [2560, 1440, 1],
];
const THEMES = ["light", "dark"];
const MAX_BYTES = 200_000; // transferred by the first visit, without the API's answers
const MAX_SHIFT = 0.05; // cumulative layout shift
const SETTLE = 4000; // ms
const STALE = 3000; // ms

const faults = [];
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// start runs Chromium and returns the address of its protocol.
function start() {
  const flags = [
    "--headless=new",
    "--remote-debugging-port=0",
    "--user-data-dir=" + process.env.PROFILE,
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-color-profile=srgb",
  ];
  if (process.getuid() === 0) flags.push("--no-sandbox");
  const child = spawn(process.env.CHROMIUM || "chromium", [...flags, "about:blank"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const address = new Promise((done, failed) => {
    let said = "";
    child.stderr.on("data", (data) => {
      said += data;
      const found = /DevTools listening on (\S+)/.exec(said);
      if (found) done(found[1]);
    });
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error("chromium ended with code " + code + ": " + said.slice(-2000))));
  });
  return { child, address };
}

// Protocol sends commands and waits for their answers.
class Protocol {
  constructor(address) {
    this.socket = new WebSocket(address);
    this.waiting = new Map();
    this.next = 0;
    this.on = () => {};
    this.socket.addEventListener("message", (e) => {
      const message = JSON.parse(e.data);
      if (message.id === undefined) return this.on(message);
      const { done, failed, method } = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) failed(new Error(method + ": " + message.error.message));
      else done(message.result);
    });
    this.ready = new Promise((done, failed) => {
      this.socket.addEventListener("open", done);
      this.socket.addEventListener("error", () => failed(new Error("no connection to Chromium")));
    });
  }

  send(method, params = {}, sessionId) {
    return new Promise((done, failed) => {
      const id = ++this.next;
      this.waiting.set(id, { done, failed, method });
      this.socket.send(JSON.stringify({ id, method, params, sessionId }));
    });
  }
}

// Page is a tab.
class Page {
  static async open(protocol, [width, height, scale], theme, label) {
    const page = new Page();
    Object.assign(page, { protocol, width, height, label, bytes: 0, requests: new Map() });
    const { targetId } = await protocol.send("Target.createTarget", { url: "about:blank" });
    page.target = targetId;
    page.session = (await protocol.send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
    protocol.on = (message) => message.sessionId === page.session && page.hear(message);
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await page.send(domain + ".enable");
    await page.send("Emulation.setDeviceMetricsOverride", {
      width,
      height,
      deviceScaleFactor: scale,
      mobile: width < 600,
    });
    await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: theme }] });
    await page.send("Network.setCacheDisabled", { cacheDisabled: true });
    await page.send("Page.addScriptToEvaluateOnNewDocument", {
      source: `window.__shift = 0; window.__shifts = [];
      new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) { window.__shift += e.value;
        for (const s of e.sources || []) window.__shifts.push((s.node?.id || s.node?.className || s.node?.nodeName) + " " + e.value.toFixed(4)); } })
        .observe({ type: "layout-shift", buffered: true });`,
    });
    return page;
  }

  send(method, params) {
    return this.protocol.send(method, params, this.session);
  }

  fault(text) {
    faults.push(this.label + ": " + text);
  }

  hear({ method, params }) {
    if (this.offline && method === "Log.entryAdded") return;
    if (method === "Runtime.exceptionThrown")
      this.fault("exception: " + (params.exceptionDetails.exception?.description || params.exceptionDetails.text));
    if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type))
      this.fault("console: " + params.args.map((a) => a.value || a.description).join(" "));
    if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level))
      this.fault(params.entry.source + ": " + params.entry.text + " " + (params.entry.url || ""));
    if (method === "Network.responseReceived") this.requests.set(params.requestId, params.response.url);
    if (method === "Network.loadingFinished" && !/\/api\//.test(this.requests.get(params.requestId) || "/api/"))
      this.bytes += params.encodedDataLength;
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  }

  async shoot(file, whole) {
    const clip = whole
      ? {
          clip: {
            x: 0,
            y: 0,
            width: this.width,
            height: await this.run("document.documentElement.scrollHeight"),
            scale: 1,
          },
          captureBeyondViewport: true,
        }
      : {};
    const { data } = await this.send("Page.captureScreenshot", { format: "png", ...clip });
    writeFileSync(file, Buffer.from(data, "base64"));
  }

  close() {
    return this.protocol.send("Target.closeTarget", { targetId: this.target });
  }
}

// measure checks what the page did while it loaded.
async function measure(page) {
  const { wide, over, shift, shifts } =
    await page.run(`({ wide: document.documentElement.scrollWidth, shift: window.__shift, shifts: window.__shifts.slice(0, 8),
    over: [...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .sections, .lines, .hidden, svg")).slice(0, 5).map((e) => e.id || e.className || e.nodeName) })`);
  if (wide > page.width) page.fault("the page is " + wide + " pixels wide: " + over.join(", "));
  if (shift > MAX_SHIFT) page.fault("layout shift " + shift.toFixed(3) + ": " + shifts.join("; "));
  if (page.bytes > MAX_BYTES) page.fault("transfers " + page.bytes + " bytes");
  return { bytes: page.bytes, shift };
}

// scroll visits the whole page, so that panels that load when visible have loaded.
const scroll = (page) =>
  page.run(`(async () => { for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight / 2) { scrollTo({ top: y, behavior: "instant" }); await new Promise((done) => setTimeout(done, 250)); }
  scrollTo({ top: 0, behavior: "instant" }); await new Promise((done) => setTimeout(done, 700)); })()`);

async function axe(page) {
  await page.run(readFileSync(process.env.AXE, "utf8") + ";0");
  const violations =
    await page.run(`axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => ({ id: v.id, impact: v.impact, help: v.help,
    nodes: v.nodes.slice(0, 4).map((n) => n.target.join(" ") + " — " + (n.any[0]?.message || n.all[0]?.message || "")) })))`);
  for (const v of violations) {
    const text = "axe " + v.impact + ": " + v.id + ": " + v.help + "\n    " + v.nodes.join("\n    ");
    if (["serious", "critical"].includes(v.impact)) page.fault(text);
    else console.log(page.label + ": " + text);
  }
}

// dialogs opens each kind of dialog and checks it.
async function dialogs(page, shot) {
  for (const [kind, open] of [
    ["help", "document.querySelector('#help').click()"],
    ["question", "document.querySelector('#control-cards button').click()"],
    [
      "explain",
      "document.querySelector('#asked').value = 'host.invalid'; document.querySelector('#search').requestSubmit()",
    ],
  ]) {
    await page.run(open + "; 0");
    await sleep(1500);
    if (!(await page.run("Boolean(document.querySelector('dialog[open]'))"))) page.fault("no dialog opens: " + kind);
    await page.shoot(shot + "-" + kind + ".png", false);
    await axe(page);
    await page.run("document.querySelector('dialog[open]')?.close()");
  }
}

// stale cuts the connection: numbers must be marked within STALE ms, and follow again afterwards.
async function stale(page, shot) {
  const shown = () => page.run("!document.querySelector('#stale').hidden");
  const wait = async (want, ms) => {
    for (const end = Date.now() + ms; Date.now() < end; await sleep(100)) if ((await shown()) === want) return true;
    return false;
  };
  const network = (offline) =>
    page.send("Network.emulateNetworkConditions", {
      offline,
      latency: 0,
      downloadThroughput: -1,
      uploadThroughput: -1,
    });
  page.offline = true;
  await network(true);
  await page.run("document.querySelector('#retry').click()");
  if (!(await wait(true, STALE + 3000))) page.fault("old numbers are not marked");
  await page.shoot(shot + "-stale.png", false);
  await axe(page);
  await network(false);
  if (!(await wait(false, 20_000))) page.fault("the page does not connect again");
  await sleep(500);
  page.offline = false;
}

const { child, address } = start();
try {
  const protocol = new Protocol(await address);
  await protocol.ready;
  for (const view of VIEWS) {
    for (const theme of THEMES) {
      const label = name + "-" + view[0] + "-" + theme;
      const page = await Page.open(protocol, view, theme, label);
      await page.send("Page.navigate", { url });
      await sleep(SETTLE);
      await page.shoot(join(out, label + ".png"), false);
      const { bytes, shift } = await measure(page);
      await scroll(page);
      await page.shoot(join(out, label + "-page.png"), true);
      await axe(page);
      if (view[0] === 1440) {
        await dialogs(page, join(out, label));
        await stale(page, join(out, label));
      }
      console.log(label + ": " + bytes + " bytes, shift " + shift.toFixed(4));
      await page.close();
    }
  }
} finally {
  child.removeAllListeners("exit");
  const ended = new Promise((done) => child.on("exit", done));
  child.kill();
  await ended; // it writes to its profile until then
}
for (const fault of faults) console.error(fault);
process.exit(faults.length ? 1 : 0);
