package botpage

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"drumbeat/botauth"
	"drumbeat/cmd/flags"
	"drumbeat/internal/human"
)

// Names of files, as in URLs below --url.
const (
	indexName  = "index.html"
	rangesName = "ip-ranges.json"
	cardName   = "agent-card.json"
	robotsName = "robots.txt"
)

// directoryName is a name on the host, whatever the path of --url.
var directoryName = strings.TrimPrefix(botauth.DirectoryPath, "/")

// proofLife is how long the signatures of the directory are valid. The draft wants them to outlive the copies in lists
// of others (appendix C.8), and the files are made once a day.
const proofLife = 30 * 24 * time.Hour

// file is a file that a web server publishes.
type file struct {
	kind string // media type
	data []byte
	// proof has the fields with the signatures of the directory; empty for other files.
	proof botauth.Proof
}

// fields returns the fields of the proof, in order.
func (f file) fields() [][2]string {
	return [][2]string{{"Content-Digest", f.proof.ContentDigest}, {"Signature-Input", f.proof.SignatureInput},
		{"Signature", f.proof.Signature}}
}

// files returns all files by name, as of now. The flags must have been checked and completed.
func (c *Command) files(now time.Time) (map[string]file, error) {
	keys, err := c.Keys()
	if err != nil {
		return nil, err
	}
	page, err := c.page(now, keys).html()
	if err != nil {
		return nil, err
	}
	files := map[string]file{indexName: {kind: "text/html; charset=utf-8", data: page}}
	if keys != nil {
		if files[directoryName], err = c.directory(keys, now); err != nil {
			return nil, err
		}
	}
	if c.atRoot() {
		files[robotsName] = file{kind: "text/plain; charset=utf-8", data: []byte("User-agent: *\nDisallow:\n")}
	}
	if len(c.Addresses) > 0 {
		data, err := c.ranges(now)
		if err != nil {
			return nil, err
		}
		files[rangesName] = file{kind: "application/json", data: data}
	}
	if c.URL != "" {
		data, err := indented(c.card())
		if err != nil {
			return nil, err
		}
		files[cardName] = file{kind: "application/json", data: data}
	}
	return files, nil
}

// directory returns the key directory, signed by each of them for the host of --url.
func (c *Command) directory(keys botauth.Keys, now time.Time) (f file, err error) {
	f.kind = botauth.DirectoryType
	if f.data, err = keys.Directory(now).Encode(); err != nil {
		return f, fmt.Errorf("bot-page: write the key directory: %w", err)
	}
	if f.proof, err = keys.Prove(c.host(), f.data, now, now.Add(proofLife)); err != nil {
		return f, fmt.Errorf("bot-page: sign the key directory: %w", err)
	}
	return f, nil
}

// host returns the host of --url, with its port if it has one.
func (c *Command) host() string {
	_, rest, _ := strings.Cut(c.URL, "://")
	host, _, _ := strings.Cut(rest, "/")
	return strings.ToLower(host)
}

// keysURL returns the URL of the key directory.
func (c *Command) keysURL() string {
	scheme, _, _ := strings.Cut(c.URL, "://")
	return scheme + "://" + c.host() + botauth.DirectoryPath
}

// nginx returns the configuration that serves the directory with its signatures. It has the directory itself, so that
// both change at once. No value has a quote, a backslash or a dollar sign.
func (c *Command) nginx(directory file, now time.Time) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by drumbeat bot-page at %s. Include this in the server block of %s.\n",
		now.UTC().Format(time.RFC3339), c.host())
	fmt.Fprintf(&b, "location = %s {\n    default_type %s;\n    gzip off;\n", botauth.DirectoryPath, directory.kind)
	for _, field := range append(directory.fields(), [2]string{"Cache-Control", pageMaxAge}) {
		fmt.Fprintf(&b, "    add_header %s '%s';\n", field[0], field[1])
	}
	fmt.Fprintf(&b, "    return 200 '%s';\n}\n", directory.data)
	return []byte(b.String())
}

