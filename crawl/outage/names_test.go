package outage

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/robots"
	"drumbeat/state"
)

// TestNothingIsConfirmedWhileNamesAreAsked: of many requests due at once, one looks up the name canaries.
// The others must wait for the result before they confirm an absence, whatever their number of tries.
func TestNothingIsConfirmedWhileNamesAreAsked(t *testing.T) {
	o := New(account.New(nil, nil, nil), &state.Saved{}, Options{Waits: DefaultWaits()})
	for i, name := range []string{"a.test", "b.test", "c.test"} {
		o.nameCanaries.found(name, name, uint64(i), time.Now())
	}
	list, _ := o.nameCanaries.ask("x.test", time.Now())
	if len(list) != 3 {
		t.Fatalf("%d names to look up, want 3", len(list))
	}
	if _, confirmed := o.Absence(t.Context(), &robots.Job{Tries: robots.MaxTries}, "y.test"); confirmed {
		t.Error("an absence is confirmed before the canaries' names are answered")
	}
	o.nameCanaries.learned(list, namesWork, time.Now())
	if _, confirmed := o.Absence(t.Context(), &robots.Job{Tries: robots.MaxTries}, "y.test"); !confirmed {
		t.Error("an absence is not confirmed although the name servers work")
	}
}

// TestNamesAskedAreNotTheNewest: while name servers deny most names, the names found last are those for which
// they tell the truth. The canaries must be names found before.
func TestNamesAskedAreNotTheNewest(t *testing.T) {
	var k knownNames
	now := time.Now()
	want := make(map[string]bool)
	for i := range 2 * namesOf {
		want[fmt.Sprint("old", i)] = true
		k.found(fmt.Sprint("old", i), "old", uint64(i), now.Add(time.Duration(i)*time.Second))
	}
	for i := 2 * namesOf; i < canaryNames; i++ {
		k.found(fmt.Sprint("new", i), "new", uint64(i), now.Add(time.Minute))
	}
	asked := make(map[string]bool)
	for range 2 {
		now = now.Add(time.Hour)
		list, _ := k.ask("x.test", now)
		for _, n := range list {
			asked[n.host] = true
		}
		k.learned(list, namesWork, now)
	}
	if !maps.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

// TestOldAnswerConfirmsNothing: the canaries' answer from before a name was first denied must not confirm the
// denial.
func TestOldAnswerConfirmsNothing(t *testing.T) {
	if namesFor >= confirmLeast {
		t.Errorf("an answer of canaries is valid for %v, longer than the %v between two lookups of a name",
			namesFor, confirmLeast)
	}
}

// TestCheckReference: hosts and URLs are references; anything else is refused.
func TestCheckReference(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "https://example.com/robots.txt", "EXAMPLE.com:8443": "https://example.com:8443/robots.txt",
		"http://example.com/up?x=1": "http://example.com/up?x=1", "https://example.com": "https://example.com/",
		"bücher.example":            "https://xn--bcher-kva.example/robots.txt",
		"[2001:DB8::1]:81":          "https://[2001:db8::1]:81/robots.txt",
		"https://example.com/a,b@c": "https://example.com/a,b@c",
		"https://example.com?a@b":   "https://example.com/?a@b",
		"":                          "", "ftp://example.com/": "", "exa mple": "", "http://": "", "/robots.txt": "",
		"//example.com/": "", "a.example/up": "",
		"a.example,b.example": "", "https://a.example,b.example/": "",
		"https://a.example/,https://b.example/": "https://a.example/,https://b.example/",
		"mailto:me@example.com":                 "",
		"https://user:password@example.com/":    "", `https:\me@example.com`: "",
		"*.example.com": "", "a.example?up": "", "a.example#up": "",
		"a..example": "", "http://../": "", "2001:db8::1": "", "example.com:99999": "",
		"example.com:x":     "",
		"file:///etc/hosts": "",
	} {
		if got, err := CheckReference(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
}
