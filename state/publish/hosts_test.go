package publish

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"drumbeat/internal/tabular"
)

// TestHostTotals: the lines of a host come in the order of their texts. The signal of the latest capture counts.
func TestHostTotals(t *testing.T) {
	visits := []visit{
		{host: "a.test", at: 1_000_000_000, to: Pages, status: 200, length: 10,
			millis: "30", language: "deu", signal: "old"},
		{host: "a.test", at: 999_999_999, to: Pages, status: 200, length: 30,
			millis: "10", language: "eng", signal: "older"},
		{host: "a.test", at: 1_000_000_001, to: Robots, status: 404, length: 5, signal: "new\tone"},
		{host: "a.test", at: 1_000_000_002, to: Diagnostics, status: 301, length: 7, millis: "20", language: ""},
	}
	var lines []string
	for i := range visits {
		lines = append(lines, strings.TrimSuffix(string(visits[i].append(nil)), "\n"))
	}
	slices.Sort(lines)
	for range 2 {
		h := hostTotals{languages: map[string]int64{}}
		for _, line := range lines {
			fields := strings.Split(line, "\t")
			if len(fields) != 9 || fields[0] != "test,a" || fields[1] != "a.test" {
				t.Fatalf("line %q", line)
			}
			if err := h.add(fields[2:]); err != nil {
				t.Fatal(err)
			}
		}
		if h.signal != "new one" || h.bytes != 52 || h.statuses[0][0] != 2 || h.statuses[0][7] != 1 ||
			h.statuses[1][4] != 1 || h.languages["deu"] != 1 || h.languages["eng"] != 1 {
			t.Errorf("%+v", h)
		}
		if mean, median := h.millis.values(); !reflect.DeepEqual([]tabular.Value{mean, median},
			[]tabular.Value{tabular.Int(20), tabular.Int(20)}) {
			t.Errorf("a mean of %v, a median of %v", mean, median)
		}
		slices.Reverse(lines)
	}
	if err := new(hostTotals).add([]string{"x", "0", "200", "1", "", "", ""}); err == nil {
		t.Error("a time that is no number is accepted")
	}
}

// TestSample: of many numbers the median is nearly exact, and few are kept.
func TestSample(t *testing.T) {
	var s sample
	const n = 3_000_000
	for i := range int64(n) {
		s.add(i)
	}
	mean, median := s.values()
	if !reflect.DeepEqual(mean, tabular.Int((n-1)/2)) || len(s.kept) > maxSample {
		t.Errorf("a mean of %v, %d numbers kept", mean, len(s.kept))
	}
	if got := s.kept[len(s.kept)/2]; got < n/2-n/100 || got > n/2+n/100 {
		t.Errorf("a median of %v of %d numbers", median, n)
	}
}
