package history

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var seedFlag = flag.Uint64("seed", 1, "seed of the samples")

var began = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func opened(t testing.TB, fsys disk.FS, bytes int64) *Writer {
	t.Helper()
	w, err := Open(Options{FS: fsys, Dir: "d/history", Bytes: bytes})
	must(t, err)
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// all reads all samples and events of a history.
func all(t testing.TB, fsys disk.FS) *Data {
	t.Helper()
	files, _, err := list(fsys, "d/history")
	must(t, err)
	data := &Data{Series: map[string][]float64{}}
	for i := range files {
		d, err := load(fsys, "d/history", &files[i])
		if isDamage(err) {
			data.Damage = append(data.Damage, err)
			continue
		}
		must(t, err)
		var ev Event
		for it := d.next(&ev); it != itemEnd; it = d.next(&ev) {
			if it == itemEvent {
				data.Events = append(data.Events, ev)
				continue
			}
			data.Times = append(data.Times, time.UnixMilli(d.last).UTC())
			for k := range d.columns {
				c := &d.columns[k]
				values := data.Series[c.name]
				for len(values) < len(data.Times)-1 {
					values = append(values, math.NaN())
				}
				data.Series[c.name] = append(values, float64(d.values[k])/c.scale())
			}
		}
		if d.at < len(d.data) {
			t.Fatalf("%s is damaged at %d", files[i].name(), d.at)
		}
	}
	return data
}

// points reads one series with a point for each second of a span of n seconds.
func points(t testing.TB, fsys disk.FS, n int, name string) *Data {
	t.Helper()
	data, err := Read(fsys, "d/history",
		Query{From: began, To: began.Add(time.Duration(n) * time.Second), Points: n, Names: []string{name}})
	must(t, err)
	return data
}

// TestFormat spells a file by hand.
func TestFormat(t *testing.T) {
	fsys := memfs.New(1)
	w := opened(t, fsys, MinBytes)
	must(t, w.Event(Event{Time: began, What: "start", Text: "v1"}))
	must(t, w.Append(began.Add(10*time.Second), []Value{{Name: "a", V: 3}, {Name: "b", V: -0.5, Fraction: true}}))
	must(t, w.Append(began.Add(20*time.Second), []Value{{Name: "a", V: 3}, {Name: "c", V: 1}}))
	must(t, w.Close())
	data, err := disk.ReadFile(fsys, "d/history/00000001-00000001-00.hist")
	must(t, err)
	// Magic, kind, version, number, place.
	header := "6472756d62656174" + "68697374" + "01000000" + "0100000000000000" + "0000000000000000"
	if got := hex.EncodeToString(data[:disk.HeaderBytes-8]); got != header {
		t.Errorf("header %s, want %s", got, header)
	}
	rest := data[disk.HeaderBytes:]
	var e encoder
	var hand []byte
	for _, body := range []string{
		"01" + "808885b2c068" + "904e",                        // start: ms, interval of 10,000 ms
		"04" + "00" + "05" + "7374617274" + "7631",            // event: 0 ms later, 5 bytes "start", rest "v1"
		"02" + "00" + "00" + "01" + "61" + "06" + "01" + "62", // columns: 0 kept, "a" with 0 decimals, "b" with 6
		"03" + "a09c01" + "00" + "06" + "00" + "bf843d",       // sample 10,000 ms later: +3, -500,000
		"02" + "02" + "00" + "01" + "63",                      // columns: 2 kept, "c"
		"03" + "a09c01" + "01" + "c0843d" + "00" + "02",       // sample: a as before, b 0, c 1
	} {
		e.body, err = hex.DecodeString(body)
		must(t, err)
		hand = e.record(hand)
	}
	if hex.EncodeToString(hand) != hex.EncodeToString(rest) {
		t.Errorf("records\n%x, want\n%x", rest, hand)
	}
	d := all(t, fsys)
	if len(d.Times) != 2 || !slices.Equal(d.Series["a"], []float64{3, 3}) ||
		!slices.Equal(d.Series["b"], []float64{-0.5, 0}) || !math.IsNaN(d.Series["c"][0]) || d.Series["c"][1] != 1 ||
		len(d.Events) != 1 || d.Events[0] != (Event{began, "start", "v1"}) {
		t.Errorf("got %+v", d)
	}
}

// TestVersions: a file of another version must be refused with an error that says so.
func TestVersions(t *testing.T) {
	fsys := memfs.New(1)
	must(t, fsys.MkdirAll("d/history"))
	f, err := fsys.Create("d/history/00000001-00000001-00.hist")
	must(t, err)
	_, err = f.WriteAt(disk.Header{Kind: fileKind, Version: 2, Number: 1}.Append(nil), 0)
	must(t, errors.Join(err, f.Close()))
	for what, err := range map[string]error{
		"open": func() error { _, err := Open(Options{FS: fsys, Dir: "d/history", Bytes: MinBytes}); return err }(),
		"read": func() error {
			_, err := Read(fsys, "d/history", Query{From: began, To: began.Add(1)})
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), "format version 2, this program reads 1") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSamples: random samples over several runs must be read back, with new series and series that end.
func TestSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seedFlag, 1))
	fsys := memfs.New(1)
	type point struct {
		at     time.Time
		values map[string]float64
	}
	var points []point
	now := began
	for run := range 5 {
		w := opened(t, fsys, 64<<20)
		seen := map[string]bool{}
		for range 50 + rng.IntN(200) {
			now = now.Add(time.Duration(rng.IntN(20_000)) * time.Millisecond)
			p := point{now, map[string]float64{}}
			var sample []Value
			for i := range 30 {
				name := fmt.Sprintf("s%d", i)
				if rng.IntN(40) == 0 || seen[name] && rng.IntN(10) > 0 {
					seen[name] = true
					v := Value{Name: name, V: float64(rng.Int64N(1 << (1 + rng.IntN(50))))}
					if i%3 == 0 {
						v.Fraction, v.V = true, math.Round(rng.NormFloat64()*1e9)/1e6
					}
					sample = append(sample, v)
					p.values[name] = v.V
				}
			}
			for name := range seen {
				if _, ok := p.values[name]; !ok {
					p.values[name] = 0
				}
			}
			rng.Shuffle(len(sample), func(i, k int) { sample[i], sample[k] = sample[k], sample[i] })
			must(t, w.Append(now, sample))
			points = append(points, p)
		}
		if run%2 == 0 {
			must(t, w.Close())
		}
	}
	// The span is as many milliseconds as points where possible, so read in parts.
	for i, p := range points {
		data, err := Read(fsys, "d/history", Query{From: p.at, To: p.at.Add(time.Millisecond), Points: 1})
		must(t, err)
		same := i+1 < len(points) && points[i+1].at.Equal(p.at)
		if same {
			continue
		}
		if len(data.Times) != 1 || !data.Times[0].Equal(p.at.Truncate(time.Millisecond)) {
			t.Fatalf("point %d: times %v, want %v", i, data.Times, p.at)
		}
		for name, values := range data.Series {
			if want, ok := p.values[name]; ok && values[0] != want {
				t.Errorf("point %d, %s: got %v, want %v", i, name, values[0], want)
			}
		}
		for name := range p.values {
			if _, ok := data.Series[name]; !ok {
				t.Errorf("point %d: %s is missing", i, name)
			}
		}
	}
}

