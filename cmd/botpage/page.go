package botpage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"drumbeat/cmd/flags"
)

// botPage is what the page says; HTML and text are two forms of it.
type botPage struct {
	Agent, UserAgent, From   string
	Contact, ContactLink     string
	Purpose, Date            string
	Addresses                []netip.Prefix
	Examples                 []robotsExample
	Obeyed, Limits, Refusals []string
	Robots                   string
	made                     time.Time
}

// robotsExample is a robots.txt for exactly this crawler.
type robotsExample struct{ What, Lines string }

// page is the page of a command whose flags have been checked and completed.
func (c *Command) page(now time.Time) *botPage {
	p := &botPage{Agent: c.Agent, UserAgent: c.UserAgent, From: c.FromHeader(), Contact: c.Contact, ContactLink: flags.ContactLink(c.Contact),
		Purpose: c.Purpose, Date: now.UTC().Format("2006-01-02"), made: now}
	for _, a := range c.Addresses {
		p.Addresses = append(p.Addresses, a.Prefix)
	}
	agent := "User-agent: " + c.Agent + "\n"
	// Crawl-delay is no rule of RFC 9309: without a Disallow line behind it the next group would go on with
	// this one.
	p.Examples = []robotsExample{
		{"Keep us out altogether:", agent + "Disallow: /\n"},
		{"Keep us out of parts of the site (* is any text, $ the end of the URL):", agent + "Disallow: /private/\nDisallow: /*?sort=\nDisallow: /*.pdf$\n"},
		{"Slow us down to a request in 30 seconds:", agent + "Crawl-delay: 30\nDisallow:\n"},
		{"Rules for several crawlers, with an exception:", "User-agent: another-bot\n" + agent + "Disallow: /archive/\nAllow: /archive/index.html\n"},
	}
	p.Robots = fmt.Sprintf("The group that names %s counts for us, in any spelling of upper and lower case; the group for * only where there is none. "+
		"We read robots.txt before the first page of a host and again at least once a day, so a change counts within 24 hours.", c.Agent)
	p.Obeyed = []string{
		"robots.txt as RFC 9309 has it: for each host, scheme and port; the longest rule that matches counts, and Allow if two are as long. " +
			"While it answers 5xx or 429, or does not answer, we fetch nothing from that host, unless we have a copy.",
		fmt.Sprintf("Crawl-delay in robots.txt, up to %s.", spanText(c.MaxCrawlDelay)),
		c.nofollow(),
		"429 and 503: the host rests, as long as Retry-After says (up to 24 hours at a time), or else as below.",
		"One connection to a host at a time; no cookies, no forms, no logins; a body longer than the limit is left unread.",
	}
	p.Limits, p.Refusals = c.limits(), c.refusals()
	return p
}

// nofollow says what is done about it.
func (c *Command) nofollow() string {
	const what = "nofollow and none in robots meta elements and in the X-Robots-Tag header, for all crawlers or for our token, and rel=nofollow on links"
	if c.Nofollow == "ignore" {
		return "Not in this crawl: " + what + ". They are recorded with the page, as is noindex; use robots.txt instead."
	}
	return what + ": we don't take such links from the page. noindex is recorded with the page."
}

// spanText is a duration without zeros at its end.
func spanText(d time.Duration) string {
	text := d.String()
	if t, ok := strings.CutSuffix(text, "m0s"); ok {
		text = t + "m"
	}
	if t, ok := strings.CutSuffix(text, "h0m"); ok {
		text = t + "h"
	}
	return text
}

// limits are the delays in force.
func (c *Command) limits() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if d := *c.HostDelay; d > 0 {
		add("At least %s pass between two visits to a host; for sites that many others link to it is less, but never below %s.", spanText(d),
			spanText(*c.HostDelayMin))
	}
	if f := *c.HostDelayFactor; f > 0 {
		add("A host rests at least %v times as long as its last answer took.", f)
	}
	if d := *c.PLDDelay; d > 0 {
		add("At least %s pass between two requests to hosts of one registered domain; for those with many links to them never below %s.", spanText(d),
			spanText(*c.PLDDelayMin))
	}
	if d := c.ServerDelay; d > 0 {
		add("At least %s pass between two visits to an IP address; for those of such sites never below %s.", spanText(d), spanText(*c.ServerDelayMin))
	}
	if n := *c.NetworkRate; n > 0 {
		add("At most %v requests a second go to a network (an IPv4 /24, an IPv6 /48).", n)
	}
	if n := *c.NetworkConnections; n > 0 {
		add("At most %v exchanges with a network are under way at once.", n)
	}
	return list
}

// refusals say what is done about sites that fail, or that don't want the crawler.
func (c *Command) refusals() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	add("After a 429, 503 or other 5xx, a timeout or a connection that breaks, a host rests for %s, twice as long each further time, up to %s.",
		spanText(c.Backoff), spanText(c.BackoffMax))
	if c.HostFailures > 0 {
		add("After %d failures in a row it rests for hours, with one request between.", c.HostFailures)
	}
	if c.HostRefusals > 0 {
		add("After %d answers of 401 or 403 without a page between (a challenge page counts as 3) it rests for a day, then for a week, then we "+
			"leave it alone for good. We don't change our name or address to get around a refusal.", c.HostRefusals)
	}
	return list
}

