package main

import (
	"compress/flate"
	"io"
	"testing"

	kflate "github.com/klauspost/compress/flate"

	"drumbeat/warc/deflate"
)

// appender is an io.Writer that appends to a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// BenchmarkEncode compresses pages with package deflate and two libraries. ratio is the size of all pages
// over that of all outputs. Target for ours: half of the time of klauspost's level 1.
func BenchmarkEncode(b *testing.B) {
	pages := sample(b)
	in, out := 0, make([]int, len(pages))
	for _, p := range pages {
		in += len(p.body)
	}
	var z appender
	measure := func(name string, encode func(p []byte) error) {
		b.Run(name, func(b *testing.B) {
			packed := 0
			for i := range pages { // grows the buffer
				z.b = z.b[:0]
				if err := encode(pages[i].body); err != nil {
					b.Fatal(err)
				}
				out[i] = len(z.b)
				packed += out[i]
			}
			b.SetBytes(int64(in / len(pages)))
			cpuTime(b, func(i int) error {
				z.b = z.b[:0]
				return encode(pages[i%len(pages)].body)
			})
			b.ReportMetric(float64(in)/float64(packed), "ratio")
		})
	}
	var e deflate.Encoder
	measure("by=ours", func(p []byte) error { z.b = e.Append(z.b, p); return nil })
	type writer interface {
		io.WriteCloser
		Reset(io.Writer)
	}
	for _, by := range []struct {
		name string
		open func(w io.Writer) (writer, error)
	}{
		{"by=klauspost/level=1", func(w io.Writer) (writer, error) { return kflate.NewWriter(w, 1) }},
		{"by=klauspost/level=3", func(w io.Writer) (writer, error) { return kflate.NewWriter(w, 3) }},
		{"by=klauspost/level=6", func(w io.Writer) (writer, error) { return kflate.NewWriter(w, 6) }},
		{"by=klauspost/level=9", func(w io.Writer) (writer, error) { return kflate.NewWriter(w, 9) }},
		{"by=klauspost/level=huffman", func(w io.Writer) (writer, error) { return kflate.NewWriter(w, kflate.HuffmanOnly) }},
		{"by=standard/level=1", func(w io.Writer) (writer, error) { return flate.NewWriter(w, 1) }},
	} {
		w, err := by.open(&z)
		if err != nil {
			b.Fatal(err)
		}
		measure(by.name, func(p []byte) error {
			w.Reset(&z)
			if _, err := w.Write(p); err != nil {
				return err
			}
			return w.Close()
		})
	}
	measure("by=klauspost/level=stateless", func(p []byte) error { return kflate.StatelessDeflate(&z, p, true, nil) })
}
