// Cases of the dashboard's modules: numbers and times as text, and rates of counters. TestModules evaluates
// this in the page. It resolves to the cases that fail, and their number.
(async () => {
  const f = await import("./format.js");
  const { derive } = await import("./trends.js");
  const wrong = [];
  let cases = 0;

  const same = (got, want, name) => {
    cases++;
    const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
    if (a !== b) wrong.push(name + ": got " + a + ", want " + b);
  };

  const sites = await import("./sites.js");
  const now = Date.parse("2026-01-02T03:00:00Z");
  for (const [state, want] of [
    ["backs off until 2026-01-02T03:04:05Z: back-off; 1 failures in a row; last: timeout", "1 failure in a row; last: timeout"],
    ["backs off until 2026-01-02T03:04:05Z: failing; 21 failures in a row; 2 long back-offs", "21 failures in a row; 2 long back-offs"],
    ["not welcome for good; backs off until 2026-01-02T03:04:05Z: not welcome; 12 refusals", "12 refusals"],
    ["backs off until 2026-01-02T03:04:05Z: Retry-After; last: too fast", "Retry-After; last: too fast"],
    ["ok", ""],
  ])
    same(sites.reason(state), want, "reason(" + state + ")");
  for (const [host, want] of [
    [{ until: "2026-01-02T02:59:00Z", state: "backs off until 2026-01-02T02:59:00Z" }, false],
    [{ until: "2026-01-02T03:01:00Z", state: "backs off until 2026-01-02T03:01:00Z" }, true],
    [{ until: "2026-01-02T02:59:00Z", state: "given up for good" }, true],
    [{ state: "failing" }, true],
  ])
    same(sites.inTrouble(host, now), want, "inTrouble(" + JSON.stringify(host) + ")");
  same([f.counted(1, "host"), f.counted(2, "host"), f.counted(0, "PLD")], ["1 host", "2 hosts", "0 PLDs"], "counted");
  const { split } = await import("./level.js");
  for (const [words, want] of [
    ["The crawl works.", ["The crawl works.", ""]],
    ["No response for 40 s. The only host fails.", ["No response for 40 s. The only host fails.", ""]],
    ["The host fails. It is due. Then.", ["The host fails. It is due.", "Then."]],
    [
      "The crawl works: 7.0 pages per second. It waits for politeness.",
      ["The crawl works: 7.0 pages per second.", "It waits for politeness."],
    ],
    ["The host www.example.com fails: 1.2 s.", ["The host www.example.com fails: 1.2 s.", ""]],
  ])
    same(split(words), want, "split(" + words + ")");

  // plain replaces thin spaces, so that the cases below are easy to read.
  const plain = (text) => text.replaceAll(f.THIN, " ");

  for (const [write, value, want] of [
    [f.count, 0, "0"],
    [f.count, 1234, "1234"],
    [f.count, 12345, "12 345"],
    [f.count, -1234567, "−1 234 567"],
    [f.count, undefined, "–"],
    [f.count, NaN, "–"],
    [f.compact, 9999, "9999"],
    [f.compact, 10_000, "10.0 k"],
    [f.compact, 999_949, "1.00 M"],
    [f.compact, 41e9, "41.0 G"],
    [f.compact, 5.4e9, "5.40 G"],
    [f.bytes, 0, "0 B"],
    [f.bytes, 999, "999 B"],
    [f.bytes, 1000, "1000 B"],
    [f.bytes, 1024, "1.0 KiB"],
    [f.bytes, 412e6, "393 MiB"],
    [f.bytes, 40e12, "36 TiB"],
    [f.bytes, 1023.6 * 2 ** 30, "1.0 TiB"],
    [f.rate, 0, "0"],
    [f.rate, 0.016, "0.02"],
    [f.rate, 12.34, "12.3"],
    [f.rate, 99.96, "100"],
    [f.rate, 7012.4, "7012"],
    [f.rate, 10_801, "10 801"],
    [f.rate, 250_000, "250 k"],
    [f.rate, null, "–"],
    [f.percent, 0, "0 %"],
    [f.percent, 0.0001, "< 0.1 %"],
    [f.percent, 0.0123, "1.2 %"],
    [f.percent, 0.5, "50 %"],
    [f.percent, 1, "100 %"],
    [f.duration, 0, "0 s"],
    [f.duration, 0.0021, "2.10 ms"],
    [f.duration, 0.00009, "90 µs"],
    [f.duration, 2.31, "2.3 s"],
    [f.duration, 59.7, "1 min"],
    [f.duration, 787, "13 min 7 s"],
    [f.duration, 3600, "1 h"],
    [f.duration, 105_000, "1 d 5 h"],
    [f.duration, 20 * 86_400, "20 d"],
    [f.duration, undefined, "–"],
  ])
    same(plain(write(value)), want, write.name + "(" + value + ")");

  same(f.instant("0001-01-01T00:00:00Z"), null, "Go's zero time");
  same(f.instant(""), null, "no time");
  same(f.utc(new Date("2026-11-23T05:04:10.123Z")), "2026-11-23 05:04:10 UTC", "utc");
  same(f.sentence("rate limit"), "Rate limit", "sentence of words");
  same(f.sentence("robots.txt and DNS"), "robots.txt and DNS", "sentence of a name");

  for (const [name, times, totals, starts, want] of [
    ["even", [0, 10, 20], [0, 100, 300], [], [null, 10, 20]],
    ["a missing value", [0, 10, 20, 30], [0, null, 300, 400], [], [null, null, null, 10]],
    ["a total that falls", [0, 10, 20], [100, 50, 150], [], [null, null, 10]],
    ["points far apart", [0, 10, 150, 160], [0, 100, 200, 300], [], [null, 10, null, 10]],
    ["samples rarer than the step", [0, 60, 120], [0, 600, 1200], [], [null, 10, 10]],
    ["a start", [0, 10, 20, 30], [0, 100, 110, 210], [15], [null, 10, null, 10]],
    ["a start before the first point", [0, 10], [0, 100], [-5], [null, 10]],
    ["no series", [0, 10], undefined, [], [null, null]],
    ["nothing", [], [], [], []],
  ])
    same(derive(times, totals, 10, starts), want, "derive: " + name);

  return { cases, wrong };
})();
