package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"drumbeat/robots"
	"drumbeat/weburl"
)

// maxExplainLine bounds a line that explain reads, in bytes: a page of 16 MiB in base64 and then some. A longer line is
// answered with an error and skipped without being kept.
const maxExplainLine = 32 << 20

// explainFailure is the answer to a line that has none.
type explainFailure struct {
	Error string `json:"error"`
}

// explainLines answers each line of in with one line of JSON, in order, until in ends. A line that answer rejects
// becomes {"error": …}; only reading and writing can fail. Answers are written out whenever no input is waiting, so
// that a program may ask one question at a time through a pipe.
func explainLines(in io.Reader, out io.Writer, answer func(line []byte) (any, error)) error {
	src := bufio.NewReaderSize(in, 64<<10)
	dst := bufio.NewWriterSize(out, 64<<10)
	enc := json.NewEncoder(dst)
	enc.SetEscapeHTML(false)
	var line []byte
	for {
		var tooLong bool
		var err error
		line, tooLong, err = readLine(src, line[:0], maxExplainLine)
		if err == io.EOF {
			return dst.Flush()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("explain: read standard input: %w", err), dst.Flush())
		}
		var a any
		if tooLong {
			err = fmt.Errorf("the line has more than %d bytes", maxExplainLine)
		} else {
			a, err = answer(line)
		}
		if err != nil {
			a = explainFailure{oneLine(err)}
		}
		if err := enc.Encode(a); err != nil {
			return fmt.Errorf("explain: write: %w", err)
		}
		if src.Buffered() == 0 {
			if err := dst.Flush(); err != nil {
				return fmt.Errorf("explain: write: %w", err)
			}
		}
		if cap(line) > 1<<20 {
			line = nil // one big page must not stay for ever
		}
	}
}

// readLine appends the next line without its end to line. io.EOF is returned only when nothing was left. Of a line
// longer than limit it keeps nothing.
func readLine(src *bufio.Reader, line []byte, limit int) (_ []byte, tooLong bool, err error) {
	some := false
	for {
		part, err := src.ReadSlice('\n')
		some = some || len(part) > 0
		if !tooLong && len(line)+len(part) > limit+1 {
			line, tooLong = line[:0], true
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && some, err == nil:
			return bytes.TrimRight(line, "\r\n"), tooLong, nil
		default:
			return line, tooLong, err
		}
	}
}

// oneLine is an error's text on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// decodeLine reads one JSON object, and nothing after it, into q.
func decodeLine(line []byte, q any) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return errors.New("the line is empty, not a JSON object")
	}
	if !utf8.Valid(line) {
		return errors.New("the line is not UTF-8; bytes of another kind go into the field that ends in _base64")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if err := dec.Decode(q); err != nil {
		return fmt.Errorf("not the JSON object that is asked for: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value on the line")
	}
	return nil
}

// textOrBase64 is the value of a pair of fields of which exactly one is there.
func textOrBase64(name string, text, encoded *string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, fmt.Errorf("both %q and %q are given", name, name+"_base64")
	case text != nil:
		return []byte(*text), nil
	case encoded != nil:
		b, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name+"_base64", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("neither %q nor %q is given", name, name+"_base64")
}

// explainRobots answers what a robots.txt says of a URL.
type explainRobots struct{ resolver *weburl.Resolver }

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

func newExplainRobots() *explainRobots {
	return &explainRobots{weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited})}
}

