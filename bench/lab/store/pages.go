package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"drumbeat/bench/lab/corpus"
	"drumbeat/bench/measure"
	"drumbeat/disk"
	"drumbeat/warc"
)

const (
	// storePool is how many exchanges are stored round and round: with 5 KB each they stay in a CPU's second cache, where a page
	// is that was just received.
	storePool = 256
	// storePageBytes is the mean size of made pages: compressed they have 5.4 KB. Larger files than mostStorePage aren't taken from a
	// corpus, nor are smaller ones than leastStorePage: they would be redirects or errors.
	storePageBytes = 36_000
	leastStorePage = 1 << 10
	mostStorePage  = 1 << 20
)

// storePages are the exchanges of one kind.
type storePages struct {
	exchanges []warc.Exchange
	bodies    int64 // bytes of HTML in them
}

func (p *storePages) meanRaw() int64 {
	sum := int64(0)
	for i := range p.exchanges {
		sum += int64(len(p.exchanges[i].Head) + len(p.exchanges[i].Body))
	}
	return sum / int64(len(p.exchanges))
}

// newStorePages makes the pages of all kinds.
func newStorePages(ctx context.Context, o *Options) (map[string]*storePages, error) {
	texts, err := storeTexts(ctx, o)
	if err != nil {
		return nil, err
	}
	all := map[string]*storePages{}
	for _, kind := range storeKinds {
		p := &storePages{}
		for i, text := range texts {
			x, err := storeExchange(kind, i, text)
			if err != nil {
				return nil, err
			}
			p.exchanges = append(p.exchanges, *x)
			p.bodies += int64(len(text))
		}
		all[kind] = p
	}
	return all, nil
}

// storeTexts returns the HTML of the pages.
func storeTexts(ctx context.Context, o *Options) (texts [][]byte, err error) {
	if len(o.Corpus) == 0 {
		rng := rand.New(rand.NewPCG(o.Seed, 5))
		for range storePool {
			texts = append(texts, corpus.Made(rng, storePageBytes/2+rng.IntN(storePageBytes)))
		}
		return texts, nil
	}
	files, _, err := corpus.Files(ctx, o.Corpus)
	if err != nil {
		return nil, fmt.Errorf("bench: store: %w", err)
	}
	files = slices.DeleteFunc(files, func(f corpus.File) bool { return f.Size < leastStorePage || f.Size > mostStorePage })
	if len(files) == 0 {
		return nil, fmt.Errorf("bench: store: corpus %s has no HTML file of %d bytes to 1 MiB", strings.Join(o.Corpus, ", "), leastStorePage)
	}
	for _, f := range corpus.Spread(files, storePool) {
		text, err := os.ReadFile(f.Path)
		if err != nil {
			return nil, fmt.Errorf("bench: store: corpus: %w", err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// storeExchange is the fetch of a page of one kind.
func storeExchange(kind string, i int, text []byte) (*warc.Exchange, error) {
	path := fmt.Sprintf("/library/part-%d/page%d.html", i%7, i)
	x := &warc.Exchange{
		URL: []byte("http://www.example.test" + path), Date: time.Unix(1_790_000_000+int64(i), 0),
		IP: netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}), Protocols: []string{"http/1.1"}, MIME: "text/html",
		Request: []byte("GET " + path + " HTTP/1.1\r\nUser-Agent: drumbeat/0.1.0 (+you@example.org)\r\nHost: www.example.test\r\n" +
			"From: you@example.org\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\nAccept-Encoding: gzip\r\n" +
			"Connection: close\r\n\r\n"),
		Meta: []warc.Field{{Name: "fetchTimeMs", Value: "24"}, {Name: "depth", Value: "3"}},
	}
	common := "Server: nginx/1.24.0\r\nDate: Sun, 22 Nov 2026 08:20:45 GMT\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n"
	switch kind {
	case storeGzip:
		var packed bytes.Buffer
		zw := gzip.NewWriter(&packed)
		if _, err := zw.Write(text); err != nil {
			return nil, fmt.Errorf("bench: store: %w", err)
		}
		if err := zw.Close(); err != nil {
			return nil, fmt.Errorf("bench: store: %w", err)
		}
		x.Status, x.Encoded, x.Chunked = 200, true, true
		x.Head = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\nLast-Modified: Wed, 07 Oct 2026 12:35:07 GMT\r\n"+
			"ETag: W/\"6ac63c7b-%x\"\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n\r\n", common, len(text))
		x.Body = fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", packed.Len(), packed.Bytes())
	case storeIdentity:
		x.Status, x.Body = 200, text
		x.Head = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\nLast-Modified: Wed, 07 Oct 2026 12:35:07 GMT\r\n"+
			"ETag: \"6ac63c7b-%x\"\r\nAccept-Ranges: bytes\r\n\r\n", common, len(text), len(text))
	case storeError:
		x.Status = 404
		x.Body = []byte("<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n" +
			"<hr><center>nginx/1.24.0</center>\r\n<p>There is no page " + path + " here.</p>\r\n</body>\r\n</html>\r\n")
		x.Head = fmt.Appendf(nil, "HTTP/1.1 404 Not Found\r\n%sContent-Length: %d\r\n\r\n", common, len(x.Body))
	case storeRedirect:
		x.Status, x.Redirect = 301, "https://www.example.test"+path
		x.Body = []byte("<html>\r\n<head><title>301 Moved Permanently</title></head>\r\n<body>\r\n<center><h1>301 Moved Permanently</h1>" +
			"</center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n")
		x.Head = fmt.Appendf(nil, "HTTP/1.1 301 Moved Permanently\r\n%sContent-Length: %d\r\nLocation: %s\r\n\r\n", common, len(x.Body),
			x.Redirect)
	}
	return x, nil
}

