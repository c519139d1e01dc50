package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/html"

	"drumbeat/cmd/flags"
	"drumbeat/internal/human"
)

// Names of the files beside the page, as bot-page writes them.
const (
	rangesName = "ip-ranges.json"
	cardName   = "agent-card.json"
)

// checkPage fetches the page about the crawler and looks for what site owners need.
func (i *identity) checkPage(ctx context.Context) []finding {
	r := finding{Check: "bot page", Need: "status 200, the token " + i.who.Agent + " and a contact"}
	page, err := i.get(ctx, i.page, "text/html", fetchBytes)
	if err != nil {
		r.Now, i.facts.documented = err.Error(), fails
		r.at(fail, true, "let the URL itself answer with the page, or give the URL that does; "+publish)
		return append([]finding{r}, i.checkHTTPS()...)
	}
	i.html = page
	text, links := readPage(page.body)
	var lacks []string
	if !strings.Contains(text, i.who.Agent) {
		lacks = append(lacks, "the token "+i.who.Agent)
	}
	if !i.hasContact(text, links) {
		lacks = append(lacks, "a contact")
	}
	r.Now = "status 200, with token and contact"
	if len(lacks) > 0 {
		r.Now = "status 200, without " + strings.Join(lacks, " and ")
		r.at(fail, true, publish+"; if the page is right, give the --agent and --contact of the crawl")
	}
	i.facts.documented = factOf(r.Status == ok)
	return append([]finding{r}, append(i.checkHTTPS(), i.checkClock(page)...)...)
}

// checkHTTPS refuses http: the drafts trust https alone. On this machine it may be a try.
func (i *identity) checkHTTPS() []finding {
	if i.page.Scheme == "https" {
		return nil
	}
	r := finding{Check: "https", Now: "the URL is http", Need: "https, which verifiers require"}
	a, err := netip.ParseAddr(i.page.Hostname())
	r.at(fail, err != nil || !a.IsLoopback(), "get a certificate for the host, and publish the files over HTTPS")
	r.at(warn, true, "use the public URL when it exists")
	return []finding{r}
}

// checkClock compares the clock of the server with that of this machine: signatures have times.
func (i *identity) checkClock(page *webPage) []finding {
	there, err := http.ParseTime(page.header.Get("Date"))
	if err != nil {
		return nil
	}
	off := i.now().Sub(there)
	if off.Abs() <= skew {
		return nil
	}
	r := finding{Check: "clocks", Now: human.Duration(off.Abs().Round(time.Second)) + " apart, here and at the server",
		Need: "at most " + human.Duration(skew) + ", since signatures expire"}
	r.at(warn, true, "timedatectl set-ntp true on both (systemd-timesyncd), or install chrony")
	return []finding{r}
}

// readPage returns the text that people see, and the links.
func readPage(body []byte) (text string, links []string) {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(string(body)))
	hidden := ""
	for {
		switch z.Next() {
		case html.ErrorToken: // the end, since body is whole
			return b.String(), links
		case html.TextToken:
			if hidden == "" {
				b.WriteString(html.UnescapeString(string(z.Raw())))
			}
		case html.StartTagToken:
			t := z.Token()
			if t.Data == "script" || t.Data == "style" {
				hidden = t.Data
			}
			for _, a := range t.Attr {
				if t.Data == "a" && a.Key == "href" {
					links = append(links, a.Val)
				}
			}
		case html.EndTagToken:
			if z.Token().Data == hidden {
				hidden = ""
			}
		}
	}
}

// hasContact reports whether a page has the contact of the crawl or, if that is the page, a mail address.
func (i *identity) hasContact(text string, links []string) bool {
	contact := strings.TrimPrefix(i.who.Contact, "mailto:")
	same := strings.TrimSuffix(contact, "/") == strings.TrimSuffix(i.page.String(), "/")
	if !same && strings.Contains(text, contact) {
		return true
	}
	for _, link := range links {
		if strings.HasPrefix(link, "mailto:") && (same || strings.Contains(link, contact)) || !same && link == contact {
			return true
		}
	}
	return false
}

// agentCard is a Signature Agent Card (draft-meunier-webbotauth-registry-04), as far as it is checked.
type agentCard struct {
	ID      string          `json:"client_id"`
	KeysURI string          `json:"jwks_uri"`
	Keys    json.RawMessage `json:"jwks"`
	Bot     struct {
		Token       string `json:"rfc9309-product-token"`
		ObeysRobots *bool  `json:"rfc9309-compliance"`
		RangesURI   string `json:"ips_uri"`
	} `json:"web_bot_auth"`
}

const smallFile = 256 << 10 // limit of the card and of the addresses, in bytes

