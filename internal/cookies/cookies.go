// Package cookies keeps the cookies of sites in jars of bounded size, in RAM.
//
// The IRLbot paper has no cookies, and the crawl keeps none unless the operator asks for them for a site
// (docs/reference/sites.md). Some sites show their pages only to visitors that return what they were given,
// or after a login that the operator made elsewhere.
//
// # Contract
//
// A Store has a Jar for each key, which is one site of the operator's. Jars share nothing. A Jar is the
// standard library's net/http/cookiejar (RFC 6265): domain, path, Secure, expiry, and no cookie for a public
// suffix, private ones such as github.io included. Set-Cookie is parsed here, because the library knows few forms of
// dates and refuses many values. What the library lacks besides is a bound, so a Jar remembers the
// cookies that it handed over, and deletes the oldest through the library to make room.
//
// Cookies are secret like credentials: nothing here logs or prints them.
//
// # Bounds
//
// A cookie has at most MaxCookieBytes, a Jar MaxCookies and MaxJarBytes, a response MaxPerResponse. A Jar
// also remembers the last 256 URLs that redirected. All jars of a Store together have at most the bytes given
// to NewStore. If others have used them up, a Jar makes room among its own cookies, or drops the new one. The
// accounts count a cookie that has expired until it is the oldest.
//
// # Concurrency, memory, files
//
// All methods are safe for concurrent use. A cookie counts with its texts and Overhead bytes for the entries of
// both. There are no files: after a restart a site sees a new visitor. The package starts no goroutines.
package cookies

import (
	"cmp"
	"container/list"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/weburl"
)

// Bounds.
const (
	MaxCookieBytes = 4 << 10 // name, value, domain and path
	MaxCookies     = 200
	MaxJarBytes    = 256 << 10
	MaxHeaderBytes = 8 << 10 // of a request's Cookie; the cookies with the longest paths go first
	MaxPerResponse = 50
	Overhead       = 1200 // bytes of RAM besides the texts
)

// Store has the jars of a crawl.
type Store struct {
	suffixes suffixList
	most     int64
	used     atomic.Int64

	mu   sync.RWMutex // guards jars
	jars map[string]*Jar
}

// NewStore returns a store whose jars take at most so many bytes of RAM.
func NewStore(most int64) *Store {
	return &Store{suffixes: suffixList{weburl.NewSuffixes(true)}, most: most, jars: map[string]*Jar{}}
}

// Used returns the bytes of RAM that the jars take.
func (s *Store) Used() int64 { return s.used.Load() }

// Jar returns the jar with a key, a new one if there is none.
func (s *Store) Jar(key string) *Jar {
	s.mu.RLock()
	j := s.jars[key]
	s.mu.RUnlock()
	if j != nil {
		return j
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j = s.jars[key]; j == nil {
		j = &Jar{store: s}
		j.clear()
		s.jars[key] = j
	}
	return j
}

// Keep drops all jars but those with the given keys.
func (s *Store) Keep(keys map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, j := range s.jars {
		if !keys[key] {
			delete(s.jars, key)
			j.Drop()
		}
	}
}

// Jar has the cookies of a site.
type Jar struct {
	store *Store

	mu      sync.Mutex
	jar     *cookiejar.Jar
	dropped bool
	order   list.List // of *entry, the oldest first
	known   map[identity]*list.Element
	bytes   int64

	redirected []redirected // a ring
	next       int          // the oldest of it, once it is full
}

// identity is what makes two cookies the same (RFC 6265, 5.3).
type identity struct{ domain, path, name string }

// entry is a cookie in the jar.
type entry struct {
	identity
	from   url.URL // of the response
	cookie http.Cookie
	bytes  int64
}

func (j *Jar) clear() {
	jar, err := cookiejar.New(&cookiejar.Options{PublicSuffixList: &j.store.suffixes})
	if err != nil {
		panic("BUG: cookies: " + err.Error()) // the library returns none
	}
	j.redirected, j.next = nil, 0
	j.jar, j.known, j.bytes = jar, map[identity]*list.Element{}, 0
	j.order.Init()
}

// Drop removes all cookies. The jar takes no others.
func (j *Jar) Drop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.store.used.Add(-j.bytes)
	j.clear()
	j.dropped = true
}

// Header returns the Cookie header for a request; "" for none.
func (j *Jar) Header(parts *weburl.Parts) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.order.Len() == 0 {
		return ""
	}
	var b strings.Builder
	for _, c := range j.jar.Cookies(urlOf(parts)) {
		text := c.Name + "=" + c.Value // as it came: the library would drop bytes
		if b.Len()+len(text) > MaxHeaderBytes {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(text)
	}
	return b.String()
}

// Take takes the values of the Set-Cookie headers of a response.
func (j *Jar) Take(parts *weburl.Parts, lines []string) {
	if len(lines) == 0 {
		return
	}
	u := urlOf(parts)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range lines[:min(len(lines), MaxPerResponse)] {
		if c, ok := parseSetCookie(line); ok && mayBeSet(&c, u.Scheme == "https") {
			j.set(u, &c)
		}
	}
}

