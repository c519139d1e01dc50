package export

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/extsort"
)

// items makes up to n items with few keys, in order.
func items(r *rand.Rand, n int) (keys []uint64) {
	for range r.IntN(n + 1) {
		keys = append(keys, r.Uint64N(uint64(2*n)))
	}
	slices.Sort(keys)
	return keys
}

// overScan returns a cursor over keys, and an error of the scan after them.
func overScan(t *testing.T, j *job, keys []uint64, end error) *cursor {
	t.Helper()
	c, err := j.scanned(func(fn func(uint64, []byte) error) error {
		for _, k := range keys {
			if err := fn(k, []byte{byte(k)}); err != nil {
				return err
			}
		}
		return end
	})
	if err != nil && !errors.Is(err, end) {
		t.Fatal(err)
	}
	return c
}

// overSorter returns a cursor over keys, which it adds in reverse.
func overSorter(t *testing.T, j *job, keys []uint64) *cursor {
	t.Helper()
	s := j.sorter()
	for _, k := range slices.Backward(keys) {
		must(t, s.Add(append(binary.BigEndian.AppendUint64(nil, k), byte(k))))
	}
	c, err := sorted(s)
	must(t, err)
	return c
}

func (j *job) end(t *testing.T) {
	t.Helper()
	for _, end := range slices.Backward(j.ends) {
		must(t, end())
	}
}

// TestUnion compares unions and seeks with sets.
func TestUnion(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		j := &job{opt: &Options{FS: memfs.New(1), TempDir: "tmp"}}
		a, b := items(r, 10), items(r, 10)
		set := map[uint64]bool{}
		for _, k := range slices.Concat(a, b) {
			set[k] = true
		}
		want := slices.Sorted(maps.Keys(set))
		c, err := union(overScan(t, j, a, nil), overSorter(t, j, b))
		var got []uint64
		for ; err == nil && c.ok; err = c.next() {
			if len(c.value) != 1 || c.value[0] != byte(c.key) {
				t.Errorf("key %d has the value %x", c.key, c.value)
			}
			got = append(got, c.key)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("union of %d and %d: %d, %v", a, b, got, err)
		}
		if err := c.next(); err != nil || c.ok {
			t.Errorf("after the end: %v, %v", c.ok, err)
		}
		c = overScan(t, j, a, nil)
		for _, k := range items(r, 10) {
			if found, err := c.seek(k); err != nil || found != slices.Contains(a, k) {
				t.Errorf("seek %d in %d: %v, %v", k, a, found, err)
			}
		}
		j.end(t) // also of scans that are not at their end
	}
}

// TestScanError: an error of a scan reaches the reader of the union, after the items before it.
func TestScanError(t *testing.T) {
	broken := errors.New("broken")
	j := &job{opt: &Options{FS: memfs.New(1), TempDir: "tmp"}}
	defer j.end(t)
	c, err := union(overScan(t, j, []uint64{1, 2, 2, 5}, broken), overSorter(t, j, []uint64{3, 9}))
	n := 0
	for ; err == nil && c.ok; err = c.next() {
		n++
	}
	if n != 4 || !errors.Is(err, broken) {
		t.Errorf("%d items, %v", n, err)
	}
}

func TestCountKey(t *testing.T) {
	j := &job{opt: &Options{FS: memfs.New(1), TempDir: "tmp"}}
	defer j.end(t)
	c := overSorter(t, j, []uint64{1, 1, 3, 4, 4, 4})
	for key, want := range []int64{0, 2, 0, 1, 3, 0} {
		if n, err := countKey(c, uint64(key)); err != nil || n != want {
			t.Errorf("key %d: %d, %v, want %d", key, n, err, want)
		}
	}
}

// TestPacked reads what was written, through a sorter.
func TestPacked(t *testing.T) {
	var want, got packed
	for i := range want.numbers {
		want.numbers[i] = -1 << (7 * i)
	}
	for i := range want.texts {
		want.texts[i] = make([]byte, 300*i)
	}
	s := extsort.New(extsort.Options{FS: memfs.New(1), Dir: "tmp"})
	must(t, errors.Join(s.Add(want.append(nil)), s.Sort()))
	rec, err := s.Next()
	must(t, err)
	if got.read(rec); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestColumns: each kind has columns that a table can have.
func TestColumns(t *testing.T) {
	for _, k := range []Kind{PLDs, PLDEdges, Hosts, Refused, Queue, Robots, Pages, Near} {
		if tab, _ := tableOf(k); len(tab.columns) == 0 {
			t.Errorf("%s has no columns", k)
		}
	}
	if _, ok := tableOf("nothing"); ok {
		t.Error("an unknown kind has columns")
	}
	if n := len(pageTable().columns); n != firstRight+crawllog.NumRights {
		t.Errorf("pages have %d columns; pageJoin.row fills %d", n, firstRight+crawllog.NumRights)
	}
}
