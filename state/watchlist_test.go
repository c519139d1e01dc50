package state

import (
	"bytes"
	"strings"
	"testing"
)

// TestWatchSum: blanked lines do not change the checksum of a watch list, which does not depend on how it is written;
// any other change does.
func TestWatchSum(t *testing.T) {
	list := "http://a/\nhttp://b.test/x 2026-12-24T18:00:00Z\nhttp://c.test/" + strings.Repeat("c", 2*watchPiece) +
		"\nhttp://d.test/"
	sum := func(list string) uint64 {
		n, err := WatchSumOf(strings.NewReader(list))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want, slow := sum(list), NewWatchSum()
	for i := range len(list) {
		_, _ = slow.Write([]byte{list[i]})
	}
	if got := slow.Sum(); got != want {
		t.Errorf("byte by byte %016x, want %016x", got, want)
	}
	blanked := []byte(list)
	for line := range bytes.Lines(blanked) {
		url, rest := CutWatched(line)
		if len(url) > watchPiece {
			continue
		}
		if BlankWatched(url); !WatchedBlank(url) || bytes.Contains(line, []byte("test")) {
			t.Errorf("blanked: %q, then %q", url, rest)
		}
	}
	if got := sum(string(blanked)); got != want {
		t.Errorf("with blanked lines %016x, want %016x", got, want)
	}
	for _, other := range []string{strings.Replace(list, "b.test", "B.test", 1), list + "\n",
		strings.Replace(list, "18:00", "18:01", 1), strings.Replace(string(blanked), "#", "x", 1)} {
		if sum(other) == want {
			t.Errorf("%.80q has the same checksum", other)
		}
	}
}
