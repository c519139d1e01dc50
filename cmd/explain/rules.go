package explain

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// robotsExplainer applies a robots.txt to a URL.
type robotsExplainer struct{ resolver *weburl.Resolver }

type robotsQuestion struct {
	Robots       *string `json:"robots"`
	RobotsBase64 *string `json:"robots_base64"`
	Agent        string  `json:"agent"`
	URL          *string `json:"url"`
}

type robotsAnswer struct {
	Allowed    bool    `json:"allowed"`
	Rule       string  `json:"rule"`
	CrawlDelay float64 `json:"crawl_delay"` // seconds
}

func newRobotsExplainer() *robotsExplainer {
	return &robotsExplainer{weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited})}
}

func (e *robotsExplainer) answer(line []byte) (any, error) {
	var q robotsQuestion
	if err := decodeLine(line, &q); err != nil {
		return nil, err
	}
	body, err := textOrBase64("robots", q.Robots, q.RobotsBase64)
	if err != nil {
		return nil, err
	}
	if q.URL == nil {
		return nil, errors.New("no \"url\" is given")
	}
	a, _, _, err := e.ask(body, q.Agent, *q.URL)
	return a, err
}

// ask works as a crawl does: it parses the rules, encodes them as in RobotsCache, and matches the encoded
// form.
func (e *robotsExplainer) ask(body []byte, agent, url string) (robotsAnswer, *robots.Rules, []byte, error) {
	if agent == "" {
		agent = flags.DefaultAgent
	}
	path, err := e.path(url)
	if err != nil {
		return robotsAnswer{}, nil, nil, err
	}
	rules := robots.Parse(body, agent)
	var a robotsAnswer
	a.Allowed, a.Rule = robots.Explain(rules.Append(nil), path)
	a.CrawlDelay = float64(rules.CrawlDelay) / float64(time.Second)
	return a, rules, path, nil
}

// path returns the path and query of a URL, as in a request line. url may be a path; "" is the root.
func (e *robotsExplainer) path(url string) ([]byte, error) {
	if url == "" {
		url = "/"
	}
	if strings.HasPrefix(url, "/") && !strings.HasPrefix(url, "//") {
		url = "http://any.invalid" + url
	}
	canonical, err := e.resolver.AppendResolve(nil, nil, []byte(url))
	if err != nil {
		return nil, fmt.Errorf("URL %.200q: %w", url, err)
	}
	return weburl.Split(canonical).Path, nil
}

// person prints the verdict for every URL.
func (e *robotsExplainer) person(out io.Writer, body []byte, agent string, urls []string) error {
	for i, url := range urls {
		a, rules, path, err := e.ask(body, agent, url)
		if err != nil {
			return err
		}
		if i == 0 {
			printRules(out, agent, rules)
		}
		verdict, rule := "allowed", "no rule matches"
		if !a.Allowed {
			verdict = "disallowed"
		}
		if a.Rule != "" {
			rule = a.Rule
		}
		fmt.Fprintf(out, "%s\n  %s: %s\n", url, verdict, rule)
		if second, ok := robots.SecondOpinion(rules, path); ok {
			agrees := "agrees"
			if second != a.Allowed {
				agrees = "DISAGREES: please report this file"
			}
			fmt.Fprintf(out, "  second opinion (temoto/robotstxt): %s\n", agrees)
		}
	}
	return nil
}

func printRules(out io.Writer, agent string, rules *robots.Rules) {
	if agent == "" {
		agent = flags.DefaultAgent
	}
	group := "no group applies to " + agent
	if rules.Own {
		group = "a group names " + agent
	} else if len(rules.List()) > 0 || rules.CrawlDelay > 0 {
		group = "the group for * applies to " + agent
	}
	fmt.Fprintf(out, "%s, %s, crawl delay %s\n", group, human.Counted(len(rules.List()), "rule", "rules"),
		human.Duration(rules.CrawlDelay))
	for _, s := range rules.Sitemaps {
		fmt.Fprintf(out, "sitemap %s\n", s)
	}
	if c := rules.Cut; c != (robots.Cut{}) {
		fmt.Fprintf(out, "cut: %d bytes of input, %d long patterns, %s; %s that match no path\n",
			c.Input, c.Long, human.Counted(c.Rules, "rule", "rules"), human.Counted(c.Odd, "rule", "rules"))
	}
}

// urlExplainer resolves a reference as the crawler does.
type urlExplainer struct {
	unlimited, resolver *weburl.Resolver
	suffixes            *weburl.Suffixes
}

type urlQuestion struct {
	Base string  `json:"base"`
	Ref  *string `json:"ref"`
}