// checkCard fetches the agent card. Nothing depends on one yet, so its absence is a warning.
func (i *identity) checkCard(ctx context.Context) []finding {
	at := i.page.ResolveReference(&url.URL{Path: cardName})
	r := finding{Check: "agent card", Need: "names this crawler and its own URL"}
	file, err := i.get(ctx, at, "application/json", smallFile)
	if err != nil {
		r.Now = fmt.Sprintf("%s: %v", i.short(at), err)
		r.at(warn, true, publish)
		return []finding{r}
	}
	var card agentCard
	if err := json.Unmarshal(file.body, &card); err != nil {
		r.Now = fmt.Sprintf("%s: not an agent card in JSON: %s", i.short(at), jsonCause(err))
		r.at(fail, true, publish)
		return []finding{r}
	}
	fault := ""
	switch {
	case card.ID != at.String():
		fault = fmt.Sprintf("client_id is %.200q, not %s", card.ID, at)
	case card.Bot.Token != i.who.Agent:
		fault = fmt.Sprintf("rfc9309-product-token is %.200q, not %s", card.Bot.Token, i.who.Agent)
	case card.KeysURI != "" && card.Keys != nil:
		fault = "it has both jwks_uri and jwks"
	case card.Bot.ObeysRobots == nil || !*card.Bot.ObeysRobots:
		fault = "rfc9309-compliance is not true: readers assume that the crawler ignores robots.txt"
	}
	for _, field := range [...][2]string{{"jwks_uri", card.KeysURI}, {"ips_uri", card.Bot.RangesURI}} {
		if fault == "" && field[1] != "" && !strings.HasPrefix(field[1], i.page.Scheme+"://") {
			fault = fmt.Sprintf("%s is %.200q, not an %s URL", field[0], field[1], i.page.Scheme)
		}
	}
	if fault != "" {
		r.Now = fault
		r.at(fail, true, publish+"; URL is that of the page")
		return []finding{r}
	}
	r.Now = i.short(at)
	i.card = &card
	return []finding{r}
}

// short returns the path of a URL on the host of the page, and other URLs as they are.
func (i *identity) short(u *url.URL) string {
	if u.Scheme == i.page.Scheme && u.Host == i.page.Host {
		return u.Path
	}
	return u.String()
}

// jsonCause returns the text of an error of encoding/json for people.
func jsonCause(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends early"
	}
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "json: "), "unexpected ")
}

// rangesAge is the age of a list of addresses up to which it counts as fresh: the draft asks for a day, and a job
// needs some time.
const rangesAge = 25 * time.Hour

// checkRanges fetches the list of addresses (draft-illyes-webbotauth-jafar-00).
func (i *identity) checkRanges(ctx context.Context) []finding {
	at := i.page.ResolveReference(&url.URL{Path: rangesName})
	if i.card != nil && i.card.Bot.RangesURI != "" {
		if u, err := url.Parse(i.card.Bot.RangesURI); err == nil && u.Host != "" {
			at = u
		}
	}
	r := finding{Check: "addresses for programs", Need: "creationTime of the last day, and valid prefixes"}
	file, err := i.get(ctx, at, "application/json", smallFile)
	if err != nil {
		r.Now = fmt.Sprintf("%s: %v", i.short(at), err)
		r.at(warn, true, "add --addresses to bot-page, and publish its files")
		if absent(err) {
			i.facts.inRanges = fails
		}
		return []finding{r}
	}
	created, prefixes, err := readRanges(file.body)
	if err != nil {
		r.Now = fmt.Sprintf("%s: %v", i.short(at), err)
		r.at(fail, true, "add --addresses to bot-page, and publish its files")
		i.facts.inRanges = fails
		return []finding{r}
	}
	i.ranges = prefixes
	age := i.now().Sub(created)
	r.Now = fmt.Sprintf("%s, made %s", human.Counted(len(prefixes), "prefix", "prefixes"), created.Format(time.RFC3339))
	r.at(warn, age > rangesAge, "run bot-page --out-dir once a day, for example by cron")
	r.at(fail, age < -skew, "set the clock of the machine that runs bot-page, or of this one: timedatectl set-ntp true")
	if i.html != nil {
		if _, links := readPage(i.html.body); !i.linked(links, at) {
			r.at(warn, true, "link to "+at.String()+" from the page; bot-page --url does")
			r.Now += ", not linked from the page"
		}
	}
	return []finding{r}
}

// linked reports whether one of the links of the page leads to a URL.
func (i *identity) linked(links []string, to *url.URL) bool {
	for _, link := range links {
		if u, err := i.page.Parse(link); err == nil && u.String() == to.String() {
			return true
		}
	}
	return false
}

// readRanges reads a list of addresses.
func readRanges(body []byte) (created time.Time, prefixes []netip.Prefix, err error) {
	var list struct {
		Created  *string `json:"creationTime"`
		Prefixes *[]struct {
			V4 *string `json:"ipv4Prefix"`
			V6 *string `json:"ipv6Prefix"`
		} `json:"prefixes"`
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	if err := d.Decode(&list); err != nil {
		return created, nil, fmt.Errorf("not a JSON object: %s", jsonCause(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return created, nil, fmt.Errorf("something follows the JSON object")
	}
	if list.Created == nil || list.Prefixes == nil {
		return created, nil, fmt.Errorf("creationTime or prefixes is missing")
	}
	created, err = time.Parse(time.RFC3339, *list.Created)
	if err != nil || !strings.HasSuffix(*list.Created, "Z") {
		return created, nil, fmt.Errorf("creationTime %.40q is not a time in UTC such as 2026-11-29T12:00:00Z",
			*list.Created)
	}
	for n, p := range *list.Prefixes {
		if (p.V4 == nil) == (p.V6 == nil) {
			return created, nil, fmt.Errorf("prefix %d must have either ipv4Prefix or ipv6Prefix", n+1)
		}
		text, is4 := "", p.V4 != nil
		if is4 {
			text = *p.V4
		} else {
			text = *p.V6
		}
		var prefix flags.NetPrefix
		if err := prefix.UnmarshalText([]byte(text)); err != nil {
			return created, nil, fmt.Errorf("prefix %d: %w", n+1, err)
		}
		if prefix.Addr().Is4() != is4 {
			return created, nil, fmt.Errorf("prefix %d: %s is of the other IP version", n+1, prefix)
		}
		prefixes = append(prefixes, prefix.Prefix)
	}
	return created, prefixes, nil
}
