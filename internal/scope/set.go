package scope

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"unsafe"

	"drumbeat/internal/human"
	"drumbeat/weburl"
)

// Number is the position of a rule among all rules of a Set.
type Number uint32

// None is the Number for "no rule". It is larger than every other.
const None Number = math.MaxUint32

// Ruling is the decision of a rule.
type Ruling uint8

// The rulings. Undecided is the ruling of None.
const (
	Undecided Ruling = iota
	Include
	Exclude
)

func (r Ruling) String() string { return [...]string{"undecided", "include", "exclude"}[r] }

// Set is a compiled set of rules. A nil *Set has none. Immutable, safe for concurrent use.
type Set struct {
	list     List
	suffixes *weburl.Suffixes
	sources  []string
	rules    []rule
	text     []byte // the patterns of all rules

	hosts, below, plds names // below has the names of the "*." rules
	hidden, hiddenPLDs names // digests of names, in the form of a rule
	deepest            int   // number of labels of the longest name in below
	surts, urls        prefixes
	regexes            []expression
	nets               networks
	fallback           Number // rule number of the default, None without one
	stats              Stats
}

// rule is a parsed line. Its pattern is in Set.text.
type rule struct {
	start, line uint32
	size        uint16
	source      uint16
	kind        kind
	include     bool
}

type expression struct {
	number Number
	re     *regexp.Regexp
}

// Rule is a rule in the form of its file.
type Rule struct {
	Include bool
	File    string
	Line    int
	Text    string // "- host example.org"
}

// String returns file, line and text.
func (r Rule) String() string { return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Text) }

// Stats counts the rules of a Set by kind.
type Stats struct {
	Rules, Hosts, PLDs, SURTs, Prefixes, Regexes, Nets int
	Bytes                                              int64 // of RAM
}

func (s Stats) String() string {
	return fmt.Sprintf("%s (%d host, %d pld, %d surt, %d prefix, %d regex, %d net), %s",
		human.Counted(int64(s.Rules), "rule", "rules"), s.Hosts, s.PLDs, s.SURTs, s.Prefixes, s.Regexes, s.Nets,
		human.Bytes(s.Bytes))
}

// Stats returns the statistics; zero for a nil Set.
func (s *Set) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	return s.stats
}

// count fills in stats.
func (s *Set) count() {
	s.stats.Rules = len(s.rules)
	for i := range s.rules {
		switch s.rules[i].kind {
		case hostKind, belowKind:
			s.stats.Hosts++
		case pldKind:
			s.stats.PLDs++
		case surtKind:
			s.stats.SURTs++
		case prefixKind:
			s.stats.Prefixes++
		case regexKind:
			s.stats.Regexes++
		case netKind:
			s.stats.Nets++
		}
	}
	const regexBytes = 8 << 10 // rough size of a compiled expression
	b := int64(cap(s.rules))*int64(unsafe.Sizeof(rule{})) + int64(cap(s.text)) + int64(len(s.regexes))*regexBytes +
		int64(len(s.hosts.slots)+len(s.below.slots)+len(s.plds.slots)+
			len(s.hidden.slots)+len(s.hiddenPLDs.slots))*int64(unsafe.Sizeof(slot{})) +
		int64(cap(s.nets.list))*int64(unsafe.Sizeof(network{}))
	for _, t := range []*prefixes{&s.surts, &s.urls} {
		b += int64(cap(t.list)) * int64(unsafe.Sizeof(prefix{}))
		for i := range t.list {
			b += int64(cap(t.list[i].key))
		}
	}
	s.stats.Bytes = b
}

// Rule returns the rule with a number, which must not be None.
func (s *Set) Rule(n Number) Rule {
	r := &s.rules[n]
	sign := "-"
	if r.include {
		sign = "+"
	}
	text := kindNames[r.kind] + " " + string(s.name(n))
	switch r.kind {
	case belowKind:
		text = kindNames[hostKind] + " *." + string(s.name(n))
	case defaultKind:
		text, sign = "default "+sign, ""
	}
	if sign != "" {
		text = sign + " " + text
	}
	return Rule{r.include, s.sources[r.source], int(r.line), text}
}

