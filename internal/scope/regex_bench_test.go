package scope

import (
	"strings"
	"testing"
)

// BenchmarkRegex matches an expensive expression with the longest URL of a crawl: the upper bound of the
// cost of a rule.
func BenchmarkRegex(b *testing.B) {
	for _, c := range []struct{ name, re string }{{"literal", `\.php\?`}, {"set", `\.(zip|tar\.gz|iso|exe)$`},
		{"nested", `(([^/]+/)*[^/]+/)*x$`}} {
		s := mustParse(b, Rules, "- regex "+c.re)
		for _, url := range []string{"https://www.example.org/public/page.html?q=1",
			"https://www.example.org/" + strings.Repeat("ab/", 686)} {
			b.Run(c.name+"/bytes="+map[bool]string{true: "2082", false: "45"}[len(url) > 100], func(b *testing.B) {
				site := s.Site([]byte(url), []byte("example.org"))
				u := []byte(url)
				b.ReportAllocs()
				for b.Loop() {
					s.Find(&site, u)
				}
			})
		}
	}
}
