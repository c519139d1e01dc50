package checkpoint

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	c := Options{Dirs: []string{dir}, BufferBytes: 1 << 20, Buckets: 16, Count: 2, Every: time.Millisecond, Rate: 10000,
		progress: func(string) {}}
	list, err := measureCheckpoints(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 3 {
		t.Fatalf("got %d checkpoints, want 3", len(list))
	}
	// A full buffer goes to its bucket's file before the checkpoint, so it holds less than was added.
	first := list[0]
	if first.Added < 1<<20*9/10 || first.Held < 1<<20/4 || first.Written < first.Held/2 || first.Total < first.Save {
		t.Errorf("got %+v", first)
	}
	for _, c := range list[1:] {
		// The bound allows for entries, frames, and blocks saved again after a file was replaced.
		if limit := 2*(c.Added+32*32) + 1<<20; c.Written > limit {
			t.Errorf("got %d bytes written for %d added", c.Written, c.Added)
		}
	}
	var out strings.Builder
	r := c.report(list)
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	if want := "BenchmarkCheckpoint/buffers=1MiB/k=16/no=2 \t"; !strings.Contains(out.String(), want) {
		t.Errorf("got %q, want a line beginning %q", out.String(), want)
	}
	if names, err := r.Save(t.TempDir()); err != nil || len(names) != 2 {
		t.Errorf("got %q, %v, want text and JSON", names, err)
	}
	if err := (&Options{Buckets: 3, Count: -1}).Complete(); err == nil {
		t.Error("faulty options accepted")
	}
}
