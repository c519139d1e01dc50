package parse_test

import (
	"fmt"
	"log"

	"drumbeat/parse"
	"drumbeat/weburl"
)

// Example lists the canonical URLs of a page's links.
func Example() {
	page := []byte(`<html><head><base href="/docs/"><meta name="robots" content="noindex"></head>
<body><a href="intro.html">Introduction</a> <a href="../about?a=1&amp;b=2#team">About</a>
<a rel="nofollow" href="//other.example/">an advertisement</a> <a href="mailto:me@site.example">mail</a></body></html>`)

	x := parse.NewExtractor(parse.Options{}, weburl.Options{}) // one for each goroutine
	counts, err := x.Extract([]byte("http://site.example/index.html"), page, "text/html; charset=utf-8",
		func(canonical []byte, l *parse.Link) { // both are valid during the call only
			fmt.Printf("%v %s nofollow=%v\n", l.Tag, canonical, l.NoFollow)
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("links:", counts.Links, "other schemes:", counts.OtherScheme, "noindex:", x.Page().Robots.NoIndex)
	// Output:
	// a http://site.example/docs/intro.html nofollow=false
	// a http://site.example/about?a=1&b=2 nofollow=false
	// a http://other.example/ nofollow=true
	// links: 3 other schemes: 1 noindex: true
}

// A Parser alone returns the links as written, without resolving them.
func ExampleParser() {
	var page parse.Page // reuse it: its slices keep their memory
	parse.NewParser(parse.Options{}).Parse([]byte(`<a href=" one ">1</a><frame src=two>`), "text/html", &page)
	for _, l := range page.Links {
		fmt.Printf("%v %q\n", l.Tag, l.Ref)
	}
	// Output:
	// a " one "
}
