package fetcher

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/botauth"
	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/options"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/crawl/space"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/cookies"
	"drumbeat/internal/health"
	"drumbeat/internal/pace"
	"drumbeat/internal/revisit"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Fetcher does the exchanges of pages, robots.txt and rendering, in the goroutines of those who ask. A grant
// is theirs to end.
type Fetcher struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	accept func(*fetch.Response, []byte) int64 // decides which bodies of pages are read; nil reads all
	spool  func(int64) (fetch.Spill, error)    // opens a spool; nil if pages are not stored
	jars   *cookies.Store                      // of sites with settings; nil without

	outages  *outage.Watch
	spools   *spools
	signing  *signing
	others   Others
	underWay atomic.Int64 // exchanges
}

// Options are the options of a Fetcher.
type Options struct {
	Log           *slog.Logger
	Network       *options.Network
	Sites         *inforce.Sites
	Sitemaps      bool            // sitemaps are accepted
	Assets        bool            // parts of pages are accepted
	Store         bool            // pages are stored: large bodies have spools
	Signer        *botauth.Signer // signs requests; nil: none
	Sign          options.SignWhen
	AdaptiveDelay bool  // exchanges have a Sign
	DiskBytes     int64 // of the crawl's files at most
	MaxURLBytes   int
}

// Heaps is told when a request leaves. polite.Scheduler is the implementation.
type Heaps interface {
	Started(now time.Time, g *polite.Grant)
}

// Others are the stages that a Fetcher calls.
type Others struct {
	Heaps   func() Heaps // it exists once the crawl is open
	Rules   *inforce.Rules
	Ordered func(key uint64) bool // the operator has enqueued the URL
}

// New returns a Fetcher. Wire must give it the other stages before a run.
func New(run *account.Run, saved *state.Saved, opt Options, watch *outage.Watch, k *space.Keeper) *Fetcher {
	return &Fetcher{run: run, saved: saved, opt: opt, outages: watch, signing: newSigning(opt.Signer, opt.Sign),
		spools: &spools{run: run, saved: saved, log: opt.Log, diskBytes: opt.DiskBytes, space: k,
			slots: make(chan struct{}, maxSpools)}}
}

// Wire gives the Fetcher the stages that it calls.
func (f *Fetcher) Wire(others Others) { f.others = others }

// UnderWay returns the number of exchanges under way.
func (f *Fetcher) UnderWay() int64 { return f.underWay.Load() }

// Open sets the rule that decides which bodies are read, and deletes the spools of an earlier run.
func (f *Fetcher) Open(*state.Manifest) error {
	accept, err := newAcceptor(f.opt.Network.Accept, f.opt.Network.BodyCaps)
	if err != nil {
		return err
	}
	accept.sitemaps = f.opt.Sitemaps
	if accept.busy() {
		if f.opt.Assets && len(accept.patterns) > 0 {
			accept.patterns = append(accept.patterns, assetTypes()...)
		}
		f.accept = accept.limit
	}
	if f.opt.Store {
		f.spool = f.spools.open
	}
	return f.spools.clean()
}

