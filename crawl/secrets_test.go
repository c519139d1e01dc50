package crawl

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/internal/render"
	"drumbeat/state"
)

// secretWeb is a tinyWeb that serves HTTPS, too, on ports 443 and 8443. The certificates of hosts that begin
// with "bad" are self-signed and for another name.
type secretWeb struct {
	tinyWeb
	ca    *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool
}

func (w *secretWeb) certificate(t *testing.T, host string) *tls.Certificate {
	t.Helper()
	own := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano() + int64(len(host))),
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24000 * time.Hour), BasicConstraintsValid: true, IsCA: w.ca == nil}
	parent, key := w.ca, w.key
	if w.ca == nil {
		own.KeyUsage = x509.KeyUsageCertSign
		parent = own
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
		w.key = key
	}
	if strings.HasPrefix(host, "bad") {
		own.DNSNames, parent = []string{"evil.example"}, own
	}
	der, err := x509.CreateCertificate(rand.Reader, own, parent, &w.key.PublicKey, key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: w.key, Leaf: leaf}
}

// options returns the options of a crawl with these settings of sites.
func (w *secretWeb) options(t *testing.T, table string, seeds ...string) Options {
	t.Helper()
	w.ca = w.certificate(t, "ca.test").Leaf
	w.roots = x509.NewCertPool()
	w.roots.AddCert(w.ca)
	dial := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		if addr.Port() != 443 && addr.Port() != 8443 {
			return w.Dial(ctx, addr)
		}
		client, server := net.Pipe()
		go w.Handle(tls.Server(server,
			&tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
				return w.certificate(t, h.ServerName), nil
			}}))
		return client, nil
	}
	list := ports.Of(8091, 8443)
	client := newClient(t, fetch.Options{Dial: dial, Ports: list,
		TLS: fetch.TLSOptions{Roots: w.roots}})
	fs := memfs.New(*seedFlag)
	writeRules(t, fs, "sites.toml", table)
	opt := tinyOptions(t, &w.tinyWeb, fs, seeds...)
	atOnce(&opt)
	opt.Network.Fetcher, opt.Network.Ports, opt.Admission.Sites, opt.Admission.Env = client, client.Ports(),
		"sites.toml", sitesEnv
	opt.Limits.Linger, opt.Health.Retries = 10*time.Second, 1
	return opt
}

