package explain

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/scope"
	"drumbeat/internal/sites"
	"drumbeat/weburl"
)

// scopeCmd is the table of explain scope's flags.
type scopeCmd struct {
	URLs            []string `arg:"" name:"url" optional:""`
	Rules           []string `placeholder:"FILE"`
	Blacklist       []string `placeholder:"FILE"`
	Sites           string   `placeholder:"FILE"`
	Addr            string   `placeholder:"IP"`
	PrivateSuffixes bool
}

// scopeExplainer finds the rules that decide about a URL.
type scopeExplainer struct {
	flags.Scoping
	resolver *weburl.Resolver
	suffixes *weburl.Suffixes
}

type scopeQuestion struct {
	URL  *string `json:"url"`
	Addr string  `json:"addr"` // of its host, for networks
}

// scopeAnswer has the rules that match. Ruling is include, exclude, or undecided if --scope decides.
type scopeAnswer struct {
	URL           string     `json:"url"`
	SURT          string     `json:"surt"`
	Ruling        string     `json:"ruling"`
	Rule          *scopeRule `json:"rule,omitempty"`
	Blacklisted   bool       `json:"blacklisted"`
	BlacklistRule *scopeRule `json:"blacklist_rule,omitempty"`
	// Settings are the rules of --sites, the most specific first.
	Settings []sites.Rule `json:"settings,omitempty"`
}

type scopeRule struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Run answers JSON lines, or URLs.
func (c *scopeCmd) Run(a *term.App) error {
	files := flags.RuleFiles{Rules: c.Rules, Blacklist: c.Blacklist, Sites: c.Sites}
	if len(c.Rules)+len(c.Blacklist) == 0 && c.Sites == "" {
		return term.Usage(errors.New("explain scope: give --rules FILE, --blacklist FILE or --sites FILE"))
	}
	sets, err1 := files.Read(c.PrivateSuffixes, false)
	settings, err2 := files.ReadSites(sites.Options{Suffixes: weburl.NewSuffixes(c.PrivateSuffixes)})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	sets.Sites = settings
	e := &scopeExplainer{sets, weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: true}),
		weburl.NewSuffixes(c.PrivateSuffixes)}
	if len(c.URLs) == 0 {
		return answerLines(a.Stdin, a.Stdout, e.answer)
	}
	for _, url := range c.URLs {
		answer, err := e.ask(url, c.Addr)
		if err != nil {
			return term.Usage(fmt.Errorf("explain scope: %w", err))
		}
		answer.person(a.Stdout, url)
	}
	return nil
}

func (e *scopeExplainer) answer(line []byte) (any, error) {
	var q scopeQuestion
	if err := decodeLine(line, &q); err != nil {
		return nil, err
	}
	if q.URL == nil {
		return nil, errors.New(`no "url" is given`)
	}
	return e.ask(*q.URL, q.Addr)
}

// ask applies the rules as a crawl does.
func (e *scopeExplainer) ask(ref, addr string) (a scopeAnswer, err error) {
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
	n := e.Rules.Lookup(url)
	a = scopeAnswer{URL: string(url), SURT: string(scope.AppendSURT(nil, url)), Ruling: e.Rules.Ruling(n).String(),
		Rule: ruleOf(e.Rules, n)}
	if site := e.Sites.LookupURL(url); site != nil {
		a.Settings = site.Rules()
	}
	host := weburl.Split(url).Host
	b := e.Blacklist.Host(host, e.suffixes.PLDBytes(host))
	if addr != "" {
		ip, err := netip.ParseAddr(addr)
		if err != nil {
			return a, fmt.Errorf("%.100q is not an IP address", addr)
		}
		if at := e.Blacklist.Addr(ip); e.Blacklist.Ruling(b) != scope.Exclude && at != scope.None {
			b = at
		}
	}
	a.Blacklisted, a.BlacklistRule = e.Blacklist.Ruling(b) == scope.Exclude, ruleOf(e.Blacklist, b)
	return a, nil
}

func (a *scopeAnswer) person(out io.Writer, ref string) {
	verdict := map[string]string{"include": "included", "exclude": "excluded",
		"undecided": "undecided: --scope decides"}[a.Ruling]
	if a.Blacklisted {
		verdict = "blacklisted: never contacted"
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
	name := "settings"
	for _, r := range a.Settings {
		fmt.Fprintf(out, "  %-10s %s\n", name, r)
		name = ""
	}
	fmt.Fprintf(out, "  %-10s %s\n  %-10s %s\n", "url", a.URL, "surt", a.SURT)
}
