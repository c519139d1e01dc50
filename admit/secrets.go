package admit

import "drumbeat/weburl"

// Named reports whether the operator named a URL: as a seed or in an order, and not by way of a redirect.
func Named(rec *weburl.Record) bool {
	return len(rec.Via) == 0 || rec.Flags&(weburl.FlagSeed|weburl.FlagRedirect) == weburl.FlagSeed
}

// elsewhere is the reason in the log of seeds; "" for other links.
func (b *Batch) elsewhere() string {
	if b.Rec.Flags&weburl.FlagSeed == 0 {
		return ""
	}
	return "redirect from another site to a URL whose requests carry secrets (links, --sites)"
}

// foreign reports whether requests for a URL have secrets, and the URL was found on another site than that
// which they are for. Of a redirect, the redirecting URL must have been found on the site as well.
func (b *Batch) foreign(url []byte) bool {
	if !b.settings.HasSecrets() {
		return false
	}
	parts := weburl.Split(url)
	site := b.settings.Lookup(&parts)
	if site == nil || !site.Guards(&parts) || Named(&b.Rec) {
		return false
	}
	found := func(at []byte) bool {
		via := weburl.Split(at)
		return site.Found(&parts, &via)
	}
	if len(b.page) > 0 && !found(b.page) {
		return true
	}
	if b.redirects != nil && !Named(b.redirects) && !found(b.redirects.AppendVia(nil)) {
		return true
	}
	return !found(b.via)
}
