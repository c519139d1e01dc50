package simweb

import (
	"strconv"
)

// answer is one response before framing.
type answer struct {
	status   int
	kind     Kind
	known    bool // the URL is in the graph
	robots   bool // the request was for robots rules
	fallback bool // redirects to the host's own scheme and port, where the URL is in the graph
	hostile  bool // a response of a host of Options.Hostile
	gzip     bool // compress if the client accepts it
	chunked  bool
	node     node
	ctype    string
	location []byte
	body     []byte
}

// makeText fills the pool of prose: words of letters and spaces only.
func (w *Web) makeText() {
	words := [...]string{
		"drum", "beat", "crawl", "page", "site", "link", "store", "merge", "bucket", "pass", "round", "river",
		"stone", "window", "garden", "letter", "morning", "paper", "winter", "silver", "market", "harbour",
		"engine", "music", "and",
		"the", "of", "in", "to", "with", "for", "on", "from", "by", "as", "at", "über", "naïve",
	}
	r := rng(hash(w.opt.Seed, 0, saltText))
	for len(w.text) < 1<<16 {
		w.text = append(w.text, words[r.below(uint64(len(words)))]...)
		w.text = append(w.text, ' ')
	}
}

// prose appends n bytes of words. It starts at a space so that it cuts no letter.
func (p *painter) prose(n int, r *rng) {
	text := p.w.text
	for n > 0 {
		i := int(r.below(uint64(len(text) - 1)))
		for text[i] != ' ' {
			i = (i + 1) % len(text)
		}
		part := text[i:min(len(text), i+n)]
		for len(part) > 0 && part[len(part)-1] >= 0x80 {
			part = part[:len(part)-1]
		}
		p.body = append(p.body, part...)
		n -= len(part) + 1
	}
}

// answerNode answers a URL of the graph. The answer's slices belong to the painter.
func (p *painter) answerNode(a *answer, n node) {
	w := p.w
	h := &w.hosts[n.host]
	k := w.kind(h, n.page)
	a.kind, a.known, a.node, a.status, a.ctype = k, true, n, 200, "text/html; charset=utf-8"
	r := rng(hash(h.key^n.sub*golden, uint64(n.page)<<2|uint64(n.hop), saltBody))
	a.gzip, a.chunked = r.unit() < w.opt.Page.Gzip, r.unit() < w.opt.Page.Chunked
	p.body = p.body[:0]
	switch k {
	case HTML:
		p.paint(n, &r)
	case NotFound, ServerError:
		a.status = 404
		if k == ServerError {
			a.status = 500
		}
		p.body = append(p.body, "<!DOCTYPE html>\n<html><head><title>Error</title></head><body><p>"...)
		p.prose(100, &r)
		p.body = append(p.body, "</p></body></html>\n"...)
		a.gzip = false
	case NonHTML:
		if c := p.w.opt.Page.Copies; c > 0 && r.unit() < c {
			r = rng(hash(p.w.opt.Seed, r.next()%copies, saltBody))
		}
		p.nonHTML(a, n, &r)
	default:
		p.redirect(a, n, k, &r)
	}
	a.body = p.body
}

// redirect sets status, location (in a form drawn from r, without fragment or odd forms) and an empty body.
func (p *painter) redirect(a *answer, n node, k Kind, r *rng) {
	a.status = [...]int{301, 302, 303, 307, 308}[r.next()%5]
	a.gzip, a.chunked = false, false
	t := p.w.redirect(n, k)
	p.path = p.w.appendPath(p.path[:0], t)
	p.ref = p.ref[:0]
	switch x := r.next() % 4; {
	case t.host == n.host && x == 0:
		p.scratch = p.w.appendPath(p.scratch[:0], n)
		p.relative(&linkContext{from: n, dir: baseDir(p.scratch)}, false, false, r)
	case t.host == n.host && x == 1:
		p.ref = append(p.ref, p.path...)
	default:
		p.ref = p.w.appendURL(p.ref, t)
	}
	a.location = append(a.location, p.ref...)
}

// copies is the number of different bodies among PageMix.Copies of each type.
const copies = 3

func (p *painter) nonHTML(a *answer, n node, r *rng) {
	_, form := shape(&p.w.hosts[n.host], n.page, NonHTML)
	switch form {
	case formPDF:
		a.ctype = "application/pdf"
		p.body = append(p.body, "%PDF-1.4\n"...)
	case formPNG:
		a.ctype = "image/png"
		p.body = append(p.body, "\x89PNG\r\n\x1a\n"...)
	case formJSON:
		a.ctype = "application/json"
		p.body = append(p.body, `{"html": "<a href='/trap/json'>no link</a>", "text": "`...)
	default:
		a.ctype = "text/plain; charset=utf-8"
		p.body = append(p.body, `<a href="/trap/plain">no link</a> `...)
	}
	p.prose(p.w.opt.PageBytes/2, r)
	if form == formJSON {
		p.body = append(p.body, "\"}\n"...)
	}
	a.gzip = false
}

