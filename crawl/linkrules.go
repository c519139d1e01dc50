package crawl

import (
	"bytes"

	"drumbeat/urlrule"
	"drumbeat/weburl"
)

// linkRewriter holds what rewriting a page's links needs. It does nothing while Options.URLRules rewrite nothing.
type linkRewriter struct {
	url     []byte // the last rewritten
	own     []byte // the page's
	changed []bool // of the links that came, repeats apart: it was rewritten
	as      bool   // the next link is to stay as it is
}

// rewrite returns a link by the rules, valid until the next call.
func (b *linkBatch) rewrite(url []byte) []byte {
	changed := false
	if !b.rewriter.as {
		b.rewriter.url, changed = b.r.urlRules.AppendRewritten(b.rewriter.url[:0], url)
		url = b.rewriter.url
	}
	if changed {
		b.d.count(CountURLsRewritten, 1)
	}
	b.rewriter.changed = append(b.rewriter.changed, changed)
	return url
}

// addTarget takes the URL that page redirects to.
func (b *linkBatch) addTarget(page *weburl.Record, url []byte) {
	b.rewriter.as = b.insists(page, url)
	b.add(url)
	b.rewriter.as = false
}

// insists tells whether a site insists on what the rules take away: it redirects a URL to another spelling of it, as one that wants its
// session's number in every URL does; or to another page that redirects back to such a spelling. Following the rules, nobody
// would ever see the page, so that target stays as it is. It is another URL then, and one that the rules would rewrite: what that
// one redirects to is rewritten whatever it is, and so a site that makes a new session with each request comes to an end.
func (b *linkBatch) insists(page *weburl.Record, url []byte) bool {
	r := b.r
	if !r.urlRules.Rewrites() {
		return false
	}
	var changed bool
	w := &b.rewriter
	if w.own, changed = r.urlRules.AppendRewritten(w.own[:0], page.URL); changed {
		return false
	}
	if w.url, changed = r.urlRules.AppendRewritten(w.url[:0], url); !changed {
		return false
	}
	return bytes.Equal(w.url, page.URL) || page.Flags&weburl.FlagRedirect != 0 && r.hasher.URLKey(w.url) == r.hasher.ParentKey(page)
}

// guard returns the fate of a link by the rules for names and traps; path begins with its '/'.
func (b *linkBatch) guard(path []byte) (f fate, refused bool) {
	switch b.r.urlRules.Judge(path) {
	case urlrule.Extension:
		if b.asset || b.rec.Flags&weburl.FlagSitemap != 0 { // sitemap.xml.gz is what is looked for
			return 0, false
		}
		return ^fate(CountLinksExtension), true
	case urlrule.PathDepth:
		return ^fate(CountLinksPathDepth), true
	case urlrule.Repeated:
		return ^fate(CountLinksRepeated), true
	case urlrule.Params:
		return ^fate(CountLinksParams), true
	}
	return 0, false
}
