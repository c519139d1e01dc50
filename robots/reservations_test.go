package robots

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/internal/damage"
)

// TestReservations has the examples of TDMRep, section 6.2, and files with faults.
func TestReservations(t *testing.T) {
	const groups = `[{"location": "/directory-a/", "tdm-reservation": 1},
		{"location": "/directory-b/html/", "tdm-reservation": 1,
			"tdm-policy": "https://provider.com/policies/policy.json"},
		{"location": "/directory-b/images/*.jpg", "tdm-reservation": 0}]`
	for _, c := range []struct{ name, file, path, want string }{
		{"everything", `[{"location": "/", "tdm-reservation": 1}]`, "/any/file", "/ 1"},
		{"groups", groups, "/directory-a/x.pdf", "/directory-a/ 1"},
		{"groups", groups, "/directory-a", ""},
		{"groups", groups, "/Directory-a/", ""}, // case matters
		{"groups", groups, "/directory-b/html/", "/directory-b/html/ 1 https://provider.com/policies/policy.json"},
		{"groups", groups, "/directory-b/images/a/b.jpg", "/directory-b/images/*.jpg 0"},
		{"groups", groups, "/directory-b/images/a.png", ""},
		{"end", `[{"location": "/this/path/exactly$", "tdm-reservation": 1}]`, "/this/path/exactly/", ""},
		{"wildcard", `[{"location": "/this/*/then", "tdm-reservation": 1}]`, "/this/one/then", "/this/*/then 1"},
		{"literal", `[{"location": "/path/foo-%24", "tdm-reservation": 1}]`, "/path/foo-$", "/path/foo-%24 1"},
		{"spelling", `[{"location": "/%61%2f", "tdm-reservation": 1}]`, "/a%2F", "/a%2F 1"},
		{"first counts", `[{"location": "/a/", "tdm-reservation": 0}, {"location": "/", "tdm-reservation": 1},
			{"location": "/a/b/", "tdm-reservation": 1}]`, "/a/b/", "/a/ 0"},
		{"text", `[{"location": "*", "tdm-reservation": "1"}]`, "/", "* 1"},
		{"free", `[{"location": "/", "tdm-reservation": 0, "tdm-policy": "https://p/"}]`, "/", "/ 0"},
		{"other values", `[{"location": "/", "tdm-reservation": 2}, {"location": "/", "tdm-reservation": true},
			{"location": "/"}, {"tdm-reservation": 1}, {"location": 1, "tdm-reservation": 1}, 5, null, [1],
			{"location": "x/", "tdm-reservation": 1}, 
			{"location": "/", "tdm-reservation": 1, "tdm-policy": 7}]`, "/", "/ 1"},
		{"byte order mark", "\xef\xbb\xbf" + `[{"location": "/", "tdm-reservation": 1, "more": {}}]`, "/", "/ 1"},
		{"no array", `{"location": "/", "tdm-reservation": 1}`, "/", ""},
		{"cut off", `[{"location": "/", "tdm-reservation": 1}, {`, "/", ""},
		{"more after it", `[{"location": "/", "tdm-reservation": 1}] x`, "/", ""},
		{"page", "<html>", "/", ""},
		{"nothing", "", "/", ""},
	} {
		r := ParseReservations([]byte(c.file))
		got := ""
		if rule := r.At([]byte(c.path)); rule != nil {
			got = rule.Text()
		}
		if got != c.want || r.Cut {
			t.Errorf("%s, %s: got %q, cut %v, want %q", c.name, c.path, got, r.Cut, c.want)
		}
		coded := r.Append(nil)
		if back, err := DecodeReservations(coded); err != nil || !bytes.Equal(back.Append(nil), coded) {
			t.Errorf("%s: %x, %v", c.name, coded, err)
		}
	}
}

// TestReservationsBytes has the example of docs/reference/files/robots.md.
func TestReservationsBytes(t *testing.T) {
	r := ParseReservations([]byte(`[{"location": "/a/", "tdm-reservation": 1, "tdm-policy": "https://t/"},
		{"location": "/", "tdm-reservation": 0}]`))
	want := "\x01\x00\x03/a/\x01\x0ahttps://t/\x01/\x00\x00"
	if got := r.Append(nil); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := 1; i < len(want); i++ {
		if _, err := DecodeReservations([]byte(want[:i])); err == nil && i != 2 && i != len(want)-4 {
			t.Errorf("the first %d bytes decode", i)
		}
	}
}

