package admit

import (
	"bytes"

	"drumbeat/internal/scope"
	"drumbeat/weburl"
)

// linkSites caches the last 8 origins that a page linked to, with data that all URLs of an origin share. A
// page of documentation links to about five hosts, so most links hit the cache. A miss costs a lookup in
// the suffix list.
type linkSites struct {
	sites [8]Site
	used  int // length of the used part of sites
	last  int // index of the last hit
	next  int // index to replace next
}

// Site is an origin that a page links to.
type Site struct {
	origin      []byte // a URL of the origin up to and including the first '/' of the path
	hostStart   int    // in origin
	hostEnd     int
	pldBytes    int // length of the PLD at the host's end, without a final dot
	pld         uint64
	node        int // that owns the PLD
	portAllowed bool
	inScope     bool // at the page's first link to it
	edge        bool // the edge to its PLD is added or not needed
	pldNamed    bool // its PLD is in Batch.Names
	hostNamed   bool // its host is in Batch.Names
	Rules       scope.Site
	Blocked     scope.Number // the blacklist's rule that names the host, or None
}

func (s *Site) host() []byte { return s.origin[s.hostStart:s.hostEnd] }

func (s *linkSites) reset() { s.used, s.last, s.next = 0, 0, 0 }

// find returns the origin of a URL if the cache has it. An origin with its '/' is never a prefix of another.
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

// place returns the entry to fill next.
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
		portAllowed: b.p.Ports.Contains(parts.Port), Blocked: scope.None,
	}
	pld := b.p.Suffixes.PLDBytes(parts.Host)
	s.pld, s.pldBytes = b.p.Hasher.PLDKey(pld), len(pld)
	s.node = b.p.owner(s.pld)
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
