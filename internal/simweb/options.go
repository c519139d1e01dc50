package simweb

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Options describe a synthetic web. A zero field means that the web has none of it; Defaults returns a
// typical mix. Shares are in [0, 1].
type Options struct {
	Seed uint64 // seed of everything below

	PLDs         int          // pay-level domains of the ordinary hosts; at most Hosts
	Hosts        int          // ordinary hosts; 0 leaves only the special ones (Chain, Big, Spam)
	Pages        int          // approximate number of URLs of ordinary hosts; power law over the hosts
	LinksPerPage int          // mean links of an HTML page
	PageBytes    int          // mean bytes of an HTML page; links are never cut to fit
	IPs          int          // number of addresses that the hosts share, skewed; 0 means 1
	FirstIP      netip.Addr   // lowest of these addresses; zero means 127.16.0.1
	Networks     int          // number of IPv4 /24s of these addresses; 0: as few as hold them
	IPv6Addrs    []netip.Addr // addresses of hosts drawn by IPv6; empty means ::1
	Suffixes     []string     // public suffixes of the PLDs; empty means invented one-label suffixes
	SeedURLs     int          // roots among Seeds(); 0 means 1
	// Skew is how unequal the in-links of PLDs are, 1 to 3: PLD p of n gets them with density (p/n)^(2^-Skew
	// - 1). 0 means 3.
	Skew int
	// Communities is the number of groups of PLDs; nine of ten links between ordinary hosts stay in a group. 0 means 1.
	Communities int

	HTTPS   float64 // share of hosts served by https only (plain http answers 301 to it)
	AltPort float64 // share of hosts on http port 8080; the rest are on 80 or 443
	IDN     float64 // share of PLDs with a non-ASCII name
	MultiIP float64 // share of hosts with two addresses
	CNAME   float64 // share of hosts that are a CNAME of a name of their server
	IPv6    float64 // share of hosts that also have an AAAA record

	Page   PageMix
	Link   LinkMix
	Robots RobotsMix
	Dead   DeadHosts
	Spam   Spam

	Agent      string        // token of the robots groups for one crawler; empty means "drumbeat"
	CrawlDelay time.Duration // value of the Crawl-delay variant
	Signals    bool          // hosts say something about the use of their pages, in several forms; see Use
	SlowHosts  int           // number of ordinary hosts that answer late (hosts 1, 2, …)
	SlowDelay  time.Duration // delay of their answers
	ChainPages int           // > 0: a host whose page i links to page i+1 only; its root is a seed
	BigPages   int           // > 0: one more host, in a PLD of its own, with this number of URLs

	Hostile      []string // scenarios of misbehaving hosts; see HostileScenarios
	HostileScale int      // multiplies the large ones (links of a page, bytes of a line); 0 means 1
	// Bought is the number of ordinary PLDs all of whose pages link to a PLD of each farm in Hostile, another for each
	// of them. Expired is the number of popular ordinary PLDs, no seeds, whose pages link to PLDs of farms only.
	// Expected knows nothing of them.
	Bought, Expired int

	DNSTTL      time.Duration // TTL of all answers; 0 means 5 minutes
	DNSTruncate float64       // share of hosts with truncated answers over UDP (TC)

	LogRequests int // number of latest requests to keep; counters don't depend on it
}

// PageMix gives the share of URLs of each kind; the rest are HTML pages. Their sum is at most 0.75.
type PageMix struct {
	NotFound      float64 // 404
	ServerError   float64 // 500
	Redirect      float64 // to a URL of the same host
	RedirectCross float64 // to a URL of another host
	RedirectChain float64 // chain of 4 redirects
	RedirectLoop  float64 // loop of 1 to 3 URLs
	NonHTML       float64 // PDF, PNG, JSON, plain text

	Gzip    float64 // share of HTML pages compressed for clients that accept gzip
	Chunked float64 // share of responses sent with chunked framing
	Copies  float64 // share of NonHTML whose bodies are few and the same on all hosts
}

// LinkMix gives the share of links in each form; compatible forms may combine.
type LinkMix struct {
	Relative         float64 // of links within a host: a/b.html, ../c.html, ?query
	AbsolutePath     float64 // of links within a host: /a/b.html
	ProtocolRelative float64 // //host/a/b.html, where the schemes agree; the rest are absolute
	Duplicate        float64 // repetition of a link in another form, with a fragment
	Fragment         float64 // #fragment
	UpperHost        float64 // WWW.Site1.TEST, HTTP:
	DefaultPort      float64 // :80, :443, empty port
	DotSegments      float64 // /./ and /x/../
	Entities         float64 // numeric character references beyond &amp;
	Odd              float64 // backslashes, tabs, newlines, three slashes, %2e%2e, zeros before a port
	OtherTags        float64 // area, iframe, noscript instead of a
	BaseTag          float64 // share of pages with <base href>
	Refresh          float64 // share of pages with one more link by meta refresh
	Noise            float64 // share of pages with text that looks like links
	Cross            float64 // share of the drawn links that leave the host; 0 means 0.4
}

