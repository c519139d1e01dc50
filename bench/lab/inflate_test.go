package main

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"

	"drumbeat/fetch/inflate"
)

// BenchmarkDecode decompresses pages with package inflate and two libraries, and brotli for comparison,
// which requests ask for only with --accept-encoding. Targets for ours: twice as fast as klauspost's, no allocation.
func BenchmarkDecode(b *testing.B) {
	pages := sample(b)
	var zipped, brotlied [][]byte
	most, gzBytes, brBytes := 0, 0, 0
	for _, p := range pages {
		zipped = append(zipped, pack(b, p.body, func(w io.Writer) io.WriteCloser { return stdgzip.NewWriter(w) })) // level 6
		brotlied = append(brotlied, pack(b, p.body, func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 5) }))
		most = max(most, len(p.body))
		gzBytes, brBytes = gzBytes+len(zipped[len(zipped)-1]), brBytes+len(brotlied[len(brotlied)-1])
	}
	b.Logf("%d pages; means %d bytes in gzip, %d in br", len(pages), gzBytes/len(pages), brBytes/len(pages))

	room := make([]byte, most+4<<10) // like a crawl's buffers
	d := new(inflate.Decoder)
	perPage(b, "coding=gzip/by=ours", pages, func(i int) error {
		d.Reset(inflate.Gzip, zipped[i])
		got, err := d.Decode(room[:0], len(room))
		return isPage(len(got), err, pages[i])
	})
	for _, by := range []struct {
		name   string
		packed [][]byte
		reader interface {
			io.Reader
			Reset(io.Reader) error
		}
	}{{"coding=gzip/by=klauspost", zipped, new(gzip.Reader)}, {"coding=gzip/by=standard", zipped, new(stdgzip.Reader)},
		{"coding=br/by=andybalholm", brotlied, brotli.NewReader(nil)}} {
		in := bytes.NewReader(nil)
		perPage(b, by.name, pages, func(i int) error {
			in.Reset(by.packed[i])
			if err := by.reader.Reset(in); err != nil {
				return err
			}
			n, err := io.ReadFull(by.reader, room[:len(pages[i].body)+1]) // the end verifies the checksum
			if err == io.ErrUnexpectedEOF {
				err = nil
			}
			return isPage(n, err, pages[i])
		})
	}
}

func isPage(n int, err error, p page) error {
	if err == nil && n != len(p.body) {
		return fmt.Errorf("%s: %d bytes, want %d", p.path, n, len(p.body))
	}
	return err
}

func pack(b *testing.B, body []byte, open func(io.Writer) io.WriteCloser) []byte {
	var packed bytes.Buffer
	w := open(&packed)
	_, err := w.Write(body)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	return packed.Bytes()
}
