package simweb

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/net/html"
)

// walker is a slow crawler made of libraries that are independent of the generator and of drumbeat's own
// parsers: the full HTML parser, net/http, a WHATWG URL parser, and a robots matcher with regular
// expressions.
type walker struct {
	client *http.Client
	agent  string

	mu     sync.Mutex // guards robots
	robots map[string]*robotRules

	fetched, refused, dead map[string]bool
}

func newWalker(t testing.TB, s *Server, agent string) *walker {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		q := new(dns.Msg)
		q.SetQuestion(dns.Fqdn(host), dns.TypeA)
		c := dns.Client{}
		r, _, err := c.ExchangeContext(ctx, q, s.DNSAddrs()[0].String())
		if err == nil && r.Truncated {
			c.Net = "tcp"
			r, _, err = c.ExchangeContext(ctx, q, s.DNSAddrs()[0].String())
		}
		if err != nil {
			return nil, err
		}
		for _, rr := range r.Answer {
			if a, ok := rr.(*dns.A); ok {
				ip, _ := netip.AddrFromSlice(a.A.To4())
				n, _ := strconv.Atoi(port)
				var d net.Dialer
				return d.DialContext(ctx, "tcp", s.Map(netip.AddrPortFrom(ip, uint16(n))).String())
			}
		}
		return nil, fmt.Errorf("no address of %s: rcode %d", host, r.Rcode)
	}
	tr := &http.Transport{
		DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: s.w.CAPool()}, MaxIdleConnsPerHost: 2,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &walker{
		client: &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		agent: agent, robots: map[string]*robotRules{},
		fetched: map[string]bool{}, refused: map[string]bool{}, dead: map[string]bool{},
	}
}

// walk crawls from the seeds, level by level, with a few goroutines.
func (k *walker) walk(seeds []string) error {
	sets := map[string]map[string]bool{"fetched": k.fetched, "refused": k.refused, "dead": k.dead}
	level := seeds
	seen := map[string]bool{}
	for _, s := range seeds {
		seen[s] = true
	}
	for len(level) > 0 {
		type result struct {
			verdict string
			links   []string
			err     error
		}
		results := make([]result, len(level))
		var wg sync.WaitGroup
		slots := make(chan struct{}, 8)
		for i, u := range level {
			wg.Add(1)
			slots <- struct{}{}
			go func() {
				defer wg.Done()
				r := &results[i]
				r.verdict, r.links, r.err = k.visit(u)
				<-slots
			}()
		}
		wg.Wait()
		var next []string
		for i, u := range level {
			if results[i].err != nil {
				return results[i].err
			}
			sets[results[i].verdict][u] = true
			for _, l := range results[i].links {
				if !seen[l] {
					seen[l] = true
					next = append(next, l)
				}
			}
		}
		level = next
	}
	return nil
}

func (k *walker) visit(u string) (verdict string, links []string, err error) {
	slash := strings.IndexByte(u[len("https://"):], '/') + len("https://")
	switch rules := k.rules(u[:slash]); {
	case rules.dead:
		return "dead", nil, nil
	case !rules.allows(u[slash:]):
		return "refused", nil, nil
	}
	resp, err := k.client.Get(u)
	if err != nil {
		return "", nil, fmt.Errorf("get %s: %w", u, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", u, err)
	}
	if loc := resp.Header.Get("Location"); resp.StatusCode/100 == 3 {
		return "fetched", canonical(nil, u, loc), nil
	}
	if resp.StatusCode == 200 && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		links, err = htmlLinks(u, body)
	}
	return "fetched", links, err
}

func canonical(dst []string, base, ref string) []string {
	if u := resolve(base, ref); u != "" {
		return append(dst, u)
	}
	return dst
}

// htmlLinks finds links with the tree-building parser, with scripting off.
func htmlLinks(u string, body []byte) ([]string, error) {
	doc, err := html.ParseWithOptions(bytes.NewReader(body), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, err
	}
	var refs []string
	base := ""
	attr := func(n *html.Node, key string) (string, bool) {
		for _, a := range n.Attr {
			if a.Key == key {
				return a.Val, true
			}
		}
		return "", false
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "base":
			if v, ok := attr(n, "href"); ok && base == "" {
				base = v
			}
		case "a", "area":
			if v, ok := attr(n, "href"); ok {
				refs = append(refs, v)
			}
		case "iframe":
			if v, ok := attr(n, "src"); ok {
				refs = append(refs, v)
			}
		case "meta":
			if v, _ := attr(n, "http-equiv"); strings.EqualFold(v, "refresh") {
				c, _ := attr(n, "content")
				if m := regexp.MustCompile(`(?i)^\d+;\s*url='([^']*)'$`).FindStringSubmatch(c); m != nil {
					refs = append(refs, m[1])
				}
			}
		}
	}
	if base != "" {
		if b := canonical(nil, u, base); b != nil {
			u = b[0]
		}
	}
	var links []string
	for _, r := range refs {
		links = canonical(links, u, r)
	}
	return links, nil
}

type robotRules struct {
	dead  bool
	all   bool // everything is disallowed
	rules []robotRule
}

type robotRule struct {
	allow  bool
	length int
	match  *regexp.Regexp
}

func (r *robotRules) allows(path string) bool {
	best, allow := -1, true
	for _, l := range r.rules {
		if l.match.MatchString(path) && (l.length > best || l.length == best && l.allow) {
			best, allow = l.length, l.allow
		}
	}
	return allow && !r.all
}

func (k *walker) rules(origin string) *robotRules {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.robots[origin]; r != nil {
		return r
	}
	r := k.fetchRules(origin + "/robots.txt")
	k.robots[origin] = r
	return r
}

func (k *walker) fetchRules(u string) *robotRules {
	for range 6 {
		resp, err := k.client.Get(u)
		if err != nil {
			return &robotRules{dead: true}
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			return &robotRules{dead: true}
		case resp.StatusCode/100 == 3:
			u = canonical(nil, u, resp.Header.Get("Location"))[0]
		case resp.StatusCode >= 500:
			return &robotRules{all: true}
		case resp.StatusCode != 200:
			return &robotRules{}
		default:
			return readRules(string(body), k.agent)
		}
	}
	return &robotRules{}
}

// readRules reads the RFC 9309 groups for an agent.
func readRules(text, agent string) *robotRules {
	text = strings.TrimPrefix(text, "\ufeff")
	groups := map[string][]robotRule{}
	var agents []string
	inRules := false
	for line := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		key, value, ok := strings.Cut(line, ":")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		switch {
		case !ok:
		case key == "user-agent":
			if inRules {
				agents, inRules = nil, false
			}
			agents = append(agents, strings.ToLower(value))
			groups[agents[len(agents)-1]] = append(groups[agents[len(agents)-1]], robotRule{length: -2, match: never})
		case key == "allow" || key == "disallow":
			inRules = true
			if value == "" {
				continue
			}
			v := strings.ReplaceAll(strings.ReplaceAll(value, "é", "%C3%A9"), "%c3%a9", "%C3%A9")
			x := strings.ReplaceAll(regexp.QuoteMeta(v), `\*`, ".*")
			x = regexp.MustCompile(`\\\$$`).ReplaceAllString(x, "$")
			for _, a := range agents {
				groups[a] = append(groups[a], robotRule{key == "allow", len(v), regexp.MustCompile("^" + x)})
			}
		}
	}
	if g, ok := groups[strings.ToLower(agent)]; ok {
		return &robotRules{rules: g}
	}
	return &robotRules{rules: groups["*"]}
}

var never = regexp.MustCompile(`[^\s\S]`)
