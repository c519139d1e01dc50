package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// mib is a seed that fills a change.
var mib = []string{strings.Repeat("a", MaxSeedBytes-1)}

// fill adds changes of seeds of a MiB until the journal takes no more.
func fill(t *testing.T, j *Journal) (n int, full *FullError) {
	t.Helper()
	for ; n < 70; n++ {
		if _, err := j.Append(Change{Op: OpSeeds, Seeds: mib}, testTime); err != nil {
			if !errors.As(err, &full) {
				t.Fatal(err)
			}
			return n, full
		}
	}
	return n, nil
}

// sized opens a journal that takes n changes of a MiB, beside the reserve.
func sized(t *testing.T, fsys disk.FS, n, fed int64) *Journal {
	t.Helper()
	j := newJournal(t, fsys, fed)
	if n < 62 {
		j.most = n*(1<<20+200) + 1<<19 + reserve
	}
	return j
}

// feed feeds n changes.
func feed(t *testing.T, j *Journal, n int) (last int64) {
	t.Helper()
	for range n {
		c, ok, err := j.NextSeeds()
		if err != nil || !ok {
			t.Fatal("no seeds to feed:", err)
		}
		last = c.Seq
		j.Fed()
	}
	return last
}

// TestFullOfSeeds fills the journal with seeds. It still takes changes without lines, after a restart too, and seeds
// again once a checkpoint has those that were fed, but not before.
func TestFullOfSeeds(t *testing.T) {
	fsys, most := memfs.New(1), 62 // 62 * (1 MiB + the fields of a change) + reserve < 64 MiB
	if testing.Short() {
		most = 6
	}
	j := sized(t, fsys, int64(most), 0)
	n, full := fill(t, j)
	if n != most || full == nil || full.Room < 0 || full.Room > full.Need || full.Waiting != n || full.Unsaved != 0 ||
		!strings.Contains(full.Error(), fmt.Sprintf(": %d changes to feed", n)) {
		t.Fatalf("%d changes of seeds, then %+v: %v", n, full, full)
	}
	others := []Change{{Op: OpPause}, {Op: OpBlock, Rule: "- pld a.example"}, {Op: OpLimits, Rate: "5"}, {Op: OpDrain},
		{Op: OpHostDelay, Host: "b.example", Delay: 5}, {Op: OpBudget, PLD: "c.example", Budget: 5}, {Op: OpFunction,
			Function: &Function{"linear", 5, 50}}, {Op: OpPriority, Priority: &Priority{Name: "depth"}}, {Op: OpReload},
		{Op: OpCheckpoint}, {Op: OpResume}, {Op: OpFill}, {Op: OpStop}}
	for _, c := range others {
		add(t, j, c)
	}
	again := sized(t, fsys, int64(most), 0)
	for _, c := range others {
		add(t, again, c)
	}
	if n, full := fill(t, again); n != 0 || full == nil {
		t.Fatalf("after a restart %d more changes of seeds are accepted", n)
	}
	last := feed(t, again, 3)
	must(t, again.Tidy())
	if n, full := fill(t, again); n != 0 || full.Waiting != most-3 || full.Unsaved != 3 {
		t.Fatalf("before a checkpoint %d more changes of seeds are accepted: %v", n, full)
	}
	again.Saved(last)
	must(t, again.Tidy())
	if n, _ := fill(t, again); n != 3 {
		t.Errorf("%d changes of seeds are accepted after 3 have left", n)
	}
	again.Saved(feed(t, again, most))
	if n, _ := fill(t, again); n != most { // Append itself rewrites the journal
		t.Errorf("%d changes of seeds are accepted after all have left", n)
	}
	if s := again.Settings(); s.Rate != "5" || len(s.Blocked) != 1 || len(s.HostDelays) != 1 {
		t.Errorf("settings %s", toJSON(s))
	}
}

// TestFullOfBlocks fills a journal of seeds with blocked sites: it takes thousands, is rewritten meanwhile, and then
// says clearly that it is full, as Fits does before.
func TestFullOfBlocks(t *testing.T) {
	fsys := memfs.New(1)
	j := sized(t, fsys, 3, 0)
	fill(t, j)
	n := 0
	var full *FullError
	for ; full == nil; n++ {
		c := Change{Op: OpBlock, Rule: fmt.Sprintf("- host %0*d", maxText-100, n)}
		size, fits := j.size, j.Fits(c)
		_, err := j.Append(c, testTime)
		if err != nil && !errors.As(err, &full) || n > 1000 {
			t.Fatal(n, err)
		}
		if (fits == nil) != (err == nil) || n < 10 && j.size <= size {
			t.Fatalf("change %d: Fits says %v, Append %v", n, fits, err)
		}
	}
	if n < 200 || full.Lines || j.size > j.most || !strings.Contains(full.Error(), "--blacklist") {
		t.Errorf("full after %d changes and %d bytes: %v", n, j.size, full)
	}
	for i := range 20_000 { // short ones that undo each other
		op := OpPause
		if i%2 == 1 {
			op = OpResume
		}
		if _, err := j.Append(Change{Op: op}, testTime); err != nil {
			if i < 5 {
				t.Fatal(i, err)
			}
			break
		}
	}
	again := newJournal(t, fsys, 3)
	if got := len(again.Settings().Blocked); got != n-1 {
		t.Errorf("%d rules are in force after a restart, want %d", got, n-1)
	}
	add(t, again, Change{Op: OpPause})
}