// Ruling returns the decision of a rule; Undecided for None.
func (s *Set) Ruling(n Number) Ruling {
	switch {
	case n == None:
		return Undecided
	case s.rules[n].include:
		return Include
	}
	return Exclude
}

// name returns the pattern of a rule; for a host or PLD rule, the name.
func (s *Set) name(n Number) []byte {
	r := &s.rules[n]
	return s.text[r.start : r.start+uint32(r.size)]
}

// Site is the result of a Set for all URLs of an origin. Use Set.Site; the zero value is not valid.
type Site struct {
	first      Number // the smallest rule that matches all URLs of the origin
	surts, url span   // prefixes that extend the authority
	scheme     scheme
	// single is true if first decides for every URL of the origin.
	single bool
}

// Site looks up the origin of a canonical URL. pld is the PLD of the host, from weburl.Suffixes.
func (s *Set) Site(url, pld []byte) Site {
	if s == nil {
		return Site{first: None, single: true}
	}
	parts := weburl.Split(url)
	site := Site{first: min(s.fallback, s.Host(parts.Host, pld))}
	if len(parts.Scheme) == len("https") {
		site.scheme = httpsScheme
	}
	if len(s.surts.list)+len(s.urls.list) > 0 {
		var space [300]byte
		authority := appendAuthority(space[:0], &parts, url)
		var byURL, bySURT Number
		site.surts, bySURT = s.surts.origin(authority, site.scheme)
		site.url, byURL = s.urls.origin(authority, site.scheme)
		site.first = min(site.first, byURL, bySURT)
	}
	site.single = site.surts.lo == site.surts.hi && site.url.lo == site.url.hi &&
		(len(s.regexes) == 0 || s.regexes[0].number > site.first)
	return site
}

// Find returns the rule that decides for a canonical URL of the site, or None.
func (s *Set) Find(site *Site, url []byte) Number {
	if site.single {
		return site.first
	}
	path := weburl.Split(url).Path
	best := min(site.first, s.surts.find(site.surts, site.scheme, path), s.urls.find(site.url, site.scheme, path))
	for i := range s.regexes {
		e := &s.regexes[i]
		if e.number > best {
			break
		}
		if e.re.Match(url) {
			return e.number
		}
	}
	return best
}

// Lookup is Site and Find for one URL.
func (s *Set) Lookup(url []byte) Number {
	if s == nil {
		return None
	}
	site := s.Site(url, s.suffixes.PLDBytes(weburl.Split(url).Host))
	return s.Find(&site, url)
}

// Host returns the first host or PLD rule that matches a host of a canonical URL, or None. For a host that
// is an address it also considers the net rules.
func (s *Set) Host(host, pld []byte) Number {
	if s == nil {
		return None
	}
	host = weburl.TrimDot(host)
	best := min(s.hosts.get(s, host), s.plds.get(s, pld))
	if s.below.used > 0 {
		best = min(best, s.above(host))
	}
	if s.hidden.used > 0 {
		best = min(best, s.hidden.digest(s, host))
	}
	if s.hiddenPLDs.used > 0 {
		best = min(best, s.hiddenPLDs.digest(s, pld))
	}
	if len(s.nets.list) > 0 && weburl.IsAddress(host) {
		if a, err := netip.ParseAddr(string(bytes.Trim(host, "[]"))); err == nil {
			best = min(best, s.nets.find(a))
		}
	}
	return best
}

// above returns the first "*." rule for a name above the host, or None.
func (s *Set) above(host []byte) Number {
	best := None
	labels := 0
	for i := len(host) - 1; i > 0; i-- {
		if host[i] != '.' {
			continue
		}
		best = min(best, s.below.get(s, host[i+1:]))
		if labels++; labels == s.deepest {
			break
		}
	}
	return best
}

// Addr returns the first net rule for an address, or None.
func (s *Set) Addr(a netip.Addr) Number {
	if s == nil {
		return None
	}
	return s.nets.find(a)
}

// HasNets reports whether the Set has net rules.
func (s *Set) HasNets() bool { return s != nil && len(s.nets.list) > 0 }
