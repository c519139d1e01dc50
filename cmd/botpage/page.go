package botpage

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"drumbeat/botauth"
	"drumbeat/cmd/flags"
	"drumbeat/internal/human"
)

// botPage is the content of the page; HTML and text are two forms of it.
type botPage struct {
	Agent, UserAgent, From   string
	Contact, ContactLink     string
	Purpose, Date            string
	Addresses                []netip.Prefix
	Examples                 []robotsExample
	Obeyed, Limits, Refusals []string
	Robots                   string
	Removals, RemovalsLink   string
	// Base is the URL of the directory of the files, or "". Ranges and Card are their names, or "" if they are not
	// published.
	Base, Ranges, Card string
	// Signs says which requests are signed, "" for none. KeyIDs are the thumbprints of the keys of the directory at
	// KeysURL.
	Signs, KeysURL string
	KeyIDs         []string
}

// robotsExample is a robots.txt for this crawler.
type robotsExample struct{ What, Lines string }

// page returns the page, with the keys of --sign. The flags must have been checked and completed.
func (c *Command) page(now time.Time, keys botauth.Keys) *botPage {
	p := &botPage{Agent: c.Agent, UserAgent: c.UserAgent, From: c.FromHeader(), Contact: c.person,
		ContactLink: flags.ContactLink(c.person), Purpose: c.Purpose,
		Date: now.UTC().Format("2006-01-02"), Addresses: c.prefixes(),
		Removals: c.Removals, RemovalsLink: flags.ContactLink(c.Removals), Base: c.URL}
	if (c.URL != "" || c.Serve != "") && len(p.Addresses) > 0 {
		p.Ranges = rangesName
	}
	if c.URL != "" {
		p.Card = cardName
	}
	for _, key := range keys.Listed(now) {
		p.KeyIDs = append(p.KeyIDs, key.ID())
	}
	if keys != nil {
		p.KeysURL = c.keysURL()
		p.Signs = "We sign our requests (Web Bot Auth, RFC 9421), so you can tell them from others that use the name."
		switch c.Sign.Sign.When {
		case "challenge":
			p.Signs = "We sign requests to sites that ask for it by Accept-Signature (Web Bot Auth, RFC 9421)."
		case "never":
			p.Signs = "We do not sign requests at present (Web Bot Auth, RFC 9421)."
		}
	}
	agent := "User-agent: " + c.Agent + "\n"
	// Crawl-delay is not a rule of RFC 9309: without a Disallow line after it, the next group would merge
	// with this one.
	p.Examples = []robotsExample{
		{"Keep us off the whole site:", agent + "Disallow: /\n"},
		{"Keep us out of parts of the site (* matches any text, $ the end of the URL):",
			agent + "Disallow: /private/\nDisallow: /*?sort=\nDisallow: /*.pdf$\n"},
		{"Slow us down to one request in 30 seconds:", agent + "Crawl-delay: 30\nDisallow:\n"},
		{"Rules for several crawlers, with an exception:",
			"User-agent: another-bot\n" + agent + "Disallow: /archive/\nAllow: /archive/index.html\n"},
	}
	p.Robots = fmt.Sprintf("We obey the group that names %s (case is ignored), or the group for * if there is none. "+
		"We read robots.txt before the first page of a host and again at least once a day, so a change takes effect "+
		"within 24 hours.", c.Agent)
	p.Obeyed = []string{
		"robots.txt by RFC 9309, for each host, scheme and port. The longest matching rule applies, and Allow if " +
			"two are equally long. While robots.txt returns 5xx or 429, or does not respond, we fetch nothing " +
			"from that host, " +
			"unless we have a copy.",
		fmt.Sprintf("Crawl-delay in robots.txt, up to %s.", human.Duration(c.MaxCrawlDelay)),
		c.nofollow(),
		fmt.Sprintf("429 and 503: we send no request to the host for the time in Retry-After (up to %s), or else "+
			"as below.",
			human.Duration(c.Backoff.Asked)),
		"One connection to a host at a time; no cookies, no form input, no logins; no bodies beyond a size limit.",
	}
	p.Limits, p.Refusals = c.limits(), c.refusals()
	return p
}

// nofollow describes the handling of nofollow.
func (c *Command) nofollow() string {
	const what = "nofollow and none in robots meta elements and the X-Robots-Tag header, for all crawlers or for our " +
		"token, and rel=nofollow on links"
	if c.RobotsMeta.RobotsMeta.Nofollow == "ignore" {
		return "Not in this crawl: " + what + ". We record them with the page, like noindex; use robots.txt instead."
	}
	return what + ": we do not follow such links. We record noindex with the page."
}