// secret reports which requests had credentials: "host path" of each, sorted.
func (w *secretWeb) secret() (with, without []string) {
	for _, r := range w.Got("", "") {
		if r.Path == "/robots.txt" {
			continue
		}
		if r.Header.Get("Authorization")+r.Header.Get("X-Key")+r.Header.Get("Cookie") != "" {
			with = append(with, r.Host+r.Path)
		} else {
			without = append(without, r.Host+r.Path)
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	return with, without
}

const secretTable = "\nbearer = 'env:TOKEN'\nheaders.X-Key = 'abc'\ncookies = true\n"

// TestSecretsNeedGoodCertificate: without --tls require, a server whose certificate is bad gets no
// credentials, headers or cookies, for pages and robots.txt, unless its table allows it. The refusal is
// counted, and so are bad certificates.
func TestSecretsNeedGoodCertificate(t *testing.T) {
	for _, test := range []struct {
		table   string
		with    int // pages of bad.test with secrets
		reason  state.Reason
		refused int64
	}{
		{"host = 'bad.test'\ninsecure = false" + secretTable, 0, state.ReasonRobotsUnavailable, 0},
		{"surt = 'https://(test,bad,)/secret/'" + secretTable, 0, state.ReasonCertificate, 2},
		{"host = 'bad.test'\ninsecure = false\ncertificate = 'any'" + secretTable, 2, 0, 0},
	} {
		inBubble(t, func(t *testing.T) {
			w := &secretWeb{}
			w.Serve = func(host, path string) answer {
				a := pagesOnly(host, path)
				a.Header = "Set-Cookie: sid=1; Path=/\r\n"
				return a
			}
			opt := w.options(t, "[[site]]\n"+test.table, "https://bad.test/secret/1", "https://bad.test/open",
				"https://bad.test/secret/2", "https://good.test/")
			opt.Limits.MaxTime = time.Hour
			res := mustRun(t, t.Context(), opt)
			with, without := w.secret()
			n := 0
			for _, url := range with {
				if strings.HasPrefix(url, "bad.test/secret/") {
					n++
				}
			}
			if n != test.with {
				t.Errorf("%s: with secrets: %v, without: %v", test.table, with, without)
			}
			for _, r := range w.Got("bad.test", "/robots.txt") {
				if got := r.Header.Get("Authorization"); got != "" && test.with == 0 {
					t.Errorf("%s: robots.txt was asked with %s", test.table, got)
				}
			}
			if test.reason == state.ReasonRobotsUnavailable {
				x := explainer(t, opt.Disk.FS, opt.Disk.Dirs)
				hosts, err := x.Hosts([]string{"bad.test"})
				if err != nil || !strings.Contains(strings.Join(hosts[0].Why, "\n"), "TLS: name mismatch") {
					t.Errorf("explain host: %v, %v", hosts, err)
				}
			}
			s := res.Snapshot
			bad, _ := state.TLSBadOf(fetch.VerdictName)
			if s.Refused[test.reason.String()] != test.refused || s.Counters[bad] == 0 {
				t.Errorf("%s: refused %v, %d exchanges with bad certificates", test.table, s.Refused, s.Counters[bad])
			}
		})
	}
}

// TestSecretsNeedHTTPS: secrets go to the default port of HTTPS, unless the table says otherwise.
func TestSecretsNeedHTTPS(t *testing.T) {
	seeds := []string{"https://a.test/s", "http://a.test/p", "https://a.test:8443/s", "http://a.test:8091/p"}
	for table, want := range map[string]string{
		"host = 'a.test'\ninsecure = false":            "[a.test/s]",
		"host = 'a.test'\ninsecure = true":             "[a.test/p a.test/s]",
		"surt = 'https://(test,a,)'":                   "[a.test/s]",
		"surt = 'https://(test,a,:8443)'":              "[a.test:8443/s]",
		"surt = '(test,a,:8091)'\ninsecure = true":     "[a.test:8091/p]",
		"surt = '(test,a,:8091)/p'\ninsecure = false":  "[]",
		"pld = 'a.test'\ninsecure = false\nrate = 1.0": "[a.test/s]",
	} {
		inBubble(t, func(t *testing.T) {
			w := &secretWeb{}
			w.Serve = pagesOnly
			mustRun(t, t.Context(), w.options(t, "[[site]]\n"+table+secretTable, seeds...))
			with, without := w.secret()
			if got := fmt.Sprint(with); got != want || len(with)+len(without) != len(seeds) {
				t.Errorf("%s: with secrets: %v, want %s; without: %v", table, got, want, without)
			}
		})
	}
}

// TestSecretsNeedOwnLinks: no link, redirect, sitemap or script of another site makes a request with secrets.
// URLs that other sites link to first are fetched with secrets once the site links to them.
func TestSecretsNeedOwnLinks(t *testing.T) {
	for _, links := range []string{"same-site", "any"} {
		inBubble(t, func(t *testing.T) {
			w := &secretWeb{}
			w.Serve = func(host, path string) answer {
				switch host + path {
				case "other.test/robots.txt":
					return answer{200, "", "Sitemap: https://a.test/admin/map\n"}
				case "other.test/":
					return answer{200, "",
						"<a href=https://a.test/admin/delete?id=5>x</a><a href=https://a.test/late>x</a>" +
							"<a href=http://a.test/admin/up>x</a><a " +
							"href=https://a.test/to?u=/admin/hop>x</a><a href=/out>x</a>" +
							"<a href=http://a.test:8091/admin/port>x</a><img src=https://a.test/admin/img>"}
				case "other.test/out":
					return answer{302, "Location: https://a.test/admin/redirected\r\n", ""}
				case "seed.test/":
					return answer{302, "Location: https://a.test/admin/seeded\r\n", ""}
				case "a.test/admin/up":
					return answer{301, "Location: https://a.test/admin/up\r\n", ""}
				case "a.test/to?u=/admin/hop":
					return answer{301, "Location: /admin/hop\r\n", ""}
				case "a.test/":
					return answer{200, "", "<a href=/first>x</a><a href=/moved>x</a>"}
				case "a.test/first":
					return answer{200, "", "<a href=/late>x</a>"}
				case "a.test/moved":
					return answer{301, "Location: /target\r\n", ""}
				}
				return pagesOnly(host, path)
			}
			opt := w.options(t, "[[site]]\nhost = 'a.test'\ninsecure = false\nlinks = '"+links+"'"+secretTable,
				"https://other.test/", "https://a.test/", "https://seed.test/")
			opt.Links.Sitemaps, opt.Links.Assets = true, true
			res := mustRun(t, t.Context(), opt)
			with, without := w.secret()
			want := []string{"a.test/", "a.test/first", "a.test/late", "a.test/moved", "a.test/target"}
			foreign := res.Snapshot.Counters[state.CountLinksForeign]
			if links == "any" {
				if foreign != 0 || len(with) < len(want)+6 {
					t.Errorf("links = any: with secrets %v, without %v, %d dropped", with, without, foreign)
				}
				return
			}
			if !slices.Equal(with, want) || foreign < 6 {
				t.Errorf("with secrets %v, want %v; without %v, %d dropped", with, want, without, foreign)
			}
		})
	}
}

// TestSecretsOfQueuedURLs: a URL that was queued before its table existed has no secrets, if another site
// linked to it; an order of the operator has them.
func TestSecretsOfQueuedURLs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &secretWeb{}
		w.Serve = func(host, path string) answer {
			if host+path == "other.test/" {
				return answer{200, "", "<a href=https://a.test/admin/1>x</a><a href=https://a.test/admin/2>x</a>"}
			}
			return pagesOnly(host, path)
		}
		opt := w.options(t, "", "https://other.test/")
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 30*time.Second, 30*time.Second
		reload := make(chan struct{})
		opt.Admission.Reload = reload
		go func() {
			for len(w.Got("other.test", "/")) == 0 {
				time.Sleep(time.Second)
			}
			time.Sleep(5 * time.Second)
			writeRules(t, opt.Disk.FS, "sites.toml", "[[site]]\nhost = 'a.test'\ninsecure = false"+secretTable)
			reload <- struct{}{}
		}()
		mustRun(t, t.Context(), opt)
		with, without := w.secret()
		if len(with) != 0 || !slices.Contains(without, "a.test/admin/1") ||
			!slices.Contains(without, "a.test/admin/2") {
			t.Errorf("with secrets %v, without %v", with, without)
		}
	})
}

