package health

import (
	"strings"
	"testing"
)

func TestChallenged(t *testing.T) {
	long := strings.Repeat("<p>text", 3000)
	for _, c := range []struct {
		name   string
		status int
		header string // "Name: value"
		body   string
		want   string
	}{
		{"cloudflare by field", 403, "Cf-Mitigated: challenge", "", "cloudflare"},
		{"cloudflare by title", 503, "", "<html><head><TITLE >Just a moment...</title>", "cloudflare"},
		{"cloudflare blocks", 403, "", "<title>Attention Required! | Cloudflare</title>", "cloudflare"},
		{"aws challenge", 202, "X-Amzn-Waf-Action: challenge", "", "aws-waf"},
		{"aws captcha", 405, "X-Amzn-Waf-Action: captcha", "", "aws-waf"},
		{"akamai denies", 403, "", "Reference&#32;&#35;18 https&#58;//errors.edgesuite.net/18", "akamai"},
		{"akamai crypto", 428, "", `<div id="sec-if-cpt-container">`, "akamai"},
		{"datadome", 403, "X-Dd-B: 1", "", "datadome"},
		{"datadome by script", 403, "", `src="https://ct.captcha-delivery.com/c.js"`, "datadome"},
		{"human", 403, "", `<div id="px-captcha">`, "human"},
		{"imperva with 200", 200, "", `<iframe src="/_Incapsula_Resource?x">`, "imperva"},
		{"imperva in a large page", 200, "", `<iframe src="/_Incapsula_Resource?x">` + long, ""},
		{"sucuri", 403, "X-Sucuri-Block: 1", "", "sucuri"},
		{"f5", 200, "", "The requested URL was rejected. Please consult with your administrator.", "f5"},
		{"anubis", 200, "", `<script id="anubis_challenge" type="application/json">`, "anubis"},
		{"words", 403, "", "<title>\n Verify you are human | shop</title>", "generic"},
		{"a plain 403", 403, "Server: x", "<title>403 Forbidden</title>", ""},
		{"a page about it", 200, "", "<title>Just a moment...</title>", ""},
		{"a field on a page", 200, "Cf-Mitigated: challenge", "", ""},
		{"not found", 404, "", "<title>Just a moment...</title>", ""},
		{"mark far behind", 403, "", long + "px-captcha", ""},
		{"no title's end", 403, "", "<title", ""},
		{"empty", 403, "", "", ""},
	} {
		header := func(name string) []byte {
			n, v, _ := strings.Cut(c.header, ": ")
			if n != name {
				return nil
			}
			return []byte(v)
		}
		if got := Challenged(c.status, header, []byte(c.body)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMarksAreWellFormed(t *testing.T) {
	for _, m := range marks {
		if m.header == "" && m.text == "" && m.title == "" || m.title != strings.ToLower(m.title) ||
			m.header != "" && m.text != strings.ToLower(m.text) || m.vendor == "" {
			t.Errorf("got %+v", m)
		}
	}
}

func TestPagesCostNothing(t *testing.T) {
	body := []byte(strings.Repeat("<p>text", 1000))
	header := func(string) []byte { panic("a field of a page was looked at") }
	if n := testing.AllocsPerRun(100, func() { Challenged(200, header, body) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		kind     Kind
		statuses []int
	}{
		{Page, []int{200, 204, 206, 299}},
		{Answer, []int{100, 301, 304, 308, 400, 404, 407, 410, 428, 431, 451, 499}},
		{Refusal, []int{401, 403}},
		{TooFast, []int{429, 503}},
		{ServerError, []int{500, 502, 504, 520, 599, 600, 999}},
	} {
		for _, status := range c.statuses {
			if got := KindOf(status); got != c.kind {
				t.Errorf("KindOf(%d) = %s, want %s", status, got, c.kind)
			}
			if got, want := KindOf(status).Failed(), status == 429 || status >= 500; got != want {
				t.Errorf("KindOf(%d).Failed() = %t, want %t", status, got, want)
			}
		}
	}
}
