package simweb

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// hostOf returns a host of the web for which fits returns true.
func hostOf(t *testing.T, w *Web, fits func(h *host) bool) *host {
	t.Helper()
	for i := range w.hosts {
		if fits(&w.hosts[i]) {
			return &w.hosts[i]
		}
	}
	t.Fatalf("seed %d: no host that the test needs", w.opt.Seed)
	return nil
}

func TestNameServerAnswers(t *testing.T) {
	o := small(*seedFlag)
	o.IPv6 = 0.3
	w := mustNew(t, o)
	s := mustStart(t, w, ServerOptions{DNSServers: 2})
	if got := len(s.DNSAddrs()); got != 2 {
		t.Fatalf("name servers: got %d, want 2", got)
	}
	ask := func(name string, rrtype uint16, network string) (*dns.Msg, error) {
		return query(s.DNSAddrs()[1], name, rrtype, network)
	}
	for i := range w.hosts {
		h := &w.hosts[i]
		if h.kind != liveHost && h.kind != chainHost {
			continue
		}
		r, err := ask(strings.ToUpper(h.name), dns.TypeA, "udp")
		if err == nil && r.Truncated == h.cut && h.cut {
			r, err = ask(h.name, dns.TypeA, "tcp")
		}
		if err != nil {
			t.Fatalf("%s: %v", h.name, err)
		}
		got, cname := answers(r)
		if !slices.Equal(got, h.addrs) || (cname != "") != (h.cname != "") {
			t.Fatalf("%s: got %v %q, want %v %q", h.name, got, cname, h.addrs, h.cname)
		}
		if all, err := w.LookupHost(h.name); err != nil || !slices.Equal(all, slices.Concat(h.addrs, h.addrs6)) {
			t.Fatalf("LookupHost(%s): got %v, %v", h.name, all, err)
		}
	}
	six := hostOf(t, w, func(h *host) bool { return len(h.addrs6) > 0 })
	if r, err := ask(six.name, dns.TypeAAAA, "tcp"); err != nil {
		t.Error(err)
	} else if got, _ := answers(r); !slices.Equal(got, six.addrs6) {
		t.Errorf("AAAA of %s: got %v, want %v", six.name, got, six.addrs6)
	}
	four := hostOf(t, w, func(h *host) bool { return h.kind == liveHost && h.cname == "" && len(h.addrs6) == 0 })
	r, err := ask(four.name, dns.TypeAAAA, "tcp")
	if err != nil || len(r.Answer) > 0 || len(r.Ns) != 1 || r.Rcode != 0 {
		t.Errorf("AAAA of %s: got %v, %v; want no data", four.name, r, err)
	}
}

// query asks a name server once.
func query(server netip.AddrPort, name string, rrtype uint16, network string) (*dns.Msg, error) {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), rrtype)
	c := dns.Client{Net: network, Timeout: 300 * time.Millisecond}
	r, _, err := c.Exchange(q, server.String())
	return r, err
}

func answers(r *dns.Msg) (list []netip.Addr, cname string) {
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			a, _ := netip.AddrFromSlice(rr.A.To4())
			list = append(list, a)
		case *dns.AAAA:
			a, _ := netip.AddrFromSlice(rr.AAAA)
			list = append(list, a)
		case *dns.CNAME:
			cname = rr.Target
		}
	}
	return list, cname
}

