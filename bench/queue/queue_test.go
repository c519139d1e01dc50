package queue

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"drumbeat/bench/benchtest"
	"drumbeat/bench/measure"
)

// smallQueue returns a small measurement for tests.
func smallQueue(t *testing.T) Options {
	return Options{Dirs: []string{t.TempDir(), t.TempDir()}, Bytes: 200 << 10, BlockBytes: 8 << 10,
		Queues: 3, Repeats: 2}
}

// TestRunQueue: everything is measured as often as requested, no record is wrong, and no file remains.
func TestRunQueue(t *testing.T) {
	b := smallQueue(t)
	r, err := b.Measure(context.Background(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	text := benchtest.Text(t, r)
	for _, want := range []string{
		"BenchmarkQueue/op=append/records=random-100B/block=8KiB/appenders=1/queues=1 ",
		"BenchmarkQueue/op=read/records=url/block=8KiB/appenders=2/queues=1 ",
		"BenchmarkQueue/op=read/records=url/block=8KiB/appenders=1/queues=3 ",
		"BenchmarkQueueDisk/op=write/chunk=8KiB/direct=false ",
	} {
		if n := strings.Count(text, want); n != b.Repeats {
			t.Errorf("%q: %d lines, want %d", want, n, b.Repeats)
		}
	}
	if !strings.Contains(text, "ok      records lost, duplicated, reordered or changed: 0") {
		t.Errorf("wrong records in\n%s", text)
	}
	for _, c := range r.Checks {
		if math.IsNaN(c.Got) {
			t.Errorf("nothing measured for %q", c.Name)
		}
	}
	benchtest.Empty(t, b.Dirs...)
}

// TestQueueFaultsAreSeen: lost, doubled and reordered records count as wrong.
func TestQueueFaultsAreSeen(t *testing.T) {
	for _, c := range []struct {
		name      string
		appenders int
		spoil     func(g *queueRig) error
	}{
		{"nothing", 1, nil},
		{"lost", 1, func(g *queueRig) error { _, _, err := g.queues[1].Peek(); g.queues[1].Advance(); return err }},
		{"doubled", 1, func(g *queueRig) error { return g.queues[1].Append(g.recs.at(0)) }},
		{"nothing", 3, nil},
		{"lost", 3, func(g *queueRig) error { _, _, err := g.queues[0].Peek(); g.queues[0].Advance(); return err }},
		{"foreign", 3, func(g *queueRig) error { return g.queues[0].Append([]byte("foreign")) }},
	} {
		r := &queueRun{opt: smallQueue(t)}
		if err := r.opt.Complete(); err != nil {
			t.Fatal(err)
		}
		var err error
		if r.scratch, err = measure.NewScratch("queue", r.opt.Dirs, 1); err != nil {
			t.Fatal(err)
		}
		if r.urls, err = urlRecords(context.Background(), r.opt); err != nil {
			t.Fatal(err)
		}
		g, err := r.rig(queueWay{kind: kindURL, block: 8 << 10, appenders: c.appenders, queues: 4 - c.appenders})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.appendAll(context.Background(), 0, g.n); err != nil {
			t.Fatal(err)
		}
		if c.spoil != nil {
			if err := c.spoil(g); err != nil {
				t.Fatal(err)
			}
		}
		wrong, err := g.readAll(context.Background(), 0, g.n)
		if wrong += g.left(); err != nil || (wrong > 0) != (c.spoil != nil) {
			t.Errorf("%s, %d appenders: %d wrong, %v", c.name, c.appenders, wrong, err)
		}
	}
}

func TestQueueOptions(t *testing.T) {
	b := Options{Dirs: []string{"d", "d"}, Bytes: 100, BlockBytes: 5000, Appenders: -1, Queues: -1,
		Repeats: -1}
	err := b.Complete()
	for _, want := range []string{"given twice", "--block 5000B", "two blocks", "--appenders -1", "--queues -1",
		"--repeat -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	q := smallQueue(t)
	if _, err := q.Measure(stopped, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
