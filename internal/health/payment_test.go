package health

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPayments: a response that asks for payment is told from others by status and fields.
func TestPayments(t *testing.T) {
	long := strings.Repeat("9", 100)
	for _, c := range []struct {
		status int
		fields http.Header
		want   string
	}{
		{402, nil, Unpriced},
		{402, http.Header{"Crawler-Price": {"USD 0.01"}}, "USD 0.01"}, // the example of Cloudflare's pages
		{402, http.Header{"Crawler-Price": {" "}}, Unpriced},
		{402, http.Header{"Crawler-Price": {"", "EUR 1"}}, "EUR 1"},
		{402, http.Header{"Crawler-Price": {"a\x00b\xff\"" + long}}, "a?b?\"" + long[:59]},
		{403, http.Header{"Crawler-Price": {"USD 5"}}, "USD 5"},
		{404, http.Header{"Crawler-Price": {"USD 5"}}, "USD 5"},
		{429, http.Header{"Crawler-Price": {"USD 5"}}, ""},
		{200, http.Header{"Crawler-Price": {"USD 5"}}, ""},
		{500, http.Header{"Crawler-Price": {"USD 5"}}, ""},
		{403, nil, ""},
		{401, nil, ""},
		{401, http.Header{"Www-Authenticate": {"Basic realm=\"x\""}}, ""},
		{401, http.Header{"Www-Authenticate": {"Basic realm=\"a, License\""}}, ""},
		{401, http.Header{"Www-Authenticate": {"Basic realm=\"\\\", License\""}}, ""},
		{401, http.Header{"Www-Authenticate": {"Licensed x"}}, ""},
		{401, http.Header{"Www-Authenticate": {"License"}}, License},
		{401, http.Header{"Www-Authenticate": {"license error=\"invalid_request\", uri=\"https://x\""}}, License},
		{401, http.Header{"Www-Authenticate": {"Basic realm=\"x\", LICENSE error=\"y\""}}, License},
		{401, http.Header{"Www-Authenticate": {"Basic realm=\"x\"", "License"}}, License},
		{402, http.Header{"Www-Authenticate": {"License error=\"insufficient\""}}, License},
		{403, http.Header{"Www-Authenticate": {"License"}}, ""},
	} {
		got := Payments(c.status, func(name string, f func([]byte) bool) {
			for _, v := range c.fields.Values(name) {
				if !f([]byte(v)) {
					return
				}
			}
		})
		if got != c.want {
			t.Errorf("%d with %v: %q, want %q", c.status, c.fields, got, c.want)
		}
	}
}

func FuzzHasLicense(f *testing.F) {
	f.Add([]byte("Basic realm=\"a, b\\\"\", License x"))
	f.Fuzz(func(t *testing.T, value []byte) {
		if hasLicense(value) && !strings.Contains(strings.ToLower(string(value)), License) {
			t.Errorf("%q", value)
		}
	})
}

// TestAsksForPayment: a host that asks for payment for everything is left alone as one that refuses everything, with a
// reason of its own; its last answers decide, and one that asks for single pages has no back-off.
func TestAsksForPayment(t *testing.T) {
	pay := Event{Kind: Payment, Status: 402, Place: RootPlace}
	h := newHost()
	for _, rest := range []time.Duration{24 * time.Hour, 7 * 24 * time.Hour} {
		h.times(9, Event{Kind: Refusal, Status: 403, Place: RootPlace})
		if v := h.note(pay); v.Rest != rest || v.Why != Unwelcome || !h.s.Paying {
			t.Fatalf("%+v, %v: want %v", v, h.s, rest)
		}
		if got := h.s.String(); !strings.Contains(got, "asks for payment") || strings.Contains(got, "not welcome") {
			t.Errorf("%s", got)
		}
	}
	if v := h.times(10, pay); v.End != PaymentAsked || !v.Ended {
		t.Errorf("after the third run: %+v", v)
	}
	var back State
	if err := back.Decode(h.s.Append(nil)); err != nil || back != h.s {
		t.Errorf("%v: %+v, want %+v", err, back, h.s)
	}
	h = newHost()
	h.times(29, pay)
	if v := h.note(Event{Kind: Refusal, Status: 403, Place: RootPlace}); v.End != NotWelcome {
		t.Errorf("the last answer was a refusal: %+v", v)
	}
	h = newHost()
	for range 100 {
		h.times(9, pay)
		h.note(Event{Kind: Page})
	}
	if !h.s.Clean() {
		t.Errorf("single requests for payment: %v", h.s)
	}
}

// TestPaymentVersion: states without requests for payment keep the bytes that older programs read, and a version that
// does not fit is refused.
func TestPaymentVersion(t *testing.T) {
	p := Defaults()
	for _, c := range []struct {
		kind Kind
		want byte
	}{{Refusal, 1}, {TooFast, 1}, {Payment, 2}} {
		var s State
		s.Note(&p, Event{Kind: c.kind, Place: RootPlace}, start)
		b := s.Append(nil)
		if b[0] != c.want {
			t.Errorf("%v: version %d, want %d", c.kind, b[0], c.want)
		}
		b[0] = 3 - b[0]
		if s.Decode(b) == nil {
			t.Errorf("%v: version %d is accepted", c.kind, b[0])
		}
	}
}