// hostileReservations are files beyond the limits. Each reserves /x.
func hostileReservations() map[string][]byte {
	rule := func(path string, reservation int, policy string) string {
		return fmt.Sprintf(`{"location": %q, "tdm-reservation": %d, "tdm-policy": %q}`, path, reservation, policy)
	}
	many := func(n int, rule func(i int) string) []byte {
		rules := make([]string, n)
		for i := range rules {
			rules[i] = rule(i)
		}
		return []byte("[" + strings.Join(rules, ",") + "]")
	}
	long := strings.Repeat("p", 3000)
	return map[string][]byte{
		"many": many(5000, func(i int) string { return rule(fmt.Sprint("/", i), i%2, "") }),
		"policies": many(60, func(i int) string {
			return rule(fmt.Sprint("/", i), 1, fmt.Sprint("https://p/", long[:120], i))
		}),
		"path": many(2, func(i int) string {
			return rule("/x*"+long, 1-i, "https://p/"+long)
		}),
		"deep":  []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)),
		"input": []byte("[" + rule("/w", 0, "") + "," + strings.Repeat(" ", MaxInput) + rule("/y", 1, "") + "]"),
	}
}

// TestReservationLimits: files beyond the limits reserve more, not less, and cost no more than their size allows.
func TestReservationLimits(t *testing.T) {
	for name, file := range hostileReservations() {
		var r Reservations
		n := damage.Allocated(func() { r = ParseReservations(file) })
		coded := r.Append(nil)
		if n > 16<<20 || len(coded) > MaxReservations {
			t.Errorf("%s: %d bytes allocated, %d coded", name, n, len(coded))
		}
		whole := name != "deep" // which says nothing: its syntax is wrong
		rule := r.At([]byte("/x" + strings.Repeat("p", 4000)))
		if whole && (rule == nil || !rule.Reserved) || r.Cut != whole {
			t.Errorf("%s: cut %v, %+v", name, r.Cut, rule)
		}
		if whole && strings.Contains(name, "many") && r.At([]byte("/2")).Value() != "0" {
			t.Errorf("%s: the first rules are not kept", name)
		}
		if back, err := DecodeReservations(coded); err != nil || !bytes.Equal(back.Append(nil), coded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReservationsOfHost: they are known of hosts with rules and of those without, until the next answer about
// robots.txt; a statement has them.
func TestReservationsOfHost(t *testing.T) {
	at := time.Unix(1_795_262_400, 0).UTC()
	r := ParseReservations([]byte(`[{"location": "/a", "tdm-reservation": 1, "tdm-policy": "https://p/"},
		{"location": "/b", "tdm-reservation": 0}]`))
	learn := func(h HostData, kind byte, data HostData) HostData {
		u, err := DecodeUpdate(AppendUpdate(nil, kind, at, &data))
		if err != nil {
			t.Fatal(err)
		}
		return u.Apply(1, &h, nil, "me", at)
	}
	answer := HostData{Reservations: r.Append(nil)}
	for _, f := range []Fetched{{Status: 404},
		{Status: 200, Body: []byte("User-agent: *\nDisallow: /no"), Digest: [20]byte{1}}} {
		h := Outcome(&HostData{}, &f, "me", at)
		if !h.WantsReservations(false) {
			t.Errorf("%d: the file is not wanted", f.Status)
		}
		h = learn(h, UpdateReserve, answer)
		h = Outcome(&h, &Fetched{Kind: NetworkFailure}, "me", at) // a stale copy keeps them
		var back HostData
		if err := back.Decode(h.Append(nil)); err != nil || back.WantsReservations(false) {
			t.Errorf("%d: %v, the file is wanted again", f.Status, err)
		}
		for path, want := range map[string]string{"/a": "1", "/b": "0", "/c": ""} {
			l, err := back.Statement([]byte(path))
			if err != nil || l.TDMReservation != want || (l.TDMPolicy == "https://p/") != (want == "1") {
				t.Errorf("%d, %s: %+v, %v", f.Status, path, l, err)
			}
			s := back.Summary()
			s.SetStatement(&l, nil)
			var again Statement
			if err := again.Decode(s.Statement); err != nil || again != l {
				t.Errorf("%d, %s: %+v, %v, want %+v", f.Status, path, again, err, l)
			}
			for i := 1; i < len(s.Statement) && l.Group == GroupUnknown && want != "1"; i++ {
				if again.Decode(s.Statement[:i]) == nil {
					t.Errorf("%d, %s: the first %d bytes decode", f.Status, path, i)
				}
			}
		}
		if h = learn(h, UpdateOutcome, Outcome(&HostData{}, &f, "me", at)); !h.WantsReservations(false) {
			t.Errorf("%d: not wanted after the next answer", f.Status)
		}
	}
	forbids := Fetched{Status: 200, Body: []byte("User-agent: *\nDisallow: /.well-known/\n")}
	rules := Outcome(&HostData{}, &forbids, "me", at)
	gone := Outcome(&HostData{}, &Fetched{Kind: NetworkFailure}, "me", at)
	if rules.WantsReservations(false) || !rules.WantsReservations(true) || gone.WantsReservations(true) {
		t.Error("the file is wanted although the rules forbid it, or are not known")
	}
	if gone = learn(gone, UpdateReserve, answer); len(gone.Reservations) > 0 {
		t.Error("a host without rules has reservations")
	}
}

// TestFullFileReservations: rules that fill their limit leave room for a reservation without its path.
func TestFullFileReservations(t *testing.T) {
	b := []byte("User-agent: *\n")
	for i := range 2038 {
		b = fmt.Appendf(b, "Disallow: /*%024d\n", i)
	}
	at := time.Unix(1_795_262_400, 0)
	h := Outcome(&HostData{}, &Fetched{Status: 200, Body: b, Digest: sha1.Sum(b)}, "me", at)
	r := ParseReservations(hostileReservations()["policies"])
	h.setReservations(r.Append(nil))
	coded := h.Append(nil)
	var back HostData
	if err := back.Decode(coded); err != nil || len(coded) > MaxEncoded+MaxMore {
		t.Fatalf("%d bytes, %v", len(coded), err)
	}
	if l, err := back.Statement([]byte("/z")); err != nil || l.TDMReservation != "1" || !l.Cut {
		t.Errorf("got %+v, %v", l, err)
	}
}

func FuzzReservations(f *testing.F) {
	for _, file := range hostileReservations() {
		f.Add(file[:min(len(file), 300)], []byte("/x"))
	}
	f.Add([]byte(`[{"location":"/*a$","tdm-reservation":1,"tdm-policy":"x"},
		{"location":"/a?b","tdm-reservation":"0"}]`), []byte("/a?b=%41"))
	f.Fuzz(func(t *testing.T, file, path []byte) {
		r := ParseReservations(file)
		coded := r.Append(nil)
		back, err := DecodeReservations(coded)
		if err != nil || !bytes.Equal(back.Append(nil), coded) || len(coded) > MaxReservations {
			t.Fatalf("%v in %d bytes %q", err, len(coded), coded)
		}
		short := r.fit(maxSummedReservations)
		if n := len(short.Append(nil)); n > maxSummedReservations {
			t.Fatalf("%d bytes without paths", n)
		}
		if a, b := r.At(path), short.At(path); a != nil && a.Reserved && (b == nil || !b.Reserved) {
			t.Fatalf("%q: without paths, less is reserved", file)
		}
		if any, err := DecodeReservations(file); err == nil && len(file) > 0 {
			any.At(path)
			if got := any.Append(nil); !bytes.Equal(got, file) {
				t.Fatalf("decoding is not strict: %q becomes %q", file, got)
			}
		}
		h := HostData{State: StateNoFile, Reservations: coded}
		l, err := h.Statement(path)
		if err != nil {
			t.Fatal(err)
		}
		var again Statement
		if b := l.Append(nil, MaxStatement); again.Decode(b) != nil || again != l {
			t.Fatalf("%+v becomes %+v in %d bytes", l, again, len(b))
		}
	})
}
