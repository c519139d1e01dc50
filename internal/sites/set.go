package sites

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"drumbeat/fetch"
	"drumbeat/internal/human"
	"drumbeat/weburl"
)

// Unlimited is a MaxDepth without limit.
const Unlimited = -1

// Set is a compiled file. A nil *Set has no rules. It is immutable and safe for concurrent use.
type Set struct {
	name          string
	plain, secure *table // for http and https; the same table if no rule is for https alone
	stats         Stats
	jars          map[string]bool
	budgets       map[string]uint32
	priorities    map[string]int // by table
	secrets       bool           // a table has some
}

// Site has the settings for a URL: those of the longest rule that matches it, and for the others those of
// shorter rules.
type Site struct {
	// Has says which of the settings below are given. The others have the crawl's values.
	Has Setting
	// Owner says that the operator owns the site.
	Owner bool
	// Fields are header lines to add: headers, and Authorization. OpenFields are those that are not secret.
	Fields, OpenFields []fetch.Field
	// Insecure says that secrets go by HTTP too.
	Insecure bool
	// AnyCertificate says that secrets and signatures go by HTTPS whatever the server's certificate.
	AnyCertificate bool
	// AnyLinks says that requests have secrets wherever their URLs were found.
	AnyLinks bool
	// UserAgent, Accept and AcceptLanguage are the values of headers.
	UserAgent, Accept, AcceptLanguage string
	// Delay replaces --host-delay.
	Delay time.Duration
	// HostRate is the most requests per second to a host, and PLDRate to all hosts of a PLD together; 0: not given.
	HostRate, PLDRate float64
	// MaxDepth replaces --max-depth.
	MaxDepth int
	// Revisit is the interval between visits of a page when the crawl visits pages again; 0: a page is visited once.
	Revisit time.Duration
	// Priority is the lane of the site's URLs, from 0, the best; lanes beyond the crawl's last are the last.
	Priority int
	// Extract says whether the texts of pages are extracted.
	Extract bool
	// Cookies is the key of the site's jar of cookies, the same after each Parse; "" for none.
	Cookies string

	// IgnoreRobots says that the rules of robots.txt forbid nothing; only for an Owner.
	IgnoreRobots bool
	// Connections is the number of connections to a host at once; more than one only for an Owner.
	Connections int
	// Proxy connects to the site; nil for none.
	Proxy *fetch.Proxy

	rule  *rule
	above *Site // of the next shorter rule that matches; nil for none
}

// Setting is a set of settings.
type Setting uint32

// The settings, in the order in which Describe lists them.
const (
	HasOwner Setting = 1 << iota
	HasDelay
	HasRate // HostRate, PLDRate or both
	HasMaxDepth
	HasUserAgent
	HasAccept
	HasAcceptLanguage
	HasHeaders
	HasAuth
	HasCookies
	HasProxy
	HasBudget
	HasRobots
	HasConnections
	HasRevisit
	HasExtract
	HasPriority
	HasInsecure
	HasCertificate
	HasLinks
)

// Rule describes a rule for people. It contains no secrets.
type Rule struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Text     string   `json:"text"`     // such as "host www.example.org"
	Settings []string `json:"settings"` // such as "delay = 2s", those that the rule decides
}

// String returns file, line, text and settings.
func (r Rule) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", r.File, r.Line, r.Text, strings.Join(r.Settings, ", "))
}

// Stats has the size of a Set.
type Stats struct {
	Rules int
	Bytes int64 // of RAM
}

func (s Stats) String() string {
	return fmt.Sprintf("%s, %s", human.Counted(int64(s.Rules), "rule", "rules"), human.Bytes(s.Bytes))
}

// Stats returns the size; zero for a nil Set.
func (s *Set) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	return s.stats
}

// Jars returns the keys of all jars (Site.Cookies). The caller must not change the map.
func (s *Set) Jars() map[string]bool {
	if s == nil {
		return nil
	}
	return s.jars
}

// Budgets returns the budgets of PLDs. The caller must not change the map.
func (s *Set) Budgets() map[string]uint32 {
	if s == nil {
		return nil
	}
	return s.budgets
}

// table has the rules of a scheme.
type table struct {
	hosts   map[string]origins // rules of one host, and of its ports and paths
	domains map[string]*Site   // rules of a domain and all hosts below it
	deepest int                // labels of the longest name in domains
	sites   int
}