// TestQuery: the last sample of each interval must count, and only what was asked for.
func TestQuery(t *testing.T) {
	fsys := memfs.New(1)
	w := opened(t, fsys, MinBytes)
	for i := range 60 {
		at := began.Add(time.Duration(i) * 10 * time.Second)
		must(t, w.Append(at,
			[]Value{{Name: "n", V: float64(i)}, {Name: `codes{code="200"}`, V: 1}, {Name: `codes{code="404"}`, V: 2}}))
		must(t, w.Event(Event{at, "tick", fmt.Sprint(i)}))
	}
	data, err := Read(fsys, "d/history", Query{From: began.Add(100 * time.Second), To: began.Add(400 * time.Second),
		Points: 3, Names: []string{"n", "codes"}})
	must(t, err)
	if !slices.Equal(data.Series["n"], []float64{19, 29, 39}) || len(data.Series) != 3 ||
		data.Step != 100*time.Second || len(data.Events) != 30 {
		t.Errorf("got %+v", data)
	}
	data, err = Read(fsys, "d/history",
		Query{From: began, To: began.Add(time.Hour), Names: []string{`codes{code="404"}`}})
	must(t, err)
	if len(data.Series) != 1 || len(data.Times) != 60 {
		t.Errorf("got %+v", data)
	}
	for _, q := range []Query{{From: began, To: began}, {From: began, To: began.Add(1), Points: -1},
		{From: began, To: began.Add(1), Points: MaxPoints + 1}} {
		if _, err := Read(fsys, "d/history", q); err == nil {
			t.Errorf("%+v was accepted", q)
		}
	}
	if first, last, err := Span(fsys, "d/history"); err != nil || !first.Equal(began) ||
		!last.Equal(began.Add(590*time.Second)) {
		t.Errorf("span %v to %v, %v", first, last, err)
	}
	if first, last, err := Span(fsys, "nowhere"); err != nil || !first.IsZero() || !last.IsZero() {
		t.Errorf("span of nothing: %v to %v, %v", first, last, err)
	}
	data, err = Read(fsys, "nowhere", Query{From: began, To: began.Add(time.Hour)})
	if err != nil || len(data.Times)+len(data.Events) > 0 {
		t.Errorf("no history: %v, %+v", err, data)
	}
	if _, err := Open(Options{FS: fsys, Dir: "d/history", Bytes: MinBytes - 1}); err == nil {
		t.Error("a bound that is too small was accepted")
	}
}