// paint writes an HTML page: head, then its links in the order of appendTargets with prose between them.
func (p *painter) paint(n node, r *rng) {
	w := p.w
	l := &w.opt.Link
	p.links = w.appendTargets(p.links[:0], n, HTML)
	p.scratch = w.appendPath(p.scratch[:0], n)
	c := linkContext{from: n, dir: baseDir(p.scratch)}
	p.body = append(p.body, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>"...)
	p.body = w.appendURL(p.body, n)
	p.body = append(append(p.body, "</title>\n"...), w.metas(&w.hosts[n.host])...)
	if r.unit() < l.BaseTag {
		dir := dirNames[r.next()%dirCafe]
		p.scratch = append(append(p.scratch[:0], '/'), dir...)
		c.dir = p.scratch
		p.body = append(p.body, `<base target="_top"><base href="/`...)
		p.body = append(append(p.body, dir...), `base.html"><base href="/trap/base/">`+"\n"...)
	}
	links := p.links
	expired := w.expired(n.host)
	if expired {
		links = nil
	}
	if len(links) > 0 && r.unit() < l.Refresh {
		p.body = append(p.body, `<meta http-equiv="Refresh" content="600; URL='`...)
		p.body = w.appendURL(p.body, links[len(links)-1])
		p.body = append(p.body, "'\">\n"...)
	}
	noise := r.unit() < l.Noise
	if noise {
		p.body = append(p.body, headNoise...)
	}
	p.body = append(p.body, "</head>\n<body>\n<h1>"...)
	p.prose(20, r)
	p.body = append(p.body, "</h1>\n"...)
	// The prose fills the page up to a size between half and three halves of the mean.
	gap := 0
	if room := int(float64(w.opt.PageBytes)*(0.5+r.unit())) - len(p.body) - 75*len(links); room > 0 {
		gap = room / (len(links) + 1)
	}
	for i, t := range links {
		p.body = append(p.body, "<p>"...)
		p.prose(gap, r)
		p.link(&c, t, r, seen(links[:i], t))
		p.body = append(p.body, "</p>\n"...)
		if noise && i%4 == 1 {
			p.body = append(p.body, bodyNoise[r.next()%uint64(len(bodyNoise))]...)
		}
	}
	p.body = append(p.body, "<p>"...)
	p.prose(gap, r)
	p.body = append(p.body, "</p>\n"...)
	p.body = w.hosterLinks(w.farmLinks(p.body, n.host, n.page), n.host, n.page)
	p.body = append(p.body, "</body>\n</html>\n"...)
}

func seen(links []node, t node) bool {
	for _, l := range links {
		if l == t {
			return true
		}
	}
	return false
}

// link writes one element that links to t.
func (p *painter) link(c *linkContext, t node, r *rng, duplicate bool) {
	p.reference(c, t, r, duplicate)
	x := r.next()
	before, name, after := "<a ", "href", ">"
	if r.unit() < p.w.opt.Link.OtherTags {
		switch x % 3 {
		case 0:
			before, after = "<map name=m><area alt=x ", "></map>"
		case 1:
			before, name, after = "<iframe ", "src", "></iframe>"
		default:
			before, after = "<noscript><a ", ">page</a></noscript>"
		}
		p.body = append(p.body, before...)
		p.attribute(name, r)
		p.body = append(p.body, after...)
		return
	}
	switch x % 16 {
	case 0:
		before = "<A\n"
	case 1:
		before = `<a class="x > y" title='href="/trap/title"' `
	case 2:
		before = "<a data-href=/trap/data\t"
	}
	if x>>8%16 == 0 {
		after = ` href="/trap/second">`
	}
	p.body = append(p.body, before...)
	p.attribute(name, r)
	p.body = append(p.body, after...)
	p.body = strconv.AppendUint(p.body, x>>40, 36)
	p.body = append(p.body, "</a>"...)
}

// Text that looks like links. A request below /trap/ means that a parser took it for one.
const headNoise = "<script>document.write('<a href=\"/trap/script\">x</a>'); " +
	"if (1 </* <script> */ 2) x = '</a>';</script>\n" +
	"<style>/* <a href=\"/trap/style\"> */ body { color: #333 }</style>\n"

var bodyNoise = [...]string{
	"<!-- <a href=\"/trap/comment\">x</a> -- > <a href='/trap/comment2'>y</a> -->\n",
	"<textarea><a href=\"/trap/textarea\">x</a></textarea>\n",
	"<a name=\"here\" id=x>no href</a> <a href=\"mailto:a@b.test\">m</a>\n" +
		"<a href='javascript:go(\"/trap/js\")'>j</a>\n",
	"<a href=\"tel:+123\">t</a><a href=\"ftp://www.site0.test/trap/ftp\">f</a>\n" +
		"<a href=\"data:text/html,x\">d</a>\n",
	"<p>1 < 2 && 3 > 2 <3 &lt;a href=\"/trap/text\"&gt;</p>\n",
	"<xmp><a href=/trap/xmp>x</a></xmp><a href=\"http://[bad/trap\">b</a><a href=\"http://a b/trap\">b</a>\n",
}