// exchange does one HTTP exchange at the granted address. codings is the Accept-Encoding; "" is that of
// Fetcher. known makes the request conditional, if earlier visits brought a validator. from decides about the
// secrets of the site.
func (f *Fetcher) Exchange(ctx context.Context, g *polite.Grant, parts weburl.Parts, resp *fetch.Response,
	limits *fetch.Limits, codings string, known *revisit.History, from Source) (Signature, error) {
	req := fetch.Request{
		Scheme: string(parts.Scheme), Host: string(parts.Host), Port: parts.Port, PathQuery: string(parts.Path),
		Addr: netip.AddrPortFrom(g.Addr, parts.Port), Limits: limits, AcceptEncoding: codings,
		BeforeWrite: func() { f.others.Heaps().Started(time.Now(), g) }, KeepAlive: f.keepAlive(g),
		Connection: g.Item.Connection,
	}
	req.IfNoneMatch, req.IfModifiedSince = known.Validators()
	var jar *cookies.Jar
	var jarFor *weburl.Parts // on the heap only if there is a jar
	anyCertificate := false
	if set := f.opt.Sites.Load(); set != nil {
		if site := set.Lookup(&parts); site != nil {
			anyCertificate = site.AnyCertificate
			if jar = f.Dress(&req, site, &parts, from); jar != nil {
				own := parts
				jarFor = &own
			}
		}
	}
	if limits == nil {
		req.BodyLimit = f.accept // for pages; a robots.txt is read whatever its type
		req.Spool = f.spool
		req.DecodeLater = MayLand(g)
	}
	if len(parts.Path) == 0 || parts.Path[0] != '/' {
		return Signature{}, fmt.Errorf("crawl: BUG: path %q of a canonical URL", parts.Path)
	}
	ctx, leave, err := f.others.Rules.Enter(ctx, parts.Host, g.Addr)
	if err != nil {
		return Signature{}, err
	}
	defer leave()
	f.underWay.Add(1)
	defer f.run.Changed()
	defer f.underWay.Add(-1)
	how, err := f.signing.sign(&req, time.Now(), anyCertificate)
	if err != nil {
		return Signature{}, err
	}
	try := f.outages.Try()
	err = bug.Contained(func() error {
		err := f.opt.Network.Fetcher.Do(ctx, &req, resp)
		if err == nil && jar != nil {
			takeCookies(jar, jarFor, resp)
			if output.IsRedirect(resp) {
				jar.Redirected(f.saved.Hasher.URLKey(urlOf(jarFor)), CookieOf(&req))
			}
		}
		if err == nil && !decodesLater(resp) {
			err = resp.Decode(ctx)
		}
		return err
	})
	TimeExchange(&f.run.Times, resp, err)
	f.opt.Network.Bandwidth.Brought(GrantKind(g), resp.Received)
	if context.Cause(ctx) == inforce.ErrBlocked && (err != nil || outage.CutOff(resp)) {
		err = inforce.ErrBlocked
	}
	f.outages.WatchExchange(try, g.Addr, parts, err, resp)
	return f.signing.judge(&req, how, resp, err), err
}

// keepAlive returns how long to keep the grant's connection open: until the host's next page is due, with a
// margin. It returns 0 if no page waits, or if the next one is due after Options.Network.KeepAlive.
func (f *Fetcher) keepAlive(g *polite.Grant) time.Duration {
	if g.Again == 0 || g.Again > f.opt.Network.KeepAlive {
		return 0
	}
	return min(2*g.Again+time.Second, f.opt.Network.KeepAlive)
}

// Result returns what an exchange means for package polite: how long the site took, the Sign, and how long
// the grant's connection stays open; 0 if it is closed.
func (f *Fetcher) Result(g *polite.Grant, resp *fetch.Response, err error) polite.Result {
	r := polite.Result{Elapsed: answerTime(resp, err), Sign: f.signOf(resp, err)}
	if resp.Kept {
		r.Kept = f.keepAlive(g)
	}
	return r
}

// ResolveRedirect returns the canonical form of a Location.
func (f *Fetcher) ResolveRedirect(base string, location []byte) (string, error) {
	b, err := weburl.NewBase([]byte(base))
	if err != nil {
		return "", err
	}
	url, err := weburl.NewResolver(weburl.Options{MaxBytes: f.opt.MaxURLBytes}).AppendResolve(nil, b, location)
	return string(url), err
}

// GrantKind returns what a grant is for.
func GrantKind(g *polite.Grant) pace.Kind {
	if g.Item.Robots {
		return pace.Robots
	}
	return pace.Page
}

// landAhead is how soon the host's next page must be due for a page to land. Handing a page over costs a
// switch of goroutines.
const landAhead = time.Millisecond

// MayLand reports whether the page of a grant may land.
func MayLand(g *polite.Grant) bool { return g.Again > 0 && g.Again <= landAhead }

// decodesLater reports whether the body of a page that may land is decoded by store, after the next request
// has left. The body of any other response may be that of a challenge, after which the host must rest.
func decodesLater(resp *fetch.Response) bool {
	return resp.Status == http.StatusOK && len(resp.PayloadRaw) > health.ChallengePage && resp.Spill == nil
}

// CookieOf returns the Cookie header of a request; "" for none.
func CookieOf(req *fetch.Request) string {
	for _, f := range req.Fields {
		if strings.EqualFold(f.Name, "Cookie") {
			return f.Value
		}
	}
	return ""
}

// urlOf returns the canonical URL with these parts.
func urlOf(p *weburl.Parts) []byte {
	url := append(append(append([]byte(nil), p.Scheme...), "://"...), p.Host...)
	if p.Port != 80 && string(p.Scheme) == "http" || p.Port != 443 && string(p.Scheme) == "https" {
		url = strconv.AppendUint(append(url, ':'), uint64(p.Port), 10)
	}
	return append(url, p.Path...)
}
