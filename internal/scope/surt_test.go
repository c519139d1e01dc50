package scope

import "testing"

func TestSURT(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"http://www.archive.org/", "http://(org,archive,www,)/"},
		{"http://www.archive.org/movies/movies.php", "http://(org,archive,www,)/movies/movies.php"},
		{"http://www.archive.org:8080/movies/movies.php", "http://(org,archive,www,:8080)/movies/movies.php"},
		{"http://www.example.com/foo@bar", "http://(com,example,www,)/foo@bar"},
		{"http://127.2.34.163/", "http://(127.2.34.163)/"},
		{"http://127.2.34.163:81/x", "http://(127.2.34.163:81)/x"},
		{"http://[2001:db8::1]/", "http://([2001:db8::1],)/"},
		{"http://[2001:db8::1]:8080/", "http://([2001:db8::1],:8080)/"},
		{"https://example.org/A/B?C=d", "https://(org,example,)/A/B?C=d"},
		{"https://example.org./", "https://(org,example,)/"},
		{"http://localhost/", "http://(localhost,)/"},
		{"http://xn--bcher-kva.example/%C3%BC", "http://(example,xn--bcher-kva,)/%C3%BC"},
		{"http://a..b/", "http://(b,,a,)/"},
		{"nothing", "://()nothing"},
		{"", "://()"},
	} {
		if got := string(AppendSURT(nil, []byte(c.url))); got != c.want {
			t.Errorf("SURT of %s: got %s, want %s", c.url, got, c.want)
		}
	}
}

func TestSURTRules(t *testing.T) {
	for _, c := range []struct {
		rule     string
		yes, not []string
	}{
		{"http://(org,example,", []string{"http://example.org/", "https://www.example.org/x",
			"http://example.org:8080/"},
			[]string{"http://example.com/", "http://example.organ/", "http://xexample.org/"}},
		{"http://(org,example,)", []string{"http://example.org/", "https://example.org/x", "http://example.org./"},
			[]string{"http://www.example.org/", "http://example.org:8080/"}},
		{"http://(org,example,)/docs/",
			[]string{"http://example.org/docs/", "https://example.org/DOCS/x?y", "http://example.org/docs/x"},
			[]string{"http://example.org/docs", "http://example.org/", "http://www.example.org/docs/"}},
		{"HTTP://(ORG,EXAMPLE,)/Docs/", []string{"http://example.org/docs/"}, []string{"http://example.org/doc/"}},
		{"https://(org,example,", []string{"https://example.org/"}, []string{"http://example.org/"}},
		{"(org,example,", []string{"https://example.org/", "http://a.b.example.org/"}, []string{"http://org.example/"}},
		{"org,example,", []string{"https://example.org/", "http://a.b.example.org/"}, []string{"http://org.example/"}},
		{"org", []string{"http://example.org/", "http://example.organ/"}, []string{"http://example.com/"}},
		{"http://(org,exam", []string{"http://example.org/", "http://examen.org/"}, []string{"http://ex.org/"}},
		{"http://(org,example,:8080)/", []string{"http://example.org:8080/x", "https://example.org:8080/"},
			[]string{"http://example.org/"}},
		{"http://(org,example,:", []string{"http://example.org:8080/x", "http://example.org:81/"},
			[]string{"http://example.org/"}},
		{"http://(192.0.2.", []string{"http://192.0.2.1/", "http://192.0.2.77:81/"}, []string{"http://192.0.3.1/"}},
		{"http://(192.0.2.1)/x", []string{"http://192.0.2.1/x"},
			[]string{"http://192.0.2.1/", "http://192.0.2.1:81/x"}},
		{"http://([2001:db8::1],)", []string{"http://[2001:db8::1]/x"}, []string{"http://[2001:db8::11]/"}},
		{"http://([2001:db8::1]", []string{"http://[2001:db8::1]/x", "http://[2001:db8::1]:81/"},
			[]string{"http://[2001:db8::11]/"}},
	} {
		s := mustParse(t, Rules, "+ surt "+c.rule)
		for _, url := range c.yes {
			if s.Ruling(s.Lookup([]byte(url))) != Include {
				t.Errorf("surt %s: %s isn't matched", c.rule, url)
			}
		}
		for _, url := range c.not {
			if s.Ruling(s.Lookup([]byte(url))) != Undecided {
				t.Errorf("surt %s: %s is matched", c.rule, url)
			}
		}
	}
}
