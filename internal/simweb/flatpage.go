package simweb

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
)

// A page is a head, flatGroups times a chunk of filler and a list of links, and a tail. Chunks are made in
// advance, plain and compressed, so a page costs a copy of 25 KB and the output of 59 links (about 5 µs),
// also with gzip: the compressed form of a page is the sequence of its compressed chunks with the lists of
// links stored between them. Compression of the whole page would save about 3 KB.
const (
	flatGroups = 8
	flatSizes  = 4
	// flatChunks is the number of chunks of each size: 600 KB for 25 KB pages, so that they don't fit into
	// the L1 cache of either side.
	flatChunks = 64
)

// flatChunk is a piece of pages; gz is its raw deflate form, which ends on a byte boundary.
type flatChunk struct{ plain, gz []byte }

// flatWord returns one of 256 words by a number's low bits.
func flatWord(n uint64) string { return flatWords[n&255] }

// flatWords are made of two syllables each.
var flatWords = makeFlatWords()

func makeFlatWords() (words [256]string) {
	first := [...]string{"ba", "cor", "del", "fi", "gran", "hu", "li", "mor", "na", "per", "qui", "ro", "sta",
		"ter", "vi", "wa"}
	second := [...]string{"ble", "den", "gol", "ker", "lis", "mu", "nor", "pa", "ring", "son", "t", "ter", "ver",
		"x", "yon", "za"}
	for i := range words {
		words[i] = first[i%16] + second[i/16]
	}
	return words
}

const flatHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>A page of a flat web</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="Filler and links, made for measuring a crawler's speed">
<style>
body { margin: 0 auto; max-width: 60em; font: 16px/1.5 sans-serif; color: #222; background: #fff }
ul.nav > li { display: inline-block; padding: .2em .6em } a:hover { text-decoration: underline }
.c0, .c1, .c2 { margin: 1em 0 } .wide { width: 100% } @media (max-width: 40em) { .wide { width: 50% } }
</style>
<script>
(function (d) { var i = 0, t = d.getElementsByTagName("li"); for (i = 0; i < t.length && i < 100; i++) {
  if (t[i].className === "item") { t[i].onclick = function () { return "<b>" + this.id + "</b>"; }; } } })(document);
</script>
</head><body>
`

const flatTail = "</body></html>\n"

func (f *Flat) makeChunks() error {
	z, err := flate.NewWriter(nil, 6)
	if err != nil {
		return fmt.Errorf("simweb: flat web: %w", err)
	}
	squeeze := func(plain []byte) (flatChunk, error) {
		var b bytes.Buffer
		z.Reset(&b)
		if _, err := z.Write(plain); err != nil {
			return flatChunk{}, err
		}
		err := z.Flush()
		return flatChunk{plain, b.Bytes()}, err
	}
	if f.head, err = squeeze([]byte(flatHead)); err != nil {
		return err
	}
	if f.tail, err = squeeze([]byte(flatTail)); err != nil {
		return err
	}
	filler := f.fillerBytes()
	r := rng(f.opt.Seed)
	for size := range f.chunks {
		n := filler * (0.4 + 0.4*float64(size))
		for range flatChunks {
			c, err := squeeze(appendFiller(nil, int(n)/flatGroups, &r))
			if err != nil {
				return err
			}
			f.chunks[size] = append(f.chunks[size], c)
		}
	}
	return nil
}

// fillerBytes returns the size of the chunks of a mean page.
func (f *Flat) fillerBytes() float64 {
	const pages = 64
	n := 0
	var p FlatPainter
	for i := range uint64(pages) {
		h := hash(i, f.opt.Seed, 5)
		p.list = p.list[:0]
		f.links(FlatPage{uint32(h % uint64(f.opt.Hosts)), h >> 32 % 10_000},
			func(to FlatPage, same bool) { p.addLink(f, to, same) })
		n += len(p.list)
	}
	fixed := len(flatHead) + len(flatTail) + flatGroups*(len(flatListStart)+len(flatListEnd))
	return max(0, float64(f.opt.PageBytes)-float64(n)/pages-float64(fixed))
}

// appendFiller appends about n bytes of paragraphs: a tag for every 40 bytes, like real pages, most of it
// markup that repeats. gzip's first level compresses these pages 4.9 to 1 at 3.9 ns per byte, similar to
// the documentation of Python and of OpenJDK (5.1 and 4.8 to 1, at 3.8 and 3.9 ns).
func appendFiller(dst []byte, n int, r *rng) []byte {
	end := len(dst) + n
	for len(dst) < end {
		x := r.next()
		switch x >> 60 {
		case 0, 1:
			dst = append(dst, "<div class=\"c"...)
			dst = strconv.AppendUint(dst, x>>8&3, 10)
			dst = append(dst, " wide\" id=\"d"...)
			dst = strconv.AppendUint(dst, x>>16&0xffff, 10)
			dst = append(dst, "\">"...)
			dst = append(appendWords(dst, 4+x&7, r), "</div>\n"...)
		case 2:
			dst = append(dst, "<img src=\"/i/"...)
			dst = strconv.AppendUint(dst, x>>16&0xffff, 10)
			dst = append(append(append(dst, ".png\" alt=\""...), flatWord(x)...),
				"\" width=\"120\" height=\"80\">\n"...)
		case 3:
			dst = append(append(appendWords(append(dst, "<!-- "...), 3, r), "-->"...), '\n')
		case 4:
			dst = append(append(appendWords(append(dst, "<td align=right>"...), 2, r), "&nbsp;&amp;"...), "</td>"...)
		default:
			dst = append(dst, "<p class=\"body-text justify\">"...)
			dst = append(appendWords(dst, 3+x&3, r), "<code class=\"literal notranslate\"><b class=\"pre\">"...)
			dst = append(append(dst, flatWord(x>>8)...), "</b></code> "...)
			dst = append(appendWords(dst, 1+x>>4&1, r), "<span class=\"highlight reference internal\">"...)
			dst = append(append(append(dst, flatWord(x>>16)...), "</span>"...), "</p>\n"...)
		}
	}
	return dst
}

// appendWords appends n words; the first 16 of the list are four times as likely as the others.
func appendWords(dst []byte, n uint64, r *rng) []byte {
	for range n {
		x := r.next()
		if x>>62 != 0 {
			x &= 15 | x>>32&0x30
		}
		dst = append(append(dst, flatWord(x)...), ' ')
	}
	return dst
}

// FlatPainter writes pages; it is for one goroutine and can be reused.
type FlatPainter struct {
	list  []byte
	words uint64
}

const (
	flatListStart = "<ul class=\"nav\">\n"
	flatListEnd   = "</ul>\n"
)

// addLink appends the element of a link to the list. Links on the page's host are paths, except one in eight.
func (p *FlatPainter) addLink(f *Flat, to FlatPage, same bool) {
	p.words = p.words*golden + to.Index + 1
	w := p.words >> 32
	b := append(p.list, `<li class="item"><a href="`...)
	if same && w&7 != 0 {
		b = f.AppendPath(b, to)
	} else {
		b = f.AppendURL(b, to)
	}
	b = append(append(b, `">`...), flatWord(w)...)
	b = append(append(append(b, ' '), flatWord(w>>8)...), "</a></li>\n"...)
	p.list = b
}