func (e *explainRobots) answer(line []byte) (any, error) {
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

// ask goes the crawl's own way: the rules are parsed, coded as RobotsCache keeps them, and matched in that form.
func (e *explainRobots) ask(body []byte, agent, url string) (robotsAnswer, *robots.Rules, []byte, error) {
	if agent == "" {
		agent = defaultAgent
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

// path returns what a request line would ask for; a URL may be given by this alone, and an empty one is the root.
func (e *explainRobots) path(url string) ([]byte, error) {
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
func (e *explainRobots) person(out io.Writer, body []byte, agent string, urls []string) error {
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
				agrees = "DISAGREES; please report this file"
			}
			fmt.Fprintf(out, "  second opinion (temoto/robotstxt): %s\n", agrees)
		}
	}
	return nil
}

func printRules(out io.Writer, agent string, rules *robots.Rules) {
	if agent == "" {
		agent = defaultAgent
	}
	group := "no group applies to " + agent
	if rules.Own {
		group = "a group names " + agent
	} else if len(rules.List()) > 0 || rules.CrawlDelay > 0 {
		group = "the group for * applies to " + agent
	}
	fmt.Fprintf(out, "%s, %d rules, crawl delay %v\n", group, len(rules.List()), rules.CrawlDelay)
	for _, s := range rules.Sitemaps {
		fmt.Fprintf(out, "sitemap %s\n", s)
	}
	if c := rules.Cut; c != (robots.Cut{}) {
		fmt.Fprintf(out, "cut: %d bytes of input, %d long patterns, %d rules; %d rules that match no path\n", c.Input, c.Long, c.Rules, c.Odd)
	}
}

// explainURL answers what becomes of a reference.
type explainURL struct {
	unlimited, resolver *weburl.Resolver
	suffixes            *weburl.Suffixes
}

type urlQuestion struct {
	Base string  `json:"base"`
	Ref  *string `json:"ref"`
}

// urlAnswer has either an error, with the href where the standard gives one, or everything else. Its url is what a crawl takes the
// reference for, with --escapes fold.
type urlAnswer struct {
	Href  string `json:"href,omitempty"`
	URL   string `json:"url,omitempty"`
	Host  string `json:"host,omitempty"`
	PLD   string `json:"pld,omitempty"`
	Error string `json:"error,omitempty"`
}

func newExplainURL(suffixes *weburl.Suffixes) *explainURL {
	return &explainURL{weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: true}), weburl.NewResolver(weburl.Options{Fold: true}),
		suffixes}
}

func (e *explainURL) answer(line []byte) (any, error) {
	var q urlQuestion
	if err := decodeLine(line, &q); err != nil {
		return nil, err
	}
	if q.Ref == nil {
		return nil, errors.New(`no "ref" is given`)
	}
	return e.ask(q.Base, *q.Ref), nil
}

func (e *explainURL) ask(base, ref string) urlAnswer {
	href, err := weburl.WHATWG(base, ref)
	if errors.Is(err, weburl.ErrParse) {
		err = fmt.Errorf("%.200q relative to %.200q: %w", ref, base, weburl.ErrParse) // the library's own words mislead
	}
	if err != nil {
		return urlAnswer{Error: oneLine(err)}
	}
	url, err := e.queued(base, ref, href)
	if err != nil {
		return urlAnswer{Href: href, Error: oneLine(err)}
	}
	host := string(weburl.Split(url).Host)
	return urlAnswer{Href: href, URL: string(url), Host: host, PLD: e.suffixes.PLD(host)}
}

// queued is what the crawler would queue, by the code that it uses for a page's links. A base of another scheme, which
// no page of a crawl has, leaves the result to the standard.
func (e *explainURL) queued(base, ref, href string) ([]byte, error) {
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

// explainPLD answers which pay-level domain a host belongs to.
type explainPLD struct {
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

func newExplainPLD(suffixes *weburl.Suffixes) *explainPLD {
	return &explainPLD{weburl.NewResolver(weburl.Options{}), suffixes}
}

func (e *explainPLD) answer(line []byte) (any, error) {
	var q pldQuestion
	if err := decodeLine(line, &q); err != nil {
		return nil, err
	}
	if q.Host == nil {
		return nil, errors.New(`no "host" is given`)
	}
	return e.ask(*q.Host)
}

func (e *explainPLD) ask(host string) (pldAnswer, error) {
	canonical, err := e.canonicalHost(host)
	if err != nil {
		return pldAnswer{}, err
	}
	return pldAnswer{e.suffixes.PLD(canonical), e.suffixes.IsSuffix(canonical)}, nil
}

// canonicalHost spells a host as it stands in a canonical URL.
func (e *explainPLD) canonicalHost(host string) (string, error) {
	bad := func(why string) (string, error) { return "", fmt.Errorf("host %.200q: %s", host, why) }
	name := host
	if a, err := netip.ParseAddr(name); err == nil && a.Is6() {
		name = "[" + name + "]"
	}
	if strings.ContainsAny(name, "/\\?#@ \t\r\n") || strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return bad("not a host name or address (a URL goes to explain url)")
	}
	url, err := e.resolver.AppendResolve(nil, nil, []byte("http://"+name+"/"))
	if err != nil {
		return bad("not a host name or address: " + err.Error())
	}
	name = string(weburl.Split(url).Host)
	if strings.HasPrefix(name, ".") || strings.Contains(name, "..") {
		return bad("an empty label")
	}
	return name, nil
}