// TestSecretsOfRobotsRedirects: a robots.txt of another site that redirects to a URL of a site gets no
// request with secrets.
func TestSecretsOfRobotsRedirects(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &secretWeb{}
		w.Serve = func(host, path string) answer {
			switch host + path {
			case "other.test/robots.txt":
				return answer{301, "Location: https://a.test/admin/delete?id=5\r\n", ""}
			case "a.test/robots.txt":
				return answer{301, "Location: /robots2.txt\r\n", ""}
			case "a.test/robots2.txt":
				return answer{301, "Location: https://cdn.test/robots.txt\r\n", ""}
			case "cdn.test/robots.txt":
				return answer{301, "Location: https://a.test/admin/delete?id=6\r\n", ""}
			}
			return pagesOnly(host, path)
		}
		mustRun(t, t.Context(), w.options(t, "[[site]]\nhost = 'a.test'\ninsecure = false"+secretTable,
			"https://other.test/", "https://a.test/"))
		with, without := w.secret()
		if got := fmt.Sprint(with); got != "[a.test/ a.test/robots2.txt]" ||
			!slices.Contains(without, "a.test/admin/delete?id=5") ||
			!slices.Contains(without, "a.test/admin/delete?id=6") {
			t.Errorf("with secrets %v, without %v", with, without)
		}
	})
}

// TestSecretsOfRenderedPages: scripts of another site make no request with secrets; those of the site do.
func TestSecretsOfRenderedPages(t *testing.T) {
	for _, page := range []string{"https://other.test/r", "https://a.test/r"} {
		inBubble(t, func(t *testing.T) {
			w := &secretWeb{}
			w.Serve = pagesOnly
			opt := w.options(t, "[[site]]\nhost = 'a.test'\ninsecure = false"+secretTable, page)
			atOnce(&opt)
			withBrowser(t, &opt, func(ctx context.Context, p *render.Page, f render.Fetcher) (*render.Result, error) {
				if _, err := f.Fetch(ctx, "https://a.test/api/delete?id=5"); err != nil {
					t.Error(err)
				}
				return &render.Result{HTML: p.Body, Base: p.URL}, nil
			})
			writeRules(t, opt.Disk.FS, "rules", "+ regex ^https://[^/]+/r")
			mustRun(t, t.Context(), opt)
			with, _ := w.secret()
			if got := slices.Contains(with, "a.test/api/delete?id=5"); got != (page == "https://a.test/r") {
				t.Errorf("%s: with secrets %v", page, with)
			}
		})
	}
}
