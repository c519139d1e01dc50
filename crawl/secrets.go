package crawl

import (
	"bytes"

	"drumbeat/admit"
	"drumbeat/internal/sites"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// Who named the URL of a request decides whether the request has the secrets of its site (sites.Site.Guards). Links to such
// URLs on other sites are not even taken (admit.Batch): URLseen would know the URL from then on, and the site's own link to
// it would come too late. The record of a URL tells where it was found, so the rule is applied once more before each request,
// to what was queued before the table was there.

// source is the URL that led to a request; nil if the operator named the request's URL.
type source []byte

// sourceOf returns where the URL of a record was found.
func (f *fetcher) sourceOf(rec *weburl.Record) source {
	if !f.sites.Load().HasSecrets() || admit.Named(rec) || f.orders.waits(f.Hasher.URLKey(rec.URL)) {
		return nil
	}
	return rec.AppendVia(nil)
}

// mayHaveSecrets reports whether a request for a URL of a site may have the site's secrets.
func (from source) mayHaveSecrets(site *sites.Site, parts *weburl.Parts) bool {
	if !site.Guards(parts) || from == nil {
		return site.SendsTo(parts)
	}
	via := weburl.Split(from)
	return site.Found(parts, &via)
}

// hopped returns the source of the request to which url redirected, in a chain of redirects of a robots.txt. Once the chain
// has left the host of the robots.txt, all that follows was found where it went to.
func (from source) hopped(job *robots.Job, url string) source {
	if from != nil && !bytes.Equal(weburl.Split(from).Host, weburl.Split(job.Origin).Host) {
		return from
	}
	return source(url)
}

// foreign is the source of requests that another node of a cluster asks for, whose robots.txt redirects to this one.
var foreign = source("https://./")