// busy returns a sample of a busy crawl at second n: 450 series, of which 150 change.
func busy(rng *rand.Rand, n int) (sample []Value) {
	for i := range 450 {
		v := Value{Name: fmt.Sprintf("series_%d_total", i), V: float64(i)}
		if i < 150 {
			v.V = float64(n) * float64(i*i+1)
			if rng != nil {
				v.V += float64(rng.IntN(i + 1))
			}
		}
		sample = append(sample, v)
	}
	return sample
}

// TestAges: over three years of samples the files must stay within their bound, and the last days must keep
// all samples, older ones a sample a minute and in ten minutes, and the oldest must not be lost.
func TestAges(t *testing.T) {
	const years, bytes = 3, MinBytes
	fsys := memfs.New(1)
	w := opened(t, fsys, bytes)
	step := 300 * time.Second // instead of Interval, so that the test is short
	now := began
	must(t, w.Event(Event{now, "start", "first"}))
	for n := 0; now.Before(began.AddDate(years, 0, 0)); n++ {
		must(t, w.Append(now, []Value{{Name: "n", V: float64(n)}, {Name: "x", V: float64(n % 7)}}))
		if n%100 == 0 {
			must(t, w.Thin(now))
			if w.Bytes() > bytes {
				t.Fatalf("%d bytes after %v", w.Bytes(), now.Sub(began))
			}
		}
		if n%20_000 == 0 { // a restart, with and without an orderly end
			if n%40_000 == 0 {
				must(t, w.Close())
			}
			w = opened(t, fsys, bytes)
		}
		now = now.Add(step)
	}
	must(t, w.Close())
	names, err := fsys.List("d/history")
	must(t, err)
	count := func(from, to time.Duration) int {
		data, err := Read(fsys, "d/history", Query{From: now.Add(-from), To: now.Add(-to)})
		must(t, err)
		for i, at := range data.Times {
			if want := math.Floor(at.Sub(began).Seconds() / step.Seconds()); data.Series["n"][i] != want ||
				data.Series["x"][i] != math.Mod(want, 7) {
				t.Fatalf("at %v: %v, want %v", at, data.Series["n"][i], want)
			}
		}
		return len(data.Times)
	}
	if n := count(24*time.Hour, 0); n != 288 {
		t.Errorf("%d samples of the last day, want 288", n)
	}
	if n := count(200*time.Hour, 176*time.Hour); n != 288 { // farther apart than a minute
		t.Errorf("%d samples of a day of the second week, want 288", n)
	}
	n, first := count(500*24*time.Hour, 499*24*time.Hour), count(years*366*24*time.Hour, years*364*24*time.Hour)
	if n > 144 || n < 20 || first < 20 {
		t.Errorf("%d samples of a day more than a year ago, %d of the first two days", n, first)
	}
	if d := all(t, fsys); len(d.Events) != 1 || d.Events[0].Text != "first" {
		t.Errorf("events %+v", d.Events)
	}
	t.Logf("%d files with %d bytes; a day has %d samples after 500 days, %d after %d years", len(names), w.Bytes(), n,
		first/2, years)
	if len(names) > 200 {
		t.Errorf("%d files", len(names))
	}
}

