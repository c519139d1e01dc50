package main

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/internal/cputime"
)

var corpusFlag = flag.String("corpus", "", "directories of HTML files, with commas between; made pages if empty")

// page is a page of the corpus. path is the path of its URL.
type page struct {
	path string
	body []byte
}

const (
	// mostPageBytes is the limit of a crawl's bodies; the corpus omits larger files.
	mostPageBytes = 2 << 20
	// timedPages is the number of pages that are timed, spread evenly over the corpus and held in RAM.
	timedPages = 400
)

// corpus returns the number of pages and a function that reads one: generated pages, or the HTML files of
// -corpus.
func corpus(tb testing.TB) (n int, read func(i int) page) {
	tb.Helper()
	if *corpusFlag == "" {
		return timedPages, func(i int) page { return page{"/docs/page.html", madePage(i)} }
	}
	var names, paths []string
	for _, dir := range strings.Split(*corpusFlag, ",") {
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || !strings.HasSuffix(name, "html") {
				return err
			}
			info, err := e.Info()
			if err != nil || info.Size() > mostPageBytes {
				return err
			}
			path, err := filepath.Rel(dir, name)
			names, paths = append(names, name), append(paths, "/"+filepath.ToSlash(path))
			return err
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return len(names), func(i int) page {
		body, err := os.ReadFile(names[i])
		if err != nil {
			tb.Fatal(err)
		}
		return page{paths[i], body}
	}
}

// sample returns the pages that are timed.
func sample(b *testing.B) (pages []page) {
	b.Helper()
	n, read := corpus(b)
	timed := min(n, timedPages)
	for i := range timed {
		pages = append(pages, read(i*n/timed))
	}
	if len(pages) == 0 {
		b.Fatalf("no page in %s", *corpusFlag)
	}
	return pages
}

// perPage measures do, page after page. MB/s refer to the pages.
func perPage(b *testing.B, name string, pages []page, do func(i int) error) {
	b.Run(name, func(b *testing.B) {
		total := 0
		for i, p := range pages {
			total += len(p.body)
			if err := do(i); err != nil { // warm up: buffers grow for every page
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(total / len(pages)))
		cpuTime(b, func(i int) error { return do(i % len(pages)) })
	})
}

// cpuTime runs do as often as b requires, and reports the CPU time of this process in addition to the time.
func cpuTime(b *testing.B, do func(i int) error) {
	b.ReportAllocs()
	i, cpu := 0, cputime.Process()
	for b.Loop() {
		if err := do(i); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(cputime.Process()-cpu)/float64(b.N), "cpu-ns/op")
}

// madePage returns a page of about the paper's mean: 59 links, 25 kB.
func madePage(seed int) []byte {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	b := fmt.Appendf(nil, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page %d &amp; its title</title>\n"+
		"<link rel=\"stylesheet\" href=\"/css/main.css\"><script>if (1 < 2) { document.write('<a href=\"x\">') }</script>\n"+
		"</head><body class=\"page two-columns\">\n<!-- a comment with <a href=\"hidden\"> in it -->\n", seed)
	for i := range 59 {
		n := rng.IntN(1e6)
		b = fmt.Appendf(b, "<div class=\"item item-%d\" data-id=\"%d\"><h2 class=\"title\">Heading number %d</h2>\n<a class=\"more\" href=\"", i, n*77, n)
		switch i % 5 {
		case 0:
			b = fmt.Appendf(b, "/articles/2024/%d/some-title-of-an-article.html", n)
		case 1:
			b = fmt.Appendf(b, "https://www.example.org/page.php?id=%d&amp;lang=en", n)
		case 2:
			b = fmt.Appendf(b, "../relative/%d", n)
		case 3:
			b = fmt.Appendf(b, "another-page-%d.html", n)
		default:
			b = fmt.Appendf(b, "#section-%d", n)
		}
		b = append(b, "\" title='It is a \"title\"'><img src=\"/img/thumb.jpg\" alt=\"\" width=\"120\"> read on</a>\n<p>Some words of text "...)
		for range 4 {
			b = append(append(b, "the crawler visits pages of hosts and parses links within budgets"[rng.IntN(40):]...), ' ')
		}
		b = append(b, "</p>\n</div>\n"...)
	}
	return append(b, "</body></html>\n"...)
}
