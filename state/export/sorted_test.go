package export

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simhash"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/warc"
)

// testJob returns a job without a crawl.
func testJob(t testing.TB, fsys disk.FS, dir string, format tabular.Format) *job {
	t.Helper()
	j := &job{ctx: t.Context(), meter: new(state.ProgressMeter), report: new(Report), opt: &Options{FS: fsys,
		Format: format, Target: dir + "/index", TempDir: dir + "/tmp", RAMBytes: leastRAMBytes}}
	t.Cleanup(func() {
		for _, end := range j.ends {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return j
}

// nearRows finds the near-duplicates of hashes, whose URLs are their numbers, and returns pairs of URLs with their
// distance.
func nearRows(t *testing.T, hashes []uint64) (map[[2]string]int, []string) {
	t.Helper()
	j := testJob(t, memfs.New(1), "/d", tabular.JSONL)
	var out bytes.Buffer
	var err error
	if j.rows, err = tabular.NewStream(&out,
		tabular.Options{Format: tabular.JSONL, Columns: nearTable().columns}); err != nil {
		t.Fatal(err)
	}
	n := newNearJoin(j)
	for i, h := range hashes {
		must(t, n.add(h, "digest", fmt.Sprintf("%06d", i)))
	}
	must(t, errors.Join(n.find(), j.rows.Close()))
	rows := map[[2]string]int{}
	for line := range strings.Lines(out.String()) {
		var r struct {
			URL      string `json:"url"`
			Near     string `json:"near_url"`
			Distance int    `json:"distance"`
		}
		must(t, json.Unmarshal([]byte(line), &r))
		pair := [2]string{min(r.URL, r.Near), max(r.URL, r.Near)}
		if _, twice := rows[pair]; twice {
			t.Errorf("%v is there twice", pair)
		}
		rows[pair] = r.Distance
	}
	return rows, j.report.Notes
}

// wantNear compares each hash with each.
func wantNear(hashes []uint64) map[[2]string]int {
	first := map[uint64]string{}
	want := map[[2]string]int{}
	var distinct []uint64
	for i, h := range hashes {
		url := fmt.Sprintf("%06d", i)
		if of, known := first[h]; known {
			want[[2]string{of, url}] = 0
			continue
		}
		first[h] = url
		distinct = append(distinct, h)
	}
	for i, a := range distinct {
		for _, b := range distinct[:i] {
			if d := simhash.Distance(a, b); d <= 3 {
				want[[2]string{min(first[a], first[b]), max(first[a], first[b])}] = d
			}
		}
	}
	return want
}

// TestNearPairs: the ten tables find what a comparison of each with each finds.
func TestNearPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var hashes []uint64
	for range 500 {
		center := rng.Uint64()
		for range rng.IntN(20) {
			h := center
			for range rng.IntN(5) {
				h ^= 1 << rng.IntN(64)
			}
			hashes = append(hashes, h)
		}
	}
	got, notes := nearRows(t, hashes)
	want := wantNear(hashes)
	byDistance := [4]int{}
	for _, d := range want {
		byDistance[d]++
	}
	if !maps.Equal(got, want) || len(notes) > 0 || slices.Min(byDistance[:]) < 100 {
		t.Errorf("%d rows, want %d, by distance %v; notes %q", len(got), len(want), byDistance, notes)
	}
}

// TestNearBounds: of a group and of a cluster beyond the bounds, rows are right but may lack some, and notes say so.
func TestNearBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	var hashes []uint64
	for range nearWindow + 500 { // they agree in two blocks, and differ in the others
		hashes = append(hashes, rng.Uint64()>>26)
	}
	for low := range uint64(1 << 10) { // each has 175 within three bits
		hashes = append(hashes, 0x5555_5555_5555_5000|low)
	}
	want := 0
	for i, a := range hashes { // all are different
		for _, b := range hashes[:i] {
			if simhash.Distance(a, b) <= 3 {
				want++
			}
		}
	}
	got, notes := nearRows(t, hashes)
	for pair, d := range got {
		a, err1 := strconv.Atoi(pair[0])
		b, err2 := strconv.Atoi(pair[1])
		must(t, errors.Join(err1, err2))
		if d > 3 || d != simhash.Distance(hashes[a], hashes[b]) {
			t.Fatalf("row %v %d", pair, d)
		}
	}
	if len(got) == 0 || len(got) >= want || len(notes) != 2 {
		t.Errorf("%d rows of %d; notes %q", len(got), want, notes)
	}
}

// testLine returns a line of an index.
func testLine(i int) string {
	return fmt.Sprintf(`org,example,h%05d)/a/page-%d 20261124101152 {"url": "http://h%05d.example.org/a/page-%d", `+
		`"mime": "text/html", `+
		`"status": "200", "digest": "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "length": "%d", "offset": "%d", `+
		`"filename": "DRUMBEAT-20261124100000000-00000-host.warc.gz"}`, i*7919%50_000, i, i*7919%50_000, i,
		4000+i%3000, i)
}

// writeLines writes an index of n lines.
func writeLines(t testing.TB, j *job, n int) error {
	t.Helper()
	s := j.sorterOf(2)
	for i := range n {
		must(t, s.Add([]byte(testLine(i))))
	}
	return j.writeIndex(s)
}

// readIndex returns the lines of an index of ZipNum, by its summary.
func readIndex(t *testing.T, fsys disk.FS, dir string) (lines []string, members int) {
	t.Helper()
	read := func(name string) string {
		b, err := disk.ReadFile(fsys, dir+"/"+name)
		must(t, err)
		return string(b)
	}
	zip, at := read(zipName), 0
	for line := range strings.Lines(read(idxName)) {
		var offset, length, number int
		f := strings.Split(line, "\t")
		if n, err := fmt.Sscan(strings.Join(f[2:], " "), &offset, &length, &number); n != 3 || offset != at ||
			number != members+1 {
			t.Fatalf("line %q of the summary at %d: %v", line, at, err)
		}
		z, err := gzip.NewReader(strings.NewReader(zip[offset : offset+length]))
		must(t, err)
		text, err := io.ReadAll(z)
		if err != nil || !strings.HasPrefix(string(text), f[0]+" {") {
			t.Fatalf("member %d: %v, begins with %.60q, want %q", members, err, text, f[0])
		}
		lines = append(lines, slices.Collect(strings.Lines(string(text)))...)
		at, members = offset+length, members+1
	}
	if at != len(zip) {
		t.Errorf("the summary covers %d of %d bytes", at, len(zip))
	}
	return lines, members
}

// TestZipNum: blocks have 3,000 lines each but the last, and the summary leads to them. An index that meets a full
// disk leaves no file under a new name, none that is temporary, and the earlier index.
func TestZipNum(t *testing.T) {
	for _, n := range []int{0, 1, warc.BlockLines, 2*warc.BlockLines + 1} {
		fsys := memfs.New(1)
		j := testJob(t, fsys, "/d", ZipNum)
		must(t, writeLines(t, j, n))
		var want []string
		for i := range n {
			want = append(want, testLine(i)+"\n")
		}
		slices.Sort(want)
		got, members := readIndex(t, fsys, j.opt.Target)
		if !slices.Equal(got, want) || members != (n+warc.BlockLines-1)/warc.BlockLines || j.report.Rows != int64(n) {
			t.Errorf("%d lines in %d members, want %d", len(got), members, n)
		}

		files, err := fsys.List(j.opt.Target)
		must(t, err)
		fsys.SetCapacity(fsys.Used() + 30_000)
		if err := writeLines(t, testJob(t, fsys, "/d", ZipNum), 4*warc.BlockLines); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full disk: %v", err)
		}
		again, _ := readIndex(t, fsys, j.opt.Target)
		if after, err := fsys.List(j.opt.Target); err != nil || !slices.Equal(after, files) ||
			!slices.Equal(again, got) {
			t.Errorf("after a full disk: %v, %v, %d lines; want %v, %d", after, err, len(again), files, len(got))
		}
	}
}

