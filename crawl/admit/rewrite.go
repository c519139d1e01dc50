package admit

import (
	"bytes"

	"drumbeat/crawl/state"
	"drumbeat/internal/urlrule"
	"drumbeat/weburl"
)

// linkRewriter holds what rewriting a page's links needs. It does nothing while Options.URLRules rewrite nothing.
type linkRewriter struct {
	URL     []byte // the last rewritten
	own     []byte // the page's
	changed []bool // of the links that came, repeats apart: it was rewritten
	as      bool   // the next link is to stay as it is
}

// rewrite returns a link by the rules, valid until the next call.
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

// AddTarget takes the URL that page redirects to.
func (b *Batch) AddTarget(page *weburl.Record, url []byte) {
	b.Rewriter.as = b.insists(page, url)
	b.Add(url)
	b.Rewriter.as = false
}

// insists tells whether a site insists on what the rules take away: it redirects a URL to another spelling of it, as one that wants its
// session's number in every URL does; or to another page that redirects back to such a spelling. Following the rules, nobody
// would ever see the page, so that target stays as it is. It is another URL then, and one that the rules would rewrite: what that
// one redirects to is rewritten whatever it is, and so a site that makes a new session with each request comes to an end.
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
	return bytes.Equal(w.URL, page.URL) || page.Flags&weburl.FlagRedirect != 0 && p.Hasher.URLKey(w.URL) == p.Hasher.ParentKey(page)
}

// guard returns the fate of a link by the rules for names and traps; path begins with its '/'.
func (b *Batch) guard(path []byte) (f verdict, refused bool) {
	switch b.p.URLRules.Judge(path) {
	case urlrule.Extension:
		if b.asset || b.Rec.Flags&weburl.FlagSitemap != 0 { // sitemap.xml.gz is what is looked for
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