// set adds a cookie, replaces it, or deletes it.
func (j *Jar) set(u *url.URL, c *http.Cookie) {
	// The library keeps what it needs; the rest could be large.
	small := http.Cookie{Name: strings.Clone(c.Name), Value: strings.Clone(c.Value),
		Path: strings.Clone(c.Path), Domain: strings.Clone(c.Domain), Expires: c.Expires, MaxAge: c.MaxAge,
		Secure: c.Secure, HttpOnly: c.HttpOnly}
	if !j.fitDomain(u, &small) {
		return
	}
	text := len(small.Name) + len(small.Value) + len(small.Path) + len(small.Domain)
	if text > MaxCookieBytes || len(u.Path) > MaxCookieBytes || j.dropped {
		return
	}
	e := &entry{identity: identityOf(u, &small), from: *u, cookie: small,
		bytes: int64(text+len(u.Path)+len(u.Host)) + Overhead}
	if old := j.known[e.identity]; old != nil {
		j.forget(old)
	}
	if small.MaxAge < 0 || small.MaxAge == 0 && !small.Expires.IsZero() && !small.Expires.After(time.Now()) {
		j.jar.SetCookies(u, []*http.Cookie{&small})
		return
	}
	for j.order.Len() > 0 && (j.order.Len() >= MaxCookies || j.bytes+e.bytes > MaxJarBytes ||
		j.store.used.Load()+e.bytes > j.store.most) {
		j.evict(j.order.Front())
	}
	if j.store.used.Add(e.bytes) > j.store.most {
		j.store.used.Add(-e.bytes)
		j.expire(u, small) // an older value would be wrong
		return
	}
	j.bytes += e.bytes
	j.known[e.identity] = j.order.PushBack(e)
	j.jar.SetCookies(u, []*http.Cookie{&small})
}

// evict deletes a cookie.
func (j *Jar) evict(at *list.Element) {
	e := at.Value.(*entry)
	j.forget(at)
	j.expire(&e.from, e.cookie)
}

// expire deletes a cookie from the library's jar.
func (j *Jar) expire(u *url.URL, c http.Cookie) {
	c.MaxAge = -1
	j.jar.SetCookies(u, []*http.Cookie{&c})
}

// forget removes a cookie from the accounts.
func (j *Jar) forget(at *list.Element) {
	e := at.Value.(*entry)
	j.order.Remove(at)
	delete(j.known, e.identity)
	j.bytes -= e.bytes
	j.store.used.Add(-e.bytes)
}

// fitDomain writes the domain of a cookie as the library reads it; "" is the host alone. It returns false for
// a cookie that the library refuses: such a cookie must not change the accounts of one that it keeps.
func (j *Jar) fitDomain(u *url.URL, c *http.Cookie) bool {
	if c.Domain == "" {
		return true
	}
	host, given := hostOf(u), strings.ToLower(c.Domain)
	domain := strings.TrimPrefix(given, ".")
	_, err := netip.ParseAddr(host)
	switch {
	case err == nil:
		c.Domain = ""
		return given == host
	case domain == "":
		return false
	case j.store.suffixes.PublicSuffix(domain) == domain:
		c.Domain = ""
		return domain == host
	}
	c.Domain = domain
	return domain == host || strings.HasSuffix(host, "."+domain)
}

func hostOf(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }

// identityOf returns the identity by which the library stores a cookie.
func identityOf(u *url.URL, c *http.Cookie) identity {
	id := identity{cmp.Or(c.Domain, hostOf(u)), c.Path, c.Name}
	if id.path == "" || id.path[0] != '/' {
		i := strings.LastIndexByte(u.Path, '/')
		if id.path = "/"; i > 0 {
			id.path = u.Path[:i]
		}
	}
	return id
}

// urlOf returns the URL of a request, without its query.
func urlOf(parts *weburl.Parts) *url.URL {
	path, _, _ := strings.Cut(string(parts.Path), "?")
	host := string(parts.Host)
	if parts.Port != 0 {
		host += ":" + strconv.Itoa(int(parts.Port))
	}
	return &url.URL{Scheme: string(parts.Scheme), Host: host, Path: path}
}

// suffixList makes the crawl's suffix list one of the library's.
type suffixList struct{ list *weburl.Suffixes }

// PublicSuffix implements cookiejar.PublicSuffixList.
func (s *suffixList) PublicSuffix(domain string) string {
	if s.list.IsSuffix(domain) {
		return domain
	}
	pld := s.list.PLD(domain)
	if _, suffix, ok := strings.Cut(pld, "."); ok {
		return suffix
	}
	return pld
}

// String implements cookiejar.PublicSuffixList.
func (s *suffixList) String() string { return "publicsuffix.org " + weburl.ListVersion() }
