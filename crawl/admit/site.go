package admit

import (
	"bytes"

	"drumbeat/internal/scope"
	"drumbeat/weburl"
)

// linkSites remembers the origins that a page has linked to last, and what is the same for all their URLs. A page of
// documentation links to five hosts, nearly always to one of the last eight; more only cost a look at the suffix list.
type linkSites struct {
	sites [8]Site
	used  int // of sites
	last  int // the one asked for last
	next  int // the one to be replaced
}

// Site is an origin, as the page's links see it.
type Site struct {
	origin      []byte // a URL of it up to the path, the first '/' included
	hostStart   int    // in origin
	hostEnd     int
	pldBytes    int // of the PLD at the host's end, but for a dot behind it
	pld         uint64
	portAllowed bool
	inScope     bool // when the page linked to it first
	edge        bool // the edge to its PLD has been added, or need not be
	pldNamed    bool // the names of PLD and host go with the page's links
	hostNamed   bool
	Rules       scope.Site
	Blocked     scope.Number // of the blacklist's rule that names the host, None if there is none
}

func (s *Site) host() []byte { return s.origin[s.hostStart:s.hostEnd] }

func (s *linkSites) reset() { s.used, s.last, s.next = 0, 0, 0 }

// find returns the origin of a URL if it is known. No origin with its '/' begins another.
func (s *linkSites) find(url []byte) *Site {
	if s.last < s.used && bytes.HasPrefix(url, s.sites[s.last].origin) {
		return &s.sites[s.last]
	}
	for i := range s.sites[:s.used] {
		if bytes.HasPrefix(url, s.sites[i].origin) {
			s.last = i
			return &s.sites[i]
		}
	}
	return nil
}

// place returns the place for one more.
func (s *linkSites) place() *Site {
	s.last = s.next
	s.used = max(s.used, s.next+1)
	s.next = (s.next + 1) % len(s.sites)
	return &s.sites[s.last]
}

// SiteOf returns the site of a canonical URL, valid until the next call.
func (b *Batch) SiteOf(url []byte) *Site {
	if s := b.sites.find(url); s != nil {
		return s
	}
	parts := weburl.Split(url)
	s := b.sites.place()
	start := len(parts.Scheme) + len("://")
	*s = Site{
		origin:    append(s.origin[:0], url[:len(url)-len(parts.Path)+1]...),
		hostStart: start, hostEnd: start + len(parts.Host),
		portAllowed: b.p.PortAllowed(parts.Port), Blocked: scope.None,
	}
	pld := b.p.Suffixes.PLDBytes(parts.Host)
	s.pld, s.pldBytes = b.p.Hasher.PLDKey(pld), len(pld)
	if b.Rules != nil {
		s.Rules = b.Rules.Site(url, pld)
	}
	if b.Blacklist != nil {
		if n := b.Blacklist.Host(parts.Host, pld); b.Blacklist.Ruling(n) == scope.Exclude {
			s.Blocked = n
		}
	}
	s.inScope = b.p.Sites.allows(s.host(), s.pld)
	return s
}
