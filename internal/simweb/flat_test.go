package simweb

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/net/html"
)

func flatOptions() FlatOptions {
	return FlatOptions{Seed: 7, Hosts: 2000, Roots: 1000, NewHosts: 0.1, PLDs: 600, Addrs: 40, PageBytes: 25_000,
		Links: 59, New: 6.5}
}

func newFlat(t *testing.T, opt FlatOptions) *Flat {
	t.Helper()
	f, err := NewFlat(opt)
	must(t, err)
	return f
}

// hrefs returns the links of a page like a browser.
func hrefs(t *testing.T, base string, body []byte) (urls []string) {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(body))
	must(t, err)
	at, err := url.Parse(base)
	must(t, err)
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "a" {
			continue
		}
		for _, a := range n.Attr {
			if u, err := at.Parse(a.Val); a.Key == "href" && err == nil {
				urls = append(urls, u.String())
			}
		}
	}
	return urls
}

// TestFlatPages: pages in the order of a crawl have the requested size, links and share of new links; the
// gzip form decodes to the same page.
func TestFlatPages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	f := newFlat(t, flatOptions())
	var p FlatPainter
	seen := map[string]bool{}
	queue := []FlatPage{{Host: 3}}
	const pages = 1000
	size, links, fresh := 0, 0, 0
	hosts := map[string]bool{} // other hosts; few of them are not seeds
	beyond := 0
	for n := range pages {
		page := queue[0]
		queue = queue[1:]
		body := p.AppendPage(nil, f, page, false)
		size += len(body)
		base := string(f.AppendURL(nil, page))
		for _, u := range hrefs(t, base, body) {
			links++
			at, err := url.Parse(u)
			must(t, err)
			host, ok := f.HostOf([]byte(at.Host))
			to, known := f.PageOf(host, []byte(at.Path))
			if again := string(f.AppendURL(nil, to)); !ok || !known || again != u {
				t.Fatalf("page %s: link to %s, of which is made %s (%v, %v)", base, u, again, ok, known)
			}
			if host != page.Host {
				if host >= 1000 {
					beyond++
				}
				hosts[at.Host] = true
			} else if !seen[u] {
				seen[u] = true
				fresh++
				queue = append(queue, to)
			}
		}
		if n%50 == 0 {
			z, err := gzip.NewReader(bytes.NewReader(p.AppendPage(nil, f, page, true)))
			must(t, err)
			if plain, err := io.ReadAll(z); err != nil || !bytes.Equal(plain, body) {
				t.Fatalf("page %s: gzip's form has %d bytes, %v, the plain one %d", base, len(plain), err, len(body))
			}
		}
	}
	t.Logf("%.0f bytes, %.2f links, %.2f new a page; %d other hosts", float64(size)/pages, float64(links)/pages,
		float64(fresh)/pages, len(hosts))
	if got := float64(size) / pages; math.Abs(got/25_000-1) > 0.05 {
		t.Errorf("pages of %.0f bytes on average, want 25,000", got)
	}
	if links != 59*pages {
		t.Errorf("%d links on %d pages, want 59 each", links, pages)
	}
	if got := float64(fresh) / pages; math.Abs(got/6.5-1) > 0.02 {
		t.Errorf("%.2f new links of a page, want 6.5", got)
	}
	if len(hosts) < 500 || beyond < 60 || beyond > 140 {
		t.Errorf("links to %d other hosts, %d to new ones; want 500 and some 100", len(hosts), beyond)
	}
}

func TestFlatNames(t *testing.T) {
	f := newFlat(t, flatOptions())
	for _, name := range []string{"", "h", "h1", "h1.test", "h2000.x-1.test", "x1.y.test",
		"h99999999999999999999.x.test"} {
		if host, ok := f.HostOf([]byte(name)); ok {
			t.Errorf("%q is host %d", name, host)
		}
	}
	for _, path := range []string{"", "/x", "/a/p", "/a/p-", "/a/pz-x", "/a/p12345678901234-x", "/a/p12"} {
		if p, ok := f.PageOf(1, []byte(path)); ok {
			t.Errorf("%q is page %+v", path, p)
		}
	}
	for _, bad := range []func(o *FlatOptions){
		func(o *FlatOptions) { o.Hosts = 0 }, func(o *FlatOptions) { o.Roots = 0 }, func(o *FlatOptions) {
			o.NewHosts = 2
		}, func(o *FlatOptions) { o.PLDs = 2001 }, func(o *FlatOptions) { o.Addrs = 0 },
		func(o *FlatOptions) { o.New = 1 }, func(o *FlatOptions) { o.New = 60 },
		func(o *FlatOptions) { o.PageBytes = 9000 },
		func(o *FlatOptions) { o.Links = 1 }, func(o *FlatOptions) { o.New = math.NaN() },
	} {
		o := flatOptions()
		bad(&o)
		if _, err := NewFlat(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestFlatServer: sockets serve the same pages as the generator, on new and kept connections, with and
// without TLS.
func TestFlatServer(t *testing.T) {
	for _, secure := range []bool{false, true} {
		opt := flatOptions()
		opt.HTTPS, opt.Gzip = secure, true
		f := newFlat(t, opt)
		s, err := f.Start()
		must(t, err)
		roots := x509.NewCertPool()
		if secure {
			root, err := x509.ParseCertificate(s.RootDER())
			must(t, err)
			roots.AddCert(root)
		}
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
			DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				name, _, _ := net.SplitHostPort(addr)
				host, _ := f.HostOf([]byte(name))
				var d net.Dialer
				return d.DialContext(ctx, "tcp",
					net.JoinHostPort(f.AddrOf(host).String(), (&url.URL{Host: addr}).Port()))
			}}
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			name, _, _ := net.SplitHostPort(addr)
			return dial(ctx, network, net.JoinHostPort(name, portText(s.Port())))
		}
		var p FlatPainter
		const pages = 20
		for i := range uint64(pages) {
			page := FlatPage{uint32(i % 3 * 333), i}
			res, err := (&http.Client{Transport: tr}).Get(string(f.AppendURL(nil, page)))
			must(t, err)
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != 200 || !bytes.Equal(body, p.AppendPage(nil, f, page, false)) {
				t.Fatalf("page %+v: status %d, %d bytes, %v", page, res.StatusCode, len(body), err)
			}
		}
		tr.CloseIdleConnections()
		q := new(dns.Msg)
		q.SetQuestion("h3.x.test.", dns.TypeA)
		answer, err := dns.Exchange(q, s.DNS().String())
		if err != nil || answer.Rcode != dns.RcodeNameError {
			t.Errorf("a wrong name: %v, %v", answer, err)
		}
		q.SetQuestion(string(f.AppendHost(nil, 3))+".", dns.TypeA)
		if answer, err = dns.Exchange(q, s.DNS().String()); err != nil || len(answer.Answer) != 1 {
			t.Errorf("host 3: %v, %v", answer, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if c := s.Counts(); c.Pages != pages || c.Conns != 3 || c.Lookups != 2 {
			t.Errorf("counted %+v", c)
		}
	}
}

func portText(port uint16) string { return (&net.TCPAddr{Port: int(port)}).String()[1:] }

func BenchmarkFlatPage(b *testing.B) {
	f, err := NewFlat(flatOptions())
	must(b, err)
	var p FlatPainter
	var page []byte
	for _, gz := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "gzip"}[gz], func(b *testing.B) {
			n := 0
			for i := range b.N {
				page = p.AppendPage(page[:0], f, FlatPage{uint32(i % 1000), uint64(i)}, gz)
				n += len(page)
			}
			b.SetBytes(int64(n / b.N))
		})
	}
}
