package crawl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"

	"drumbeat/crawl/contents"
	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
)

// endOf is a crawl that has ended after any number of interruptions, as its directories show it.
type endOf struct {
	fs        disk.FS
	dirs, out []string
	trouble   trouble
	walks     bool // a random walk that has visited all pages: it keeps no graph, but a sample
	want      *simweb.Expected
	parsed    *sync.Map // of outputOf

	stored  map[string]int   // number of records of each URL in the output
	strange map[string]int64 // refused URLs of strangers, by reason
	waiting int64            // URLs of strangers that wait for their robots.txt
}

// check compares a crawl that has ended with the result of an uninterrupted one. Each URL of the web must
// be in the output once and in the crawl log once, and no other URL may be. What robots.txt forbids must be
// refused for that reason. Each URL of a stranger must be accounted for.
func (e *endOf) check() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	rep, err := audit.Deep(audit.Options{FS: e.fs, Dirs: e.dirs, Out: e.out, RAMBytes: 1 << 20})
	if err != nil {
		return []string{"audit: " + err.Error()}
	}
	for _, why := range rep.Bad {
		fault("audit: %s", why)
	}
	for _, d := range rep.Damages {
		fault("audit: %+v", d)
	}
	for _, name := range rep.Unnamed {
		fault("%s is left over", name)
	}
	set, m, err := lastManifest(e.fs, e.dirs)
	if err != nil {
		return append(faults, err.Error())
	}
	if m.Done != StopDone {
		fault("the crawl ended by %q", m.Done)
	}
	faults = append(faults, figureFaults(&m.Accounts)...)
	for _, dir := range append(slices.Clone(e.dirs), e.out...) {
		names, _ := e.fs.List(dir + "/warc") // absent where no output goes
		for _, name := range names {
			if strings.HasSuffix(name, ".open") {
				fault("%s/warc/%s is left over", dir, name)
			}
		}
	}
	if e.stored, err = outputOf(e.parsed, set, outSet(set, e.out), m); err != nil {
		return append(faults, "output: "+err.Error())
	}
	for url := range e.want.FetchedURLs() {
		if e.stored[url] != 1 {
			fault("the output has %d records of %s, want 1", e.stored[url], url)
		}
	}
	for url, n := range e.stored {
		if fetched, _, _ := e.want.Has(url); !fetched && (n != 1 || !isTroubled(url) && !isStranger(url)) {
			fault("the output has %d records of %s, which must not be fetched", n, url)
		}
	}
	entries, bad := e.checkLog(set, m)
	faults = append(faults, bad...)
	faults = append(faults, e.checkStrangers(entries, m)...)
	if e.walks {
		return append(faults, e.checkSampled(set, m)...)
	}
	return append(faults, checkGraph(e.fs, e.dirs, e.want)...)
}

// checkLog checks that the crawl log has each ended URL once, and the same number of each reason as the
// accounts.
func (e *endOf) checkLog(set disk.Set, m *state.Manifest) (entries map[string][]crawllog.Entry, faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	entries = map[string][]crawllog.Entry{}
	note := func(en *crawllog.Entry) error { entries[en.URL] = append(entries[en.URL], *en); return nil }
	st, err := state.Part[crawllog.State](m, state.NameCrawlLog)
	if err == nil {
		_, err = crawllog.Scan(crawllog.Options{Set: set, Prefix: "crawl"}, st, note,
			func(err error) error { return err })
	}
	if err != nil {
		return nil, []string{"crawl log: " + err.Error()}
	}
	refused := map[string]int64{}
	for url, lines := range entries {
		if len(lines) != 1 {
			fault("the crawl log has %d lines of %s, want 1", len(lines), url)
		}
		why := lines[0].Reason
		if why != "" {
			refused[why]++
		}
		if _, forbidden, _ := e.want.Has(url); !isTroubled(url) && !isStranger(url) &&
			forbidden != (why == state.ReasonRobots.String()) {
			fault("%s ended with reason %q; forbidden by robots.txt: %t", url, why, forbidden)
		}
	}
	for url := range e.want.RefusedURLs() {
		if len(entries[url]) == 0 {
			fault("the crawl log lacks %s", url)
		}
	}
	if counted := byReason(&m.Accounts.Refused); !maps.Equal(refused, counted) {
		fault("the crawl log has refused %v, the accounts have %v", refused, counted)
	}
	if n := m.Accounts.Places[state.PlaceFetched].N +
		m.Accounts.Places[state.PlaceRefused].N; int64(len(entries)) != n {
		fault("the crawl log has %d URLs, %d have ended", len(entries), n)
	}
	return entries, faults
}

