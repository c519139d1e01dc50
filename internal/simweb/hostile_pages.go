package simweb

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// bombs: pages that are small on the wire and decode to hundreds of megabytes: with each coding, with many
// members, with two codings on top of each other.
func bombs(w *Web, add func(hostileHost)) {
	for i, b := range [...]struct {
		coding string
		body   func() []byte
	}{
		{"gzip", gzipBomb}, {"deflate", deflateBomb}, {"br", brotliBomb}, {"zstd", zstdBomb},
		{"gzip, gzip", func() []byte { return zipped(gzipBomb()) }},
		{"gzip", func() []byte { return bytes.Repeat(zipped(nil), 20_000) }},
		{"gzip, gzip, gzip, gzip, gzip", gzipBomb},
	} {
		body := sync.OnceValue(b.body)
		add(hostileHost{name: w.hostileName("bombs", i), serve: func(s *session, q *wish) bool {
			return s.reply(htmlHead+"Content-Encoding: "+b.coding+"\r\n", string(body()))
		}})
	}
}

// bombPiece is the size of the repeated piece of a decoded bomb, in bytes.
const bombPiece = 1 << 20

func zipped(p []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(p) // a Buffer doesn't fail; also below
	z.Close()
	return b.Bytes()
}

// gzipBomb returns 500 gzip members of 1 MiB.
func gzipBomb() []byte { return bytes.Repeat(zipped(bytes.Repeat([]byte{' '}, bombPiece)), 500) }

// deflateBomb repeats a flushed block: its back-references are valid at any position.
func deflateBomb() []byte {
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, flate.BestCompression) // the level is valid
	blank := bytes.Repeat([]byte{' '}, bombPiece)
	z.Write(blank)
	z.Flush()
	first := b.Len()
	z.Write(blank)
	z.Flush()
	return append(b.Bytes()[:first:first], bytes.Repeat(b.Bytes()[first:], 200)...)
}

func brotliBomb() []byte {
	var b bytes.Buffer
	z := brotli.NewWriterLevel(&b, 1)
	for range 32 {
		z.Write(bytes.Repeat([]byte{' '}, bombPiece))
	}
	z.Close()
	return b.Bytes()
}

func zstdBomb() []byte {
	z, err := zstd.NewWriter(io.Discard, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic("BUG: simweb: zstd options: " + err.Error())
	}
	frame := z.EncodeAll(bytes.Repeat([]byte{' '}, bombPiece), nil)
	return bytes.Repeat(frame, 500)
}

// hugePages: a million links (HostileScale 16) to few URLs, the same with a base of 2,000 bytes, an element
// of 10^5 attributes, tens of thousands of nested elements of HTML and of SVG, one endless unclosed tag,
// endless character references, a link of a megabyte.
func hugePages(w *Web, add func(hostileHost)) {
	scale := w.opt.HostileScale
	page := func(i int, build func(b *strings.Builder)) {
		text := sync.OnceValue(func() string {
			var b strings.Builder
			b.WriteString("<!DOCTYPE html><html><body>")
			build(&b)
			return b.String()
		})
		add(hostileHost{name: w.hostileName("huge-pages", i), serve: func(s *session, q *wish) bool {
			if string(q.path) != "/" {
				return s.reply(htmlHead, "<p>small")
			}
			return s.reply(htmlHead, text())
		}})
	}
	links := func(b *strings.Builder) {
		for i := range 62_500 * scale {
			b.WriteString("<a href=/l")
			b.WriteString(strconv.Itoa(i % 7))
			b.WriteString(">")
		}
	}
	page(0, links)
	page(1, func(b *strings.Builder) {
		b.WriteString("<base href='/" + strings.Repeat("b", 1990) + "/'>")
		for i := range 62_500 * scale {
			b.WriteString("<a href=" + strconv.Itoa(i%7) + ">")
		}
	})
	page(2, func(b *strings.Builder) {
		b.WriteString("<a")
		for i := range 100_000 {
			b.WriteString(" a" + strconv.Itoa(i))
		}
		b.WriteString(" href=/after>")
	})
	page(3, func(b *strings.Builder) {
		b.WriteString(strings.Repeat("<div>", 60_000) + "<a href=/after>" + strings.Repeat("</div>", 60_000))
	})
	page(4, func(b *strings.Builder) {
		b.WriteString(strings.Repeat("<svg><desc>", 30_000) + "<a href=/after>" +
			strings.Repeat("</desc></svg>", 30_000))
	})
	page(5, func(b *strings.Builder) {
		b.WriteString("<a href=/before><p " + strings.Repeat("x", 1<<20*scale))
	})
	page(6, func(b *strings.Builder) {
		b.WriteString("<a href=/before><a href='/" + strings.Repeat("&amp;&#120;", 50_000) + "'>")
	})
	page(7, func(b *strings.Builder) {
		b.WriteString("<a href='/" + strings.Repeat("x/../", 100_000) + "'>" +
			strings.Repeat("<!-- <script><style>", 20_000) + "<a href=/after>")
	})
}
