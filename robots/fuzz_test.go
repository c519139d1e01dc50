package robots

import (
	"bytes"
	"testing"
	"time"

	"drumbeat/internal/damage"
)

// FuzzMatchReference builds a clean file from a small alphabet, so that matches are frequent, and compares
// with the slow reference: the verdict is equal or, where a limit has cut something, never more permissive.
func FuzzMatchReference(f *testing.F) {
	f.Add([]byte("\x00/a*b$\n\x01/a\n\x00/*/b"), []byte("/axb"))
	f.Add([]byte("\x01/%41*\n\x00/A%2f\n\x01/\xfc"), []byte("/A/%2F?x=\xc3\xbc"))
	f.Add([]byte("\x00*a*a*a*a*a*a*b$\n\x01$\n\x00/$"), []byte("/aaaaaaaaaaaaaaaaaaaaaaaac"))
	f.Fuzz(func(t *testing.T, rules, path []byte) {
		if len(rules) > 4096 || len(path) > 2048 {
			return
		}
		file := []byte("User-agent: *\n")
		for line := range bytes.SplitSeq(rules, []byte("\n")) {
			if len(line) < 2 || bytes.ContainsAny(line[1:], " \t\v\f\r#\x00\x01") || line[1] != '/' && line[1] != '*' {
				continue
			}
			name := "Disallow: "
			if line[0]&1 == 1 {
				name = "Allow: "
			}
			file = append(append(append(file, name...), line[1:]...), '\n')
		}
		if bytes.ContainsAny(path, "\x00\x01") || isRobots(path) {
			return
		}
		if bytes.Contains(file, []byte("\xef\xbb\xbf")) || len(path) == 0 || path[0] != '/' {
			return
		}
		var r *Rules
		n := damage.Allocated(func() { r = Parse(file, "x") })
		if n > 32<<20 {
			t.Fatalf("%d bytes allocated for a file of %d", n, len(file))
		}
		got, want := Match(r.Append(nil), path), reference(file)(string(path))
		if got && !want || got != want && r.Cut == (Cut{}) {
			t.Fatalf("%q\n%q: got allowed %v, want %v (cut %+v)", file, path, got, want, r.Cut)
		}
	})
}

// FuzzOutcome: any outcome of a request yields host data that can be encoded within the limit and decide
// about any URL.
func FuzzOutcome(f *testing.F) {
	f.Add(200, []byte("User-agent: *\nDisallow: /x\nCrawl-delay: 5"), uint8(0), 3, []byte("/x"))
	f.Add(503, []byte{}, uint8(3), 1<<30, []byte("/"))
	f.Add(-7, []byte("\xef\xbb\xbfallow:*"), uint8(255), -1, []byte(""))
	f.Fuzz(func(t *testing.T, status int, body []byte, kind uint8, failures int, path []byte) {
		now := time.Unix(1_795_262_400, 0)
		h := sample()
		prev := &h
		if kind&1 != 0 {
			prev = &HostData{}
		}
		if prev != nil && failures >= 0 && failures <= 1000 {
			prev.Failures = failures
		}
		fetched := &Fetched{Kind: Kind(kind / 2 % 8), Status: status, Body: body, Digest: [20]byte{kind}}
		next := Outcome(prev, fetched, "drumbeat", now)
		coded := next.Append(nil)
		if len(coded) > MaxEncoded+MaxMore {
			t.Fatalf("%d bytes", len(coded))
		}
		var back HostData
		if err := back.Decode(coded); err != nil {
			t.Fatalf("%+v: %v", next, err)
		}
		if again := back.Append(nil); !bytes.Equal(again, coded) {
			t.Fatalf("%x becomes %x", coded, again)
		}
		back.Decide(path, now)
		s := back.Summary()
		var sum Summary
		if b := s.Append(nil); sum.Decode(b) != nil || len(b) > maxShort {
			t.Fatalf("summary %x", b)
		}
	})
}
