package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"drumbeat/internal/response"
	"drumbeat/parse"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// linkFinder finds the links of pages. It belongs to one goroutine.
type linkFinder struct {
	ctx     context.Context
	data    *warc.Data
	ofSites bool // send what the report of a site needs, too
	x       *parse.Extractor
	body    []byte
	batch   []byte
	job     *linkJob
}

func newLinkExtractor(opt weburl.Options) *parse.Extractor {
	return parse.NewExtractor(parse.Options{Forms: true, Anchors: true,
		Rels: parse.RelNext | parse.RelPrev | parse.RelCanonical | parse.RelAlternate}, opt)
}

// run sends the rows of a job.
func (f *linkFinder) run(job *linkJob) {
	defer close(job.rows)
	f.job = job
	if f.ctx.Err() != nil {
		return
	}
	var counts parse.Counts
	if job.redirect {
		if url := []byte(job.urls[0]); f.x.At(url) == nil {
			if to := f.x.Resolve([]byte(job.location), &counts); to != nil {
				f.row(url, to, elementRedirect, nil, nil)
			}
		}
	} else if err := f.page(); err != nil {
		job.damage = err
	}
	f.flush()
}

// page finds the links of a body for each of its URLs.
func (f *linkFinder) page() error {
	r, err := f.data.Record(&f.job.at)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // the file stays open
	resp, err := response.Open(r, func(string) {})
	if err != nil {
		return err
	}
	defer resp.Close()
	f.body, err = appendAll(f.body[:0], io.LimitReader(resp.Body, maxLinkPage+1))
	if f.job.cut = len(f.body) > maxLinkPage; f.job.cut {
		f.body = f.body[:maxLinkPage]
	}
	if err := resp.End(err); err != nil {
		return err
	}
	kind := resp.ContentType()
	if f.ofSites {
		f.sitemapRows(kind)
	}
	if !isPage(kind, resp, f.body) {
		return nil
	}
	for _, url := range f.job.urls {
		if f.ctx.Err() != nil {
			return nil
		}
		if err := f.links([]byte(url), kind, resp); err != nil {
			return err
		}
	}
	return nil
}

// appendAll appends what r has to dst.
func appendAll(dst []byte, r io.Reader) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// isPage reports whether the crawl looks for links in a body.
func isPage(kind string, resp *response.Response, body []byte) bool {
	return parse.IsPage(kind, body, resp.NoSniff)
}

// links sends the rows of one page.
func (f *linkFinder) links(url []byte, kind string, resp *response.Response) error {
	if err := f.x.Parse(url, f.body, kind); err != nil {
		return fmt.Errorf("export: links of %s: %w", url, err)
	}
	f.x.Each(func(to []byte, l *parse.Link) {
		rel, text := f.x.Anchor(l, maxAnchor)
		f.row(url, to, l.Tag.String(), rel, text)
	})
	if f.ofSites {
		f.facts(url, kind, resp)
	}
	// References in headers are relative to the URL of the response (RFC 8288, 3.2).
	if err := f.x.At(url); err != nil {
		return err
	}
	var counts parse.Counts
	if ref := parse.ParseRefresh([]byte(strings.Join(resp.Fields("Refresh"), ","))); ref != nil {
		if to := f.x.Resolve(ref, &counts); to != nil {
			f.row(url, to, "refresh-header", nil, nil)
		}
	}
	for _, value := range resp.Fields("Link") {
		parse.EachLink([]byte(value), func(l parse.HeaderLink) {
			if l.Rel&(parse.RelNext|parse.RelPrev|parse.RelCanonical|parse.RelAlternate) == 0 {
				return
			}
			if to := f.x.Resolve(l.Target, &counts); to != nil {
				f.row(url, to, "link-header", relWords(l.Rel, l.NoFollow), nil)
			}
		})
	}
	return nil
}

// relWords spells the link types of a header.
func relWords(rel parse.Rel, nofollow bool) []byte {
	var words []string
	for _, r := range [...]struct {
		is   bool
		word string
	}{{rel&parse.RelNext != 0, "next"}, {rel&parse.RelPrev != 0, "prev"}, {rel&parse.RelCanonical != 0, "canonical"},
		{rel&parse.RelAlternate != 0, "alternate"}, {nofollow, "nofollow"}} {
		if r.is {
			words = append(words, r.word)
		}
	}
	return []byte(strings.Join(words, " "))
}

// row adds a row to the batch.
func (f *linkFinder) row(from, to []byte, element string, rel, text []byte) {
	b := f.batch
	b = append(binary.AppendUvarint(b, uint64(len(from))), from...)
	b = append(binary.AppendUvarint(b, uint64(len(to))), to...)
	b = append(binary.AppendUvarint(b, uint64(len(element))), element...)
	b = append(binary.AppendUvarint(b, uint64(len(rel))), rel...)
	b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	if f.batch = b; len(b) >= batchBytes {
		f.flush()
	}
}

// flush sends the batch. It waits for the rows before it.
func (f *linkFinder) flush() {
	if len(f.batch) == 0 {
		return
	}
	select {
	case f.job.rows <- bytes.Clone(f.batch):
	case <-f.ctx.Done():
	}
	f.batch = f.batch[:0]
}
