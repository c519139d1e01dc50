package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"drumbeat/disk/memfs"
)

// Walker notes a walker.
func (r *received) Walker(w *Walker) error {
	r.walkers = append(r.walkers, fmt.Sprintf("%d %d %s %s %d %d %d", w.URLs, w.Steps, w.URL, w.Via, w.Depth,
		w.Redirects, w.Flags))
	return nil
}

// TestWalker: a walker comes as it went, in a message that programs from before it refuse, and the totals count it.
// Damaged records are no walkers.
func TestWalker(t *testing.T) {
	t.Parallel()
	b := newBox(t, memfs.New(1))
	must(t, b.AddLink(keyOf("a"), []byte("a")))
	must(t, b.AddWalker(&Walker{URLs: 7, Steps: 300, URL: []byte("http://b/"), Via: []byte("http://a/"), Depth: 3,
		Redirects: 1, Flags: 4}))
	must(t, b.AddWalker(&Walker{})) // it jumps
	must(t, b.Flush())
	b.save(true)
	got, totals := b.takeBoth(WalkerVersion)
	want := []string{"7 300 http://b/ http://a/ 3 1 4", "0 0   0 0 0"}
	if !slices.Equal(got.walkers, want) || len(got.links) != 1 || totals.Links.N != 3 {
		t.Errorf("%q, %q, %d in the totals", got.links, got.walkers, totals.Links.N)
	}
	for _, bad := range []string{"", "\x01", "\x01\x01\x01", "\x01\x01\x01\x00", "\x01\x01\x01\x00\x00\x05http",
		"\x01\x01\xff\xff\xff\x01\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\x01\x01\x01\x00\x00\x00"} {
		if err := new(Walker).decode([]byte(bad)); !errors.Is(err, ErrMessage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// takeBoth takes two messages: one of the first version, and one of a later version, which a program of the version
// before refuses. It returns their records, and the totals with them.
func (b *box) takeBoth(later int) (got received, totals Totals) {
	b.t.Helper()
	for _, version := range []int{FirstVersion, later} {
		msg, _, ok, err := b.Next()
		if must(b.t, err); !ok {
			b.t.Fatal("no message")
		}
		h, err := ReadHeader(msg)
		if must(b.t, err); h.Version != version {
			b.t.Errorf("version %d, want %d", h.Version, version)
		}
		if version == later {
			err := (&Decoder{Reads: later - 1}).Records(msg, &h, &received{})
			if !errors.Is(err, ErrMessage) || !errors.Is(err, ErrVersion) {
				b.t.Errorf("an older program: %v", err)
			}
		}
		must(b.t, new(Decoder).Records(msg, &h, &got))
		totals = h.After
		must(b.t, b.Published())
	}
	return got, totals
}
