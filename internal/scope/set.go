package scope

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"unsafe"

	"drumbeat/weburl"
)

// Number is a rule's place in the order of all rules of a Set.
type Number uint32

// None is the number of no rule.
const None Number = math.MaxUint32

// Ruling is what a rule says.
type Ruling uint8

// The rulings. Undecided is that of None.
const (
	Undecided Ruling = iota
	Include
	Exclude
)

// String returns the ruling in a word.
func (r Ruling) String() string { return [...]string{"undecided", "include", "exclude"}[r] }

// Set holds compiled rules. A nil *Set has none. Immutable: share it freely.
type Set struct {
	list     List
	suffixes *weburl.Suffixes
	sources  []string
	rules    []rule
	text     []byte // of all rules' patterns

	hosts, below, plds names // below has the names that "*." stands before
	deepest            int   // labels of the longest name in below
	surts, urls        prefixes
	regexes            []expression
	nets               networks
	fallback           Number // the default's, None without
	stats              Stats
}

// rule is a line that was understood. Its pattern is in Set.text.
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

// Rule is a rule as a person wrote it.
type Rule struct {
	Include bool
	File    string
	Line    int
	Text    string // "- host example.org"
}

// String names the place and the text.
func (r Rule) String() string { return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Text) }

// Stats are figures of a Set.
type Stats struct {
	Rules, Hosts, PLDs, SURTs, Prefixes, Regexes, Nets int
	Bytes                                              int64 // of RAM
}

// String is for a log or a person.
func (s Stats) String() string {
	rules := "rules"
	if s.Rules == 1 {
		rules = "rule"
	}
	return fmt.Sprintf("%d %s (%d host, %d pld, %d surt, %d prefix, %d regex, %d net), %d KiB", s.Rules, rules, s.Hosts, s.PLDs,
		s.SURTs, s.Prefixes, s.Regexes, s.Nets, (s.Bytes+1023)>>10)
}

// Stats returns the figures; zero of a nil Set.
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
	const regexBytes = 8 << 10 // compiled, roughly
	b := int64(cap(s.rules))*int64(unsafe.Sizeof(rule{})) + int64(cap(s.text)) + int64(len(s.regexes))*regexBytes +
		int64(len(s.hosts.slots)+len(s.below.slots)+len(s.plds.slots))*int64(unsafe.Sizeof(slot{})) +
		int64(cap(s.nets.list))*int64(unsafe.Sizeof(network{}))
	for _, t := range []*prefixes{&s.surts, &s.urls} {
		b += int64(cap(t.list)) * int64(unsafe.Sizeof(prefix{}))
		for i := range t.list {
			b += int64(cap(t.list[i].key))
		}
	}
	s.stats.Bytes = b
}

// Rule returns the rule of a number that is not None.
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

// Ruling returns what a rule says; Undecided for None.
func (s *Set) Ruling(n Number) Ruling {
	switch {
	case n == None:
		return Undecided
	case s.rules[n].include:
		return Include
	}
	return Exclude
}

// name is the pattern of a rule: of a host or PLD rule, the name.
func (s *Set) name(n Number) []byte {
	r := &s.rules[n]
	return s.text[r.start : r.start+uint32(r.size)]
}

// Site is what a Set says of all URLs of an origin. The zero value is none: ask Set.Site.
type Site struct {
	first      Number // the least rule that decides for all of them
	surts, url span   // prefixes that go on behind the authority
	scheme     scheme
	// single is true when first decides for every URL, so that Find need not look at one.
	single bool
}

// Site looks an origin up by one of its canonical URLs. pld is the host's, as weburl.Suffixes gives it.
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

// Host returns the first host or PLD rule that names a host as it stands in a canonical URL, or None. Of a host that is an
// address it returns the first net rule too.
func (s *Set) Host(host, pld []byte) Number {
	if s == nil {
		return None
	}
	host = trimDot(host)
	best := min(s.hosts.get(s, host), s.plds.get(s, pld))
	if s.below.used > 0 {
		best = min(best, s.above(host))
	}
	if len(s.nets.list) > 0 && isAddress(host) {
		if a, err := netip.ParseAddr(string(bytes.Trim(host, "[]"))); err == nil {
			best = min(best, s.nets.find(a))
		}
	}
	return best
}

// above looks for the names above a host among those that "*." stands before.
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

// HasNets tells whether there are net rules.
func (s *Set) HasNets() bool { return s != nil && len(s.nets.list) > 0 }