// urlAnswer has either an error, with the href if the URL standard yields one, or all other fields. URL is
// what a crawl with --canonical escapes=fold would queue.
type urlAnswer struct {
	Href  string `json:"href,omitempty"`
	URL   string `json:"url,omitempty"`
	Host  string `json:"host,omitempty"`
	PLD   string `json:"pld,omitempty"`
	Error string `json:"error,omitempty"`
}

func newURLExplainer(suffixes *weburl.Suffixes) *urlExplainer {
	return &urlExplainer{weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: true}),
		weburl.NewResolver(weburl.Options{Fold: true}), suffixes}
}

func (e *urlExplainer) answer(line []byte) (any, error) {
	var q urlQuestion
	if err := decodeLine(line, &q); err != nil {
		return nil, err
	}
	if q.Ref == nil {
		return nil, errors.New(`no "ref" is given`)
	}
	return e.ask(q.Base, *q.Ref), nil
}

func (e *urlExplainer) ask(base, ref string) urlAnswer {
	href, err := weburl.WHATWG(base, ref)
	if errors.Is(err, weburl.ErrParse) {
		// The library's own message is misleading.
		if err = fmt.Errorf("%.200q is not a URL", ref); base != "" {
			err = fmt.Errorf("%.200q on %.200q is not a URL", ref, base)
		}
	}
	if err != nil {
		return urlAnswer{Error: term.OneLine(err)}
	}
	url, err := e.queued(base, ref, href)
	if err != nil {
		return urlAnswer{Href: href, Error: term.OneLine(err)}
	}
	host := string(weburl.Split(url).Host)
	return urlAnswer{Href: href, URL: string(url), Host: host, PLD: e.suffixes.PLD(host)}
}

// queued returns the URL that the crawler would queue, by the code for a page's links. If the base is
// neither http nor https, as for no page of a crawl, the standard's href decides.
func (e *urlExplainer) queued(base, ref, href string) ([]byte, error) {
	if base == "" {
		return e.resolver.AppendResolve(nil, nil, []byte(ref))
	}
	canonical, err := e.unlimited.AppendResolve(nil, nil, []byte(base))
	if err != nil {
		return e.resolver.AppendResolve(nil, nil, []byte(href))
	}
	b, err := weburl.NewBase(canonical)
	if err != nil {
		return nil, err
	}
	return e.resolver.AppendResolve(nil, b, []byte(ref))
}

func (a urlAnswer) print(out io.Writer, ref string) {
	fmt.Fprintln(out, ref)
	for _, f := range []struct{ name, value string }{{"href", a.Href}, {"url", a.URL}, {"host", a.Host}, {"pld", a.PLD},
		{"not queued", a.Error}} {
		if f.value != "" {
			fmt.Fprintf(out, "  %-10s %s\n", f.name, f.value)
		}
	}
}

// pldExplainer finds the pay-level domain of a host.
type pldExplainer struct {
	resolver *weburl.Resolver
	suffixes *weburl.Suffixes
}

type pldQuestion struct {
	Host *string `json:"host"`
}

type pldAnswer struct {
	PLD    string `json:"pld"`
	Suffix bool   `json:"suffix"`
}

func newPLDExplainer(suffixes *weburl.Suffixes) *pldExplainer {
	return &pldExplainer{weburl.NewResolver(weburl.Options{}), suffixes}
}

func (e *pldExplainer) answer(line []byte) (any, error) {
	var q pldQuestion
	if err := decodeLine(line, &q); err != nil {
		return nil, err
	}
	if q.Host == nil {
		return nil, errors.New(`no "host" is given`)
	}
	return e.ask(*q.Host)
}

func (e *pldExplainer) ask(host string) (pldAnswer, error) {
	canonical, err := e.canonicalHost(host)
	if err != nil {
		return pldAnswer{}, err
	}
	return pldAnswer{e.suffixes.PLD(canonical), e.suffixes.IsSuffix(canonical)}, nil
}

// canonicalHost returns a host as spelled in a canonical URL.
func (e *pldExplainer) canonicalHost(host string) (string, error) {
	bad := func(why string) (string, error) { return "", fmt.Errorf("host %.200q: %s", host, why) }
	name := host
	if a, err := netip.ParseAddr(name); err == nil && a.Is6() {
		name = "[" + name + "]"
	}
	if strings.ContainsAny(name, "/\\?#@ \t\r\n") || strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return bad("not a host name or address (for a URL use explain url)")
	}
	url, err := e.resolver.AppendResolve(nil, nil, []byte("http://"+name+"/"))
	if err != nil {
		return bad("not a host name or address: " + err.Error())
	}
	name = string(weburl.Split(url).Host)
	if strings.HasPrefix(name, ".") || strings.Contains(name, "..") {
		return bad("it has an empty label")
	}
	return name, nil
}
