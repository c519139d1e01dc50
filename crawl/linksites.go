package crawl

import (
	"bytes"

	"drumbeat/scope"
	"drumbeat/weburl"
)

// linkSites remembers the origins that a page has linked to last, and what is the same for all their URLs. A page of
// documentation links to five hosts, nearly always to one of the last eight; more only cost a look at the suffix list.
type linkSites struct {
	sites [8]linkSite
	used  int // of sites
	last  int // the one asked for last
	next  int // the one to be replaced
}

// linkSite is an origin, as the page's links see it.
type linkSite struct {
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
	rules       scope.Site
	blocked     scope.Number // of the blacklist's rule that names the host, None if there is none
}

func (s *linkSite) host() []byte { return s.origin[s.hostStart:s.hostEnd] }

func (s *linkSites) reset() { s.used, s.last, s.next = 0, 0, 0 }

// find returns the origin of a URL if it is known. No origin with its '/' begins another.
func (s *linkSites) find(url []byte) *linkSite {
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
func (s *linkSites) place() *linkSite {
	s.last = s.next
	s.used = max(s.used, s.next+1)
	s.next = (s.next + 1) % len(s.sites)
	return &s.sites[s.last]
}

// siteOf returns the site of a canonical URL, valid until the next call.
func (b *linkBatch) siteOf(url []byte) *linkSite {
	if s := b.sites.find(url); s != nil {
		return s
	}
	parts := weburl.Split(url)
	s := b.sites.place()
	start := len(parts.Scheme) + len("://")
	*s = linkSite{
		origin:    append(s.origin[:0], url[:len(url)-len(parts.Path)+1]...),
		hostStart: start, hostEnd: start + len(parts.Host),
		portAllowed: b.r.allowedPort(parts.Port), blocked: scope.None,
	}
	pld := b.r.suffixes.PLDBytes(parts.Host)
	s.pld, s.pldBytes = b.r.hasher.PLDKey(pld), len(pld)
	if b.rules != nil {
		s.rules = b.rules.Site(url, pld)
	}
	if b.blacklist != nil {
		if n := b.blacklist.Host(parts.Host, pld); b.blacklist.Ruling(n) == scope.Exclude {
			s.blocked = n
		}
	}
	s.inScope = b.r.scope.allows(s.host(), s.pld)
	return s
}
