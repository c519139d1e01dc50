package crawl

import (
	"bytes"
	"fmt"

	"drumbeat/fetch"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// pageMeta are what a response says of itself: what robots are asked for, and where else it is or leads. They are kept with the
// page, whether they are followed or not.
type pageMeta struct {
	robots    parse.Robots // X-Robots-Tag and metas together
	canonical []byte       // URLs; empty if there is none
	refresh   []byte       // of the header or the first meta
	redirect  []byte
	dropped   string // why the redirect isn't followed, if that is worth a word
}

// start forgets the last response and reads the directives in the headers of resp.
func (s *pageMeta) start(resp *fetch.Response, agent string) {
	s.robots, s.canonical, s.refresh, s.redirect, s.dropped = parse.Robots{}, s.canonical[:0], s.refresh[:0], s.redirect[:0], ""
	resp.EachHeader("X-Robots-Tag", func(value []byte) bool {
		s.robots.Add(parse.ParseRobotsTag(value, agent))
		return true
	})
}

// setCanonical notes the canonical URL that a reference gives, unless one is known.
func (s *pageMeta) setCanonical(x *parse.Extractor, ref []byte) {
	if len(s.canonical) > 0 || len(ref) == 0 {
		return
	}
	if url := x.Resolve(ref, new(parse.Counts)); url != nil {
		s.canonical = append(s.canonical, url...)
	}
}

func (s *pageMeta) setRefresh(url []byte) {
	if len(s.refresh) == 0 {
		s.refresh = append(s.refresh, url...)
	}
}

// each calls add with what there is, as fields of a metadata record.
func (s *pageMeta) each(add func(name, value string)) {
	if text := s.directives(); text != "" {
		add("robots", text)
	}
	for _, f := range [...]struct {
		name string
		url  []byte
	}{{"canonical", s.canonical}, {"refresh", s.refresh}, {"redirect", s.redirect}} {
		if len(f.url) > 0 {
			add(f.name, string(f.url))
		}
	}
}

// directives are those in force, as a robots meta spells them.
func (s *pageMeta) directives() string {
	switch s.robots {
	case parse.Robots{NoIndex: true, NoFollow: true}:
		return "noindex, nofollow"
	case parse.Robots{NoIndex: true}:
		return "noindex"
	case parse.Robots{NoFollow: true}:
		return "nofollow"
	}
	return ""
}

// headerLinks adds the links of Refresh and Link headers. Their base is the URL of the response (RFC 8288, 3.2).
func (p *pageStage) headerLinks(w *pageWorker, rec *weburl.Record, resp *fetch.Response, counts *parse.Counts) error {
	refresh, link := resp.Header("Refresh"), resp.Header("Link")
	if len(refresh) == 0 && len(link) == 0 {
		return nil
	}
	if err := w.parser.At(rec.URL); err != nil {
		return fmt.Errorf("crawl: headers of %s: %w", rec.URL, err)
	}
	obey := !p.opt.IgnoreNofollow
	held := w.meta.robots.NoFollow && obey
	if ref := parse.ParseRefresh(refresh); ref != nil {
		if url := w.parser.Resolve(ref, counts); url != nil {
			w.meta.setRefresh(url)
			if held {
				w.links.NoFollow()
			} else {
				w.links.AddRefresh(url)
			}
		}
	}
	n := 0
	resp.EachHeader("Link", func(value []byte) bool {
		parse.EachLink(value, func(target []byte, rel parse.Rel, nofollow bool) {
			if rel&parse.RelCanonical != 0 {
				w.meta.setCanonical(w.parser, target)
			}
			asset := rel&parse.RelAsset != 0 && p.opt.Assets
			if rel&p.opt.LinkRels == 0 && !asset {
				return
			}
			if n++; n > maxHeaderLinks {
				counts.Dropped++
				return
			}
			url := w.parser.Resolve(target, counts)
			switch {
			case url == nil:
			case held || nofollow && obey:
				w.links.NoFollow()
			case asset:
				w.links.AddAsset(url)
			default:
				w.links.Add(url)
			}
		})
		return true
	})
	return nil
}

// maxHeaderLinks bounds the links that are taken of the Link headers of one response.
const maxHeaderLinks = 1000

// content is what a body is to the crawl.
type content uint8

const (
	contentOther content = iota
	contentHTML          // links are looked for by the scanner
	contentCSS           // a style sheet, with Options.Assets
)

// bodyOf says what the body of a response is, and whether that was found by looking at it, its type being another one
// or none. Links are looked for in every 2xx answer: 203 is a page that a proxy has changed, 206, which nobody asked for, a part
// of one.
func (p *pageStage) bodyOf(resp *fetch.Response) (body content, sniffed bool) {
	if resp.Status < 200 || resp.Status > 299 || len(resp.Body) == 0 {
		return contentOther, false
	}
	switch mime := mimeType(resp); {
	case mime == "text/html" || mime == "application/xhtml+xml":
		return contentHTML, false
	case mime == "text/css" && p.opt.Assets:
		return contentCSS, false
	case looksLikePage(resp, mime, resp.Body):
		return contentHTML, true
	}
	return contentOther, false
}

// hasHTML is for bodies without any type, whose first lines may be a server's warnings.
func hasHTML(body []byte) bool {
	return bytes.Contains(bytes.ToLower(body[:min(len(body), 1024)]), []byte("<html"))
}

func isNoSniff(resp *fetch.Response) bool {
	first, _, _ := bytes.Cut(resp.Header("X-Content-Type-Options"), []byte(","))
	return bytes.EqualFold(bytes.TrimSpace(first), []byte("nosniff"))
}
