package fetcher

import (
	"fmt"
	"testing"
	"time"

	"drumbeat/botauth"
	"drumbeat/crawl/options"
	"drumbeat/fetch"
)

// TestAsksAreBounded: what sites asked for is kept for a bounded number of them, the last that asked.
func TestAsksAreBounded(t *testing.T) {
	key, err := botauth.NewKey(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := botauth.NewSigner(botauth.Keys{key}, "https://bot.test", botauth.Life)
	if err != nil {
		t.Fatal(err)
	}
	s := newSigning(signer, options.SignOnChallenge)
	for i := range 3*askingHosts + 1 {
		s.keep(fmt.Sprint(i), botauth.Ask{Label: "a", Nonce: "n"})
		s.take("0") // a site with requests stays
	}
	if n := len(s.asks) + len(s.older); n > 2*askingHosts {
		t.Errorf("%d sites are kept, the limit is %d", n, 2*askingHosts)
	}
	for host, want := range map[string]bool{"0": true, "1": false, fmt.Sprint(3 * askingHosts): true} {
		if ask, asked := s.take(host); asked != want || asked && host != "0" && ask.Nonce != "n" {
			t.Errorf("site %s: asked %t, want %t; nonce %q", host, asked, want, ask.Nonce)
		}
	}
	if ask, _ := s.take(fmt.Sprint(3 * askingHosts)); ask.Nonce != "" {
		t.Error("a nonce is used twice")
	}
}

// TestNoSigning: a crawl without keys adds nothing and waits for nothing.
func TestNoSigning(t *testing.T) {
	req := fetch.Request{Scheme: "https", Host: "a.test", PathQuery: "/"}
	s := newSigning(nil, options.SignAlways)
	if how, err := s.sign(&req, time.Now(), false); err != nil || how != (signed{}) || len(req.Fields) > 0 {
		t.Errorf("signed %+v, %v, fields %v", how, err, req.Fields)
	}
	if s.judge(&req, signed{}, &fetch.Response{Status: 403}, nil).Again {
		t.Error("a request is repeated for a signature that nobody can make")
	}
}