// TestZipNumCrash: whenever the machine fails, there is no summary, or it leads to whole blocks.
func TestZipNumCrash(t *testing.T) {
	old, now, none := 0, 0, 0
	for after := 1; ; after++ {
		fsys := memfs.New(uint64(after))
		must(t, writeLines(t, testJob(t, fsys, "/d", ZipNum), 100))
		fsys.CrashAfter(after)
		j := testJob(t, fsys, "/d", ZipNum)
		err := writeLines(t, j, warc.BlockLines+200)
		if err == nil {
			break
		}
		if !errors.Is(err, disk.ErrCrashed) {
			t.Fatal(err)
		}
		fsys = fsys.Crash()
		if _, err := fsys.Size(j.opt.Target + "/" + idxName); err != nil {
			none++
			continue
		}
		switch lines, _ := readIndex(t, fsys, j.opt.Target); len(lines) {
		case 100:
			old++
		case warc.BlockLines + 200:
			now++
		default:
			t.Fatalf("crash after %d operations: %d lines", after, len(lines))
		}
	}
	if old == 0 || none == 0 {
		t.Errorf("%d crashes with the earlier index, %d with none, %d with the new one", old, none, now)
	}
}

// BenchmarkIndex writes an index of a million lines.
func BenchmarkIndex(b *testing.B) {
	for _, format := range []tabular.Format{CDXJ, ZipNum} {
		b.Run(string(format), func(b *testing.B) {
			const n = 1e6
			for b.Loop() {
				j := testJob(b, disk.OS(), filepath.ToSlash(b.TempDir()), format)
				j.opt.RAMBytes = defaultRAMBytes
				must(b, writeLines(b, j, n))
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// BenchmarkNear finds the near-duplicates of a million pages, a tenth of which have one.
func BenchmarkNear(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		j := testJob(b, disk.OS(), filepath.ToSlash(b.TempDir()), tabular.CSV)
		j.opt.RAMBytes = defaultRAMBytes
		rng := rand.New(rand.NewPCG(1, 4))
		var err error
		if j.rows, err = tabular.NewStream(io.Discard,
			tabular.Options{Format: tabular.CSV, Columns: nearTable().columns}); err != nil {
			b.Fatal(err)
		}
		join, last := newNearJoin(j), uint64(0)
		for i := range n {
			if i%10 == 0 {
				last ^= 1 << rng.IntN(64)
			} else {
				last = rng.Uint64()
			}
			if err := join.add(last, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
				fmt.Sprintf("http://h%d.example.org/a/page-%d", i%9973, i)); err != nil {
				b.Fatal(err)
			}
		}
		must(b, join.find())
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}