// AppendPage appends the HTML of a page, optionally as gzip.
func (p *FlatPainter) AppendPage(dst []byte, f *Flat, page FlatPage, gzip bool) []byte {
	out := flatOut{dst: dst, gzip: gzip}
	out.start()
	out.chunk(&f.head)
	h := hash(page.Index, uint64(page.Host), f.opt.Seed+2)
	chunks := f.chunks[h%flatSizes]
	p.words = h
	p.list = append(p.list[:0], flatListStart...)
	done, group := 0, 0
	f.links(page, func(to FlatPage, same bool) {
		p.addLink(f, to, same)
		for done++; done*flatGroups >= (group+1)*f.opt.Links; group++ {
			h = mix(h)
			out.chunk(&chunks[h%flatChunks])
			p.list = append(p.list, flatListEnd...)
			out.stored(p.list)
			p.list = append(p.list[:0], flatListStart...)
		}
	})
	out.chunk(&f.tail)
	return out.end()
}

// flatOut assembles a page.
type flatOut struct {
	dst  []byte
	gzip bool
	crc  uint32
	n    uint32 // bytes of the page
}

func (o *flatOut) start() {
	if o.gzip {
		o.dst = append(o.dst, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3)
	}
}

func (o *flatOut) count(plain []byte) {
	o.crc = crc32.Update(o.crc, crc32.IEEETable, plain)
	o.n += uint32(len(plain))
}

func (o *flatOut) chunk(c *flatChunk) {
	if !o.gzip {
		o.dst = append(o.dst, c.plain...)
		return
	}
	o.count(c.plain)
	o.dst = append(o.dst, c.gz...)
}

// stored adds a list of links, uncompressed (RFC 1951 3.2.4).
func (o *flatOut) stored(b []byte) {
	if !o.gzip {
		o.dst = append(o.dst, b...)
		return
	}
	o.count(b)
	for len(b) > 0 {
		n := min(len(b), 1<<16-1)
		o.dst = binary.LittleEndian.AppendUint16(append(o.dst, 0), uint16(n))
		o.dst = binary.LittleEndian.AppendUint16(o.dst, ^uint16(n))
		o.dst = append(o.dst, b[:n]...)
		b = b[n:]
	}
}

// end closes the stream with an empty block and gzip's trailer.
func (o *flatOut) end() []byte {
	if !o.gzip {
		return o.dst
	}
	o.dst = append(o.dst, 3, 0)
	o.dst = binary.LittleEndian.AppendUint32(o.dst, o.crc)
	return binary.LittleEndian.AppendUint32(o.dst, o.n)
}

// flatRobots is the robots.txt of every host. Its rules match no page.
const flatRobots = "User-agent: *\nDisallow: /cgi-bin/\nDisallow: /search\nDisallow: /*?session=\nAllow: " +
	"/search/about\n\n" +
	"User-agent: badbot\nDisallow: /\n"
