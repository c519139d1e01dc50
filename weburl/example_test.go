package weburl_test

import (
	"fmt"
	"log"

	"drumbeat/weburl"
)

// The canonical form is the URL standard's, without fragment and user.
func ExampleCanonical() {
	for _, s := range []string{"HTTP://user@Example.ORG:80/a/../b?q=ü#top", "https://bücher.example",
		"ftp://example.org/"} {
		url, err := weburl.Canonical(s)
		if err != nil {
			fmt.Println(s, "is left out:", err)
			continue
		}
		fmt.Println(url)
	}
	// Output:
	// http://example.org/b?q=%C3%BC
	// https://xn--bcher-kva.example/
	// ftp://example.org/ is left out: weburl: scheme is neither http nor https
}

// A Resolver makes canonical URLs of the references on a page.
func ExampleResolver() {
	base, err := weburl.NewBase([]byte("http://www.example.co.uk/docs/index.html"))
	if err != nil {
		log.Fatal(err)
	}
	r := weburl.NewResolver(weburl.Options{})
	var buf []byte
	for _, ref := range []string{"intro.html#one", "../about", "//other.example", "?page=2", "javascript:void(0)"} {
		if buf, err = r.AppendResolve(buf[:0], base, []byte(ref)); err != nil {
			fmt.Println(ref, "is left out:", err)
			continue
		}
		fmt.Printf("%s\n", buf)
	}
	// Output:
	// http://www.example.co.uk/docs/intro.html
	// http://www.example.co.uk/about
	// http://other.example/
	// http://www.example.co.uk/docs/index.html?page=2
	// javascript:void(0) is left out: weburl: scheme is neither http nor https
}

// The pay-level domain is the unit of budgets.
func ExampleSuffixes() {
	suffixes := weburl.NewSuffixes(false) // without privately run suffixes, such as github.io
	parts := weburl.Split([]byte("http://www.shop.example.co.uk:8080/a?b"))
	fmt.Printf("host %s, port %d, path %s\n", parts.Host, parts.Port, parts.Path)
	fmt.Println(suffixes.PLD(string(parts.Host)))
	fmt.Println(suffixes.PLD("someone.github.io"))
	fmt.Println(suffixes.PLD("192.0.2.1"))
	// Output:
	// host www.shop.example.co.uk, port 8080, path /a?b
	// example.co.uk
	// github.io
	// 192.0.2.1
}

// A Record is a URL in the queues.
func ExampleRecord() {
	// A crawl draws its own with NewSecret.
	secret, err := weburl.ParseSecret("000102030405060708090a0b0c0d0e0f")
	if err != nil {
		log.Fatal(err)
	}
	keys := weburl.NewHasher(secret)

	page := []byte("http://example.org/")
	rec := weburl.Record{URL: []byte("http://example.org/a"), Depth: 1, Found: 1700000000}
	rec.SetVia(page, keys.URLKey(page))
	coded := rec.Append(nil)

	var read weburl.Record
	if err := read.Decode(coded); err != nil { // its slices point into coded
		log.Fatal(err)
	}
	fmt.Printf("%s depth %d, found on %s\n", read.URL, read.Depth, read.AppendVia(nil))
	fmt.Println("the referrer's key is kept:", keys.ParentKey(&read) == keys.URLKey(page))
	// Output:
	// http://example.org/a depth 1, found on http://example.org/
	// the referrer's key is kept: true
}
