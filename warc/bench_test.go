package warc

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// BenchmarkRewrite rewrites a file of 20,000 captures of 9 kB, received compressed, without 1 % of them.
func BenchmarkRewrite(b *testing.B) {
	opt := testOptions(memfs.New(1), 1)
	w, err := Open(opt, nil)
	must(b, err)
	e, body, p := w.NewEncoder(), make([]byte, 9000), new(Prepared)
	for i := range 20_000 {
		rand.Read(body)
		must(b, e.Prepare(p, &Exchange{URL: fmt.Appendf(nil, "http://h%d.test/p/%d", i%100, i), Date: when, Status: 200,
			MIME: "text/html", Request: []byte("GET / HTTP/1.1\r\nHost: h.test\r\n\r\n"),
			Head: []byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"), Body: body, Encoded: true,
			Meta: []Field{{"via", "http://h.test/"}, {"depth", "3"}}}))
		_, err := w.Append(p, time.Unix(1e9, 0))
		must(b, err)
	}
	must(b, w.Roll())
	tails, err := disk.CreateTails(opt.State, 1)
	must(b, err)
	f := w.Freeze()
	st, err := f.Save(tails)
	must(b, err)
	must(b, f.Commit())
	must(b, EachVolume(opt, st, func(v *Volume) error {
		b.SetBytes(v.Size())
		for b.Loop() {
			out, err := v.Rewrite(v.Name+"-e1", func(p *Piece) (Edit, error) {
				return Edit{Drop: len(p.URL) > 14 && p.URL[:14] == "http://h7.test"}, nil
			}, func(string) bool { return false })
			must(b, err)
			if out.Dropped != 600 {
				b.Fatal(out.Dropped, "records dropped")
			}
		}
		return nil
	}))
}
