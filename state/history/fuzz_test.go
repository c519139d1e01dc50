package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

// sound returns the bytes of a file with samples, new columns and events.
func sound(t testing.TB) []byte {
	fsys := memfs.New(1)
	w := opened(t, fsys, MinBytes)
	for n := range 20 {
		at := began.Add(time.Duration(n) * Interval)
		must(t, w.Append(at, []Value{{Name: "n", V: float64(n)}, {Name: fmt.Sprint("s", n/5), V: 1.5, Fraction: true}}))
		if n%7 == 0 {
			must(t, w.Event(Event{at, "change", "text"}))
		}
	}
	data, err := disk.ReadFile(fsys, "d/history/00000001-00000001-00.hist")
	must(t, err)
	return data
}

// FuzzRead: any bytes must be read without a panic and in bounded memory. Of changed bytes of a sound file,
// the records before the change must be read, and nothing that was not written.
func FuzzRead(f *testing.F) {
	good := sound(f)
	f.Add(good, []byte{})
	f.Add([]byte{}, []byte{})
	for i := 0; i < len(good); i += 17 {
		f.Add(good, []byte{0, byte(i), byte(i >> 8), 0, 0, 1})
	}
	f.Fuzz(func(t *testing.T, data, flips []byte) {
		if len(data) > 1<<16 {
			return
		}
		name := "d/history/00000001-00000001-00.hist"
		files, _ := damage.Files{name: data}.Flip(flips)
		fsys, err := files.Write("d/history")
		must(t, err)
		var got *Data
		used := damage.Allocated(func() {
			got, err = Read(fsys, "d/history",
				Query{From: began.AddDate(-300, 0, 0), To: began.AddDate(300, 0, 0), Points: 100})
		})
		if err != nil {
			return
		}
		if used > 64<<20 {
			t.Errorf("%d bytes of RAM for %d bytes", used, len(data))
		}
		if slices.Equal(data, good) {
			for _, v := range got.Series["n"] {
				if v != float64(int(v)) || v < 0 || v > 19 {
					t.Errorf("a value %v that was not written", v)
				}
			}
		}
		w, err := Open(Options{FS: fsys, Dir: "d/history", Bytes: MinBytes})
		if err != nil {
			return
		}
		now := began.AddDate(20, 0, 0)
		if err := w.Append(now, []Value{{Name: "n", V: 20}}); err == nil {
			must(t, w.finish())
			must(t, w.Thin(now.AddDate(1, 0, 0)))
		}
	})
}

// TestDamage: of a file with a changed byte, the records before it must be read.
func TestDamage(t *testing.T) {
	good := sound(t)
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x10
		fsys, err := damage.Files{"d/history/00000001-00000001-00.hist": bad}.Write("d/history")
		must(t, err)
		w := opened(t, fsys, MinBytes) // cuts the file off there
		must(t, w.Append(began.Add(time.Hour), []Value{{Name: "n", V: 77}}))
		got, err := Read(fsys, "d/history", Query{From: began, To: began.AddDate(0, 0, 1)})
		must(t, err)
		n := got.Series["n"]
		for k, v := range n[:len(n)-1] {
			if v != float64(k) {
				t.Fatalf("byte %d: samples %v", i, n)
			}
		}
		if n[len(n)-1] != 77 || i > startBytes && len(got.Damage) > 0 {
			t.Fatalf("byte %d: samples %v, damage %v", i, n, got.Damage)
		}
	}
}

// BenchmarkAppend measures the time and the bytes of a sample of a busy crawl.
func BenchmarkAppend(b *testing.B) {
	fsys := memfs.New(1)
	w := opened(b, fsys, 1<<40)
	rng := rand.New(rand.NewPCG(1, 1))
	samples := make([][]Value, 100)
	for n := range samples {
		samples[n] = busy(rng, n)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		must(b, w.Append(began.Add(time.Duration(n)*Interval), samples[n%len(samples)]))
		n++
	}
	b.ReportMetric(float64(w.Bytes())/float64(n), "B/sample")
}

// BenchmarkReadYear measures how long it takes to read a year of history.
func BenchmarkReadYear(b *testing.B) {
	fsys := memfs.New(1)
	w := opened(b, fsys, 64<<20)
	rng := rand.New(rand.NewPCG(1, 1))
	end := began.AddDate(1, 0, 0)
	n := 0
	for now := began; now.Before(end); n++ {
		must(b, w.Append(now, busy(rng, n)))
		if n%500 == 0 {
			must(b, w.Thin(now))
		}
		step := 10 * time.Minute // what is left of older samples
		if end.Sub(now) < 14*24*time.Hour {
			step = time.Minute
		}
		if end.Sub(now) < 2*24*time.Hour {
			step = Interval
		}
		now = now.Add(step)
	}
	b.ReportAllocs()
	for b.Loop() {
		data, err := Read(fsys, "d/history",
			Query{From: began, To: end, Points: 1000, Names: []string{"series_7_total", "series_100_total"}})
		if err != nil || len(data.Times) != 1000 {
			b.Fatal(err, len(data.Times))
		}
	}
	b.ReportMetric(float64(w.Bytes())/1e6, "MB")
	b.ReportMetric(float64(n), "samples")
}
