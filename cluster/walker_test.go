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
	var got received
	var totals Totals
	for _, version := range []int{FirstVersion, WalkerVersion} {
		msg, _, ok, err := b.Next()
		if must(t, err); !ok {
			t.Fatal("no message")
		}
		h, err := ReadHeader(msg)
		if must(t, err); h.Version != version {
			t.Errorf("version %d, want %d", h.Version, version)
		}
		if version == WalkerVersion {
			err := (&Decoder{Reads: WalkerVersion - 1}).Records(msg, &h, &received{})
			if !errors.Is(err, ErrMessage) || !errors.Is(err, ErrVersion) {
				t.Errorf("an older program: %v", err)
			}
		}
		must(t, new(Decoder).Records(msg, &h, &got))
		totals = h.After
		must(t, b.Published())
	}
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
