// Reads the WARC files of a crawl with the library warcio and compares them with what they should hold.
//
//   node checkwarc.mjs DIR EXPECTED
//
// DIR has the .warc.gz or .warc.zst files and the .cdxj files. warcio 2.4.11 does not read Zstandard, so zstd(1) unpacks
// those files for it, after this script has split them into frames. EXPECTED has a JSON object a line: url, status, and for files sha1 (of the
// decoded body). Checked: every record parses; record ids are unique; block and payload digests; a line of the index
// for every response or revisit, with its offset and length; one of them for each URL; status and decoded body as
// expected; each revisit names a response with the same payload digest, and each digest has one response.
// Exit code 1 if anything is wrong.
import { createHash } from "node:crypto";
import { execFileSync, spawn } from "node:child_process";
import { createReadStream, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as zlib from "node:zlib";
import { WARCParser } from "warcio";

const [dir, expectedFile] = process.argv.slice(2);
if (!expectedFile) {
  console.error("usage: node checkwarc.mjs DIR EXPECTED");
  process.exit(2);
}
const faults = [];
const fault = (text) => faults.push(text);
const records = {}; // type -> number
let bytes = 0;

const jsonLines = (name) => readFileSync(name, "utf8").split("\n").filter(Boolean);
const expected = new Map(jsonLines(expectedFile).map((line) => { const o = JSON.parse(line); return [o.url, o]; }));
const responses = new Map(); // URL -> how many
const stored = new Map(); // payload digest -> URLs of responses of at least 256 bytes
const revisits = [];

// base32 as WARC files write SHA-1.
function base32(buffer) {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  let out = "", bits = 0, value = 0;
  for (const byte of buffer) {
    value = ((value << 8) | byte) & 0xffff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      out += alphabet[(value >>> bits) & 31];
    }
  }
  return bits > 0 ? out + alphabet[(value << (5 - bits)) & 31] : out;
}

const sha1 = (buffer) => createHash("sha1").update(buffer).digest();

