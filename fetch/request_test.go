package fetch

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
)

var testSeed = flag.Uint64("seed", 1, "seed of random tests")

// TestTemplate: heads joined from pieces equal those of the codec for any valid request and client.
func TestTemplate(t *testing.T) {
	t.Logf("seed %d", *testSeed)
	rnd := rand.New(rand.NewPCG(*testSeed, 0))
	const alphabet = "aZ09/?=&%~:.-_,;\"'#[]@!$()*+ äé\x80\xff"
	some := func(alphabet string) string {
		b := make([]byte, rnd.IntN(40))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(bytes.TrimSpace(b))
	}
	text := func() string { return some(alphabet) }
	tried := 0
	for range 3000 {
		c := newTestClient(t, Options{UserAgent: text(), From: text(), Accept: text(), AcceptLanguage: text(),
			AcceptEncoding: []string{"", "identity", "gzip, br"}[rnd.IntN(3)]})
		r := Request{Scheme: []string{"http", "https"}[rnd.IntN(2)], Host: some("aZ09.-:[]%!"), Addr: testAddr,
			IfNoneMatch: text(), IfModifiedSince: text()}
		if rnd.IntN(2) == 0 {
			r.PathQuery = "/" + strings.ReplaceAll(text(), " ", "")
		}
		r.Port = []uint16{0, 80, 443, 8080, 1, 65535}[rnd.IntN(6)]
		if rnd.IntN(2) == 0 {
			r.KeepAlive = 1
		}
		if !r.valid() {
			continue
		}
		tried++
		got, want := c.appendRequest([]byte("x"), &r, r.Fields), c.encodeRequest([]byte("x"), &r)
		if !bytes.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
	if tried < 1000 {
		t.Errorf("%d valid requests", tried)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
