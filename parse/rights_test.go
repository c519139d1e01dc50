package parse

import (
	"strings"
	"testing"
)

func TestRobotsValues(t *testing.T) {
	for _, c := range []struct{ tag, want string }{
		{"noai, noimageai", "noai, noimageai"},
		{"index, follow, all, max-image-preview:large, MAX-SNIPPET: -1", "max-image-preview: large, max-snippet: -1"},
		{"noindex  noarchive,noindex", "noindex, noarchive"},
		{"otherbot: noindex, nosnippet, *: noai", "noai"},
		{"me: nosnippet, max-snippet:5, other: noai", "nosnippet, max-snippet: 5"},
		{"unavailable_after: 25 Jun 2027 15:00:00 PST, noai", "unavailable_after: 25 jun 2027 15:00:00 pst, noai"},
		{"noai, unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT, nosnippet",
			"noai, unavailable_after: fri 25 jun 2027 15:00:00 gmt, nosnippet"},
		{"\x01a, \xffb, ,:,", ""},
		{strings.Repeat("x", MaxRobotsValues+1) + ", noai", "noai"},
	} {
		var r Rights
		r.AddRobotsTag([]byte(c.tag), "me")
		r.AddRobotsTag([]byte(c.tag), "me")
		if r.Values != c.want {
			t.Errorf("%q: got %q, want %q", c.tag, r.Values, c.want)
		}
	}
}

func TestPageRights(t *testing.T) {
	for _, c := range []struct {
		html string
		want Rights
	}{
		{"<p>text", Rights{}},
		// The examples of TDMRep, section 6.3.
		{`<html><head><meta name="tdm-reservation" content="1"><meta name="tdm-policy" ` +
			`content="https://provider.com/policies/policy.json">`,
			Rights{TDMReservation: "1", TDMPolicy: "https://provider.com/policies/policy.json"}},
		{`<meta name=TDM-Reservation content=0><meta name=title content=1>`, Rights{TDMReservation: "0"}},
		{`<meta name=tdm-reservation content=1><meta name=tdm-reservation content=0>`, Rights{TDMReservation: "1"}},
		{`<meta name=tdm-reservation content=yes><meta name=tdm-policy content="a b">`, Rights{}},
		{`<meta name=robots content="noai, noimageai"><meta name=me content=nosnippet><meta name=you content=noai2>`,
			Rights{Values: "noai, noimageai, nosnippet"}},
		{`<meta name=robots content="unavailable_after: 2027-06-25, noindex">`,
			Rights{Values: "unavailable_after: 2027-06-25, noindex"}},
	} {
		p := NewParser(Options{Agent: "me"})
		page := new(Page)
		p.Parse([]byte(c.html), "text/html", page)
		if page.Rights != c.want {
			t.Errorf("%s: got %+v, want %+v", c.html, page.Rights, c.want)
		}
	}
	header, meta := Rights{Values: "noai", TDMReservation: "0", TDMPolicy: "/h"},
		Rights{Values: "noarchive, noai", TDMReservation: "1", TDMPolicy: "/m"}
	header.Add(meta)
	if want := (Rights{Values: "noai, noarchive", TDMReservation: "1", TDMPolicy: "/h"}); header != want {
		t.Errorf("got %+v, want %+v", header, want)
	}
}

func FuzzRights(f *testing.F) {
	f.Add([]byte("me: noai, unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT, x:y"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Rights
		r.AddRobotsTag(b, "me")
		r.AddRobots(b)
		r.SetReservation(b)
		r.SetPolicy(b)
		again := r
		again.Add(r)
		if len(r.Values) > MaxRobotsValues || len(r.TDMPolicy) > MaxTDMPolicy || again != r {
			t.Fatalf("%+v, then %+v", r, again)
		}
		for i := range len(r.Values) {
			if r.Values[i] < ' ' || r.Values[i] >= 0x7f {
				t.Fatalf("values %q", r.Values)
			}
		}
	})
}