func TestNameServerRefusesAndInvents(t *testing.T) {
	o := small(*seedFlag)
	o.Dead.DNSTimeout, o.Spam = 2, Spam{On: true, IPs: 3}
	w := mustNew(t, o)
	s := mustStart(t, w, ServerOptions{})
	ask := func(name string, rrtype uint16, network string) (*dns.Msg, error) {
		return query(s.DNSAddrs()[0], name, rrtype, network)
	}
	for kind, rcode := range map[hostKind]int{
		nxDomainHost: dns.RcodeNameError, servFailHost: dns.RcodeServerFailure,
	} {
		h := hostOf(t, w, func(h *host) bool { return h.kind == kind })
		if r, err := ask(h.name, dns.TypeA, "udp"); err != nil || r.Rcode != rcode {
			t.Errorf("%s: got %v, %v; want rcode %d", h.name, r, err, rcode)
		}
	}
	if r, err := ask("www.example.org", dns.TypeA, "udp"); err != nil || r.Rcode != dns.RcodeNameError {
		t.Errorf("foreign name: got %v, %v; want no such domain", r, err)
	}
	mute := hostOf(t, w, func(h *host) bool { return h.kind == dnsTimeoutHost })
	if r, err := ask(mute.name, dns.TypeA, "udp"); err == nil {
		t.Errorf("%s: got %v, want no answer", mute.name, r)
	}
	for _, name := range []string{"s0", "s77", "s4294967295", "anything"} {
		name += "." + w.SpamPLD()
		r, err := ask(name, dns.TypeA, "udp")
		must(t, err)
		if got, _ := answers(r); len(got) != 1 || !slices.Contains(w.spamIP, got[0]) {
			t.Errorf("%s: got %v, want one of %v", name, got, w.spamIP)
		}
		if got := w.PLD(name); got != w.SpamPLD() {
			t.Errorf("PLD of %s: got %q, want %q", name, got, w.SpamPLD())
		}
	}
}

func TestLookupErrorsAreTyped(t *testing.T) {
	o := small(*seedFlag)
	o.Dead = DeadHosts{NXDomain: 1, ServFail: 1, DNSTimeout: 1, Refused: 1, ConnectTimeout: 1}
	w := mustNew(t, o)
	for kind, want := range map[hostKind]DNSErrorKind{
		nxDomainHost: NXDomain, servFailHost: ServFail, dnsTimeoutHost: DNSTimeout,
	} {
		h := hostOf(t, w, func(h *host) bool { return h.kind == kind })
		_, err := w.LookupHost(h.name)
		var e *DNSError
		if !errors.As(err, &e) || e.Kind != want || e.Timeout() != (want == DNSTimeout) {
			t.Errorf("%s: got %v, want %v", h.name, err, want)
		}
	}
	dial := func(kind hostKind) (time.Duration, error) {
		h := hostOf(t, w, func(h *host) bool { return h.kind == kind })
		addrs, err := w.LookupHost(h.name)
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, err = w.Dial(ctx, netip.AddrPortFrom(addrs[0], 80))
		return time.Since(start), err
	}
	synctest.Test(t, func(t *testing.T) {
		if took, err := dial(refusedHost); !errors.Is(err, syscall.ECONNREFUSED) || took != 0 {
			t.Errorf("refusing host: got %v after %v", err, took)
		}
		took, err := dial(connectTimeoutHost)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || took != 10*time.Second {
			t.Errorf("silent host: got %v after %v, want a timeout after 10 s", err, took)
		}
	})
}

// get requests a URL of the web from the in-process form on a new connection.
func get(t *testing.T, w *Web, url string) *http.Response {
	t.Helper()
	resp, err := tryGet(w, url)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp
}