// atRoot reports whether the files are those of a whole host. Without --url they are: --serve has no other place.
func (c *Command) atRoot() bool {
	_, rest, _ := strings.Cut(c.URL, "://")
	return c.URL == "" || strings.Index(rest, "/") == len(rest)-1
}

func sortedNames(files map[string]file) []string { return slices.Sorted(maps.Keys(files)) }

// indented returns a value as JSON for people and programs.
func indented(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("bot-page: write JSON: %w", err)
	}
	return append(data, '\n'), nil
}

// ranges returns the addresses as JSON, in the form that search engines publish and
// draft-illyes-webbotauth-jafar-00 describes: the creation time in UTC, and prefixes.
func (c *Command) ranges(now time.Time) ([]byte, error) {
	type prefix struct {
		V4 string `json:"ipv4Prefix,omitempty"`
		V6 string `json:"ipv6Prefix,omitempty"`
	}
	file := struct {
		Created  string   `json:"creationTime"`
		Prefixes []prefix `json:"prefixes"`
	}{Created: now.UTC().Format("2006-01-02T15:04:05Z")}
	for _, a := range c.prefixes() {
		if a.Addr().Is4() {
			file.Prefixes = append(file.Prefixes, prefix{V4: a.String()})
		} else {
			file.Prefixes = append(file.Prefixes, prefix{V6: a.String()})
		}
	}
	return indented(file)
}

func (c *Command) prefixes() (list []netip.Prefix) { return flags.Prefixes(c.Addresses) }

// agentCard is a Signature Agent Card (draft-meunier-webbotauth-registry-04): metadata of an OAuth client (RFC 7591)
// with an object for bots. ID is the URL of the card itself.
type agentCard struct {
	ID       string   `json:"client_id"`
	Name     string   `json:"client_name"`
	URI      string   `json:"client_uri"`
	Contacts []string `json:"contacts,omitempty"`
	KeysURI  string   `json:"jwks_uri,omitempty"`
	Bot      agentBot `json:"web_bot_auth"`
}

// agentBot is the object for bots. A trailing * in UserAgent stands for any text.
type agentBot struct {
	UserAgent       string   `json:"expected-user-agent"`
	Token           string   `json:"rfc9309-product-token"`
	ObeysRobots     bool     `json:"rfc9309-compliance"`
	Trigger         string   `json:"trigger"`
	Purpose         string   `json:"purpose"`
	RateControl     string   `json:"rate-control"`
	RateExpectation string   `json:"rate-expectation,omitempty"`
	KnownURLs       []string `json:"known-urls"`
	RangesURI       string   `json:"ips_uri,omitempty"`
}

// card returns the agent card; --url must be set.
func (c *Command) card() agentCard {
	card := agentCard{ID: c.URL + cardName, Name: c.Agent, URI: c.URL,
		Bot: agentBot{UserAgent: c.UserAgent, Token: c.Agent, ObeysRobots: true, Trigger: "crawler",
			Purpose:     c.Purpose,
			RateControl: "Crawl-delay in robots.txt; 429 and 503 with Retry-After",
			KnownURLs:   []string{"/robots.txt"}}}
	if strings.HasPrefix(c.UserAgent, c.Agent+"/") {
		card.Bot.UserAgent = c.Agent + "/*" // the version changes
	}
	if d := *c.HostDelay.Usual; d > 0 {
		card.Bot.RateExpectation = fmt.Sprintf("one request to a host in %s, never more than one in %s",
			human.Duration(d), human.Duration(*c.HostDelay.Least))
	}
	for _, who := range []string{c.person, c.Removals} {
		if link := flags.ContactLink(who); link != "" && !slices.Contains(card.Contacts, link) {
			card.Contacts = append(card.Contacts, link)
		}
	}
	if c.Sign.Sign.File != "" {
		card.KeysURI = c.keysURL()
	}
	if len(c.Addresses) > 0 {
		card.Bot.RangesURI = c.URL + rangesName
	}
	return card
}
