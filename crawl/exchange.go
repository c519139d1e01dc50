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
	"drumbeat/weburl"
)

// openAccept sets the rule that decides which bodies are read, and where large ones go.
func (p *pageStage) openAccept() error {
	accept, err := newAcceptor(p.opt.Network.Accept, p.opt.Network.BodyCaps)
	if err != nil {
		return err
	}
	accept.sitemaps = p.opt.Links.Sitemaps
	if accept.busy() {
		if p.opt.Links.Assets && len(accept.patterns) > 0 {
			accept.patterns = append(accept.patterns, assetTypes()...)
		}
		p.accept = accept.limit
	}
	if p.opt.Output.Store {
		p.spool = p.spills.open
	}
	return nil
}

// exchange does one HTTP exchange at the granted address. codings is the Accept-Encoding; "" is that of Fetcher.
// known makes the request conditional, if earlier visits brought a validator. from decides about the secrets of the site.
func (p *pageStage) exchange(ctx context.Context, g *polite.Grant, parts weburl.Parts, resp *fetch.Response,
	limits *fetch.Limits, codings string, known *revisit.History, from source) error {
	req := fetch.Request{
		Scheme: string(parts.Scheme), Host: string(parts.Host), Port: parts.Port, PathQuery: string(parts.Path),
		Addr: netip.AddrPortFrom(g.Addr, parts.Port), Limits: limits, AcceptEncoding: codings,
		BeforeWrite: func() { p.polite.Started(time.Now(), g) }, KeepAlive: p.keepAlive(g), Connection: g.Item.Connection,
	}
	req.IfNoneMatch, req.IfModifiedSince = known.Validators()
	var jar *cookies.Jar
	var jarFor *weburl.Parts // on the heap only if there is a jar
	if site := p.siteOf(&parts); site != nil {
		if jar = p.dress(&req, site, &parts, from); jar != nil {
			own := parts
			jarFor = &own
		}
	}
	if limits == nil {
		req.BodyLimit = p.accept // for pages; a robots.txt is read whatever its type
		req.Spool = p.spool
		req.DecodeLater = mayLand(g)
	}
	if len(parts.Path) == 0 || parts.Path[0] != '/' {
		return fmt.Errorf("crawl: BUG: path %q of a canonical URL", parts.Path)
	}
	ctx, leave, err := p.rules.enter(ctx, parts.Host, g.Addr)
	if err != nil {
		return err
	}
	defer leave()
	p.workers.exchanges.Add(1)
	defer p.Changed()
	defer p.workers.exchanges.Add(-1)
	try := p.outages.Try()
	err = bug.Contained(func() error {
		err := p.opt.Network.Fetcher.Do(ctx, &req, resp)
		if err == nil && jar != nil {
			takeCookies(jar, jarFor, resp)
			if output.IsRedirect(resp) {
				jar.Redirected(p.Hasher.URLKey(urlOf(jarFor)), cookieOf(&req))
			}
		}
		if err == nil && !decodesLater(resp) {
			err = resp.Decode(ctx)
		}
		return err
	})
	timeExchange(&p.Times, resp, err)
	p.opt.Network.Bandwidth.Brought(grantKind(g), resp.Received)
	if context.Cause(ctx) == errBlocked && (err != nil || outage.CutOff(resp)) {
		err = errBlocked
	}
	p.outages.WatchExchange(try, g.Addr, parts, err, resp)
	return err
}

// keepAlive returns how long to keep the grant's connection open: until the host's next page is due, with a
// margin. It returns 0 if no page waits, or if the next one is due after Options.Network.KeepAlive.
func (p *pageStage) keepAlive(g *polite.Grant) time.Duration {
	if g.Again == 0 || g.Again > p.opt.Network.KeepAlive {
		return 0
	}
	return min(2*g.Again+time.Second, p.opt.Network.KeepAlive)
}

// keptFor returns how long the grant's connection stays open after its exchange; 0 if it is closed.
func (p *pageStage) keptFor(g *polite.Grant, resp *fetch.Response) time.Duration {
	if !resp.Kept {
		return 0
	}
	return p.keepAlive(g)
}
