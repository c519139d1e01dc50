package robots

import (
	"fmt"
	"strings"
	"testing"
)

// ruleFile returns a typical file: directories of a few sections, one rule in ten with a wildcard, some
// Allow.
func ruleFile(rules int) []byte {
	var b strings.Builder
	b.WriteString("User-agent: *\nCrawl-delay: 1\n")
	for i := range rules {
		switch {
		case i%10 == 3:
			fmt.Fprintf(&b, "Disallow: /*/tag-%d/*.pdf$\n", i)
		case i%10 == 7:
			fmt.Fprintf(&b, "Allow: /%c%d/section/public/\n", 'a'+i%26, i)
		default:
			fmt.Fprintf(&b, "Disallow: /%c%d/section/private/\n", 'a'+i%26, i)
		}
	}
	return []byte(b.String())
}

// prefixFile returns a file without wildcards.
func prefixFile(rules int) []byte {
	return []byte(strings.ReplaceAll(strings.ReplaceAll(string(ruleFile(rules)), "*", "x"), "$", ""))
}

// BenchmarkMatchRules measures a verdict by number of rules, for a URL that no rule matches, so all are
// examined.
func BenchmarkMatchRules(b *testing.B) {
	paths := []string{"/news/2024/05/an-article-of-usual-length.html", "/shop/item?id=12345&colour=red&ref=front-page",
		"/s5/section/private/x"}
	for _, n := range []int{10, 100, 1000} {
		for name, file := range map[string][]byte{"mixed": ruleFile(n), "prefixes": prefixFile(n)} {
			enc := Parse(file, "x").Append(nil)
			b.Run(fmt.Sprintf("%s/rules=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					Match(enc, []byte(paths[i%len(paths)]))
					i++
				}
			})
		}
	}
}

// BenchmarkMatchHostile measures the worst files within the limits, for long URLs designed for them.
func BenchmarkMatchHostile(b *testing.B) {
	path := []byte("/" + strings.Repeat("ab", 1000) + strings.Repeat("a", 80))
	for name, file := range hostileFiles() {
		enc := Parse([]byte("User-agent: *\n"+file), "x").Append(nil)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Match(enc, path)
			}
		})
	}
}
