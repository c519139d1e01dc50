package fetcher

import (
	"bytes"
	"strings"

	"drumbeat/admit"
	"drumbeat/fetch"
	"drumbeat/internal/cookies"
	"drumbeat/internal/sites"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// Who named the URL of a request decides whether the request has the secrets of its site (sites.Site.Guards).
// Links to such URLs on other sites are not even taken (admit.Batch): URLseen would know the URL from then
// on, and the site's own link to it would come too late. The record of a URL tells where it was found, so the
// rule is applied once more before each request, to what was queued before the table was there.

// Source is the URL that led to a request; nil if the operator named the request's URL.
type Source []byte

// SourceOf returns where the URL of a record was found.
func (f *Fetcher) SourceOf(rec *weburl.Record) Source {
	if !f.opt.Sites.Load().HasSecrets() || admit.Named(rec) || f.others.Ordered(f.saved.Hasher.URLKey(rec.URL)) {
		return nil
	}
	return rec.AppendVia(nil)
}

// mayHaveSecrets reports whether a request for a URL of a site may have the site's secrets.
func (from Source) mayHaveSecrets(site *sites.Site, parts *weburl.Parts) bool {
	if !site.Guards(parts) || from == nil {
		return site.SendsTo(parts)
	}
	via := weburl.Split(from)
	return site.Found(parts, &via)
}

// Hopped returns the Source of the request to which url redirected, in a chain of redirects of a robots.txt.
// Once the chain has left the host of the robots.txt, all that follows was found where it went to.
func (from Source) Hopped(job *robots.Job, url string) Source {
	if from != nil && !bytes.Equal(weburl.Split(from).Host, weburl.Split(job.Origin).Host) {
		return from
	}
	return Source(url)
}

// Foreign is the Source of requests that another node of a cluster asks for, whose robots.txt redirects to
// this one.
var Foreign = Source("https://./")

// Dress sets the headers and the proxy of a site's requests. A redirect leads to a request of its own, so
// credentials never reach another site. Without the right to secrets, the request has the rest. It returns
// the jar for the cookies of the response, nil for none.
func (f *Fetcher) Dress(req *fetch.Request, site *sites.Site, parts *weburl.Parts, from Source) *cookies.Jar {
	req.UserAgent, req.Accept, req.AcceptLanguage = site.UserAgent, site.Accept, site.AcceptLanguage
	req.Fields, req.Proxy = site.OpenFields, site.Proxy
	if !from.mayHaveSecrets(site, parts) {
		return nil
	}
	req.Fields, req.Verified = site.Fields, !site.AnyCertificate
	if site.Cookies == "" {
		return nil
	}
	jar := f.jars.Jar(site.Cookies)
	text := jar.Header(parts)
	if text == "" {
		return jar
	}
	fields := make([]fetch.Field, 0, len(site.Fields)+1)
	for _, f := range site.Fields {
		if strings.EqualFold(f.Name, "Cookie") {
			text = f.Value + "; " + text
			continue
		}
		fields = append(fields, f)
	}
	req.Fields = append(fields, fetch.Field{Name: "Cookie", Value: text, Secret: true})
	return jar
}

// takeCookies puts the cookies of a response into its site's jar.
func takeCookies(jar *cookies.Jar, parts *weburl.Parts, resp *fetch.Response) {
	var lines []string
	resp.EachHeader("Set-Cookie", func(value []byte) bool {
		lines = append(lines, string(value))
		return len(lines) < cookies.MaxPerResponse
	})
	jar.Take(parts, lines)
}

// OpenCookies makes room for the cookies of sites with settings.
func (f *Fetcher) OpenCookies(bytes int64) { f.jars = cookies.NewStore(bytes) }

// KeepCookies drops the jars that are not named.
func (f *Fetcher) KeepCookies(jars map[string]bool) { f.jars.Keep(jars) }
