package seeds_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/roomtest"
	"drumbeat/crawl/seeds"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/weburl"
)

// room is the room with the world around it.
type room struct {
	*roomtest.World
	feeder *seeds.Feeder
	drains atomic.Bool
	plds   []uint64
	flags  map[string]uint8 // of the seeds that were sent
}

// open opens the room at the last checkpoint of w. The seeds are those of the file, or lines.
func open(w *roomtest.World, file string, lines ...string) *room {
	w.T.Helper()
	r := &room{World: w, flags: map[string]uint8{}}
	opt := seeds.Options{FS: w.FS, File: file, Lines: lines, Links: w.Links}
	r.feeder = seeds.New(w.Run, w.Saved, opt, w.Space)
	r.feeder.Wire(seeds.Others{LogSeed: w.LogSeed, Drains: r.drains.Load,
		Trust: func(plds []uint64) { r.plds = append(r.plds, plds...) },
		SendLinks: func(b *admit.Batch, tx *account.Tx) error {
			for url := range b.URLs {
				r.flags[string(url)] = b.Rec.Flags
			}
			return w.SendLinks(b, tx)
		}})
	w.Open([]checkpoint.Copy{func() checkpoint.Copied {
		fed := r.feeder.Freeze()
		save := func(m *state.Manifest, _ *disk.Tails) error { m.Seeds = fed; return nil }
		return checkpoint.Copied{Save: save}
	}})
	var position state.Seeds
	if w.Saved.Manifest != nil {
		position = w.Saved.Manifest.Seeds
	}
	if err := r.feeder.Open(position); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = r.feeder.Close() })
	return r
}

// write writes a seed file of n URLs, and returns them.
func write(w *roomtest.World, n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("http://h%d.test/", i))
	}
	if err := disk.WriteFileAtomic(w.FS, "seeds", []byte(strings.Join(urls, "\n"))); err != nil {
		w.T.Fatal(err)
	}
	return urls
}

// feed feeds the rest of the seeds.
func (r *room) feed() {
	r.T.Helper()
	if err := r.feeder.Run(r.T.Context()); err != nil {
		r.T.Error(err)
	}
}

// counts returns the seeds that were fed, the bad ones, and those of other nodes.
func (r *room) counts() [3]int64 {
	c := r.Accounts.Copy().Counters
	return [3]int64{c[state.CountSeeds], c[state.CountSeedsBad], c[state.CountSeedsElsewhere]}
}

// TestLines: each line is one seed, with a scheme or without one. Comments and empty lines are none. A line
// that is no URL is counted and logged. The PLDs of seeds are trusted.
func TestLines(t *testing.T) {
	r := open(roomtest.New(t, 100), "", "# none", "", "http://a.test/x", "bare.test", "port.test:80",
		"query.test/?u=http://x.test/", "ftp://b.test/", "not a url")
	r.feed()
	const bare = weburl.FlagSeed | weburl.FlagSeedFallback
	want := map[string]uint8{"http://a.test/x": weburl.FlagSeed, "https://bare.test/": bare,
		"https://port.test:80/": bare, "https://query.test/?u=http://x.test/": bare}
	if !maps.Equal(r.flags, want) {
		t.Errorf("sent %v, want %v", r.flags, want)
	}
	if r.counts() != [3]int64{4, 2, 0} || len(r.plds) != 4 {
		t.Errorf("%v seeds, bad, elsewhere; %d PLDs; sent %v", r.counts(), len(r.plds), r.flags)
	}
	lines := strings.Join(r.Lines(), "\n")
	if !strings.Contains(lines, "ftp://b.test/: bad-seed") || len(r.Lines()) != 2 ||
		!strings.Contains(lines, "not a url: bad-seed") {
		t.Errorf("lines %q", lines)
	}
}

