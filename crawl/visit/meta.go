package visit

import (
	"fmt"
	"strconv"

	"drumbeat/crawl/contents"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/hook"
	"drumbeat/crawl/output"
	"drumbeat/fetch"
	"drumbeat/internal/simhash"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/weburl"
)

// pageMeta has the statements of a response about itself: directives for robots, and other URLs of the page or links to
// follow. The page store keeps it, whether the crawl follows the links or not.
type pageMeta struct {
	robots    parse.Robots // X-Robots-Tag and meta elements combined
	rights    rights
	canonical []byte // URL; empty if there is none
	refresh   []byte // URL of the header or the first meta element
	redirect  []byte
	charset   string          // encoding of the body that was parsed; "": none was
	simhash   uint64          // of the visible text; 0: none
	text      state.NearEntry // of the text if that is long enough to be compared
	refused   string          // the refused uses for which the response is not stored
	dropped   string          // why a seed's log reports that the redirect is not followed; "" for none
	hook.Said
}

// start resets s and reads what came with the URL, and the directives in the headers of resp.
func (s *pageMeta) start(rec *weburl.Record, resp *fetch.Response, agent string) error {
	*s = pageMeta{canonical: s.canonical[:0], refresh: s.refresh[:0], redirect: s.redirect[:0]}
	resp.EachHeader("X-Robots-Tag", func(value []byte) bool {
		s.robots.Add(parse.ParseRobotsTag(value, agent))
		return true
	})
	return s.rights.start(rec, resp, agent, output.MIMEType(resp))
}

// setCanonical stores the canonical URL of a reference, unless one is known.
func (s *pageMeta) setCanonical(x *parse.Extractor, ref []byte) {
	if len(s.canonical) > 0 || len(ref) == 0 {
		return
	}
	if url := x.Resolve(ref, new(parse.Counts)); url != nil {
		s.canonical = append(s.canonical, url...)
	}
}

// setSimhash stores the simhash of the visible text of the page that x has parsed. One page in 2^64 has the hash
// 0, and thus none.
func (s *pageMeta) setSimhash(sketch *simhash.Sketch, x *parse.Extractor, body []byte) {
	sketch.Reset()
	x.EachText(body, sketch.Add)
	if s.simhash, _ = sketch.Sum(); sketch.Features() >= contents.LeastNear {
		counts, features := sketch.Counts()
		s.text = state.NearEntry{Simhash: s.simhash, Features: uint16(features), Counts: counts}
	}
}

func (s *pageMeta) setRefresh(url []byte) {
	if len(s.refresh) == 0 {
		s.refresh = append(s.refresh, url...)
	}
}

// each calls add for each value present, as a field of a metadata record.
func (s *pageMeta) each(usage *state.Usages, add func(name, value string)) {
	texts := s.rights.texts(usage)
	for i, text := range texts {
		if text != "" {
			add(metaNames[i], text)
		}
	}
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
	if s.Scored {
		add("hookScore", strconv.FormatFloat(s.Score, 'g', -1, 64))
	}
	if s.Fields != nil {
		add("hookFields", string(s.Fields))
	}
}

// directives returns the directives in force, spelled as in a robots meta element.
func (s *pageMeta) directives() string {
	return directives[boolCount(s.robots.NoIndex)+2*boolCount(s.robots.NoFollow)+4*boolCount(s.robots.NoArchive)]
}

var directives = [...]string{"", "noindex", "nofollow", "noindex, nofollow", "noarchive", "noindex, noarchive",
	"nofollow, noarchive", "noindex, nofollow, noarchive"}

// headerLinks adds the links of Refresh and Link headers. Their base is the URL of the response (RFC 8288,
// 3.2).
func (p *Pages) headerLinks(w *Worker, rec *weburl.Record, resp *fetch.Response, counts *parse.Counts) error {
	refresh, link := resp.Header("Refresh"), resp.Header("Link")
	if len(refresh) == 0 && len(link) == 0 {
		return nil
	}
	if err := w.Parser.At(rec.URL); err != nil {
		return fmt.Errorf("crawl: headers of %s: %w", rec.URL, err)
	}
	obey := !p.opt.Links.IgnoreNofollow
	held := w.meta.robots.NoFollow && obey
	if ref := parse.ParseRefresh(refresh); ref != nil {
		if url := w.Parser.Resolve(ref, counts); url != nil {
			w.meta.setRefresh(url)
			if held {
				w.Links.NoFollow()
			} else {
				w.Links.AddRefresh(url)
			}
		}
	}
	n := 0
	resp.EachHeader("Link", func(value []byte) bool {
		parse.EachLink(value, func(l parse.HeaderLink) {
			if l.Rel&parse.RelCanonical != 0 {
				w.meta.setCanonical(w.Parser, l.Target)
			}
			asset := l.Rel&parse.RelAsset != 0 && p.opt.Links.Assets
			if l.Rel&p.opt.Links.Rels == 0 && !asset {
				return
			}
			if n++; n > maxHeaderLinks {
				counts.Dropped++
				return
			}
			url := w.Parser.Resolve(l.Target, counts)
			switch {
			case url == nil:
			case held || l.NoFollow && obey:
				w.Links.NoFollow()
			case asset:
				w.Links.AddAsset(url)
			default:
				w.Links.Add(url)
			}
		})
		return true
	})
	return nil
}

// maxHeaderLinks limits the links taken from the Link headers of one response.
const maxHeaderLinks = 1000

// Content is the kind of a body.
type Content uint8

const (
	Other Content = iota
	HTML          // the extractor looks for links
	CSS           // a style sheet; only if parts of pages are fetched
)

// bodyOf returns the kind of a response's body. sniffed reports that the body, not its type, determined the
// kind. Every 2xx response is searched for links: a 203 is a page modified by a proxy, and an unrequested
// 206 is a part of a page.
func (p *Pages) bodyOf(resp *fetch.Response) (body Content, sniffed bool) {
	if resp.Status < 200 || resp.Status > 299 {
		return Other, false
	}
	return p.kindOf(resp)
}

// kindOf is bodyOf for any status: pages about errors are HTML, too.
func (p *Pages) kindOf(resp *fetch.Response) (body Content, sniffed bool) {
	if len(resp.Body) == 0 {
		return Other, false
	}
	switch mime := output.MIMEType(resp); {
	case mime == "text/html" || mime == "application/xhtml+xml":
		return HTML, false
	case mime == "text/css" && (p.opt.Links.Assets || p.opt.Policy.RenderParts):
		return CSS, false
	case fetcher.LooksLikePage(resp, mime, resp.Body):
		return HTML, true
	}
	return Other, false
}

func boolCount(b bool) int {
	if b {
		return 1
	}
	return 0
}
