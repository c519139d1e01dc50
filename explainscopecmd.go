package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/scope"
	"drumbeat/weburl"
)

// scoping is what the files of --rules and --blacklist say.
type scoping struct {
	rules, blacklist *scope.Set // nil without files
}

// read reads the files, to know their faults before anything begins.
func (f *scopeFlags) read(privateSuffixes, keepEscapes bool) (scoping, error) {
	if len(f.Rules)+len(f.Blacklist) == 0 {
		return scoping{}, nil
	}
	suffixes := weburl.NewSuffixes(privateSuffixes)
	rules, err1 := crawl.ReadRules(disk.OS(), scope.Rules, suffixes, f.Rules, keepEscapes)
	blacklist, err2 := crawl.ReadRules(disk.OS(), scope.Blacklist, suffixes, f.Blacklist, keepEscapes)
	if err := errors.Join(err1, err2); err != nil {
		return scoping{}, usageError{err}
	}
	return scoping{rules, blacklist}, nil
}

// print says what is in force.
func (s scoping) print(out io.Writer) error {
	for _, l := range []struct {
		name string
		set  *scope.Set
	}{{"rules", s.rules}, {"blacklist", s.blacklist}} {
		if l.set == nil {
			continue
		}
		if _, err := fmt.Fprintf(out, "# %s: %v\n", l.name, l.set.Stats()); err != nil {
			return err
		}
	}
	return nil
}

// explainScope answers which rules decide for a URL.
type explainScope struct {
	scoping
	resolver *weburl.Resolver
	suffixes *weburl.Suffixes
}

type scopeQuestion struct {
	URL  *string `json:"url"`
	Addr string  `json:"addr"` // of its host, for networks
}

// scopeAnswer has a rule where one decides. Ruling is include, exclude or undecided: left to --scope.
type scopeAnswer struct {
	URL           string     `json:"url"`
	SURT          string     `json:"surt"`
	Ruling        string     `json:"ruling"`
	Rule          *scopeRule `json:"rule,omitempty"`
	Blacklisted   bool       `json:"blacklisted"`
	BlacklistRule *scopeRule `json:"blacklist_rule,omitempty"`
}

type scopeRule struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Run answers lines, or some URLs.
func (c *explainScopeCmd) Run(a *app) error {
	flags := scopeFlags{c.Rules, c.Blacklist}
	if len(c.Rules)+len(c.Blacklist) == 0 {
		return usageError{errors.New("explain scope: --rules FILE or --blacklist FILE is missing")}
	}
	sets, err := flags.read(c.PrivateSuffixes, false)
	if err != nil {
		return err
	}
	e := &explainScope{sets, weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: true}), weburl.NewSuffixes(c.PrivateSuffixes)}
	if len(c.URLs) == 0 {
		return explainLines(a.stdin, a.stdout, e.answer)
	}
	for _, url := range c.URLs {
		answer, err := e.ask(url, c.Addr)
		if err != nil {
			return usageError{fmt.Errorf("explain scope: %w", err)}
		}
		answer.person(a.stdout, url)
	}
	return nil
}

func (e *explainScope) answer(line []byte) (any, error) {
	var q scopeQuestion
	if err := decodeLine(line, &q); err != nil {
		return nil, err
	}
	if q.URL == nil {
		return nil, errors.New(`no "url" is given`)
	}
	return e.ask(*q.URL, q.Addr)
}

// ask goes the crawl's own way.
func (e *explainScope) ask(ref, addr string) (a scopeAnswer, err error) {
	url, err := e.resolver.AppendResolve(nil, nil, []byte(ref))
	if err != nil {
		return a, fmt.Errorf("URL %.200q: %w", ref, err)
	}
	ruleOf := func(s *scope.Set, n scope.Number) *scopeRule {
		if n == scope.None {
			return nil
		}
		r := s.Rule(n)
		return &scopeRule{r.File, r.Line, r.Text}
	}
	n := e.rules.Lookup(url)
	a = scopeAnswer{URL: string(url), SURT: string(scope.AppendSURT(nil, url)), Ruling: e.rules.Ruling(n).String(), Rule: ruleOf(e.rules, n)}
	host := weburl.Split(url).Host
	b := e.blacklist.Host(host, e.suffixes.PLDBytes(host))
	if addr != "" {
		ip, err := netip.ParseAddr(addr)
		if err != nil {
			return a, fmt.Errorf("%.100q is no address", addr)
		}
		if at := e.blacklist.Addr(ip); e.blacklist.Ruling(b) != scope.Exclude && at != scope.None {
			b = at
		}
	}
	a.Blacklisted, a.BlacklistRule = e.blacklist.Ruling(b) == scope.Exclude, ruleOf(e.blacklist, b)
	return a, nil
}

func (a *scopeAnswer) person(out io.Writer, ref string) {
	verdict := map[string]string{"include": "taken", "exclude": "left out", "undecided": "undecided: left to --scope"}[a.Ruling]
	if a.Blacklisted {
		verdict = "blacklisted: nothing is asked of it"
	}
	fmt.Fprintf(out, "%s\n  %s\n", ref, verdict)
	for _, r := range []struct {
		name string
		rule *scopeRule
	}{{"rule", a.Rule}, {"blacklist", a.BlacklistRule}} {
		if r.rule != nil {
			fmt.Fprintf(out, "  %-10s %s:%d: %s\n", r.name, r.rule.File, r.rule.Line, r.rule.Text)
		}
	}
	fmt.Fprintf(out, "  %-10s %s\n  %-10s %s\n", "url", a.URL, "surt", a.SURT)
}
