package crawl

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
)

// TestProgress: on a terminal a block of lines is rewritten in place, below the log; elsewhere there are no
// control characters.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	v := NewView(&out, false, 0)
	s := &crawl.Snapshot{Time: time.Now().Add(time.Minute), Waiting: "politeness", Deferred: map[string]int64{"timeout": 3, "robots": 7}}
	s.SlotsNow.Samples, s.SlotsNow.Use[crawl.SlotPolite], s.SlotsNow.Use[crawl.SlotRead] = 100, 750, 250
	v.show(s)
	if got := out.String(); !strings.Contains(got, "msg=progress") || !strings.Contains(got, "waits_for=politeness") || strings.Contains(got, "\x1b") {
		t.Errorf("not a terminal: got %q", got)
	}
	out.Reset()
	v.width = func() int { return 60 }
	v.show(s)
	block := out.String()
	if !strings.Contains(block, "waits for politeness\n") || !strings.Contains(block, "deferred 0 (robots 7, timeout 3)\n") ||
		!strings.Contains(block, "slots     politeness 75 %, exchange 25 %\n") {
		t.Errorf("got %q", block)
	}
	for _, line := range strings.Split(block, "\n") {
		if len([]rune(line)) >= 60 {
			t.Errorf("a line of %d columns on a terminal of 60: %q", len([]rune(line)), line)
		}
	}
	out.Reset()
	v.Note("hello")
	n := strings.Count(block, "\n")
	if got, erase := out.String(), fmt.Sprintf("\x1b[%dF\x1b[J", n); !strings.HasPrefix(got, erase) || !strings.HasSuffix(got, block) || !strings.Contains(got, "hello") {
		t.Errorf("got %q, want the line between %q and the block", got, erase)
	}
}

// TestProgressFits: lines of the block are wrapped, not cut, and stay narrower than the terminal.
func TestProgressFits(t *testing.T) {
	text := "  limits    " + strings.Repeat("some words and more ", 12)
	for width := 20; width < 300; width++ {
		lines := fit(text, width)
		for _, l := range lines {
			if len(l) >= width {
				t.Errorf("%d columns: %q", width, l)
			}
		}
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); width >= 80 && got != strings.Join(strings.Fields(text), " ") {
			t.Errorf("%d columns: got %q", width, got)
		}
	}
}