// origins has the rules of one host.
type origins struct {
	any   *Site      // on every port; nil: none, not even of a domain
	paths []pathRule // sorted by port and path
}

// pathRule is a rule of the beginning of a path at one port. "" is the whole origin.
type pathRule struct {
	path   string // in lower case
	site   *Site
	parent int32  // index of the longest other beginning of path at the port; -1: none
	port   uint16 // 0 is the scheme's default
}

// Lookup returns the settings for a URL, nil if no rule matches. parts are those of a canonical URL.
func (s *Set) Lookup(parts *weburl.Parts) *Site {
	if s == nil {
		return nil
	}
	t, port := s.plain, uint16(80)
	if len(parts.Scheme) == len("https") {
		t, port = s.secure, 443
	}
	host := weburl.TrimDot(parts.Host)
	o, ok := t.hosts[string(host)]
	switch {
	case !ok:
		return t.domain(host)
	case len(o.paths) == 0:
		return o.any
	case parts.Port == port:
		return o.find(0, parts.Path)
	}
	return o.find(parts.Port, parts.Path)
}

// LookupURL is Lookup for a canonical URL.
func (s *Set) LookupURL(url []byte) *Site {
	if s == nil {
		return nil
	}
	parts := weburl.Split(url)
	return s.Lookup(&parts)
}

// Priorities returns the priorities by the table that has each, in words; nil if there are none. Do not change it.
func (s *Set) Priorities() map[string]int {
	if s == nil {
		return nil
	}
	return s.priorities
}

// Extracts reports whether the texts of the page of a canonical URL are extracted: unless its site says
// extract = false.
func (s *Set) Extracts(url []byte) bool {
	site := s.LookupURL(url)
	return site == nil || site.Has&HasExtract == 0 || site.Extract
}

// Host returns the settings for a host's URLs on any port, as far as they concern whole hosts.
func (s *Set) Host(host []byte) *Site {
	if s == nil {
		return nil
	}
	host = weburl.TrimDot(host)
	if o, ok := s.plain.hosts[string(host)]; ok {
		return o.any
	}
	return s.plain.domain(host)
}

// domain returns the rule of the longest domain that contains a host, or nil.
func (t *table) domain(host []byte) *Site {
	if t.deepest == 0 {
		return nil
	}
	// The domain has at most deepest labels, so longer ones need no look-up.
	start, labels := len(host), 0
	for start > 0 && labels < t.deepest {
		start = bytes.LastIndexByte(host[:start-1], '.') + 1
		labels++
	}
	for {
		if site := t.domains[string(host[start:])]; site != nil {
			return site
		}
		dot := bytes.IndexByte(host[start:], '.')
		if dot < 0 {
			return nil
		}
		start += dot + 1
	}
}

// find returns the rule of the longest beginning of the path.
func (o *origins) find(port uint16, path []byte) *Site {
	lo, hi := 0, len(o.paths)
	for lo < hi {
		mid := (lo + hi) / 2
		if o.paths[mid].compare(port, path) > 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	i := lo - 1
	if i < 0 || o.paths[i].port != port {
		return o.any
	}
	// All beginnings of the path are this one or its parents.
	key, same := o.paths[i].path, 0
	for same < len(key) && same < len(path) && key[same] == lower(path[same]) {
		same++
	}
	for i >= 0 && len(o.paths[i].path) > same {
		i = int(o.paths[i].parent)
	}
	if i < 0 {
		return o.any
	}
	return o.paths[i].site
}

// compare compares the rule with a path at a port, ignoring the case of the path.
func (r *pathRule) compare(port uint16, path []byte) int {
	if r.port != port {
		return cmp.Compare(r.port, port)
	}
	for i := 0; i < len(r.path) && i < len(path); i++ {
		if c := cmp.Compare(r.path[i], lower(path[i])); c != 0 {
			return c
		}
	}
	return len(r.path) - len(path)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// bytes returns the RAM of a table.
func (t *table) bytes() int64 {
	const entry = 64 // of a map, with its key
	b := int64(len(t.hosts)+len(t.domains)) * entry
	for name, o := range t.hosts {
		b += int64(len(name)) + int64(unsafe.Sizeof(o)) + int64(cap(o.paths))*int64(unsafe.Sizeof(pathRule{}))
	}
	return b + int64(t.sites)*int64(unsafe.Sizeof(Site{}))
}