// TestReserveLasts makes many changes while seeds fill the journal: those that are no longer in force leave it.
func TestReserveLasts(t *testing.T) {
	j := sized(t, memfs.New(1), 3, 0)
	add(t, j, Change{Op: OpDrain}) // changes before the seeds leave, too
	fill(t, j)
	j.Saved(feed(t, j, 1))
	add(t, j, Change{Op: OpSeeds, Seeds: mib})
	for i := range 3000 {
		add(t, j, Change{Op: OpHostDelay, Host: "a.example", Delay: float64(i), Who: strings.Repeat("w", 300)})
		if i == 1500 { // the seeds that kept older changes in the file
			j.Saved(feed(t, j, 3))
		}
	}
	if n, _ := fill(t, j); n != 3 {
		t.Errorf("%d changes of seeds are accepted", n)
	}
}

// TestTidyCuts crashes at each operation of Tidy and of the changes around it. All changes that were accepted, and all
// seeds that no checkpoint has, are there afterwards, in a journal that takes further ones.
func TestTidyCuts(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 3
	}
	for at := 1; ; at += step {
		fsys := memfs.New(uint64(at))
		must(t, errors.Join(fsys.MkdirAll("/d/state"), fsys.SyncDir("/"), fsys.SyncDir("/d")))
		j := newJournal(t, fsys, 0)
		for range 3 {
			add(t, j, Change{Op: OpSeeds, Seeds: mib})
		}
		add(t, j, Change{Op: OpBlock, Rule: "- pld a.example"})
		add(t, j, Change{Op: OpEnqueue, Seeds: []string{"http://b.example/", "http://c.example/"}})
		j.Saved(feed(t, j, 2))
		feed(t, j, 1) // by no checkpoint
		before := j.size
		fsys.CrashAfter(at)
		err := j.Tidy()
		done := 0
		for ; done < 3; done++ {
			if _, e := j.Append(Change{Op: OpHostDelay, Host: fmt.Sprint(done), Delay: 1}, testTime); e != nil {
				err = errors.Join(err, e)
				break
			}
		}
		whole := err == nil
		if whole && j.size > before/2 {
			t.Fatalf("%d bytes after Tidy, %d before", j.size, before)
		}
		crashed := fsys.Crash()
		again := newJournal(t, crashed, 2)
		s := again.Settings()
		if n := len(s.HostDelays); len(s.Blocked) != 1 || n < done || n > done+1 {
			t.Fatalf("cut %d: %d changes accepted, settings %s", at, done, toJSON(s))
		}
		if last := feed(t, again, 1); last != 3 || again.Enqueued() != 2 {
			t.Fatalf("cut %d: change %d is fed first, %d URLs enqueued", at, last, again.Enqueued())
		}
		if last := feed(t, again, 1); last != 5 || again.SeedsLeft() {
			t.Fatalf("cut %d: change %d is fed last", at, last)
		}
		add(t, again, Change{Op: OpPause})
		if whole {
			return
		}
	}
}

// TestTidyFails: a disk that takes no copy leaves the journal in use until the next checkpoint. If the new
// file may have the name and may not, the journal takes no further change, but feeds its seeds.
func TestTidyFails(t *testing.T) {
	for _, test := range []struct {
		op   memfs.Op
		name string
		goes bool
	}{{memfs.OpCreate, "create", true}, {memfs.OpWrite, "write", true}, {memfs.OpSync, "sync", true},
		{memfs.OpRename, "rename", false}, {memfs.OpSyncDir, "sync of the directory", false},
		{memfs.OpOpen, "open", false}} {
		t.Run(test.name, func(t *testing.T) {
			var fail bool
			mem := memfs.New(1)
			fsys := memfs.NewFault(mem, func(op memfs.Op, _ string) error {
				if fail && op == test.op {
					return fs.ErrPermission
				}
				return nil
			})
			j := newJournal(t, fsys, 0)
			for range 3 {
				add(t, j, Change{Op: OpSeeds, Seeds: mib})
			}
			j.Saved(feed(t, j, 2))
			fail = true
			if err := j.Tidy(); !errors.Is(err, fs.ErrPermission) {
				t.Fatal("Tidy:", err)
			}
			if err := j.Tidy(); err != nil {
				t.Fatal("Tidy once more:", err)
			}
			fail = false
			_, err := j.Append(Change{Op: OpPause}, testTime)
			if (err == nil) != test.goes {
				t.Fatal("a change afterwards:", err)
			}
			j.Saved(2)
			if err := j.Tidy(); err != nil || test.goes && j.size > 2<<20 {
				t.Errorf("Tidy after the next checkpoint: %d bytes, %v", j.size, err)
			}
			if last := feed(t, j, 1); last != 3 {
				t.Errorf("fed %d", last)
			}
			again := newJournal(t, mem, 2)
			if again.Settings().Paused != test.goes {
				t.Error("another state after a restart")
			}
		})
	}
}