// byReason maps the name of each reason to its count.
func byReason(list *[state.NumReasons]int64) map[string]int64 {
	named := map[string]int64{}
	for why, n := range list {
		if n != 0 {
			named[state.Reason(why).String()] = n
		}
	}
	return named
}

// checkStrangers checks that each URL of a host in permanent trouble has one of three ends: fetched before
// the trouble and in the output once; refused because of the trouble; or waiting for its robots.txt, which
// the crawl couldn't fetch in time. The time of the interruptions decides which.
func (e *endOf) checkStrangers(entries map[string][]crawllog.Entry, m *state.Manifest) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	e.strange = map[string]int64{}
	for _, url := range e.trouble.strangers() {
		switch lines := entries[url]; {
		case len(lines) == 0 && e.stored[url] == 0:
			e.waiting++
		case len(lines) != 1:
			fault("%s has %d lines in the crawl log and %d records", url, len(lines), e.stored[url])
		case e.stored[url] == 1 && lines[0].Reason == "":
		case e.stored[url] == 0 && strings.Contains(strangerReasons[e.trouble], lines[0].Reason) &&
			lines[0].Reason != "":
			e.strange[lines[0].Reason]++
		default:
			fault("%s ended with reason %q and %d records", url, lines[0].Reason, e.stored[url])
		}
	}
	later := byReason(&m.Accounts.Deferred)
	if n := later["robots-unavailable"]; n != e.waiting || len(later) > boolInt(n > 0) {
		fault("%d URLs of strangers wait, but the crawl has deferred %v", e.waiting, later)
	}
	return faults
}

func lastManifest(fs disk.FS, dirs []string) (disk.Set, *state.Manifest, error) {
	match, err := disk.MatchIdentities(fs, dirs, state.KindState)
	if err != nil {
		return disk.Set{}, nil, err
	}
	m, _, err := state.ReadManifest(match.Set)
	if err == nil && m == nil {
		err = errors.New("no manifest")
	}
	return match.Set, m, err
}

// lastPart returns a part of the last manifest of a crawl.
func lastPart[S any](t *testing.T, fs disk.FS, dirs []string, name string) (disk.Set, *S) {
	t.Helper()
	set, m, err := lastManifest(fs, dirs)
	must(t, err)
	st, err := state.Part[S](m, name)
	must(t, err)
	return set, st
}

// outSet returns the output directories of a crawl whose state is in set.
func outSet(set disk.Set, out []string) disk.Set {
	if len(out) == 0 {
		return set
	}
	match, err := disk.MatchIdentities(set.FS, out, state.KindOutput)
	if err != nil {
		return disk.Set{FS: set.FS, Paths: out}
	}
	return match.Set
}

// outputOf counts the response records of each URL in the output that belongs to a manifest. It parses the
// content of a closed file once, however many cuts find it: parsed maps the checksum of a file to []string.
func outputOf(parsed *sync.Map, set, out disk.Set, m *state.Manifest) (map[string]int, error) {
	urls := map[string]int{}
	files, err := warc.Files(out)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		data, err := disk.ReadFile(set.FS, name)
		if err != nil {
			return nil, err
		}
		sum := xxhash.Sum64(data)
		known, ok := parsed.Load(sum)
		if !ok {
			var list []string
			if err := warc.Read(bytes.NewReader(data), 1<<30, func(rec *warc.Record) error {
				list = append(list, responseURL(rec)...)
				return nil
			}); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			known, _ = parsed.LoadOrStore(sum, list)
		}
		for _, url := range known.([]string) {
			urls[url]++
		}
	}
	st, err := state.Part[warc.State](m, state.NameWARC)
	if err != nil {
		return nil, err
	}
	err = warc.Walk(warc.Options{Set: out, State: set}, st, 1<<30, func(_ string, rec *warc.Record) error {
		for _, url := range responseURL(rec) {
			urls[url]++
		}
		return nil
	})
	for name, n := range urls {
		digest, isBody := strings.CutPrefix(name, bodyRecord)
		if isBody && n != 1 && err == nil {
			err = fmt.Errorf("the output has %d responses with the body %s", n, digest)
		}
		if digest, isRevisit := strings.CutPrefix(name, revisitRecord); isRevisit {
			if err == nil && urls[bodyRecord+digest] != 1 {
				err = fmt.Errorf("the output has revisits of the body %s, but not the body", digest)
			}
			isBody = true
		}
		if isBody {
			defer delete(urls, name)
		}
	}
	counted := &m.Accounts.Counters
	for kind, n := range map[string]int64{robotsRecord: counted[state.CountRobotsStored],
		dnsRecord:     counted[state.CountDNSStored],
		droppedRecord: counted[state.CountUsageDropped] + counted[state.CountHookDropped]} {
		if err == nil && int64(urls[kind]) != n {
			err = fmt.Errorf("the output has %d records of%s, the checkpoint counts %d", urls[kind], kind, n)
		}
		delete(urls, kind)
	}
	return urls, err
}