// ranges is the file of addresses in the form that search engines publish: creationTime and prefixes.
func (p *botPage) ranges() ([]byte, error) {
	type prefix struct {
		V4 string `json:"ipv4Prefix,omitempty"`
		V6 string `json:"ipv6Prefix,omitempty"`
	}
	file := struct {
		Created  string   `json:"creationTime"`
		Prefixes []prefix `json:"prefixes"`
	}{Created: p.made.UTC().Format("2006-01-02T15:04:05.000000")}
	for _, a := range p.Addresses {
		if a.Addr().Is4() {
			file.Prefixes = append(file.Prefixes, prefix{V4: a.String()})
		} else {
			file.Prefixes = append(file.Prefixes, prefix{V6: a.String()})
		}
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("bot-page: addresses as JSON: %w", err)
	}
	return append(data, '\n'), nil
}

// html is the page as one file without anything from elsewhere.
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

// LinkURL marks the contact's link as one that may stand in href: ContactLink made it.
func (p *botPage) LinkURL() template.URL { return template.URL(p.ContactLink) }

const botPageHTML = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Agent}}: about this crawler</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f23; --paper: #fdfdfb; --soft: #eef0ee; --line: #c9cdc9; --link: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6e3; --paper: #16191b; --soft: #23282b; --line: #454c50; --link: #8cc2ff; } }
body { font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
a { color: var(--link); }
code, pre { font: .92rem/1.45 ui-monospace, monospace; background: var(--soft); }
code { padding: .1em .3em; overflow-wrap: anywhere; } pre { padding: .7rem 1rem; overflow-x: auto; border: 1px solid var(--line); }
dt { font-weight: 600; margin-top: .6rem; } dd { margin-left: 0; overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>{{.Agent}}: about this crawler</h1>
<p>You have found requests of <code>{{.Agent}}</code> in your log. This page says who makes them, why, and how to stop or slow them.</p>
<dl>
<dt>Who runs it</dt>
<dd>{{if .ContactLink}}<a href="{{.LinkURL}}">{{.Contact}}</a>{{else}}{{.Contact}}{{end}}</dd>
<dt>What for</dt>
<dd>{{.Purpose}}</dd>
<dt>User-Agent</dt>
<dd><code>{{.UserAgent}}</code></dd>
{{if .From}}<dt>From</dt>
<dd><code>{{.From}}</code></dd>
{{end}}<dt>Token for robots.txt</dt>
<dd><code>{{.Agent}}</code></dd>
</dl>
<h2>How to stop it or slow it down</h2>
<p>Put this into <code>/robots.txt</code> of each host:</p>
{{range .Examples}}<p>{{.What}}</p>
<pre>{{.Lines}}</pre>
{{end}}<p>{{.Robots}}</p>
<p>If something is urgent, or robots.txt doesn't help, write to {{if .ContactLink}}<a href="{{.LinkURL}}">{{.Contact}}</a>{{else}}{{.Contact}}{{end}}.</p>
<h2>What it obeys</h2>
<ul>
{{range .Obeyed}}<li>{{.}}</li>
{{end}}</ul>
{{if .Limits}}<h2>How often it comes</h2>
<ul>
{{range .Limits}}<li>{{.}}</li>
{{end}}</ul>
{{end}}<h2>Sites that fail, or don't want it</h2>
<ul>
{{range .Refusals}}<li>{{.}}</li>
{{end}}</ul>
<h2>Where it comes from</h2>
{{if .Addresses}}<p>Requests come from these addresses only; others that use the name aren't ours.</p>
<ul>
{{range .Addresses}}<li><code>{{.}}</code></li>
{{end}}</ul>
{{else}}<p>Its addresses aren't listed. If you doubt that a request is ours, ask.</p>
{{end}}<p>As of {{.Date}}.</p>
</body>
</html>
`

// text is the page for a terminal or a text file.
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
	fmt.Fprintf(&b, "Who runs it:          %s\nWhat for:             %s\nUser-Agent:           %s\n", p.Contact, oneLineText(p.Purpose), p.UserAgent)
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
	fmt.Fprintf(&b, "\n%s\n\nIf something is urgent, or robots.txt doesn't help, write to %s.\n", p.Robots, p.Contact)
	head("What it obeys")
	list(p.Obeyed)
	if len(p.Limits) > 0 {
		head("How often it comes")
		list(p.Limits)
	}
	head("Sites that fail, or don't want it")
	list(p.Refusals)
	head("Where it comes from")
	if len(p.Addresses) == 0 {
		b.WriteString("Its addresses aren't listed. If you doubt that a request is ours, ask.\n")
	} else {
		b.WriteString("Requests come from these addresses only; others that use the name aren't ours.\n\n")
	}
	for _, a := range p.Addresses {
		fmt.Fprintf(&b, "- %s\n", a)
	}
	fmt.Fprintf(&b, "\nAs of %s.\n", p.Date)
	return b.Bytes()
}

// oneLineText joins lines: a list's items and fields are one line each.
func oneLineText(s string) string { return strings.Join(strings.Fields(s), " ") }
