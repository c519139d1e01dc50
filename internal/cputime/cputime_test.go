package cputime

import (
	"os"
	"testing"
	"time"
)

// TestOf: both functions see the time that this process takes.
func TestOf(t *testing.T) {
	own := Process()
	other, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for sum := 0; Process()-own < 100*time.Millisecond; sum++ {
	}
	after, err := Of(os.Getpid())
	if took := after - other; err != nil || took < 50*time.Millisecond || took > 10*time.Second {
		t.Errorf("%v, %v", took, err)
	}
	if d := Process() - after; d < -time.Second || d > 10*time.Second {
		t.Errorf("they differ by %v", d)
	}
	if _, err := Of(1 << 30); err == nil {
		t.Error("a process that is not there has a time")
	}
}

func TestParseStat(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"1 (a) S 0 1 1 0 -1 4194560 9 8 7 6 12 30 5 4 20":    420 * time.Millisecond,
		"1 (a) (b c) S 0 1 1 0 -1 4194560 9 8 7 6 12 0 5 20": 120 * time.Millisecond,
	} {
		if got, err := parseStat(line); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", line, got, err, want)
		}
	}
	for _, line := range []string{"", ")", "1 (a) S 0 1", "1 (a) S 0 1 1 0 -1 4194560 9 8 7 6 x 0 5 20",
		"1 (a) S 0 1 1 0 -1 4194560 9 8 7 6 -1 0 5 20"} {
		if got, err := parseStat(line); err == nil {
			t.Errorf("%q: %v", line, got)
		}
	}
}
