package sites

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"drumbeat/weburl"
)

var seedFlag = flag.Uint64("seed", 1, "seed of random tests")

// surtOf returns the SURT of a URL of this test's hosts, with a comma after the last label.
func surtOf(url string) (scheme, surt string) {
	scheme, rest, _ := strings.Cut(url, "://")
	authority, path, _ := strings.Cut(rest, "/")
	host, port, _ := strings.Cut(authority, ":")
	labels := strings.Split(host, ".")
	surt = "("
	for i := len(labels) - 1; i >= 0; i-- {
		surt += labels[i] + ","
	}
	if port != "" {
		surt += ":" + port
	}
	return scheme, strings.ToLower(surt + ")/" + path)
}

// entry is a rule: a SURT prefix, or a host.
type entry struct {
	text   string
	secure bool
	host   string
}

// longest returns the index of the rule that decides for a URL, or -1.
func longest(rules []entry, scheme, surt string) int {
	best, length := -1, -1
	for i, r := range rules {
		n, ok := 2*len(r.text), strings.HasPrefix(surt, r.text)
		if r.host != "" {
			_, host := surtOf("http://" + r.host + "/")
			host = strings.TrimSuffix(host, ")/")
			// Longer than the domain, shorter than the host with the end of its authority.
			n, ok = 2*len(host)+1, strings.HasPrefix(surt, host+")") || strings.HasPrefix(surt, host+":")
		}
		if r.secure {
			n++
			ok = ok && scheme == "https"
		}
		if r.secure && r.text[len(r.text)-1] == ',' {
			n-- // a host is longer than a domain for https
		}
		if ok && (n > length || n == length && r.secure) {
			best, length = i, n
		}
	}
	return best
}

// TestLookupEqualsModel: the deciding rule is the longest SURT prefix of the URL, as plain text. A rule for
// https alone is longer than the same for both.
func TestLookupEqualsModel(t *testing.T) {
	t.Logf("seed %d", *seedFlag)
	rnd := rand.New(rand.NewPCG(*seedFlag, 0))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	found := 0
	for range 300 {
		var text strings.Builder
		var rules []entry
		known := map[string]bool{}
		for range 1 + rnd.IntN(12) {
			e := entry{text: "(" + pick("org,", "org,a,", "org,a,b,", "org,a,b,c,", "net,x,", "org,b,"),
				secure: rnd.IntN(4) == 0}
			if rnd.IntN(2) == 0 {
				e.text += pick(")", ":8080)") + pick("", "/", "/d", "/d/", "/d/e", "/D/e/f", "/e")
			}
			line := "surt = \"" + map[bool]string{true: "https://", false: pick("http://", "")}[e.secure] + e.text +
				"\""
			if !e.secure && rnd.IntN(5) == 0 {
				e.host = pick("a.org", "b.a.org", "x.net")
				line, e.text = "host = \""+e.host+"\"", e.host
			}
			e.text = strings.ToLower(e.text)
			if key := fmt.Sprint(e); known[key] {
				continue
			} else {
				known[key] = true
			}
			fmt.Fprintf(&text, "[[site]]\n%s\nmax-depth = %d\n", line, len(rules))
			rules = append(rules, e)
		}
		s := mustParse(t, text.String())
		for range 100 {
			url := pick("http", "https") + "://" +
				pick("org", "a.org", "b.a.org", "c.b.a.org", "d.c.b.a.org", "x.net", "b.org") +
				pick("", ":8080", ":99") + pick("/", "/d", "/d/", "/D/e", "/d/e/f", "/e/x", "/dd")
			scheme, surt := surtOf(url)
			best := longest(rules, scheme, surt)
			got := -1
			if site := s.LookupURL([]byte(url)); site != nil {
				got = site.MaxDepth
			}
			if got != best {
				t.Fatalf("%s\n%s: rule %d, want %d", text.String(), url, got, best)
			}
			if best >= 0 {
				found++
			}
		}
	}
	if found < 5000 {
		t.Errorf("only %d URLs had a rule", found)
	}
}

// FuzzParse: any text and URL give a Set and a Site, or an error, neither of which has a secret.
func FuzzParse(f *testing.F) {
	f.Add(layered, "http://www.example.org/docs/old/")
	f.Add("[[site]]\nhost = 'a.example'\nheaders = { Cookie = 't0ps3cret' }", "http://a.example/")
	f.Add("site = [{surt = '(org,a,)/x', bearer = 'env:TOKEN'}]\n[x]\ny.z = '''\n'''", "https://a.org:99/x")
	f.Add("[[site.headers]]\nx=1\n[[site]]\n'host' = \"[::1]\"\n", "http://[::1]:80")
	f.Fuzz(func(t *testing.T, text, url string) {
		s, err := Parse("f", []byte(text), testOptions)
		said := ""
		if err != nil {
			said = err.Error()
		} else if site := s.LookupURL([]byte(url)); site != nil {
			said = site.String()
		}
		for _, secret := range secrets {
			if strings.Contains(said, secret) && !strings.Contains(text, secret) {
				t.Errorf("a secret in %s", said)
			}
		}
		if err == nil && s.Stats().Rules > 0 && s.Stats().Bytes <= 0 {
			t.Errorf("%+v", s.Stats())
		}
	})
}

// manySites returns a file of n tables: of PLDs, hosts, and beginnings of paths.
func manySites(n int) []byte {
	var b strings.Builder
	for i := range n {
		switch i % 4 {
		case 0, 1:
			fmt.Fprintf(&b, "[[site]]\npld = \"site%d.example\"\ndelay = \"3s\"\n", i)
		case 2:
			fmt.Fprintf(&b, "[[site]]\nhost = \"www.site%d.example\"\nmax-depth = 3\n", i-2)
		case 3:
			fmt.Fprintf(&b, "[[site]]\nsurt = \"(example,site%d,www,)/docs/\"\nmax-depth = 5\n", i-3)
		}
	}
	return []byte(b.String())
}

// TestLookupAllocatesNothing: a look-up allocates nothing.
func TestLookupAllocatesNothing(t *testing.T) {
	s := mustParse(t, string(manySites(1000)))
	for _, url := range []string{"http://www.site4.example/docs/x", "https://a.b.site8.example/x",
		"http://other.example/"} {
		if got := testing.AllocsPerRun(100, func() { s.LookupURL([]byte(url)) }); got > 0 {
			t.Errorf("%s: %v allocations", url, got)
		}
	}
}

// BenchmarkLookup looks up 4096 URLs in turn: of hosts with rules, of hosts below a PLD with a rule, and of others.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{100, MaxRules} {
		s := mustParse(b, string(manySites(n)))
		rnd := rand.New(rand.NewPCG(1, 1))
		for _, kind := range []string{"http://www.site%d.example/docs/page.html",
			"http://www.shop.site%d.example/page.html", "http://www.other%d.example/page.html"} {
			parts := make([]weburl.Parts, 4096)
			for i := range parts {
				parts[i] = weburl.Split(fmt.Appendf(nil, kind, rnd.IntN(n)/4*4))
			}
			b.Run(fmt.Sprintf("rules=%d/%s", n, strings.Split(kind, "%")[0][len("http://www."):]), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					s.Lookup(&parts[i&4095])
					i++
				}
			})
		}
		b.Run(fmt.Sprintf("rules=%d/size", n), func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(float64(s.Stats().Bytes)/float64(n), "B/rule")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	text := manySites(10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("f", text, testOptions); err != nil {
			b.Fatal(err)
		}
	}
}
