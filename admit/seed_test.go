package admit

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"drumbeat/weburl"
)

// FuzzSeeds: the seed file reader must split any text into lines without loss, and parsed seeds must be
// canonical.
func FuzzSeeds(f *testing.F) {
	f.Add("http://a/\nb.example # x\r\n#c\n\n\ufeffhttps://x.example/%zz", "host:8080/x")
	f.Add(strings.Repeat("x", 70000)+"\ny", "mailto:a@b")
	f.Add("a\x00b\n\r\r\n", "http://[::1")
	f.Fuzz(func(t *testing.T, text, line string) {
		lines, sum, kept := NewLineReader(strings.NewReader(text)), int64(0), 0
		for {
			line, n, err := lines.Next()
			if err != nil {
				break
			}
			if len(line) > maxSeedLine || n <= 0 || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line of %d bytes, consumed %d", len(line), n)
			}
			sum += n
			kept++
		}
		if want := strings.Count(text, "\n"); sum != int64(len(text)) || kept != want && kept != want+1 {
			t.Fatalf("read %d of %d bytes and %d lines, want %d lines", sum, len(text), kept, want)
		}
		for _, l := range append(strings.Split(text, "\n"), line) {
			url, bare, err := ParseSeed(l)
			if err != nil || url == "" {
				continue
			}
			again, err := weburl.Canonical(url)
			if err != nil || again != url || bare && !strings.HasPrefix(url, "https://") {
				t.Fatalf("%q gives %q, which gives %q, %v", l, url, again, err)
			}
		}
	})
}

// TestParseSeedForms: ParseSeed must accept all forms of a seed. It guards against "://" in the query of a
// bare host taken for a scheme, and "mailto:x" taken for a host with a user.
func TestParseSeedForms(t *testing.T) {
	for _, c := range []struct {
		line, url string
		bare, bad bool
	}{
		{"", "", false, false},
		{"  # comment", "", false, false},
		{"http://a.test/ # comment", "http://a.test/", false, false},
		{"HTTP://A.test", "http://a.test/", false, false},
		{"a.test", "https://a.test/", true, false},
		{"\ufeffa.test/x\r", "https://a.test/x", true, false},
		{"a.test:8080/x", "https://a.test:8080/x", true, false},
		{"a.test/?u=http://b.test/", "https://a.test/?u=http://b.test/", true, false},
		{"[::1]/x", "https://[::1]/x", true, false},
		{"ftp://a.test/", "", false, true},
		{"mailto:x@a.test", "", false, true},
	} {
		url, bare, err := ParseSeed(c.line)
		if url != c.url || bare != c.bare || (err != nil) != c.bad {
			t.Errorf("ParseSeed(%q) = %q, %t, %v; want %q, %t, error %t", c.line, url, bare, err, c.url, c.bare, c.bad)
		}
	}
}

func TestFirstSeeds(t *testing.T) {
	many := strings.Repeat("# comment\n", firstSeedLines)
	for text, want := range map[string][]string{
		"": nil,
		"# seeds\n//\nb.example\nhttp://a.example/x\nhttp://c/\n": {"https://b.example/", "http://a.example/x"},
		many + "http://a.example/\n":                              nil,
	} {
		if got := FirstSeeds(strings.NewReader(text), 2); !slices.Equal(got, want) {
			t.Errorf("%.30q: got %q, want %q", text, got, want)
		}
	}
}
