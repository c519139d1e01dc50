package warc

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
)

// TestGoldenLookup: a DNS answer is one response record in Heritrix's form.
func TestGoldenLookup(t *testing.T) {
	w := open(t, testOptions(memfs.New(1), 1), nil)
	e := w.NewEncoder()
	var p Prepared
	x := &Lookup{Host: "www.example.org", Date: when, Server: netip.MustParseAddr("192.0.2.53"), TTL: 300 * time.Second,
		Addrs: []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.7"), netip.MustParseAddr("2001:db8::7")}}
	must(t, e.PrepareLookup(&p, x))
	block := "20261121224305\nwww.example.org.\t300\tIN\tA\t192.0.2.7\nwww.example.org.\t300\tIN\tAAAA\t2001:db8::7\n"
	want := "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: dns:www.example.org\r\nWARC-Date: " +
		"2026-11-21T22:43:05Z\r\n" +
		"WARC-Record-ID: <urn:uuid:f0f1f2f3-f4f5-46f7-b8f9-fafbfcfdfeff>\r\nWARC-IP-Address: 192.0.2.53\r\n" +
		"WARC-Payload-Digest: " + sha(block) + "\r\nWARC-Block-Digest: " + sha(block) +
		"\r\nContent-Type: text/dns\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n%s\r\n\r\n", len(block), block)
	if got := gunzip(t, p.buf); len(got) != 1 || got[0] != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n======\n"), want)
	}
	loc, err := w.Append(&p, when)
	must(t, err)
	line := "dns:www.example.org 20261121224305 {\"url\": \"dns:www.example.org\", \"mime\": \"text/dns\", " +
		"\"status\": \"200\", \"digest\": \"" +
		sha(block) + fmt.Sprintf("\", \"length\": \"%d\", \"offset\": \"%d\", ", loc.Length, loc.Offset) +
		"\"filename\": \"DRUMBEAT-20261121224305678-00000-crawler-1.warc.gz\"}\n"
	if string(p.index) != line {
		t.Errorf("got index line\n%swant\n%s", p.index, line)
	}
	for _, bad := range []*Lookup{{Host: "", Addrs: x.Addrs}, {Host: "h"}} {
		if err := e.PrepareLookup(&p, bad); err == nil {
			t.Errorf("%+v was encoded", bad)
		}
	}
}

// TestKinds: the record and the index line of a robots.txt state its kind, and searches for pages skip them.
func TestKinds(t *testing.T) {
	mem := memfs.New(1)
	opt := testOptions(mem, 1)
	w := open(t, opt, nil)
	e := w.NewEncoder()
	for _, kind := range []string{KindPage, KindRobots} {
		x := sampleExchange()
		x.Kind = kind
		var p Prepared
		must(t, e.Prepare(&p, x))
		field, member := "WARC-Truncated: length\r\nWARC-Resource-Type: robots\r\nContent-Type: ",
			`"truncated": "length", "type": "robots", "length"`
		if marked := kind == KindRobots; strings.Contains(gunzip(t, p.buf)[1], field) != marked {
			t.Errorf("kind %q: got %s", kind, gunzip(t, p.buf)[1])
		} else if _, err := w.Append(&p, when); err != nil || strings.Contains(string(p.index), member) != marked {
			t.Errorf("kind %q: got %s, %v", kind, p.index, err)
		}
	}
	st := saved(t, w, opt)
	found := 0
	url := string(sampleExchange().URL)
	if err := Find(opt, st, []string{url}, func(x *Indexed) error { found++; return nil },
		func(err error) error { return err }); err != nil || found != 1 {
		t.Errorf("%d found, %v", found, err)
	}
	found = 0
	if err := FindHost(opt, st, url, 1<<20, func(string) bool { found++; return false },
		func(err error) error { return err }); err != nil || found != 1 {
		t.Errorf("%d found of the host, %v", found, err)
	}
}