// responseURL returns these for records that aren't of pages, and besides the URL for metadata without a response.
const robotsRecord, dnsRecord, droppedRecord = " robots.txt", " the DNS", " dropped pages"

// responseURL returns the URL of a response record or of a metadata record without a response, and nothing for other
// records.
func responseURL(rec *warc.Record) []string {
	url := rec.Get("WARC-Target-URI")
	switch {
	case rec.Type() == "metadata" && rec.Get("WARC-Concurrent-To") == "":
		return []string{url, droppedRecord}
	case !rec.IsCapture():
		return nil
	case rec.Get("WARC-Resource-Type") == warc.KindRobots:
		return []string{robotsRecord}
	case strings.HasPrefix(url, "dns:"):
		return []string{dnsRecord}
	case rec.Type() == "revisit":
		return []string{url, revisitRecord + rec.Get("WARC-Payload-Digest")}
	}
	if resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(rec.Block)), nil); err == nil &&
		rec.Get("WARC-Truncated") == "" {
		if n, err := io.Copy(io.Discard, resp.Body); err == nil && n >= contents.Least {
			return []string{url, bodyRecord + rec.Get("WARC-Payload-Digest")}
		}
	}
	return []string{url}
}

// responseURL returns these, with the digest, besides the URL: of a body that is stored once, and of a revisit.
const bodyRecord, revisitRecord = " body ", " revisit "

// checkStored checks a crawl after any number of interruptions: every URL that a correct crawl fetches was
// fetched and is in the output once, no other URL is, and the audit balances.
func checkStored(t *testing.T, web *simweb.Web, fs disk.FS, dirs []string) {
	t.Helper()
	want := web.Expected("drumbeat")
	records := storedURLs(t, fs, dirs)
	_, faults := checkServed(want, web.Log().Snapshot())
	for url := range want.FetchedURLs() {
		if records[url] != 1 {
			faults = append(faults, fmt.Sprintf("the output has %d records of %s, want 1", records[url], url))
		}
		delete(records, url)
	}
	for url, n := range records {
		faults = append(faults, fmt.Sprintf("the output has %d records of %s, which must not be fetched", n, url))
	}
	for _, f := range faults[:min(len(faults), 20)] {
		t.Error(f)
	}
	checkBalanced(t, fs, dirs)
}

// checkServed compares the web's log with a correct crawl: every URL to fetch was fetched, and no other was.
func checkServed(want *simweb.Expected, snap *simweb.Snapshot) (repeated int, faults []string) {
	for url := range want.FetchedURLs() {
		repeated += max(0, snap.Fetches[url]-1)
		if snap.Fetches[url] == 0 {
			faults = append(faults, "not fetched: "+url)
		}
	}
	for url := range snap.Fetches {
		if fetched, _, _ := want.Has(url); !fetched {
			faults = append(faults, "fetched, but must not be: "+url)
		}
	}
	return repeated, faults
}

// storedURLs counts the response records of each URL in the output, in closed and open files.
func storedURLs(t *testing.T, fs disk.FS, dirs []string) map[string]int {
	t.Helper()
	urls := map[string]int{}
	for _, rec := range storedRecords(t, fs, dirs) {
		urls[rec.Get("WARC-Target-URI")]++
	}
	return urls
}

// storedRecords returns the heads of the output's response records.
func storedRecords(t *testing.T, fs disk.FS, dirs []string) (heads []warc.Record) {
	t.Helper()
	count := func(rec *warc.Record) error {
		if rec.IsCapture() {
			head := *rec
			head.Block = nil
			heads = append(heads, head)
		}
		return nil
	}
	set := disk.Set{FS: fs, Paths: dirs}
	paths, err := warc.Files(set)
	must(t, err)
	for _, p := range paths {
		must(t, warc.ReadFile(fs, p, 1<<30, count))
	}
	m, _, err := state.ReadManifest(set)
	must(t, err)
	st, err := state.Part[warc.State](m, state.NameWARC)
	must(t, err)
	err = warc.Walk(warc.Options{Set: set, State: set}, st, 1<<30,
		func(_ string, rec *warc.Record) error { return count(rec) })
	must(t, err)
	return heads
}
