// Numbers, sizes and times as text. Units are SI (of sizes: binary), with thin spaces.

export const THIN = "\u2009";
export const NONE = "–"; // no value

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

const isNumber = (n) => typeof n === "number" && Number.isFinite(n);

// digits writes a number with a fixed number of decimals and its digits in groups of three.
function digits(n, decimals = 0) {
  const [whole, part] = Math.abs(n).toFixed(decimals).split(".");
  const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, THIN) : whole;
  const sign = n < 0 && Number(n.toFixed(decimals)) !== 0 ? "−" : "";
  return sign + grouped + (part ? "." + part : "");
}

// count writes a whole number in full.
export const count = (n) => (isNumber(n) ? digits(Math.round(n)) : NONE);

// scaled writes a number with three significant digits and a prefix.
function scaled(n, unit, from = 1000) {
  if (!isNumber(n)) return NONE;
  let power = 0;
  let v = Math.abs(n);
  if (v >= from) {
    while (v >= 999.5 && power < PREFIXES.length - 1) {
      v /= 1000;
      power++;
    }
  }
  const small = power === 0 && (Number.isInteger(n) || v >= 100);
  const text = digits(Math.sign(n) * v, small ? 0 : v < 9.995 ? 2 : v < 99.95 ? 1 : 0);
  const suffix = PREFIXES[power] + unit;
  return suffix ? text + THIN + suffix : text;
}

// compact writes a count: in full below ten thousand, then with a prefix.
export const compact = (n) => (isNumber(n) && Math.abs(n) < 9999.5 ? count(n) : scaled(n, ""));

// counted writes a count and its noun.
export const counted = (n, one, many = one + "s") => compact(n) + " " + (n === 1 ? one : many);

// bytes writes a size.
export function bytes(n) {
  if (!isNumber(n)) return NONE;
  let p = 0;
  for (; n >= 1023.5 && p < 6; p++) n /= 1024;
  return digits(n, p && n < 9.95 ? 1 : 0) + THIN + (p ? "KMGTPE"[p - 1] + "i" : "") + "B";
}

// rate writes a number a second: whole above 100, with decimals below.
export function rate(n) {
  if (!isNumber(n)) return NONE;
  const v = Math.abs(n);
  if (v >= 99_999.5) return scaled(n, "");
  return digits(n, v === 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2);
}

// fixed writes a number with a number of decimals.
export const fixed = (n, decimals) => (isNumber(n) ? digits(n, decimals) : NONE);

// percent writes a share of 1.
export function percent(share) {
  if (!isNumber(share)) return NONE;
  const p = share * 100;
  if (p > 0 && p < 0.095) return "<" + THIN + "0.1" + THIN + "%";
  return digits(p, p === 0 || p >= 9.95 ? 0 : 1) + THIN + "%";
}

// duration writes seconds with the two largest units.
export function duration(seconds) {
  if (!isNumber(seconds)) return NONE;
  const s = Math.max(0, seconds);
  if (s === 0) return "0" + THIN + "s";
  if (s < 0.9995) return scaled(s * 1000 < 1 ? s * 1e6 : s * 1000, s * 1000 < 1 ? "µs" : "ms");
  if (s < 9.95) return digits(s, 1) + THIN + "s";
  const units = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const whole = Math.round(s);
  for (let i = 0; i < units.length; i++) {
    const [size, name] = units[i];
    if (whole < size) continue;
    const first = Math.floor(whole / size);
    const next = units[i + 1];
    const second = next && first < 100 ? Math.floor((whole % size) / next[0]) : 0;
    return first + THIN + name + (second ? " " + second + THIN + next[1] : "");
  }
  return "0" + THIN + "s";
}

// wholeSeconds writes a duration without tenths of a second.
export const wholeSeconds = (s) => (s < 60 ? Math.round(s) + THIN + "s" : duration(s));

// instant returns a Date, or null for a missing time. Go's zero time counts as missing.
export function instant(text) {
  const t = text ? new Date(text) : null;
  return t && !Number.isNaN(t.getTime()) && t.getUTCFullYear() > 1 ? t : null;
}

const pad = (n) => String(n).padStart(2, "0");

// clock writes the local time of day, with the date if it is not today's.
export function clock(t, now = new Date()) {
  const time = pad(t.getHours()) + ":" + pad(t.getMinutes()) + ":" + pad(t.getSeconds());
  return t.toDateString() === now.toDateString() ? time : day(t) + " " + time.slice(0, 5);
}

// day writes a local date.
export const day = (t) => t.getFullYear() + "-" + pad(t.getMonth() + 1) + "-" + pad(t.getDate());

// sentence begins a text with a capital, unless it begins with a file's name.
export const sentence = (words) => (/^\S*\./.test(words) ? words : words.slice(0, 1).toUpperCase() + words.slice(1));

// utc writes a time in UTC.
export const utc = (t) =>
  t
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, "") + " UTC";

// localTimes replaces the UTC times of a text by local ones.
export const localTimes = (words) =>
  words.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (t) => {
    const at = instant(t);
    return at ? clock(at) : t;
  });
