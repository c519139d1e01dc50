// Package ports holds sets of TCP ports as sorted ranges.
//
// The operator allows ports by --ports; the client, the admission of links and a saved run use the same
// set. It is data, so a run can save its set in the manifest and explain can read it back.
//
//	set := ports.New(ports.Of(80, 443)...)
//	set.Contains(443) // true
//	set.String()      // "80,443"
//
// # Contract
//
// A Range has 1 <= First <= Last; port 0 is in no range and in no set. New sorts and joins ranges, so two
// sets of the same ports are equal and have the same text. The empty Set stands for every port: its text is
// "", and an option that is not set allows all.
//
// The text form is a list of ports and ranges, such as "80,443,8000-8099". ParseRange reads one item of it
// and Parse all. Errors quote the item; the text may be of any length.
//
// # Concurrency and cost
//
// A Set is not changed after New, and is safe for concurrent use. It takes 4 bytes a range, at most 128 KiB.
// Contains is a binary search.
package ports

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Range is the ports First to Last, both included.
type Range struct{ First, Last uint16 }

// Of returns a range for each port.
func Of(ports ...uint16) []Range {
	list := make([]Range, len(ports))
	for i, p := range ports {
		list[i] = Range{p, p}
	}
	return list
}

// Valid reports whether 1 <= First <= Last.
func (r Range) Valid() bool { return r.First != 0 && r.First <= r.Last }

// ParseRange reads "A-B", or "A" for a range of one port.
func ParseRange(text string) (Range, error) {
	a, b, isRange := strings.Cut(text, "-")
	if !isRange {
		b = a
	}
	first, err1 := strconv.ParseUint(a, 10, 16)
	last, err2 := strconv.ParseUint(b, 10, 16)
	r := Range{uint16(first), uint16(last)}
	if err1 != nil || err2 != nil || !r.Valid() {
		return Range{}, fmt.Errorf("%.40q is neither a port such as 8080 nor a range such as 8000-8099", text)
	}
	return r, nil
}

// UnmarshalText reads a range as ParseRange does.
func (r *Range) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRange(string(text))
	return err
}

// String returns text that ParseRange reads.
func (r Range) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Set is a set of ports. The zero Set is empty, and stands for every port.
type Set struct{ ranges []Range } // sorted, with gaps between them

// New returns the set of the ports in list. Ranges that are not valid count as empty.
func New(list ...Range) Set {
	list = slices.DeleteFunc(slices.Clone(list), func(r Range) bool { return !r.Valid() })
	slices.SortFunc(list, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	var s []Range
	for _, r := range list {
		if n := len(s); n > 0 && int(r.First) <= int(s[n-1].Last)+1 {
			s[n-1].Last = max(s[n-1].Last, r.Last)
			continue
		}
		s = append(s, r)
	}
	return Set{s}
}

// Parse reads the text of a set.
func Parse(text string) (Set, error) {
	if text == "" {
		return Set{}, nil
	}
	var list []Range
	for item := range strings.SplitSeq(text, ",") {
		r, err := ParseRange(item)
		if err != nil {
			return Set{}, fmt.Errorf("ports: %w", err)
		}
		list = append(list, r)
	}
	return New(list...), nil
}

// Contains reports whether port is in the set; 0 never is.
func (s Set) Contains(port uint16) bool {
	if len(s.ranges) == 0 {
		return port != 0
	}
	_, found := slices.BinarySearchFunc(s.ranges, port, func(r Range, port uint16) int {
		switch {
		case r.Last < port:
			return -1
		case r.First > port:
			return 1
		}
		return 0
	})
	return found
}

// String returns text that Parse reads.
func (s Set) String() string {
	var b strings.Builder
	for i, r := range s.ranges {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(r.String())
	}
	return b.String()
}

// MarshalText returns the set's text, for JSON.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the set's text.
func (s *Set) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}
