package crawl

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"drumbeat/crawl/outage"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/bug"
	"drumbeat/internal/cookies"
	"drumbeat/internal/revisit"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// fetcher does the exchanges of pages, robots.txt and rendering, in the goroutines of those who ask. A grant is theirs to end.
type fetcher struct {
	*engine
	accept func(*fetch.Response, []byte) int64 // decides which bodies of pages are read; nil reads all
	spool  func(int64) (fetch.Spill, error)    // opens a spool; nil if pages are not stored

	outages *outage.Watch
	spills  *spills
}

// openAccept sets the rule that decides which bodies are read, and where large ones go.
func (f *fetcher) openAccept(*state.Manifest) error {
	accept, err := newAcceptor(f.opt.Network.Accept, f.opt.Network.BodyCaps)
	if err != nil {
		return err
	}
	accept.sitemaps = f.opt.Links.Sitemaps
	if accept.busy() {
		if f.opt.Links.Assets && len(accept.patterns) > 0 {
			accept.patterns = append(accept.patterns, assetTypes()...)
		}
		f.accept = accept.limit
	}
	if f.opt.Output.Store {
		f.spool = f.spills.open
	}
	return nil
}

// exchange does one HTTP exchange at the granted address. codings is the Accept-Encoding; "" is that of Fetcher.
// known makes the request conditional, if earlier visits brought a validator. from decides about the secrets of the site.
func (f *fetcher) exchange(ctx context.Context, g *polite.Grant, parts weburl.Parts, resp *fetch.Response,
	limits *fetch.Limits, codings string, known *revisit.History, from source) error {
	req := fetch.Request{
		Scheme: string(parts.Scheme), Host: string(parts.Host), Port: parts.Port, PathQuery: string(parts.Path),
		Addr: netip.AddrPortFrom(g.Addr, parts.Port), Limits: limits, AcceptEncoding: codings,
		BeforeWrite: func() { f.polite.Started(time.Now(), g) }, KeepAlive: f.keepAlive(g), Lane: g.Item.Lane,
	}
	req.IfNoneMatch, req.IfModifiedSince = known.Validators()
	var jar *cookies.Jar
	var jarFor *weburl.Parts // on the heap only if there is a jar
	if site := f.siteOf(&parts); site != nil {
		if jar = f.dress(&req, site, &parts, from); jar != nil {
			own := parts
			jarFor = &own
		}
	}
	if limits == nil {
		req.BodyLimit = f.accept // for pages; a robots.txt is read whatever its type
		req.Spool = f.spool
		req.DecodeLater = mayLand(g)
	}
	if len(parts.Path) == 0 || parts.Path[0] != '/' {
		return fmt.Errorf("crawl: BUG: path %q of a canonical URL", parts.Path)
	}
	ctx, leave, err := f.rules.enter(ctx, parts.Host, g.Addr)
	if err != nil {
		return err
	}
	defer leave()
	f.workers.exchanges.Add(1)
	defer f.Changed()
	defer f.workers.exchanges.Add(-1)
	try := f.outages.Try()
	err = bug.Contained(func() error {
		err := f.opt.Network.Fetcher.Do(ctx, &req, resp)
		if err == nil && jar != nil {
			takeCookies(jar, jarFor, resp)
			if output.IsRedirect(resp) {
				jar.Redirected(f.Hasher.URLKey(urlOf(jarFor)), cookieOf(&req))
			}
		}
		if err == nil && !decodesLater(resp) {
			err = resp.Decode(ctx)
		}
		return err
	})
	timeExchange(&f.Times, resp, err)
	f.opt.Network.Bandwidth.Brought(grantKind(g), resp.Received)
	if context.Cause(ctx) == errBlocked && (err != nil || outage.CutOff(resp)) {
		err = errBlocked
	}
	f.outages.WatchExchange(try, g.Addr, parts, err, resp)
	return err
}

// keepAlive returns how long to keep the grant's connection open: until the host's next page is due, with a
// margin. It returns 0 if no page waits, or if the next one is due after Options.Network.KeepAlive.
func (f *fetcher) keepAlive(g *polite.Grant) time.Duration {
	if g.Again == 0 || g.Again > f.opt.Network.KeepAlive {
		return 0
	}
	return min(2*g.Again+time.Second, f.opt.Network.KeepAlive)
}

// keptFor returns how long the grant's connection stays open after its exchange; 0 if it is closed.
func (f *fetcher) keptFor(g *polite.Grant, resp *fetch.Response) time.Duration {
	if !resp.Kept {
		return 0
	}
	return f.keepAlive(g)
}

// resolveRedirect returns the canonical form of a Location.
func (f *fetcher) resolveRedirect(base string, location []byte) (string, error) {
	b, err := weburl.NewBase([]byte(base))
	if err != nil {
		return "", err
	}
	url, err := weburl.NewResolver(weburl.Options{MaxBytes: f.opt.Admission.MaxURLBytes}).AppendResolve(nil, b, location)
	return string(url), err
}