// baseline stores the same records by the standard library: each a gzip member of level 6, written in pieces of 1 MiB. Their text, with ids
// and digests, is there already.
func (r *storeRun) baseline(ctx context.Context, set disk.Set, p *storePages) (m *storeMeasure, err error) {
	texts, err := r.texts(set, p)
	if err != nil {
		return nil, err
	}
	f, err := os.Create(set.Path(0, "baseline"))
	if err != nil {
		return nil, fmt.Errorf("bench: store: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, 6)
	if err != nil {
		return nil, err
	}
	m = &storeMeasure{}
	cpu, wall, began := measure.CPUTime(), time.Now(), measure.ThreadTime()
	flush := func(least int) error {
		if buf.Len() < least {
			return nil
		}
		m.disk += int64(buf.Len())
		m.writes++
		_, err := buf.WriteTo(f)
		return err
	}
	for m.pages < int64(r.opt.Pages/storeRivalShare) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		i := int(m.pages) % len(texts)
		for _, text := range texts[i] {
			zw.Reset(&buf)
			if _, err := zw.Write(text); err != nil {
				return nil, err
			}
			if err := zw.Close(); err != nil {
				return nil, err
			}
		}
		if err := flush(1 << 20); err != nil {
			return nil, err
		}
		m.raw += int64(len(p.exchanges[i].Head) + len(p.exchanges[i].Body))
		m.pages++
	}
	if err := flush(0); err != nil {
		return nil, err
	}
	m.prepare = measure.ThreadTime() - began
	m.cpu, m.wall = measure.CPUTime()-cpu, time.Since(wall)
	return m, nil
}

// texts returns the texts of the records of each page, as ours writes them.
func (r *storeRun) texts(set disk.Set, p *storePages) (texts [][][]byte, err error) {
	opt := warc.Options{Set: set, State: set, Prefix: "TEXTS"}
	w, err := warc.Open(opt, nil)
	if err != nil {
		return nil, err
	}
	enc := w.NewEncoder()
	var c warc.Prepared
	for i := range p.exchanges {
		err := enc.Prepare(&c, &p.exchanges[i])
		if err == nil {
			_, err = w.Append(&c, time.Now())
		}
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	if err := errors.Join(w.Roll(), w.Close()); err != nil {
		return nil, err
	}
	for dir := range set.Paths {
		names, err := set.FS.List(set.Path(dir, "warc"))
		if err != nil {
			return nil, fmt.Errorf("bench: store: %w", err)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, opt.Prefix+"-") || !strings.HasSuffix(name, ".warc.gz.open") {
				continue
			}
			if err := readTexts(set.Path(dir, "warc", name), &texts); err != nil {
				return nil, fmt.Errorf("bench: store: texts of records: %w", err)
			}
		}
	}
	if len(texts) != len(p.exchanges) {
		return nil, fmt.Errorf("bench: store: %d texts of records of %d pages", len(texts), len(p.exchanges))
	}
	return texts, nil
}

// readTexts appends the texts of a WARC file's captures.
func readTexts(name string, texts *[][][]byte) error {
	packed, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	in := bytes.NewReader(packed)
	var page [][]byte
	for n := 0; in.Len() > 0; n++ {
		zr, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		zr.Multistream(false)
		text, err := io.ReadAll(zr)
		if err != nil {
			return err
		}
		if n == 0 {
			continue // warcinfo
		}
		if page = append(page, text); len(page) == 3 {
			*texts, page = append(*texts, page), nil
		}
	}
	return nil
}