// RobotsMix gives the share of ordinary hosts by their response to /robots.txt; the rest answer 404.
type RobotsMix struct {
	AllowAll     float64 // 200 without a rule that disallows: empty, "Disallow:", an HTML page
	Prefix       float64 // Disallow of prefixes with an Allow exception
	Wildcard     float64 // rules with * and $, percent-encoded and raw
	OwnGroup     float64 // groups for Options.Agent among others
	Tie          float64 // Allow and Disallow of equal length
	Forbidden    float64 // 403: everything is allowed
	ServerError  float64 // 503: the whole host is disallowed
	DisallowAll  float64 // Disallow: /
	RedirectPath float64 // 301 to another path of the host, one or two hops
	RedirectHost float64 // 302 to another host
	CrawlDelay   float64 // Prefix rules and a Crawl-delay
	BOM          float64 // Prefix rules with byte order mark, CRLF, comments and odd case
}

// DeadHosts are numbers of hosts, beyond Options.Hosts, that exist only as link targets. Half of them are
// in ordinary PLDs, half in PLDs of their own.
type DeadHosts struct {
	NXDomain       int
	ServFail       int
	DNSTimeout     int // queries get no answer
	Refused        int // connection refused
	ConnectTimeout int // connect blocks (in-process form; refused over sockets)

	Pages int     // URLs per host; 0 means 3
	Links float64 // share of links between hosts that lead to dead hosts, in addition to one to each root
}

// Spam describes the spam PLD: endless hosts (wildcard DNS), each with endless pages that link within the
// PLD.
type Spam struct {
	On       bool
	InLinks  int     // number of other PLDs that link to it, each once, from one root page
	Links    int     // links per spam page; 0 means twice LinksPerPage
	OutLinks float64 // share of these that lead to roots of ordinary hosts
	IPs      int     // number of its own addresses; 0 means 4
}

// Defaults returns the mix of the demo: 2,000 hosts of 500 PLDs, a little over 20,000 URLs to fetch.
func Defaults(seed uint64) Options {
	return Options{
		Seed: seed, PLDs: 500, Hosts: 2000, Pages: 22000, LinksPerPage: 12, PageBytes: 6000, IPs: 400, SeedURLs: 10,
		HTTPS: 0.1, IDN: 0.01, MultiIP: 0.05, CNAME: 0.05,
		Page: PageMix{
			NotFound: 0.04, ServerError: 0.01, Redirect: 0.02, RedirectCross: 0.02, RedirectChain: 0.005,
			RedirectLoop: 0.005, NonHTML: 0.05, Gzip: 0.25, Chunked: 0.1,
		},
		Link: LinkMix{
			Relative: 0.3, AbsolutePath: 0.3, ProtocolRelative: 0.05, Duplicate: 0.1, Fragment: 0.1, UpperHost: 0.03,
			DefaultPort: 0.03, DotSegments: 0.03, Entities: 0.03, Odd: 0.01, OtherTags: 0.05, BaseTag: 0.02,
			Refresh: 0.02, Noise: 0.3, Cross: 0.4,
		},
		Robots: RobotsMix{
			AllowAll: 0.1, Prefix: 0.1, Wildcard: 0.05, OwnGroup: 0.05, Tie: 0.03, Forbidden: 0.03, ServerError: 0.01,
			DisallowAll: 0.02, RedirectPath: 0.03, RedirectHost: 0.03, CrawlDelay: 0.02, BOM: 0.03,
		},
		Agent: "drumbeat", CrawlDelay: 100 * time.Millisecond, DNSTTL: 5 * time.Minute, DNSTruncate: 0.01,
		LogRequests: 100_000,
	}
}

// Bounds that keep node numbers and tables small.
const (
	maxHosts = 1 << 22
	maxPages = 1 << 30
	maxIPs   = 1 << 16
)

