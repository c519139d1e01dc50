package parse

import (
	"bytes"
	"strings"
)

// Rights are the statements of a page, or of its headers, about its use. The zero value says nothing.
type Rights struct {
	// Values are the directives of robots metas or X-Robots-Tag headers, with those that the crawl does not obey:
	// "noai, unavailable_after: 25 jun 2027". They are in lower case, each once, at most MaxRobotsValues bytes. index,
	// follow and all are left out: they ask for nothing.
	Values string
	// TDMReservation is "1" if the rights to mine the page are reserved, and "0" if they are not (TDMRep, a report of
	// the W3C's community group). TDMPolicy is the URL of the policy, as written.
	TDMReservation, TDMPolicy string
}

// MaxRobotsValues and MaxTDMPolicy bound the texts of Rights, in bytes. Values that do not fit, and a longer URL, are
// left out.
const (
	MaxRobotsValues = 200
	MaxTDMPolicy    = 500

	maxDirectives = 32 // read of one header or meta
)

// Add merges o into r. Of reservations, the most restrictive counts; of policies, the first.
func (r *Rights) Add(o Rights) {
	if r.Values == "" {
		r.Values = o.Values
	} else if o.Values != "" && o.Values != r.Values {
		for v := range strings.SplitSeq(o.Values, ", ") {
			r.addValue(v)
		}
	}
	r.SetReservation([]byte(o.TDMReservation))
	r.SetPolicy([]byte(o.TDMPolicy))
}

// SetReservation notes the value of a tdm-reservation header or meta. Others than 0 and 1 say nothing.
func (r *Rights) SetReservation(value []byte) {
	switch v := trimSpace(value); {
	case string(v) == "1":
		r.TDMReservation = "1"
	case string(v) == "0" && r.TDMReservation == "":
		r.TDMReservation = "0"
	}
}

// SetPolicy notes the value of a tdm-policy header or meta, unless one is known.
func (r *Rights) SetPolicy(value []byte) {
	v := trimSpace(value)
	odd := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	if r.TDMPolicy == "" && len(v) > 0 && len(v) <= MaxTDMPolicy && !bytes.ContainsFunc(v, odd) {
		r.TDMPolicy = string(v)
	}
}

// AddRobotsTag notes the directives of the value of one X-Robots-Tag header, as ParseRobotsTag reads it.
func (r *Rights) AddRobotsTag(value []byte, agent string) { r.addDirectives(value, agent, true) }

// AddRobots notes the directives of a robots meta.
func (r *Rights) AddRobots(value []byte) { r.addDirectives(value, "", false) }

func (r *Rights) addDirectives(value []byte, agent string, tag bool) {
	applies, left := true, maxDirectives
	for len(value) > 0 && left > 0 {
		left--
		var part []byte
		part, value, _ = bytes.Cut(value, []byte(","))
		name, rest, ok := bytes.Cut(part, []byte(":"))
		if ok && tag && !hasValue(trimSpace(name)) && isAgent(trimSpace(name)) {
			name = trimSpace(name)
			applies = string(name) == "*" || agent != "" && bytes.EqualFold(name, []byte(agent))
			part = rest
			name, rest, ok = bytes.Cut(part, []byte(":"))
		}
		text := clean(rest)
		if ok && isFold(trimSpace(name), "unavailable_after") {
			if more := trimSpace(value); len(more) > 0 && '0' <= more[0] && more[0] <= '9' { // "Fri, 25 Jun 2027 …"
				more, value, _ = bytes.Cut(value, []byte(","))
				text += " " + clean(more)
			}
		}
		switch {
		case !applies:
		case ok && hasValue(trimSpace(name)):
			r.addValue(clean(name) + ": " + text)
		case !ok:
			for word, rest := nextWord(part); len(word) > 0 && left > 0; word, rest = nextWord(rest) {
				r.addValue(clean(word))
				left--
			}
		}
	}
}

// addValue adds a directive in its normal form.
func (r *Rights) addValue(v string) {
	switch {
	case v == "", v == "index", v == "follow", v == "all", r.Says(v):
	case r.Values == "" && len(v) <= MaxRobotsValues:
		r.Values = v
	case r.Values != "" && len(r.Values)+len(", ")+len(v) <= MaxRobotsValues:
		r.Values += ", " + v
	}
}

// Says reports whether Values has a directive.
func (r *Rights) Says(directive string) bool {
	for old := range strings.SplitSeq(r.Values, ", ") {
		if old == directive {
			return true
		}
	}
	return false
}

// clean returns a text in lower case, with single blanks, of printable ASCII without commas; "" if it has others.
func clean(b []byte) string {
	odd := func(c rune) bool { return c < ' ' && c != '\t' || c >= 0x7f }
	if len(b) > MaxRobotsValues || bytes.ContainsFunc(b, odd) {
		return ""
	}
	return strings.ToLower(strings.Join(strings.Fields(string(b)), " "))
}