func tryGet(w *Web, url string) (*http.Response, error) {
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	addrs, err := w.LookupHost(req.URL.Hostname())
	if err != nil {
		return nil, err
	}
	port := map[string]uint16{"http": 80, "https": 443}[req.URL.Scheme]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := w.Dial(ctx, netip.AddrPortFrom(addrs[0], port))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if port == 443 {
		c = tls.Client(c, &tls.Config{ServerName: req.URL.Hostname(), RootCAs: w.CAPool()})
	}
	if err := req.Write(c); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

func TestInProcessFormInABubbleKeepsVirtualTime(t *testing.T) {
	o := small(*seedFlag)
	o.SlowHosts, o.SlowDelay = 1, 7*time.Second
	w := mustNew(t, o)
	synctest.Test(t, func(t *testing.T) {
		for i, wait := range []time.Duration{0, 5 * time.Second, 3 * time.Second} {
			time.Sleep(wait)
			if resp := get(t, w, w.Seeds()[0]); resp.StatusCode != 200 {
				t.Errorf("request %d: got status %d", i, resp.StatusCode)
			}
		}
		secure := hostOf(t, w, func(h *host) bool { return h.scheme == "https" && !h.slow && h != &w.hosts[0] })
		if resp := get(t, w, "https://"+secure.name+"/"); resp.StatusCode != 200 {
			t.Errorf("https: got status %d", resp.StatusCode)
		}
		slow := hostOf(t, w, func(h *host) bool { return h.slow })
		before := time.Now()
		get(t, w, slow.origin+"/")
		if took := time.Since(before); took != 7*time.Second {
			t.Errorf("slow host: got an answer after %v, want 7s", took)
		}
		start, end := w.Log().Snapshot().MinHostGap()
		if want := (Gap{w.hosts[0].name, 3 * time.Second}); start != want || end != want {
			t.Errorf("least gap: got %v and %v, want %v", start, end, want)
		}
	})
	if err := w.Log().Snapshot().CheckGaps(3*time.Second, 0, 0); err != nil {
		t.Error(err)
	}
	err := w.Log().Snapshot().CheckGaps(3*time.Second+1, 0, 0)
	if err == nil || !strings.Contains(err.Error(), w.hosts[0].name) {
		t.Errorf("CheckGaps with a longer delay: got %v, want the host named", err)
	}
	if err := w.Log().Snapshot().CheckOnce(); err == nil || !strings.Contains(err.Error(), "fetched 3 times") {
		t.Errorf("CheckOnce: got %v, want the root fetched 3 times", err)
	}
}

func TestOutages(t *testing.T) {
	w := mustNew(t, small(*seedFlag))
	root := w.Seeds()[0]
	timeout := func(err error) bool {
		var ne net.Error
		return errors.As(err, &ne) && ne.Timeout()
	}
	synctest.Test(t, func(t *testing.T) {
		w.SetOutage(Outage{DNS: true})
		if _, err := tryGet(w, root); !timeout(err) {
			t.Errorf("names out: got %v, want a timeout", err)
		}
		w.SetOutage(Outage{Hosts: []string{w.hosts[0].name}})
		if _, err := tryGet(w, root); !timeout(err) {
			t.Errorf("host out: got %v, want a timeout", err)
		}
		if _, err := w.LookupHost(w.hosts[1].name); err != nil {
			t.Errorf("other host: %v", err)
		}
		w.SetOutage(Outage{NoNames: true})
		var de *DNSError
		if _, err := w.LookupHost(w.hosts[0].name); !errors.As(err, &de) || de.Kind != NXDomain {
			t.Errorf("no names: got %v, want %v", err, NXDomain)
		}
		w.SetOutage(Outage{All: true})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := w.Dial(ctx, netip.AddrPortFrom(w.hosts[0].addrs[0], 80)); !timeout(err) {
			t.Errorf("all out: got %v, want a timeout", err)
		}
		w.SetOutage(Outage{})
		if resp := get(t, w, root); resp.StatusCode != 200 {
			t.Errorf("after the outage: got status %d", resp.StatusCode)
		}
	})
}

func TestOutageOverSockets(t *testing.T) {
	w := mustNew(t, plain(2))
	s := mustStart(t, w, ServerOptions{})
	h := &w.hosts[0]
	ask := func(wait time.Duration) error {
		c, err := net.Dial("tcp", s.Map(netip.AddrPortFrom(h.addrs[0], 80)).String())
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(wait))
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+h.name+"\r\nConnection: close\r\n\r\n")
		_, err = http.ReadResponse(bufio.NewReader(c), nil)
		return err
	}
	must(t, ask(10*time.Second))
	w.SetOutage(Outage{All: true})
	if err := ask(10 * time.Second); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("outage: got %v, want a broken connection", err)
	}
	w.SetOutage(Outage{All: true, Hang: true})
	var ne net.Error
	if err := ask(50 * time.Millisecond); !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("outage that hangs: got %v, want a timeout", err)
	}
	w.SetOutage(Outage{})
	if err := ask(10 * time.Second); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}

