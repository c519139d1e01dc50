package robots_test

import (
	"fmt"
	"log"

	"drumbeat/robots"
)

// Example parses a robots.txt, checks paths, and encodes the rules. A verdict on encoded rules needs no
// decoding.
func Example() {
	body := []byte(`User-agent: *
Disallow: /private/
Allow: /private/open$
Crawl-delay: 2.5

User-agent: badbot
Disallow: /

Sitemap: https://site.example/sitemap.xml
`)
	rules := robots.Parse(body, "drumbeat") // our product token
	fmt.Println("a group of our own:", rules.Own, "delay:", rules.CrawlDelay, "sitemaps:", rules.Sitemaps)

	allowed, rule := rules.Match([]byte("/private/x?q=1")) // path and query, as a request line has them
	fmt.Printf("%v %q\n", allowed, rule)

	encoded := rules.Append(nil) // what a table keeps for each origin
	for _, path := range []string{"/", "/private/x", "/private/open"} {
		allowed, rule := robots.Explain(encoded, []byte(path))
		fmt.Printf("%s %v %q\n", path, allowed, rule)
	}

	decoded, err := robots.DecodeRules(encoded)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(decoded.Text())
	// Output:
	// a group of our own: false delay: 2.5s sitemaps: [https://site.example/sitemap.xml]
	// false "Disallow: /private/"
	// / true ""
	// /private/x false "Disallow: /private/"
	// /private/open true "Allow: /private/open$"
	// User-agent: *
	// Allow: /private/open$
	// Disallow: /private/
	// Crawl-delay: 2.5
}