// TestSeedsCut: after a power cut the file is fed from the last checkpoint on. Each seed is counted once, and
// a file that has been fed is not fed again; one with other content is, from its start.
func TestSeedsCut(t *testing.T) {
	w := roomtest.New(t, 100)
	urls := write(w, 1000)
	r := open(w, "seeds")
	if err := r.feeder.Run(&after{Context: t.Context(), n: 2}); err != nil {
		t.Error(err)
	}
	if n := r.counts()[0]; n != 512 || r.feeder.Fed() || r.feeder.Read() {
		t.Fatalf("%d seeds in two lots", n)
	}
	r.Save()
	r.feed()
	r = open(r.Cut(), "seeds")
	if r.feeder.Fed() || r.counts()[0] != 512 {
		t.Errorf("after the cut: %d seeds, all: %v", r.counts()[0], r.feeder.Fed())
	}
	r.feed()
	if !slices.Equal(r.Sent(), urls[512:]) || r.counts()[0] != 1000 || !r.feeder.Fed() || !r.feeder.Read() {
		t.Errorf("%d seeds after the cut, %d in all; want 488, 1000", len(r.Sent()), r.counts()[0])
	}
	r.Save()
	text := r.feeder.Text()
	r = open(r.Cut(), "seeds")
	r.feed()
	if len(r.Sent()) != 0 || r.feeder.Text() != text {
		t.Errorf("%d seeds were fed again; %s, was %s", len(r.Sent()), r.feeder.Text(), text)
	}
	write(r.World, 1001)
	r = open(r.Cut(), "seeds")
	r.feed()
	if r.feeder.Text() == text || len(r.Sent()) != 1001 {
		t.Errorf("%d seeds of another file were fed", len(r.Sent()))
	}
}

// TestNothingIsFed: nothing is fed while the crawl pauses or drains; everything is afterwards.
func TestNothingIsFed(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 100), "", "http://a.test/", "http://b.test/")
		r.Paused.Store(true)
		r.While(func() {
			time.Sleep(time.Minute)
			r.drains.Store(true)
			r.Paused.Store(false)
			time.Sleep(time.Minute)
			if n := r.counts()[0]; n != 0 || r.feeder.Read() {
				t.Errorf("%d seeds were fed", n)
			}
			r.drains.Store(false)
			time.Sleep(time.Minute)
			if n := r.counts()[0]; n != 2 || !r.feeder.Read() {
				t.Errorf("%d seeds were fed afterwards", n)
			}
		}, r.feeder.Run)
	})
}

// TestNodes: the nodes of a cluster read the same file, and each takes the seeds that it owns. Lines of the
// operator are for one node, whoever owns them.
func TestNodes(t *testing.T) {
	table, err := cluster.NewTable([]float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for own := range 2 {
		w := roomtest.New(t, 100)
		urls := write(w, 40)
		w.Saved.Hasher = w.Saved.Hasher.WithSlots(w.Saved.Suffixes)
		w.Links.Hasher, w.Links.Table, w.Links.Node = w.Saved.Hasher, table, own
		r := open(w, "seeds")
		r.feed()
		if c := r.counts(); c[0]+c[2] != 40 || min(c[0], c[2]) < 5 {
			t.Errorf("node %d: %v seeds, bad, elsewhere", own, c)
		}
		for _, url := range r.Sent() {
			all[url] = true
		}
		if own == 1 && len(all) != len(urls) {
			t.Errorf("the nodes took %d of %d seeds", len(all), len(urls))
		}
		before := r.counts()[0]
		whole, err := r.feeder.Feed(t.Context(), urls)
		if !whole || err != nil || r.counts()[0] != before+40 {
			t.Errorf("fed %d lines of the operator, %v, %v", r.counts()[0]-before, whole, err)
		}
	}
}

// TestSeedFaults: a file that does not exist is an error that names it. Feeding stops at the end of the
// crawl, and says that it is not whole.
func TestSeedFaults(t *testing.T) {
	w := roomtest.New(t, 100)
	f := seeds.New(w.Run, w.Saved, seeds.Options{FS: w.FS, File: "none", Links: w.Links}, w.Space)
	err := f.Open(state.Seeds{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
	r := open(w, "", "http://a.test/")
	ctx := &after{Context: t.Context(), n: 1}
	lines := slices.Repeat([]string{"http://b.test/"}, 600)
	if whole, err := r.feeder.Feed(ctx, lines); whole || err != nil || r.counts()[0] != 256 {
		t.Errorf("fed %d lines before the end: %v, %v", r.counts()[0], whole, err)
	}
}

// after is a context that ends after n looks at its error.
type after struct {
	context.Context
	n int
}

func (a *after) Err() error {
	if a.n--; a.n < 0 {
		return context.Canceled
	}
	return nil
}