// unchunk returns the content of a chunked body, or undefined if it isn't one.
function unchunk(body) {
  const parts = [];
  for (let at = 0; ;) {
    const end = body.indexOf("\r\n", at);
    const size = end < 0 ? NaN : parseInt(body.subarray(at, end).toString("latin1"), 16);
    if (!(size >= 0) || end + 2 + size > body.length) return undefined;
    if (size === 0) return Buffer.concat(parts);
    parts.push(body.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}

const scratch = mkdtempSync(join(tmpdir(), "checkwarc-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));
const isZst = (file) => file.endsWith(".zst");

// split returns offset and length of each frame of a .warc.zst file (RFC 8878, 3.1.1), and the dictionary before them.
function split(file) {
  const data = readFileSync(file), frames = [];
  let dictionary, at = 0;
  while (at < data.length) {
    const magic = data.readUInt32LE(at);
    if (magic === 0x184d2a5d && at === 0) {
      const end = 8 + data.readUInt32LE(4);
      dictionary = join(scratch, "dictionary");
      const content = data.subarray(8, end);
      writeFileSync(dictionary, content.readUInt32LE(0) === 0xfd2fb528 ? execFileSync("zstd", ["-dc"], { input: content, maxBuffer: 2 ** 24 }) : content);
      at = end;
      continue;
    }
    if (magic !== 0xfd2fb528) throw new Error(`${file} at ${at}: no frame`);
    const begin = at, flags = data[at + 4], single = (flags >> 5) & 1, size = flags >> 6;
    if (!(flags & 4) || (!single && size === 0)) fault(`${file} at ${at}: frame without checksum or content size`);
    at += 5 + [0, 1, 2, 4][flags & 3] + [single, 2, 4, 8][size] + (single ? 0 : 1);
    for (let last = false; !last;) {
      const head = data.readUIntLE(at, 3);
      at += 3 + (((head >> 1) & 3) === 1 ? 1 : head >> 3);
      last = (head & 1) === 1;
    }
    at += 4; // checksum
    frames.push({ offset: begin, length: at - begin });
  }
  return { frames, dictionary };
}

// open returns a stream of a file's records: a .warc.gz as it is, a .warc.zst unpacked.
function open(file, dictionary) {
  if (!isZst(file)) return createReadStream(file);
  const zstd = spawn("zstd", ["-dcq", ...(dictionary ? ["-D", dictionary] : []), file], { stdio: ["ignore", "pipe", "inherit"] });
  zstd.on("close", (code) => { if (code) fault(`${file}: zstd ended with ${code}`); });
  return zstd.stdout;
}

// checkDigests reads records as they are: digests, ids, places.
async function checkDigests(file, index, { frames, dictionary }) {
  const ids = new Set();
  const concurrent = [];
  const parser = new WARCParser(open(file, dictionary), { parseHttp: false });
  let n = 0;
  for await (const record of parser) {
    const frame = frames?.[n++];
    const block = Buffer.from(await record.readFully(false));
    const type = record.warcType, url = record.warcTargetURI;
    const name = `${file}: ${type} record of ${url} at ${parser.offset}`;
    records[type] = (records[type] ?? 0) + 1;
    bytes += block.length;
    if (block.length !== record.warcContentLength) fault(`${name}: ${block.length} bytes, want ${record.warcContentLength}`);
    const digest = record.warcBlockDigest; // responses may have that of the payload only
    if ((digest || type !== "response") && digest !== "sha1:" + base32(sha1(block))) fault(`${name}: block digest is wrong`);
    const id = record.warcHeader("WARC-Record-ID");
    if (ids.has(id)) fault(`${name}: id ${id} is there twice`);
    ids.add(id);
    const other = record.warcHeader("WARC-Concurrent-To");
    if (other) concurrent.push([name, other]);
    if (type !== "response" && type !== "revisit") continue;
    const headEnd = block.indexOf("\r\n\r\n") + 4;
    const chunked = /^transfer-encoding:.*chunked/im.test(block.subarray(0, headEnd).toString("latin1"));
    const body = block.subarray(headEnd);
    const dns = url.startsWith("dns:");
    const payload = dns ? block : chunked ? unchunk(body) : body;
    if (type === "revisit") {
      if (body.length > 0) fault(`${name}: a revisit with a body`);
      revisits.push({ name, digest: record.warcPayloadDigest, refers: record.warcHeader("WARC-Refers-To-Target-URI") });
    } else if (!payload) fault(`${name}: chunks are damaged`);
    else if (record.warcPayloadDigest !== "sha1:" + base32(sha1(payload))) fault(`${name}: payload digest is wrong`);
    else if (!dns && !record.warcHeader("WARC-Resource-Type") && payload.length >= 256) {
      stored.set(record.warcPayloadDigest, [...(stored.get(record.warcPayloadDigest) ?? []), url]);
    }
    await record.skipFully();
    const { offset, length } = frames ? frame ?? {} : { offset: parser.offset, length: parser.recordLength };
    const line = index.get(offset);
    if (!line) fault(`${name}: no line in the index`);
    else if (line.url !== url || Number(line.length) !== length) {
      fault(`${name}, ${length} bytes: the index says ${JSON.stringify(line)}`);
    }
    index.delete(offset);
  }
  if (frames && frames.length !== n) fault(`${file}: ${n} records in ${frames.length} frames`);
  for (const [name, other] of concurrent) if (!ids.has(other)) fault(`${name}: concurrent to ${other}, which isn't there`);
  for (const line of index.values()) fault(`${file}: no response where the index says ${JSON.stringify(line)}`);
}

// decode undoes the content codings that warcio leaves: br and zstd (which node knows from 22.15 on).
function decode(content, codings) {
  const decoders = { br: zlib.brotliDecompressSync, zstd: zlib.zstdDecompressSync };
  for (const coding of codings.toLowerCase().split(",").map((name) => name.trim()).reverse()) {
    if (!(coding in decoders)) continue;
    if (!decoders[coding]) throw new Error(`node ${process.version} can't decode ${coding}`);
    content = decoders[coding](content);
  }
  return content;
}

// checkContent reads responses as HTTP, decoded.
async function checkContent(file, dictionary) {
  for await (const record of new WARCParser(open(file, dictionary))) {
    let content = Buffer.from(await record.readFully(true));
    const revisit = record.warcType === "revisit";
    if (record.warcType !== "response" && !revisit) continue;
    const url = record.warcTargetURI;
    if (url.startsWith("dns:") || record.warcHeader("WARC-Resource-Type")) continue; // not a page
    responses.set(url, (responses.get(url) ?? 0) + 1);
    try {
      if (!record.warcHeader("WARC-Truncated")) content = decode(content, record.httpHeaders.headers.get("Content-Encoding") ?? "");
    } catch (error) {
      fault(`${url}: ${error.message}`);
      continue;
    }
    const want = expected.get(url);
    if (!want) {
      if (!url.endsWith("/robots.txt")) fault(`${url}: not expected`);
      continue;
    }
    const status = String(record.httpHeaders.statusCode);
    if (status !== want.status) fault(`${url}: status ${status}, want ${want.status}`);
    if (revisit) {
      const other = expected.get(record.warcHeader("WARC-Refers-To-Target-URI"));
      if (other?.sha1 !== want.sha1) fault(`${url}: a revisit of ${other?.url}, which has another body`);
    } else if (want.sha1 && !record.warcHeader("WARC-Truncated") && sha1(content).toString("hex") !== want.sha1) {
      fault(`${url}: decoded body of ${content.length} bytes is not the file's`);
    }
  }
}

const files = readdirSync(dir).filter((name) => /\.warc\.(gz|zst)$/.test(name)).map((name) => join(dir, name));
const began = Date.now();
for (const file of files) {
  const index = new Map();
  for (const line of jsonLines(file.replace(/\.warc\.(gz|zst)$/, ".cdxj"))) {
    const object = JSON.parse(line.slice(line.indexOf("{")));
    index.set(Number(object.offset), object);
  }
  const parts = isZst(file) ? split(file) : {};
  await checkDigests(file, index, parts);
  await checkContent(file, parts.dictionary);
}
for (const url of expected.keys()) if (!responses.has(url)) fault(`${url}: no response record`);
for (const { name, digest, refers } of revisits) {
  if (!stored.get(digest)?.includes(refers)) fault(`${name}: refers to ${refers}, which has not the payload ${digest}`);
}
for (const [digest, urls] of stored) if (urls.length > 1) fault(`${digest}: the payload of ${urls.join(", ")}, stored each time`);
for (const [url, n] of responses) if (n > 1) fault(`${url}: ${n} response records`);

const size = files.reduce((sum, file) => sum + statSync(file).size, 0);
console.log(`warcio: ${files.length} files, ${(size / 1e6).toFixed(1)} MB (${(bytes / 1e6).toFixed(1)} MB in blocks), records:`,
  Object.entries(records).map(([type, n]) => `${n} ${type}`).join(", "), `in ${((Date.now() - began) / 1000).toFixed(1)} s`);
for (const text of faults.slice(0, 20)) console.log("  " + text);
console.log(faults.length ? `warcio: ${faults.length} faults` : "warcio: every record parses, digests and bodies are right, one response for each URL");
if (files.length === 0 || faults.length > 0) process.exit(1);
