package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"drumbeat/botauth"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/dnscache"
	"drumbeat/internal/human"
)

// identityFlags are those of --identity.
type identityFlags struct {
	Identity  string            `group:"politeness" common:"" placeholder:"URL"`
	Addresses []flags.NetPrefix `group:"politeness" placeholder:"CIDR"`
	flags.Sign
	flags.Who
}

// identity is what the checks of --identity see and find. They run one after the other in one goroutine.
type identity struct {
	page      *url.URL
	who       flags.Who
	addresses []netip.Addr // nil: those of this machine
	left      int          // addresses that are not looked up, because there are too many
	keys      botauth.Keys // nil without --sign
	dns       *resolver
	client    *http.Client
	now       func() time.Time
	say       func(what string)

	// What the checks find.
	html   *webPage // nil: unreachable
	card   *agentCard
	ranges []netip.Prefix // nil: none published
	facts  facts
}

// fact is a finding that networks' rules ask for.
type fact int

const (
	unjudged fact = iota // could not be found out
	holds
	fails
)

// facts are those that rules of networks rest on.
type facts struct {
	documented fact // the page says who crawls, and how to reach them
	inRanges   fact // all addresses are in published ranges
	reverse    fact // the reverse DNS of all addresses is confirmed
	signed     fact // the key directory is proven, and has the key of --sign
}

func factOf(good bool) fact {
	if good {
		return holds
	}
	return fails
}

// identityReport is the output of --identity.
type identityReport struct {
	Identity string    `json:"identity"`
	Checks   []finding `json:"checks"`
	Networks []rule    `json:"networks"`
	Problems int       `json:"problems"`
	Warnings int       `json:"warnings"`
	Unknown  int       `json:"unknown"`
}

// runIdentity makes the checks of --identity, and no others.
func (c *Command) runIdentity(ctx context.Context, a *term.App, say func(string)) (report, error) {
	i, err := c.newIdentity(a)
	if err != nil {
		return nil, err
	}
	i.say = say
	defer i.close()
	return i.report(ctx), nil
}

// newIdentity checks the flags and returns what the checks need.
func (c *Command) newIdentity(a *term.App) (*identity, error) {
	u, err := url.Parse(c.Identity)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "":
		return nil, term.Usage(fmt.Errorf("--identity %q is not the URL of a page such as https://bot.example.org/",
			c.Identity))
	case c.NoNetwork:
		return nil, term.Usage(errors.New("--identity sends requests: remove --no-network"))
	}
	if u.Path == "" {
		u.Path = "/"
	}
	if err := errors.Join(c.Who.Check(), c.Sign.Check()); err != nil {
		return nil, term.Usage(err)
	}
	c.Who.Complete()
	i := &identity{page: u, who: c.Who, now: time.Now}
	if i.keys, err = c.Sign.Keys(); err != nil {
		return nil, term.Usage(err)
	}
	i.addresses, i.left = spread(flags.Prefixes(c.Addresses))
	var servers []netip.AddrPort
	for _, s := range c.Resolver {
		servers = append(servers, s.AddrPort)
	}
	if len(servers) == 0 {
		if servers, err = dnscache.ReadResolvConf("/etc/resolv.conf"); err != nil {
			return nil, term.Usage(fmt.Errorf("--resolver ADDRESS is needed: %w", err))
		}
	}
	if i.dns, err = newResolver(servers, a.NamePanicked()); err != nil {
		return nil, err
	}
	i.client = newClient(i.dns)
	return i, nil
}

func (i *identity) close() {
	i.client.CloseIdleConnections()
	i.dns.close()
}

// report makes all checks. Those that are not made before ctx ends are unknown.
func (i *identity) report(ctx context.Context) *identityReport {
	r := &identityReport{Identity: i.page.String()}
	for _, c := range []struct {
		name string
		run  func(context.Context) []finding
	}{{"bot page", i.checkPage}, {"agent card", i.checkCard}, {"addresses for programs", i.checkRanges},
		{"key directory", i.checkDirectory}, {"addresses", i.checkAddresses}} {
		if ctx.Err() != nil {
			r.Checks = append(r.Checks, finding{Check: c.name, Now: "not checked: --deadline has passed",
				Status: unknown})
			continue
		}
		i.say("drumbeat doctor: checking the " + c.name)
		r.Checks = append(r.Checks, c.run(ctx)...)
	}
	r.Networks = i.rules()
	s := newReport(nil, r.Checks)
	r.Problems, r.Warnings, r.Unknown = s.Problems, s.Warnings, s.Unknown
	return r
}

func (r *identityReport) failed() bool { return r.Problems > 0 }

// write prints the checks as doctor does, and then the rules.
func (r *identityReport) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "Identity at %s\n\n", r.Identity); err != nil {
		return err
	}
	s := &summary{Checks: r.Checks, Problems: r.Problems, Warnings: r.Warnings, Unknown: r.Unknown}
	if err := s.writeChecks(w); err != nil {
		return err
	}
	if err := writeRules(w, r.Networks); err != nil {
		return err
	}
	return s.writeEnd(w)
}

// maxAddresses bounds the addresses whose reverse DNS is looked up: two or three queries each.
const maxAddresses = 64

// spread returns the first addresses of ranges, and how many it leaves out; at most 1<<30.
func spread(prefixes []netip.Prefix) (list []netip.Addr, left int) {
	for _, p := range prefixes {
		n := 1 << min(p.Addr().BitLen()-p.Bits(), 30)
		for a := p.Addr(); n > 0 && len(list) < maxAddresses; a = a.Next() {
			list = append(list, a)
			n--
		}
		left = min(left+n, 1<<30)
	}
	return list, left
}

// some names at most three of a list, for one line.
func some[T fmt.Stringer](list []T) (text string) {
	for i, v := range list[:min(3, len(list))] {
		if i > 0 {
			text += ", "
		}
		text += v.String()
	}
	if n := len(list) - 3; n > 0 {
		text += " and " + human.Counted(n, "other", "others")
	}
	return text
}

// publish is the remedy for most faults.
const publish = "run drumbeat bot-page --url URL --out-dir DIR, and let the web server publish DIR"

func contains(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}