// Validate returns all faults of o joined.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("simweb: "+format, args...)) }
	count := func(name string, n, limit int) {
		if n < 0 || n > limit {
			bad("option %s is %d, must lie in 0..%d", name, n, limit)
		}
	}
	count("PLDs", o.PLDs, maxHosts)
	count("Hosts", o.Hosts, maxHosts)
	count("Pages", o.Pages, maxPages)
	count("LinksPerPage", o.LinksPerPage, 10_000)
	count("PageBytes", o.PageBytes, 1<<26)
	count("IPs", o.IPs, maxIPs)
	count("Networks", o.Networks, max(o.IPs, 1))
	count("SeedURLs", o.SeedURLs, maxHosts)
	count("SlowHosts", o.SlowHosts, maxHosts)
	count("Skew", o.Skew, 3)
	count("Communities", o.Communities, max(o.PLDs, 1))
	count("ChainPages", o.ChainPages, maxPages)
	count("BigPages", o.BigPages, maxPages)
	count("HostileScale", o.HostileScale, 1<<16)
	count("LogRequests", o.LogRequests, 1<<26)
	count("Dead", o.Dead.total(), maxHosts)
	count("Dead.Pages", o.Dead.Pages, 1<<20)
	count("Spam.InLinks", o.Spam.InLinks, maxHosts)
	count("Spam.Links", o.Spam.Links, 100_000)
	count("Spam.IPs", o.Spam.IPs, maxIPs)
	if o.PLDs > o.Hosts {
		bad("option PLDs is %d, more than Hosts %d", o.PLDs, o.Hosts)
	}
	if o.Hosts > 0 && o.PLDs == 0 {
		bad("option PLDs is 0 with %d hosts", o.Hosts)
	}
	if o.Hosts == 0 && o.ChainPages == 0 && o.BigPages == 0 && !o.Spam.On && len(o.Hostile) == 0 {
		bad("no hosts at all")
	}
	if o.FirstIP.IsValid() && !o.FirstIP.Is4() {
		bad("option FirstIP %s is no IPv4 address", o.FirstIP)
	}
	p := &o.Page
	sum := p.NotFound + p.ServerError + p.Redirect + p.RedirectCross + p.RedirectChain + p.RedirectLoop + p.NonHTML
	if sum > 0.75 {
		bad("shares in Page sum to %.2f, more than 0.75", sum)
	}
	if o.Robots.sum() > 1 {
		bad("shares in Robots sum to %.2f, more than 1", o.Robots.sum())
	}
	for _, s := range o.shares() {
		if !(s.v >= 0 && s.v <= 1) {
			bad("share %s is %v, must lie in 0..1", s.name, s.v)
		}
	}
	return errors.Join(errs...)
}

func (d *DeadHosts) total() int {
	return d.NXDomain + d.ServFail + d.DNSTimeout + d.Refused + d.ConnectTimeout
}

func (m *RobotsMix) sum() float64 {
	return m.AllowAll + m.Prefix + m.Wildcard + m.OwnGroup + m.Tie + m.Forbidden + m.ServerError +
		m.DisallowAll + m.RedirectPath + m.RedirectHost + m.CrawlDelay + m.BOM
}

type share struct {
	name string
	v    float64
}

func (o *Options) shares() []share {
	p, l, r := &o.Page, &o.Link, &o.Robots
	return []share{
		{"HTTPS", o.HTTPS}, {"AltPort", o.AltPort}, {"IDN", o.IDN}, {"MultiIP", o.MultiIP}, {"CNAME", o.CNAME},
		{"IPv6", o.IPv6}, {"DNSTruncate", o.DNSTruncate},
		{"Page.NotFound", p.NotFound}, {"Page.ServerError", p.ServerError}, {"Page.Redirect", p.Redirect},
		{"Page.RedirectCross", p.RedirectCross}, {"Page.RedirectChain", p.RedirectChain},
		{"Page.RedirectLoop", p.RedirectLoop}, {"Page.NonHTML", p.NonHTML}, {"Page.Gzip", p.Gzip},
		{"Page.Chunked", p.Chunked}, {"Page.Copies", p.Copies},
		{"Link.Relative", l.Relative}, {"Link.AbsolutePath", l.AbsolutePath},
		{"Link.ProtocolRelative", l.ProtocolRelative}, {"Link.Duplicate", l.Duplicate},
		{"Link.Fragment", l.Fragment}, {"Link.UpperHost", l.UpperHost}, {"Link.DefaultPort", l.DefaultPort},
		{"Link.DotSegments", l.DotSegments},
		{"Link.Entities", l.Entities}, {"Link.Odd", l.Odd}, {"Link.OtherTags", l.OtherTags},
		{"Link.BaseTag", l.BaseTag}, {"Link.Refresh", l.Refresh}, {"Link.Noise", l.Noise}, {"Link.Cross", l.Cross},
		{"Robots.AllowAll", r.AllowAll}, {"Robots.Prefix", r.Prefix}, {"Robots.Wildcard", r.Wildcard},
		{"Robots.OwnGroup", r.OwnGroup}, {"Robots.Tie", r.Tie}, {"Robots.Forbidden", r.Forbidden},
		{"Robots.ServerError", r.ServerError}, {"Robots.DisallowAll", r.DisallowAll},
		{"Robots.RedirectPath", r.RedirectPath}, {"Robots.RedirectHost", r.RedirectHost},
		{"Robots.CrawlDelay", r.CrawlDelay}, {"Robots.BOM", r.BOM},
		{"Dead.Links", o.Dead.Links}, {"Spam.OutLinks", o.Spam.OutLinks},
	}
}