// TestThinning: the last sample of a minute must remain, and events.
func TestThinning(t *testing.T) {
	fsys := memfs.New(1)
	w := opened(t, fsys, 64<<20)
	for n := range 3 * 8640 {
		at := began.Add(time.Duration(n) * Interval)
		must(t, w.Append(at, []Value{{Name: "n", V: float64(n)}}))
		if n == 100 {
			must(t, w.Event(Event{at, "change", "pause"}))
		}
	}
	end := began.Add(3 * 24 * time.Hour)
	must(t, w.Thin(end))
	must(t, w.Thin(end.Add(24*time.Hour)))
	d := points(t, fsys, 3600, "n")
	for i, at := range d.Times {
		if n := at.Sub(began).Seconds() / 10; n != d.Series["n"][i] || n != 100 && math.Mod(n, 6) != 5 {
			t.Errorf("a sample at %v with %v", at, d.Series["n"][i])
		}
	}
	if len(d.Times) != 61 || len(d.Events) != 1 {
		t.Errorf("%d samples and %d events of the first hour", len(d.Times), len(d.Events))
	}
}

// TestCutAtEveryByte: of a file cut at any byte, all whole records must be read, and the next run must
// continue.
func TestCutAtEveryByte(t *testing.T) {
	whole := memfs.New(1)
	w := opened(t, whole, MinBytes)
	sizes := []int64{0}
	for n := range 12 {
		at := began.Add(time.Duration(n) * Interval)
		must(t, w.Append(at, []Value{{Name: "n", V: float64(n)}, {Name: fmt.Sprintf("series %d", n/4), V: 7}}))
		sizes = append(sizes, w.at.size)
	}
	name := "d/history/00000001-00000001-00.hist"
	data, err := disk.ReadFile(whole, name)
	must(t, err)
	for cut := range len(data) {
		fsys := memfs.New(1)
		must(t, fsys.MkdirAll("d/history"))
		f, err := fsys.Create(name)
		must(t, err)
		_, err = f.WriteAt(data[:cut], 0)
		must(t, errors.Join(err, f.Close()))
		want := 0
		for want < 12 && sizes[want+1] <= int64(cut) {
			want++
		}
		got, err := Read(fsys, "d/history", Query{From: began, To: began.Add(time.Hour), Names: []string{"n"}})
		must(t, err)
		if len(got.Times) != want || len(got.Damage) > 0 && cut > startBytes {
			t.Fatalf("cut at %d: %d samples, want %d, damage %v", cut, len(got.Times), want, got.Damage)
		}
		w := opened(t, fsys, MinBytes)
		must(t, w.Append(began.Add(200*time.Second), []Value{{Name: "n", V: 99}}))
		must(t, w.Close())
		if got := all(t, fsys); len(got.Times) != want+1 || got.Series["n"][want] != 99 {
			t.Fatalf("cut at %d: %d samples after another run", cut, len(got.Times))
		}
	}
}

// TestCrashAtEveryOperation: after a power cut at any operation of appending and thinning, the history must
// open, and thinned files must be there once: no sample twice, and none lost that was synced.
func TestCrashAtEveryOperation(t *testing.T) {
	for n := 1; ; n++ {
		fsys := memfs.New(uint64(n))
		must(t, errors.Join(fsys.MkdirAll("d"), fsys.SyncDir(".")))
		crashed := func() bool {
			w, err := Open(Options{FS: fsys, Dir: "d/history", Bytes: MinBytes})
			must(t, err)
			for i := range 100 {
				must(t, w.Append(began.Add(time.Duration(i)*time.Hour), []Value{{Name: "n", V: float64(i)}}))
			}
			must(t, w.finish())
			fsys.CrashAfter(n)
			for i := range 20 {
				now := began.AddDate(0, 0, 5+i)
				if w.Append(now, []Value{{Name: "n", V: float64(1000 + i)}}) != nil || w.Thin(now) != nil {
					return true
				}
			}
			return false
		}()
		after := fsys.Crash()
		w := opened(t, after, MinBytes)
		must(t, w.Append(began.AddDate(0, 2, 0), []Value{{Name: "n", V: 5000}}))
		must(t, w.Close())
		d := all(t, after)
		seen := map[float64]bool{}
		for _, v := range d.Series["n"] {
			if seen[v] {
				t.Fatalf("crash at operation %d: %v twice", n, v)
			}
			seen[v] = true
		}
		for i := range 100 {
			if !seen[float64(i)] {
				t.Fatalf("crash at operation %d: sample %d is lost", n, i)
			}
		}
		if !crashed {
			t.Logf("%d operations", n-1)
			return
		}
	}
}

