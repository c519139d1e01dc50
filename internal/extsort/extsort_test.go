package extsort

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var seed = flag.Uint64("seed", 0, "seed of random tests; 0: a new one")

func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 1))
}

// records makes records of lengths up to max, some empty, equal, or prefixes of others.
func records(r *rand.Rand, n, max int) (list [][]byte) {
	for i := range n {
		if i > 0 && r.IntN(10) == 0 {
			old := list[r.IntN(len(list))]
			list = append(list, old[:r.IntN(len(old)+1)])
			continue
		}
		b := make([]byte, r.IntN(max))
		for j := range b {
			b[j] = byte(r.IntN(3))
		}
		list = append(list, b)
	}
	return list
}

// sorted adds and reads all records. after, if set, is called between Sort and Next.
func sorted(s *Sorter, list [][]byte, after func()) (got [][]byte, err error) {
	for _, rec := range list {
		if err := s.Add(rec); err != nil {
			return nil, err
		}
	}
	if err := s.Sort(); err != nil {
		return nil, err
	}
	if after != nil {
		after()
	}
	for {
		rec, err := s.Next()
		if err != nil || rec == nil {
			return got, err
		}
		got = append(got, bytes.Clone(rec))
	}
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// TestSort sorts in RAM, with one merge, and with merges in steps.
func TestSort(t *testing.T) {
	r := random(t)
	for _, c := range []struct{ n, max, minRuns int }{{0, 10, 0}, {1, 10, 0}, {10_000, 30, 0}, {100_000, 300, 2},
		{1500, 50_000, 5}} {
		if testing.Short() && c.n*c.max > 50_000_000 {
			continue
		}
		list := records(r, c.n, c.max)
		fsys := memfs.New(1)
		s := New(Options{FS: fsys, Dir: "sort", RAMBytes: 1})
		got, err := sorted(s, list, nil)
		must(t, err)
		want := slices.Clone(list)
		slices.SortFunc(want, bytes.Compare)
		if !same(got, want) {
			t.Errorf("%d records of up to %d bytes: wrong order", c.n, c.max)
		}
		must(t, s.Rewind())
		for i := range want {
			if rec, err := s.Next(); err != nil || !bytes.Equal(rec, want[i]) {
				t.Fatalf("record %d after Rewind: %v, %v", i, rec, err)
			}
		}
		if s.made < c.minRuns || s.N() != int64(c.n) {
			t.Errorf("%d records of up to %d bytes: %d runs, N %d", c.n, c.max, s.made, s.N())
		}
		must(t, errors.Join(s.Close(), s.Close()))
		if names, err := fsys.List("sort"); err == nil {
			t.Errorf("left: %q", names)
		}
	}
	s := New(Options{FS: memfs.New(1), Dir: "sort"})
	if s.Add(make([]byte, MaxRecordBytes+1)) == nil {
		t.Error("a long record is accepted")
	}
}

// TestLeftRuns: the runs of a killed process do not disturb.
func TestLeftRuns(t *testing.T) {
	fsys := memfs.New(1)
	list := records(random(t), 1500, 10_000)
	if _, err := sorted(New(Options{FS: fsys, Dir: "sort"}), list, nil); err != nil { // never closed
		t.Fatal(err)
	}
	s := New(Options{FS: fsys, Dir: "sort"})
	got, err := sorted(s, list, nil)
	if err != nil || len(got) != len(list) {
		t.Fatal(len(got), err)
	}
	must(t, s.Close())
	if names, err := fsys.List("sort"); err == nil {
		t.Errorf("left: %q", names)
	}
}

// TestDamagedRun changes a byte of each run in turn.
func TestDamagedRun(t *testing.T) {
	r := random(t)
	list := records(r, 1500, 10_000)
	runs := 20
	if testing.Short() {
		runs = 3
	}
	for range runs {
		fsys := memfs.New(1)
		s := New(Options{FS: fsys, Dir: "sort"})
		_, err := sorted(s, list, func() {
			f := s.runs[r.IntN(len(s.runs))]
			at := f.off + r.Int64N(f.size-f.off) // the first block is read
			var b [1]byte
			must(t, disk.ReadFull(f.f, b[:], at))
			b[0] ^= 1 << r.IntN(8)
			if _, err := f.f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
		})
		var damage *disk.CorruptError
		if !errors.As(err, &damage) {
			t.Errorf("damage is not found: %v", err)
		}
		must(t, s.Close())
	}
}

// TestFailures lets each operation fail once. Close then leaves no file.
func TestFailures(t *testing.T) {
	list := records(random(t), 600, 20_000)
	step := 1
	if testing.Short() {
		step = 20
	}
	for failAt := 1; ; failAt += step {
		inner, ops := memfs.New(1), 0
		fsys := memfs.NewFault(inner, func(op memfs.Op, name string) error {
			if ops++; ops == failAt {
				return fmt.Errorf("%s %s: %w", op, name, syscall.ENOSPC)
			}
			return nil
		})
		s := New(Options{FS: fsys, Dir: "sort"})
		_, err := sorted(s, list, nil)
		if err == nil && ops < failAt {
			break
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("operation %d: %v", failAt, err)
		}
		must(t, s.Close())
		if names, err := inner.List("sort"); err == nil && len(names) > 0 {
			t.Errorf("operation %d: left: %q", failAt, names)
		}
	}
}

func BenchmarkSort(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	rec := make([]byte, 32)
	s := New(Options{FS: disk.OS(), Dir: b.TempDir() + "/sort", RAMBytes: 16 << 20})
	for b.Loop() {
		for i := range rec {
			rec[i] = byte(r.Uint32())
		}
		must(b, s.Add(rec))
	}
	must(b, s.Sort())
	for {
		if rec, err := s.Next(); err != nil {
			b.Fatal(err)
		} else if rec == nil {
			break
		}
	}
	must(b, s.Close())
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
