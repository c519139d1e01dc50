package botauth

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

const agent = "https://bot.test/.well-known/http-message-signatures-directory"

func newSigner(t testing.TB, keys Keys) *Signer {
	t.Helper()
	s, err := NewSigner(keys, "https://bot.test", Life)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f Fields) header() http.Header {
	return http.Header{"Signature-Agent": {f.SignatureAgent}, "Signature-Input": {f.SignatureInput},
		"Signature": {f.Signature}}
}

// verifyBy verifies a message as a site does that knows the signer's directory.
func verifyBy(s *Signer, m *Message, now time.Time) (Verified, error) {
	return Verify(m, Policy{Now: now, MaxLife: Life, Key: func(got, id string) (ed25519.PublicKey, error) {
		if got != agent {
			return nil, fmt.Errorf("%w: of %s", ErrUnknownKey, got)
		}
		return s.Keys().Directory(now).Key(id, now)
	}})
}

// TestSign: over hours and a rotation, each signature is valid when it is sent and a quarter of its life later, and
// made once a window.
func TestSign(t *testing.T) {
	keys, err := newKeys(t, start).Rotate(start, start.Add(time.Hour+time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	s := newSigner(t, keys)
	seen := map[string]bool{}
	requests := 0
	for now := start.Add(time.Second); now.Before(start.Add(2 * time.Hour)); now = now.Add(7 * time.Second) {
		f := s.Sign("example.com", now)
		requests++
		seen[f.Signature] = true
		m := &Message{Scheme: "https", Authority: "EXAMPLE.com:443", Header: f.header()}
		v, err := verifyBy(s, m, now)
		if err != nil {
			t.Fatalf("at %s: %v", now, err)
		}
		if v.Agent != agent || v.Label != "sig1" || v.KeyID != keys.At(now).ID() || v.Nonce != "" {
			t.Fatalf("at %s verified %+v", now, v)
		}
		if _, err := verifyBy(s, m, now.Add(Life-window(Life))); err != nil {
			t.Fatalf("%s after %s: %v", Life-window(Life), now, err)
		}
	}
	if want := int(2*time.Hour/window(Life)) + 1; len(seen) != want { // one more for the rotation within a window
		t.Errorf("%d signatures of %d requests, want %d", len(seen), requests, want)
	}
}

// TestSignBound: a signer keeps a bounded number of signatures, and those of the hosts that it met last.
func TestSignBound(t *testing.T) {
	s := newSigner(t, testKeys(t))
	now := start
	for i := range 3*signedHosts + 5 {
		s.slot = s.current(now)
		s.slot.put(fmt.Sprint(i), "x")
	}
	if n := len(s.slot.hosts) + len(s.slot.older); n > 2*signedHosts {
		t.Errorf("%d signatures, the limit is %d", n, 2*signedHosts)
	}
	if got := s.Sign(fmt.Sprint(3*signedHosts-1), now).Signature; got != "x" {
		t.Errorf("signature %q of a host just met, want the kept one", got)
	}
	if got := s.Sign("0", now).Signature; got == "x" {
		t.Error("a signature outlived the bound")
	}
}

// TestSignClocks: a caller whose time is a little older gets the newer signature; a clock set back counts.
func TestSignClocks(t *testing.T) {
	s := newSigner(t, testKeys(t))
	newer := s.Sign("a", start.Add(window(Life)))
	if got := s.Sign("a", start.Add(window(Life)-1)); got != newer {
		t.Errorf("an older time: %+v, want %+v", got, newer)
	}
	if got := s.Sign("a", start.Add(-window(Life))); got == newer {
		t.Error("a clock set back by hours keeps a signature of the future")
	}
}

// TestSignLife: signatures live as long as they are told to, within bounds; a clock that is an hour wrong has none that
// others accept, in either direction.
func TestSignLife(t *testing.T) {
	for _, life := range []time.Duration{0, MinLife - 1, Life + 1} {
		if _, err := NewSigner(testKeys(t), "https://bot.test", life); err == nil {
			t.Errorf("signs for %s", life)
		}
	}
	s, err := NewSigner(testKeys(t), "https://bot.test", MinLife)
	if err != nil {
		t.Fatal(err)
	}
	for now := start; now.Before(start.Add(2 * MinLife)); now = now.Add(time.Second) {
		m := &Message{Scheme: "https", Authority: "a.test", Header: s.Sign("a.test", now).header()}
		v, err := verifyBy(s, m, now.Add(MinLife/4-time.Second))
		if err != nil || v.Expires.Sub(v.Created) != MinLife {
			t.Fatalf("after %s: %+v, %v", now.Sub(start), v, err)
		}
		for skew, want := range map[time.Duration]error{-time.Hour: ErrFuture, time.Hour: ErrExpired} {
			if _, err := verifyBy(s, m, now.Add(skew)); !errors.Is(err, want) {
				t.Errorf("a clock that is %s off: %v", skew, err)
			}
		}
	}
}

// TestReplay: a site that sends a signature on to another host proves nothing there.
func TestReplay(t *testing.T) {
	s := newSigner(t, testKeys(t))
	header := s.Sign("evil.test", start).header()
	for authority, want := range map[string]error{"evil.test": nil, "good.test": ErrMismatch,
		"evil.test:8443": ErrMismatch, "www.evil.test": ErrMismatch} {
		m := &Message{Scheme: "https", Authority: authority, Header: header}
		if _, err := verifyBy(s, m, start); !errors.Is(err, want) {
			t.Errorf("at %s: %v, want %v", authority, err, want)
		}
	}
}

// TestAskIsSmall: what is kept of a site's demand does not keep the whole field in memory.
func TestAskIsSmall(t *testing.T) {
	const sites = 1000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var asks [sites]Ask
	before := heap()
	for i := range asks {
		field := fmt.Sprintf(`sig1=("@path");nonce="%d"%s`, i, strings.Repeat(" ", maxFieldBytes-64))
		var ok bool
		if asks[i], ok = ParseAccept([]string{field}); !ok {
			t.Fatal("not parsed")
		}
	}
	if kept := heap() - before; kept > sites*maxFieldBytes/4 {
		t.Errorf("%d asks of %d bytes keep %d bytes", sites, maxFieldBytes, kept)
	}
	runtime.KeepAlive(&asks)
}

func TestSetKeys(t *testing.T) {
	s := newSigner(t, testKeys(t))
	first := s.Sign("a", start)
	if err := s.SetKeys(nil); err == nil {
		t.Error("took no keys")
	}
	if got := s.Sign("a", start); got != first {
		t.Errorf("signature %+v after keys that were refused", got)
	}
	next := newKeys(t, start)
	if err := s.SetKeys(next); err != nil {
		t.Fatal(err)
	}
	got := s.Sign("a", start)
	if !strings.Contains(got.SignatureInput, next[0].ID()) || got.Signature == first.Signature {
		t.Errorf("signature %+v by new keys", got)
	}
}

func TestParseAgent(t *testing.T) {
	for text, want := range map[string]string{
		"https://Bot.test":             agent,
		"https://bot.test/":            agent,
		"https://bot.test:8443":        "https://bot.test:8443" + DirectoryPath,
		"https://bot.test/jwks.json":   "https://bot.test/jwks.json",
		"http://bot.test":              "",
		"bot.test":                     "",
		"https://":                     "",
		"https:bot.test":               "",
		"https://u:p@bot.test":         "",
		"https://bot.test/?a":          "",
		"https://bot.test/#a":          "",
		"https://bot.test/" + agent600: "",
	} {
		if got, err := ParseAgent(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

var agent600 = strings.Repeat("a", 600)

// manyLabels asks for 1,000 signatures.
var manyLabels = func() string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "a%d=(),", i)
	}
	return b.String() + "b=()"
}()

func TestParseAccept(t *testing.T) {
	for value, want := range map[string]*Ask{
		`sig1=("@authority" "signature-agent");created;expires;tag="web-bot-auth"`: {Label: "sig1"},
		`a=("@authority" "signature-agent";key="a");nonce="n"`:                     {Label: "a", Nonce: "n"},
		`a=("@method" "@path" "@path");alg="ed25519"`: {Label: "a",
			Covers: []string{"@method", "@path"}},
		`a=("content-digest"), b=("@authority")`:     {Label: "b"},
		`a=();tag="other", b=1`:                      nil,
		`a=("signature-agent";key="b")`:              nil,
		`a=("@authority";req)`:                       nil,
		`a=("@query-param";name="q")`:                nil,
		`a=();keyid="theirs"`:                        nil,
		`a=("@authority");created;keyid`:             {Label: "a"},
		`a=();alg="rsa-pss-sha512"`:                  nil,
		`a=();nonce=1`:                               nil,
		`a=();nonce="` + agent600 + `"`:              nil,
		`a` + agent600 + `=("@authority")`:           nil,
		strings.Repeat(`a=(),`, 1000) + `b=()`:       {Label: "a"},
		manyLabels:                                   nil,
		`(((`:                                        nil,
		``:                                           nil,
		strings.Repeat("a", maxFieldBytes+1):         nil,
		`a=(` + strings.Repeat(`"@path" `, 40) + `)`: nil,
	} {
		got, ok := ParseAccept([]string{value})
		if ok != (want != nil) || ok && !reflect.DeepEqual(got, *want) {
			t.Errorf("%.60s: %+v, %v, want %+v", value, got, ok, want)
		}
	}
	if got, ok := ParseAccept(nil); ok {
		t.Errorf("no field: %+v", got)
	}
}

// TestAnswer: the signature is for one request, with what the site asked for.
func TestAnswer(t *testing.T) {
	s := newSigner(t, testKeys(t))
	m := &Message{Method: "GET", Scheme: "http", Authority: "example.com", Path: "/a", Query: "b=c"}
	ask, ok := ParseAccept([]string{`theirs=("@path" "@query" "@target-uri");nonce="once"`})
	if !ok {
		t.Fatal("cannot satisfy it")
	}
	f, err := s.Answer(m, ask, start)
	if err != nil {
		t.Fatal(err)
	}
	signed := *m
	signed.Header = f.header()
	v, err := verifyBy(s, &signed, start)
	if err != nil || v.Label != "theirs" || v.Nonce != "once" || len(v.Covers) != 6 {
		t.Errorf("verified %+v, %v", v, err)
	}
	over := signed // TLS
	over.Scheme = "https"
	if _, err := verifyBy(s, &over, start); !errors.Is(err, ErrMismatch) {
		t.Errorf("replayed over TLS: %v", err)
	}
	signed.Path = "/other"
	if _, err := verifyBy(s, &signed, start); !errors.Is(err, ErrMismatch) {
		t.Errorf("another path: %v", err)
	}
	nonces := map[string]bool{}
	for range 2 {
		f, err := s.Answer(m, Ask{Label: "sig1"}, start)
		if err != nil {
			t.Fatal(err)
		}
		signed.Header = f.header()
		v, err := verifyBy(s, &signed, start)
		if err != nil || len(v.Nonce) != 88 {
			t.Errorf("verified %+v, %v", v, err)
		}
		nonces[v.Nonce] = true
	}
	if len(nonces) != 2 {
		t.Error("two signatures have one nonce")
	}
}

// TestSignAllocates: a signature that is kept costs no allocation.
func TestSignAllocates(t *testing.T) {
	s := newSigner(t, testKeys(t))
	s.Sign("example.com", start)
	if n := testing.AllocsPerRun(100, func() { s.Sign("example.com", start) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkSign signs the requests of 1,000 hosts: as many in a window as a delay of 40 s allows, and with signatures
// that are kept; and requests whose site asked for a signature.
func BenchmarkSign(b *testing.B) {
	s := newSigner(b, newKeys(b, start))
	var hosts [1000]string
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host%d.example.com", i)
	}
	b.Run("requests=22/host", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.Sign(hosts[i%len(hosts)], start.Add(time.Duration(i/(22*len(hosts)))*window(Life)))
		}
	})
	b.Run("kept", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.Sign(hosts[i%len(hosts)], start)
		}
	})
	b.Run("answer", func(b *testing.B) {
		b.ReportAllocs()
		m := &Message{Method: "GET", Scheme: "https", Authority: "example.com", Path: "/"}
		for b.Loop() {
			s.Answer(m, Ask{Label: "sig1"}, start)
		}
	})
}