// TestFullDisk: while no write succeeds, each call must return an error, and the history must continue after.
func TestFullDisk(t *testing.T) {
	mem := memfs.New(1)
	full := false
	fsys := memfs.NewFault(mem, func(op memfs.Op, name string) error {
		if full && (op == memfs.OpWrite || op == memfs.OpCreate) {
			return syscall.ENOSPC
		}
		return nil
	})
	w := opened(t, fsys, MinBytes)
	for n := range 300 {
		full = n%100 >= 50
		at := began.Add(time.Duration(n) * Interval)
		err := w.Append(at, []Value{{Name: "n", V: float64(n)}})
		if errors.Is(err, syscall.ENOSPC) != full {
			t.Fatalf("sample %d: %v", n, err)
		}
	}
	if d := all(t, mem); len(d.Times) != 150 || d.Series["n"][149] != 249 {
		t.Errorf("%d samples", len(d.Times))
	}
}

// TestClockSetBack: a clock that is set back must begin a file; the samples of both must be read, and what
// was measured twice once.
func TestClockSetBack(t *testing.T) {
	fsys := memfs.New(1)
	w := opened(t, fsys, MinBytes)
	for n := range 100 {
		must(t, w.Append(began.Add(time.Duration(n)*Interval), []Value{{Name: "n", V: float64(n)}}))
	}
	for n := range 100 {
		must(t, w.Append(began.Add(time.Duration(n-80)*Interval), []Value{{Name: "n", V: float64(100 + n)}}))
	}
	if len(w.files) != 1 {
		t.Errorf("%d closed files", len(w.files))
	}
	if d := points(t, fsys, 1000, "n"); len(d.Times) != 100 || !slices.IsSortedFunc(d.Times, time.Time.Compare) {
		t.Errorf("times %v", d.Times)
	}
}

// TestReadBesideWriter: Read must work while a Writer appends and thins, and find a total that never falls.
func TestReadBesideWriter(t *testing.T) {
	fsys := memfs.New(1)
	w := opened(t, fsys, MinBytes)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for n := 0; ; n++ {
				data, err := Read(fsys, "d/history",
					Query{From: began, To: began.AddDate(1, 0, 0), Names: []string{"n"}})
				if err != nil || len(data.Damage) > 0 {
					t.Errorf("read %d: %v, damage %v", n, err, data != nil && len(data.Damage) > 0)
					return
				}
				if !slices.IsSorted(data.Series["n"]) {
					t.Errorf("read %d: a total falls", n)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range 3000 {
		at := began.Add(time.Duration(n) * 30 * time.Minute)
		must(t, w.Append(at, []Value{{Name: "n", V: float64(n)}}))
		must(t, w.Thin(at))
	}
	close(done)
	readers.Wait()
}

// TestManyRuns: a program that restarts all the time must not fill the history with tables of columns.
func TestManyRuns(t *testing.T) {
	fsys := memfs.New(1)
	for n := range 200 {
		w := opened(t, fsys, MinBytes)
		must(t, w.Event(Event{began.Add(time.Duration(n) * time.Minute), "start", ""}))
		must(t, w.Append(began.Add(time.Duration(n)*time.Minute), busy(nil, n)))
	}
	names, err := fsys.List("d/history")
	must(t, err)
	size := opened(t, fsys, MinBytes).Bytes()
	if len(names) > 2 || size > 200_000 {
		t.Errorf("%d files with %d bytes", len(names), size)
	}
	if d := all(t, fsys); len(d.Times) != 200 || len(d.Events) != 200 {
		t.Errorf("%d samples and %d events", len(d.Times), len(d.Events))
	}
}
