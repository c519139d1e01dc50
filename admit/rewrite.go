package admit

import (
	"bytes"

	"drumbeat/internal/scope"
	"drumbeat/internal/urlrule"
	"drumbeat/state"
	"drumbeat/weburl"
)

// linkRewriter is a Batch's state for rewriting links. It is unused if Policy.URLRules rewrite nothing.
type linkRewriter struct {
	URL     []byte // the last rewritten URL
	own     []byte // the page's rewritten URL
	changed []bool // for each link except repeats: whether it was rewritten
	as      bool   // keep the next link as it is
}

// rewrite returns a link rewritten by the rules. The result is valid until the next call.
func (b *Batch) rewrite(url []byte) []byte {
	changed := false
	if !b.Rewriter.as {
		b.Rewriter.URL, changed = b.p.URLRules.AppendRewritten(b.Rewriter.URL[:0], url)
		url = b.Rewriter.URL
	}
	if changed {
		b.Counts[state.CountURLsRewritten]++
	}
	b.Rewriter.changed = append(b.Rewriter.changed, changed)
	return url
}

// AddTarget adds the URL that page redirects to. That of a part of a rendered page is one, too.
func (b *Batch) AddTarget(page *weburl.Record, url []byte) {
	b.Rewriter.as, b.redirects = b.insists(page, url), page
	if page.Flags&weburl.FlagSeed == 0 && b.OnlyPart(page.URL) {
		b.PartsAnywhere()
		b.AddAsset(url)
	} else {
		b.Add(url)
	}
	b.Rewriter.as, b.redirects = false, nil
}

// OnlyPart reports whether the URL of a page is in the crawl only as a part of a rendered page: neither the scope nor a
// rule admits it.
func (b *Batch) OnlyPart(url []byte) bool {
	if !b.p.RenderParts {
		return false
	}
	site := b.SiteOf(url)
	return !site.inScope && (b.Rules == nil || b.Rules.Ruling(b.Rules.Find(&site.Rules, url)) == scope.Undecided)
}

// insists reports whether a site needs the spelling that the rules would change. Such a site redirects a
// URL to another spelling of it, for example to add a session number, or to another page that redirects
// back to such a spelling. With the rewritten target the crawler would never reach the page, so it keeps
// the target as it is. The rules would change that URL, so insists is false for the redirects from it. A
// site that starts a new session with each request therefore causes no endless chain.
func (b *Batch) insists(page *weburl.Record, url []byte) bool {
	p := b.p
	if !p.URLRules.Rewrites() {
		return false
	}
	var changed bool
	w := &b.Rewriter
	if w.own, changed = p.URLRules.AppendRewritten(w.own[:0], page.URL); changed {
		return false
	}
	if w.URL, changed = p.URLRules.AppendRewritten(w.URL[:0], url); !changed {
		return false
	}
	return bytes.Equal(w.URL, page.URL) ||
		page.Flags&weburl.FlagRedirect != 0 && p.Hasher.URLKey(w.URL) == p.Hasher.ParentKey(page)
}

// guard returns the verdict of the rules for names and traps; path starts with '/'.
func (b *Batch) guard(path []byte) (f verdict, refused bool) {
	switch b.p.URLRules.Judge(path) {
	case urlrule.Extension:
		if b.asset || b.Rec.Flags&weburl.FlagSitemap != 0 { // a sitemap may link to sitemap.xml.gz
			return 0, false
		}
		return ^verdict(state.CountLinksExtension), true
	case urlrule.PathDepth:
		return ^verdict(state.CountLinksPathDepth), true
	case urlrule.Repeated:
		return ^verdict(state.CountLinksRepeated), true
	case urlrule.Params:
		return ^verdict(state.CountLinksParams), true
	}
	return 0, false
}
