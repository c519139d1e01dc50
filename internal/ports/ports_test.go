package ports

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestSet: New must sort and join ranges, and the text of a set must give the same set.
func TestSet(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""}, {"80", "80"}, {"443,80", "80,443"}, {"8080,8000-8099,80,81", "80-81,8000-8099"},
		{"1-65535", "1-65535"}, {"65535,65534", "65534-65535"}, {"1-10,2-3,11-12", "1-12"},
	} {
		s, err := Parse(c.text)
		if err != nil || s.String() != c.want {
			t.Errorf("Parse(%q) = %q, %v, want %q", c.text, s, err, c.want)
		}
	}
	for _, bad := range []string{"0", "80,", ",", "80,x", "9-8", "0-5", "65536", "80;90", "1-2-3", "-",
		strings.Repeat("9", 99)} {
		if s, err := Parse(bad); err == nil || len(err.Error()) > 150 {
			t.Errorf("Parse(%q) = %q, %v, want a short error", bad, s, err)
		}
	}
	if s := New(Range{0, 5}, Range{9, 8}); len(s.ranges) > 0 {
		t.Errorf("New of invalid ranges = %q", s)
	}
}

// TestContains: Contains must agree with a map of random ranges. The empty set contains every port but 0.
func TestContains(t *testing.T) {
	const seed = 1
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		var list []Range
		want := map[uint16]bool{}
		for range 1 + rnd.IntN(40) {
			first := 1 + rnd.IntN(300)
			last := min(300, first+rnd.IntN(10))
			list = append(list, Range{uint16(first), uint16(last)})
			for p := first; p <= last; p++ {
				want[uint16(p)] = true
			}
		}
		s := New(list...)
		for p := range uint16(400) {
			if s.Contains(p) != want[p] {
				t.Fatalf("%v: Contains(%d) = %v in %v", list, p, s.Contains(p), s)
			}
		}
	}
	for port, want := range map[uint16]bool{0: false, 1: true, 65535: true} {
		if got := (Set{}).Contains(port); got != want {
			t.Errorf("empty set: Contains(%d) = %v", port, got)
		}
	}
}

// TestJSON: a set in JSON is its text, and the empty set is left out. Runs of earlier versions read it so.
func TestJSON(t *testing.T) {
	type doc struct {
		Ports Set `json:"ports,omitzero"`
	}
	for text, s := range map[string]Set{`{}`: {},
		`{"ports":"80,443,8000-8099"}`: New(append(Of(80, 443), Range{8000, 8099})...)} {
		if b, err := json.Marshal(doc{s}); err != nil || string(b) != text {
			t.Errorf("%v: %s, %v, want %s", s, b, err, text)
		}
		var d doc
		if err := json.Unmarshal([]byte(text), &d); err != nil || !reflect.DeepEqual(d.Ports, s) {
			t.Errorf("%s: %v, %v, want %v", text, d.Ports, err, s)
		}
	}
	var d doc
	for _, bad := range []string{`{"ports":"0"}`, `{"ports":[1]}`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s: %v, want an error", bad, d.Ports)
		}
	}
}

// FuzzParse: an accepted text gives a set whose own text gives the same set.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "80", "8000-8099", "443,80", "0-65536", "1-65535,7", ",", "a-b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%q is shown as %q, which is %v, %v", text, s, again, err)
		}
		for i, r := range s.ranges {
			if !r.Valid() || i > 0 && int(r.First) <= int(s.ranges[i-1].Last)+1 {
				t.Fatalf("%q: ranges %v", text, s)
			}
		}
	})
}
