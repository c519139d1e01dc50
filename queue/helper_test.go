package queue

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

var (
	seedFlag = flag.Uint64("seed", 1, "first seed of the random tests")
	longFlag = flag.Bool("long", false, "run the random tests a hundred times longer")
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rounds returns n, or more with -long.
func rounds(n int) int {
	switch {
	case *longFlag:
		return 100 * n
	case testing.Short(): // under the race detector
		return max(1, n/4)
	}
	return n
}

// record returns record number i of a test: its number and up to maxLen bytes derived from it.
func record(i, maxLen int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 42))
	b := binary.AppendUvarint(nil, uint64(i))
	for n := rng.IntN(maxLen + 1); len(b) < n; {
		b = append(b, byte('a'+rng.IntN(3)))
	}
	return b
}

// appendNumbered starts the given number of appenders. Each appends `each` records of the form "appender
// number".
func appendNumbered(t *testing.T, wg *sync.WaitGroup, q *Queue, appenders, each int) {
	for a := range appenders {
		wg.Go(func() {
			for i := range each {
				if err := q.Append(fmt.Appendf(nil, "%d %d", a, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

// drain reads at most n records and compares them with those numbered from `from`.
func drain(t testing.TB, q *Queue, from, n, maxLen int) int {
	t.Helper()
	for k := range n {
		rec, ok, err := q.Peek()
		must(t, err)
		if !ok {
			return k
		}
		if want := record(from+k, maxLen); string(rec) != string(want) {
			t.Fatalf("record %d: got %q, want %q", from+k, rec, want)
		}
		q.Advance()
	}
	return n
}

// manifest is what the tests' store keeps durable: a state, the tails' generation, and the model at that
// moment.
type manifest struct {
	Gen      uint64
	Queue    *State
	Calendar *CalendarState
	From, To int           // the queue holds records From … To-1
	Due      map[int]int64 // due time of each record in the calendar
}

const manifestName = "one/manifest"

// paths are the directories of the tests' sets.
var paths = [...]string{"one", "two", "three"}

// mountDirs makes each directory a separate file system.
func mountDirs(mem *memfs.FS) error {
	for _, p := range paths {
		if err := mem.Mount(p); err != nil {
			return err
		}
	}
	return nil
}

// newSet returns the tests' directories and creates missing ones.
func newSet(fsys disk.FS) (disk.Set, error) {
	set := disk.Set{FS: fsys, Paths: paths[:]}
	for _, p := range paths {
		if err := fsys.MkdirAll(p); err != nil {
			return set, err
		}
	}
	return set, fsys.SyncFS(".")
}

// writeManifest makes the manifest durable, as a checkpoint does between Save and Commit.
func writeManifest(set disk.Set, m *manifest) error {
	return damage.StoreManifest(set.FS, manifestName, m, set.Paths...)
}

// readManifest returns the durable manifest, or an empty one if there is none, and deletes the tails that
// it does not name. It first makes the manifest durable: after kill -9 the rename may be visible but not
// durable yet, and a power cut could bring back the previous manifest.
func readManifest(set disk.Set) (*manifest, error) {
	m := &manifest{}
	if err := set.FS.SyncDir(path.Dir(manifestName)); err != nil {
		return nil, err
	}
	if err := damage.LoadManifest(set.FS, manifestName, m); err != nil {
		return nil, err
	}
	return m, disk.RemoveTails(set, func(gen uint64) bool { return gen == m.Gen })
}

// checkpoint freezes and saves the queue and makes the manifest durable. It calls between at each point
// where other goroutines could run.
func checkpoint(set disk.Set, q *Queue, m *manifest, between func() error) error {
	f := q.Freeze()
	if err := between(); err != nil {
		return err
	}
	tails, err := disk.CreateTails(set, m.Gen)
	if err != nil {
		return err
	}
	if m.Queue, err = f.Save(tails); err != nil {
		return err
	}
	if err := errors.Join(between(), tails.Close(), between()); err != nil {
		return err
	}
	if err := writeManifest(set, m); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return err
	}
	return disk.RemoveTails(set, func(gen uint64) bool { return gen == m.Gen })
}

// walkAll checks that the state holds exactly the records From … To-1.
func walkAll(set disk.Set, name string, m *manifest, maxLen int) error {
	i := m.From
	err := walk(set, name, m.Queue, func(rec []byte) error {
		if want := record(i, maxLen); string(rec) != string(want) {
			return fmt.Errorf("record %d: got %q, want %q", i, rec, want)
		}
		i++
		return nil
	})
	if err == nil && i != m.To {
		err = fmt.Errorf("records end at %d, want %d", i, m.To)
	}
	return err
}

// segmentFiles returns the paths of all segments of a queue.
func segmentFiles(t *testing.T, set disk.Set, name string) []string {
	t.Helper()
	var all []string
	for dir := range set.Paths {
		names, err := set.FS.List(queueDir(set, dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, n := range names {
			all = append(all, queueDir(set, dir, name)+"/"+n)
		}
	}
	slices.Sort(all)
	return all
}

// walk is a Scan that ends at the first damage.
func walk(set disk.Set, name string, st *State, fn func(rec []byte) error) error {
	_, err := Scan(set, name, st, fn, nil)
	return err
}

// walkSlots is walk for a calendar.
func walkSlots(set disk.Set, name string, st *CalendarState, fn func(dueMillis int64, rec []byte) error) error {
	_, err := ScanCalendar(set, name, st, fn, nil)
	return err
}
