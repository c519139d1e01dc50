package decode

import (
	"bytes"
	stdflate "compress/flate"
	stdgzip "compress/gzip"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"drumbeat/fetch/inflate"
)

// decodeSlack is room behind the page, as a crawl's buffers have it.
const decodeSlack = 4 << 10

// brotliLevel and deflateLevel are what servers pack with as they send.
const (
	brotliLevel  = 5
	deflateLevel = 6
)

const (
	byInflate     = "ours"
	byKlauspost   = "klauspost"
	byStandard    = "standard"
	byAndybalholm = "andybalholm"
)

// decodeKind is a coding at a level, with its decoders.
type decodeKind struct {
	name     string // as in "coding=gzip/level=6"
	pack     func([]byte) ([]byte, error)
	decoders []decoder
}

// decoder decodes into dst what becomes n bytes.
type decoder struct {
	name   string
	decode func(dst, src []byte, n int) ([]byte, error)
}

// decodeKinds are all codings. gzip and deflate are packed by the standard library's coder, whose levels are as zlib's.
func decodeKinds(levels []int) (kinds []decodeKind) {
	for _, level := range levels {
		kinds = append(kinds, decodeKind{
			name: fmt.Sprintf("coding=gzip/level=%d", level),
			pack: func(p []byte) ([]byte, error) {
				return packWith(p, func(w io.Writer) (io.WriteCloser, error) { return stdgzip.NewWriterLevel(w, level) })
			},
			decoders: []decoder{{byInflate, inflater(inflate.Gzip)}, {byKlauspost, gunzipKlauspost()}, {byStandard, gunzipStandard()}},
		})
	}
	return append(kinds, decodeKind{
		name: fmt.Sprintf("coding=deflate/level=%d", deflateLevel),
		pack: func(p []byte) ([]byte, error) {
			return packWith(p, func(w io.Writer) (io.WriteCloser, error) { return stdflate.NewWriter(w, deflateLevel) })
		},
		decoders: []decoder{{byInflate, inflater(inflate.Raw)},
			{byKlauspost, inflateThrough(flate.NewReader(nil))}, {byStandard, inflateThrough(stdflate.NewReader(nil))}},
	}, decodeKind{
		name: fmt.Sprintf("coding=br/level=%d", brotliLevel),
		pack: func(p []byte) ([]byte, error) {
			return packWith(p, func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriterLevel(w, brotliLevel), nil })
		},
		decoders: []decoder{{byAndybalholm, unbrotli()}},
	}, decodeKind{
		name: "coding=zstd/level=3",
		pack: func(p []byte) ([]byte, error) {
			return packWith(p, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) })
		},
		decoders: []decoder{{byKlauspost, unzstd()}},
	})
}

func packWith(p []byte, open func(io.Writer) (io.WriteCloser, error)) ([]byte, error) {
	var b bytes.Buffer
	w, err := open(&b)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(p); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Bytes()), nil
}

func inflater(format inflate.Format) func(dst, src []byte, n int) ([]byte, error) {
	d := new(inflate.Decoder)
	return func(dst, src []byte, _ int) ([]byte, error) {
		d.Reset(format, src)
		return d.Decode(dst, cap(dst))
	}
}

func gunzipKlauspost() func(dst, src []byte, n int) ([]byte, error) {
	in, z := bytes.NewReader(nil), new(gzip.Reader)
	return func(dst, src []byte, n int) ([]byte, error) {
		in.Reset(src)
		if err := z.Reset(in); err != nil {
			return dst, err
		}
		return readAll(dst, z, n)
	}
}

func gunzipStandard() func(dst, src []byte, n int) ([]byte, error) {
	in, z := bytes.NewReader(nil), new(stdgzip.Reader)
	return func(dst, src []byte, n int) ([]byte, error) {
		in.Reset(src)
		if err := z.Reset(in); err != nil {
			return dst, err
		}
		return readAll(dst, z, n)
	}
}

// inflateThrough decodes by a reader that both libraries have alike.
func inflateThrough(z io.Reader) func(dst, src []byte, n int) ([]byte, error) {
	in := bytes.NewReader(nil)
	return func(dst, src []byte, n int) ([]byte, error) {
		in.Reset(src)
		if err := z.(stdflate.Resetter).Reset(in, nil); err != nil {
			return dst, err
		}
		return readAll(dst, z, n)
	}
}

func unbrotli() func(dst, src []byte, n int) ([]byte, error) {
	in, z := bytes.NewReader(nil), brotli.NewReader(nil)
	return func(dst, src []byte, n int) ([]byte, error) {
		in.Reset(src)
		if err := z.Reset(in); err != nil {
			return dst, err
		}
		return readAll(dst, z, n)
	}
}

// unzstd has the options of package fetch.
func unzstd() func(dst, src []byte, n int) ([]byte, error) {
	in := bytes.NewReader(nil)
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		panic("BUG: bench: zstd options: " + err.Error())
	}
	return func(dst, src []byte, n int) ([]byte, error) {
		in.Reset(src)
		if err := z.Reset(in); err != nil {
			return dst, err
		}
		return readAll(dst, z, n)
	}
}

// readAll reads to the end, which proves the checksum, into dst, which has room for all.
func readAll(dst []byte, r io.Reader, n int) ([]byte, error) {
	for {
		k, err := r.Read(dst[len(dst):min(cap(dst), n+1)])
		dst = dst[:len(dst)+k]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		if len(dst) > n {
			return dst, fmt.Errorf("more than %d bytes", n)
		}
	}
}