// TestServerSpeaksHTTP: requests in one packet and in pieces, HEAD, HTTP/1.0, and malformed requests, over
// a socket.
func TestServerSpeaksHTTP(t *testing.T) {
	w := mustNew(t, plain(2))
	s := mustStart(t, w, ServerOptions{})
	h := &w.hosts[0]
	c, err := net.Dial("tcp", s.Map(netip.AddrPortFrom(h.addrs[0], 80)).String())
	must(t, err)
	defer c.Close()
	r := bufio.NewReader(c)
	read := func(method string) *http.Response {
		t.Helper()
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode == 200 && method == "GET" && len(body) == 0 {
			t.Error("got an empty page")
		}
		return resp
	}
	req := "GET / HTTP/1.1\r\nHost: " + strings.ToUpper(h.name) + ":80\r\n\r\n"
	io.WriteString(c, req+"HEAD / HTTP/1.1\r\nhost:"+h.name+"\r\n\r\n"+req[:30])
	if got := read("GET"); got.StatusCode != 200 || got.Close {
		t.Errorf("first: got %d, close %v", got.StatusCode, got.Close)
	}
	if got := read("HEAD"); got.StatusCode != 200 {
		t.Errorf("HEAD: got %d", got.StatusCode)
	}
	io.WriteString(c, req[30:])
	if got := read("GET"); got.StatusCode != 200 {
		t.Errorf("in pieces: got %d", got.StatusCode)
	}
	io.WriteString(c, "GET / HTTP/1.0\r\nHost: "+h.name+"\r\n\r\n")
	if got := read("GET"); got.StatusCode != 200 || !got.Close {
		t.Errorf("HTTP/1.0: got %d, close %v", got.StatusCode, got.Close)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after HTTP/1.0: got %v, want the end", err)
	}
	for _, bad := range []string{
		"GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /#f HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET /\r\n\r\n",
		"GET / HTTP/1.1\r\n" + strings.Repeat("x", maxHeadBytes+1),
	} {
		c, err := net.Dial("tcp", s.Map(netip.AddrPortFrom(h.addrs[0], 80)).String())
		must(t, err)
		io.WriteString(c, bad)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 400 {
			t.Errorf("%.40q: got %v, %v; want 400", bad, resp, err)
		}
		c.Close()
	}
}

