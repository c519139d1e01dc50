package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
	"drumbeat/weburl"
)

// feedJob returns a job over a crawl that has only indexes of WARC files: of files with fileLines lines each, of visits
// to urls pages, and each visit finds a page changed.
func feedJob(t testing.TB, dir string, format tabular.Format, urls, visits int) *job {
	t.Helper()
	const fileLines = 50_000
	j := testJob(t, disk.OS(), dir, format)
	j.opt.Kind, j.opt.RAMBytes, j.opt.Compression = Changes, defaultRAMBytes, "zstd"
	crawl := []string{dir + "/crawl"}
	must(t, disk.OS().MkdirAll(crawl[0]+"/warc"))
	at := time.Date(2026, 11, 21, 22, 43, 5, 0, time.UTC)
	serial := uint64(0)
	var text []byte
	name := func() string { return fmt.Sprintf("DRUMBEAT-%s000-%05d-host", at.Format("20060102150405"), serial) }
	flush := func() {
		must(t, disk.WriteFileAtomic(disk.OS(), crawl[0]+"/warc/"+name()+".cdxj", text))
		text = text[:0]
		serial++
	}
	for i := range urls * visits {
		url := fmt.Sprintf("http://h%d.example.org/a/page-%d", i%urls%9973, i%urls)
		text = warc.AppendKey(text, []byte(url), warc.KeyPywb)
		text = fmt.Appendf(text, ` %s {"url": "%s", "mime": "text/html", "status": "200", "digest": "sha1:%032X", `+
			`"length": "5120", "offset": "%d", "filename": "%s.warc.gz"}`+"\n",
			at.Add(time.Duration(i/100)*time.Second).Format("20060102150405"), url, i, i%fileLines*5120, name())
		if i%fileLines == fileLines-1 || i == urls*visits-1 {
			flush()
		}
	}
	files := *outfile.NoState()
	files.Serial = serial
	j.Reader = &state.Reader{Saved: state.NewSaved(disk.OS(), crawl, crawl)}
	j.Manifest = &state.Manifest{Crawl: "bench", Parts: map[string]json.RawMessage{}}
	setPart(t, j, state.NameWARC, &warc.State{V: 1, Files: files})
	setPart(t, j, state.NameCrawlLog, &crawllog.State{V: 2, Files: *outfile.NoState()})
	j.Hasher, j.Suffixes = weburl.NewHasher(weburl.Secret{1}), weburl.NewSuffixes(false)
	return j
}

// setPart sets the state of a structure in the manifest.
func setPart(t testing.TB, j *job, name string, st any) {
	t.Helper()
	data, err := json.Marshal(st)
	must(t, err)
	j.Manifest.Parts[name] = data
}

// feedTo makes the feed.
func (j *job) feedTo(t testing.TB, out io.Writer) {
	t.Helper()
	var err error
	j.row = make([]tabular.Value, len(changeTable().columns))
	j.rows, err = tabular.NewStream(out, tabular.Options{Format: j.opt.Format, Columns: changeTable().columns})
	must(t, err)
	must(t, j.endOfFeed())
	must(t, fillChanges(j))
	must(t, j.rows.Close())
}

// TestFeedSpills: a feed that does not fit into RAM has each row once, in order.
func TestFeedSpills(t *testing.T) {
	const urls, visits = 20_000, 4
	j := feedJob(t, filepath.ToSlash(t.TempDir()), tabular.JSONL, urls, visits)
	j.opt.RAMBytes = leastRAMBytes // sorters have 8 MiB, the records take 20
	var out bytes.Buffer
	j.feedTo(t, &out)
	type row struct {
		Change, URL, Token string
		Time               time.Time
	}
	var rows []row
	kinds, tokens := map[string]int{}, map[string]bool{}
	for line := range bytes.Lines(out.Bytes()) {
		var r row
		must(t, json.Unmarshal(line, &r))
		rows = append(rows, r)
		kinds[r.Change]++
		tokens[r.Token] = true
	}
	if !slices.IsSortedFunc(rows, func(a, b row) int { return a.Time.Compare(b.Time) }) || kinds["new"] != urls ||
		kinds["changed"] != urls*(visits-1) || len(tokens) != urls*visits {
		t.Errorf("%v, %d tokens", kinds, len(tokens))
	}
}

// BenchmarkChanges makes a feed of 600,000 changes of 200,000 URLs, and one of the last 50,000.
func BenchmarkChanges(b *testing.B) {
	const urls, visits = 200_000, 3
	for _, format := range []tabular.Format{tabular.JSONL, tabular.Parquet} {
		for _, part := range []uint64{1, 12} {
			b.Run(fmt.Sprintf("format=%s/rows=%d", format, 600_000/part), func(b *testing.B) {
				j := feedJob(b, filepath.ToSlash(b.TempDir()), format, urls, visits)
				if part > 1 {
					p := position{}
					p.from.serial = 12 - 12/part
					p.to = p.from
					j.opt.Token = p.token(j.Manifest.Crawl)
				}
				rows := int64(0)
				for b.Loop() {
					j.feedTo(b, io.Discard)
					rows += j.rows.Rows()
				}
				b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