// limits describes the delays in force.
func (c *Command) limits() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if d := *c.HostDelay.Usual; d > 0 {
		add("At least %s pass between requests to a host; less for sites that many others link to, but never below %s.",
			human.Duration(d), human.Duration(*c.HostDelay.Least))
	}
	if f := *c.HostDelayFactor; f > 0 {
		add("We wait at least %v times the last response time before the next request to a host.", f)
	}
	if c.AdaptiveDelay {
		add("While a host answers quickly and without errors, we shorten its delay step by step, never below %s. "+
			"At the first slow "+
			"answer, error or request to wait, we return to the full delay.", human.Duration(*c.HostDelay.Least))
	}
	if d := *c.PLDDelay.Usual; d > 0 {
		add("At least %s pass between requests to hosts of one registered domain; less for domains that "+
			"many others link "+
			"to, but never below %s.", human.Duration(d), human.Duration(*c.PLDDelay.Least))
	}
	if d := *c.ServerDelay.Usual; d > 0 {
		add("At least %s pass between requests to an IP address; less for addresses of such sites, but never below %s.",
			human.Duration(d), human.Duration(*c.ServerDelay.Least))
	}
	if n := *c.NetworkRate; n > 0 {
		add("We send at most %v requests per second to a network (an IPv4 /24 or IPv6 /48).", n)
	}
	if n := *c.NetworkConnections; n > 0 {
		add("We use at most %v concurrent connections to a network.", n)
	}
	return list
}

// refusals describes the back-off from sites that fail or refuse.
func (c *Command) refusals() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	add("After a 429, 503 or other 5xx, a timeout or a broken connection, we send no request to the "+
		"host for %s, twice "+
		"as long after each further one, up to %s.", human.Duration(c.Backoff.First), human.Duration(c.Backoff.Most))
	if c.GiveUp.Failures > 0 {
		add("After %s we back off for hours, with one request between.",
			human.Counted(c.GiveUp.Failures, "consecutive failure", "consecutive failures"))
	}
	if c.GiveUp.Refusals > 0 {
		add("After %s of 401, 402 or 403 without a page between (a challenge page counts as 3) we "+
			"back off for a day, "+
			"then for a week, then forever. We do not change our name or address to get around a refusal.",
			human.Counted(c.GiveUp.Refusals, "response", "responses"))
	}
	return list
}

// html returns the page as one HTML file without external resources.
func (p *botPage) html() ([]byte, error) {
	t, err := template.New("page").Parse(botPageHTML)
	if err != nil {
		return nil, fmt.Errorf("BUG: the template of the bot page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("bot-page: write the page: %w", err)
	}
	return b.Bytes(), nil
}

// LinkURL marks the contact's link as safe in href: flags.ContactLink allows only mailto, http and https.
func (p *botPage) LinkURL() template.URL { return template.URL(p.ContactLink) }

// RemovalsURL does the same for the contact for removals.
func (p *botPage) RemovalsURL() template.URL { return template.URL(p.RemovalsLink) }

// botPageHTML is the template of the page.
//
//go:embed page.html
var botPageHTML string

// text returns the page as plain text.
func (p *botPage) text() []byte {
	var b bytes.Buffer
	head := func(s string) { fmt.Fprintf(&b, "\n%s\n%s\n\n", s, strings.Repeat("-", utf8.RuneCountInString(s))) }
	list := func(items []string) {
		for _, s := range items {
			fmt.Fprintf(&b, "- %s\n", oneLineText(s))
		}
	}
	title := p.Agent + ": about this crawler"
	fmt.Fprintf(&b, "%s\n%s\n\n", title, strings.Repeat("=", len(title)))
	fmt.Fprintf(&b, "Operator:             %s\nPurpose:              %s\nUser-Agent:           %s\n", p.Contact,
		oneLineText(p.Purpose), p.UserAgent)
	if p.From != "" {
		fmt.Fprintf(&b, "From:                 %s\n", p.From)
	}
	fmt.Fprintf(&b, "Token for robots.txt: %s\n", p.Agent)
	head("How to stop it or slow it down")
	b.WriteString("Put this into /robots.txt of each host.\n")
	for _, e := range p.Examples {
		fmt.Fprintf(&b, "\n%s\n\n", e.What)
		for line := range strings.Lines(e.Lines) {
			b.WriteString("    " + line)
		}
	}
	fmt.Fprintf(&b, "\n%s\n\nIf it is urgent, or robots.txt does not help, write to %s.\n", p.Robots, p.Contact)
	head("How to have pages removed")
	fmt.Fprintf(&b, "To have pages removed that we have stored, write to %s and name their URLs or hosts.\n",
		p.Removals)
	head("What it obeys")
	list(p.Obeyed)
	if len(p.Limits) > 0 {
		head("How often it visits")
		list(p.Limits)
	}
	head("Sites that fail or refuse")
	list(p.Refusals)
	head("Addresses")
	if len(p.Addresses) == 0 {
		b.WriteString("The addresses are not listed. Ask us whether a request is ours.\n")
	} else {
		b.WriteString("Our requests come only from these addresses; others that use the name are not ours.\n\n")
	}
	for _, a := range p.Addresses {
		fmt.Fprintf(&b, "- %s\n", a)
	}
	if p.Base != "" && p.Ranges != "" {
		fmt.Fprintf(&b, "\nFor programs: %s%s\n", p.Base, p.Ranges)
	}
	if p.Signs != "" {
		head("Signatures")
		fmt.Fprintf(&b, "%s The public keys are at %s .\n\n", p.Signs, p.KeysURL)
		list(p.KeyIDs)
	}
	if p.Card != "" {
		fmt.Fprintf(&b, "\nThe agent card describes this crawler for programs: %s%s\n", p.Base, p.Card)
	}
	fmt.Fprintf(&b, "\nAs of %s.\n", p.Date)
	return b.Bytes()
}

// oneLineText joins the lines of s, since each item and field of the text is one line.
func oneLineText(s string) string { return strings.Join(strings.Fields(s), " ") }