func TestHTTPSHosts(t *testing.T) {
	w := mustNew(t, small(*seedFlag))
	s := mustStart(t, w, ServerOptions{})
	secure := hostOf(t, w, func(h *host) bool { return h.scheme == "https" })
	plain := hostOf(t, w, func(h *host) bool { return h.scheme == "http" && h.port == 80 })
	shake := func(h *host, roots *x509.CertPool) error {
		c, err := tls.Dial("tcp", s.Map(netip.AddrPortFrom(h.addrs[0], 443)).String(),
			&tls.Config{ServerName: h.name, RootCAs: roots})
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := shake(secure, w.CAPool()); err != nil {
		t.Errorf("https host: %v", err)
	}
	if err := shake(secure, x509.NewCertPool()); err == nil {
		t.Error("https host without its authority: got no error, want one")
	}
	if err := shake(plain, w.CAPool()); err == nil {
		t.Error("http host over https: got a handshake, want none")
	}
	resp := get(t, w, "http://"+secure.name+"/")
	if resp.StatusCode != 301 || resp.Header.Get("Location") != secure.origin+"/" {
		t.Errorf("http at the https host: got %d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	snap := w.Log().Snapshot()
	if snap.Fallbacks["http://"+secure.name+"/"] != 1 || len(snap.Wrong) != 0 {
		t.Errorf("log: got fallbacks %v, wrong %v", snap.Fallbacks, snap.Wrong)
	}
}

// TestSnapshotTravels: a snapshot survives writing and reading, also through the server's own page.
func TestSnapshotTravels(t *testing.T) {
	w := mustNew(t, small(*seedFlag))
	s := mustStart(t, w, ServerOptions{})
	get(t, w, w.Seeds()[0])
	get(t, w, w.hosts[0].origin+"/robots.txt")
	get(t, w, w.hosts[0].origin+"/trap/x")
	want := w.Log().Snapshot()
	var b bytes.Buffer
	if _, err := want.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	got := new(Snapshot)
	err := json.Unmarshal(b.Bytes(), got)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read back: got %+v, %v; want %+v", got, err, want)
	}
	req, _ := http.NewRequest("GET", "http://"+s.Map(netip.AddrPortFrom(w.Addrs()[0], 80)).String()+"/log", nil)
	req.Host, req.Close = LogHost, true
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	got = new(Snapshot)
	err = json.NewDecoder(resp.Body).Decode(got)
	if err != nil || got.Total != 3 || len(got.Requests) != 3 || got.Wrong[w.hosts[0].origin+"/trap/x"] != 1 {
		t.Errorf("GET /log: got %+v, %v", got, err)
	}
	r := got.Requests
	if !r[1].Robots || !r[0].Known || r[2].Known || r[0].URL != w.Seeds()[0] || r[0].Host != w.hosts[0].name {
		t.Errorf("requests: got %+v", r)
	}
	if err := got.CheckOnce(); err == nil || !strings.Contains(err.Error(), "/trap/x") {
		t.Errorf("CheckOnce: got %v, want the wrong URL named", err)
	}
}

// TestCloseWhileBusy: Close ends connections that are idle, wait for a slow answer, or are being written.
// goleak detects leaked goroutines.
func TestCloseWhileBusy(t *testing.T) {
	o := plain(3)
	o.SlowHosts, o.SlowDelay, o.PageBytes = 1, time.Hour, 1<<22
	w := mustNew(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	s, err := w.Start(ctx, ServerOptions{})
	must(t, err)
	for i, head := range []string{"", "GET / HTTP/1.1\r\nHost: ", "GET / HTTP/1.1\r\nHost: ", "GET / HT"} {
		c, err := net.Dial("tcp", s.Map(netip.AddrPortFrom(w.addrs[0], 80)).String())
		must(t, err)
		defer c.Close()
		if i == 1 || i == 2 {
			head += w.hosts[i-1].name + "\r\n\r\n"
		}
		io.WriteString(c, head)
	}
	for n := 0; n < 2; { // one page is being written, and the slow host delays its answer
		n, _, _ = w.Log().Totals()
	}
	cancel()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, _, open := w.Log().Totals(); open != 0 {
		t.Errorf("after Close: got %d connections open, want none", open)
	}
	if _, err := net.Dial("tcp", s.Map(netip.AddrPortFrom(w.addrs[0], 80)).String()); err == nil {
		t.Error("after Close: got a connection")
	}
}

// TestClientThatGivesUp: a client that gives up on a slow host and returns doesn't count as two connections.
func TestClientThatGivesUp(t *testing.T) {
	o := plain(3)
	o.SlowHosts, o.SlowDelay = 1, time.Minute
	w := mustNew(t, o)
	slow := &w.hosts[1]
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			c, err := w.Dial(t.Context(), netip.AddrPortFrom(slow.addrs[0], 80))
			must(t, err)
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+slow.name+"\r\nConnection: close\r\n\r\n")
			time.Sleep(20 * time.Second)
			c.Close()
			time.Sleep(5 * time.Second)
		}
	})
	got := w.Log().Snapshot().Hosts[slow.name]
	if want := (Tracked{2, 0, 25 * time.Second, 5 * time.Second, 25 * time.Second, 2, 1, 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestLateNames: answers are late by DNSDelay, and every DNSLossEvery-th query gets none; TCP loses nothing.
func TestLateNames(t *testing.T) {
	o := Defaults(1)
	o.Pages, o.Hosts, o.PLDs, o.IPs = 50, 10, 5, 2
	w, err := New(o)
	must(t, err)
	const delay, every = 30 * time.Millisecond, 3
	s, err := w.Start(t.Context(), ServerOptions{DNSDelay: delay, DNSLossEvery: every})
	must(t, err)
	defer s.Close()
	q := new(dns.Msg).SetQuestion("nobody.simweb.", dns.TypeA)
	for _, network := range []string{"udp", "tcp"} {
		client := dns.Client{Net: network, Timeout: 10 * delay}
		lost := 0
		for range 2 * every {
			began := time.Now()
			if _, _, err := client.Exchange(q, s.DNSAddrs()[0].String()); err != nil {
				lost++
			} else if took := time.Since(began); took < delay {
				t.Errorf("%s: answered after %v", network, took)
			}
		}
		if want := map[string]int{"udp": 2}[network]; lost < want || network == "tcp" && lost > 0 {
			t.Errorf("%s: %d questions lost, want %d", network, lost, want)
		}
	}
}
