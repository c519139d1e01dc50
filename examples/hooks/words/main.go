// Command words is an example of a hook in Go: it leaves out error pages and pages with few words, and stores the
// number of words and the most frequent long words beside each page.
//
//	go build ./examples/hooks/words
//	drumbeat crawl URL... --contact you@example.org --hook './words 50'
//
// Its argument is the least number of words of a page that is kept.
//
// It imports nothing of drumbeat, so it can be copied and changed. docs/reference/files/hook.md has the protocol: the
// first line in either direction is a greeting, then each page is a line of JSON on standard input, and the answer
// is a line of JSON with the same id on standard output. A hook gets one page at a time; drumbeat runs several
// processes (--hook-limits procs). It writes nothing else to standard output. What it writes to standard error goes to
// the log of the crawl.
//
// A hook ends when its standard input ends. It may keep state between pages, but drumbeat may kill and start it
// at any time, and each process sees only a part of the pages. A page may be asked about twice, if the crawl was
// interrupted.
//
// Memory: one page. There is one goroutine.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// page is the part of a request that this hook reads.
type page struct {
	ID     uint64 `json:"id"`
	Status int    `json:"status"`
	Text   string `json:"text"`
}

// answer is the answer to a request. Omitted fields have their defaults: keep and follow are true.
type answer struct {
	ID     uint64 `json:"id"`
	Keep   bool   `json:"keep"`
	Fields fields `json:"fields"`
}

// fields are stored in the metadata record of the page.
type fields struct {
	Words int      `json:"words"`
	Top   []string `json:"top,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: words LEAST"))
	}
	least, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fail(err)
	}
	if err := serve(os.Stdin, os.Stdout, least); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "words:", err)
	os.Exit(1)
}

// serve answers requests until in ends.
func serve(in io.Reader, out io.Writer, least int) error {
	r, w := bufio.NewReader(in), json.NewEncoder(out) // an Encoder ends each value with a newline
	if _, err := r.ReadBytes('\n'); err != nil {
		return fmt.Errorf("no greeting: %w", err)
	}
	if err := w.Encode(map[string]any{"hook": 1, "want": []string{"text"}}); err != nil {
		return err
	}
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var p page
		if err := json.Unmarshal(line, &p); err != nil {
			return err
		}
		words, top := count(p.Text)
		good := p.Status == 200 && words >= least
		if err := w.Encode(answer{ID: p.ID, Keep: good, Fields: fields{words, top}}); err != nil {
			return err
		}
	}
}

// topWords is how many of the most frequent words are stored; longWord is the least length of such a word.
const topWords, longWord = 5, 5

// count returns the number of words of a text, and its most frequent long words.
func count(text string) (n int, top []string) {
	times := map[string]int{}
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for word := range strings.FieldsFuncSeq(text, between) {
		n++
		if utf8.RuneCountInString(word) >= longWord {
			times[strings.ToLower(word)]++
		}
	}
	for word := range times {
		top = append(top, word)
	}
	slices.SortFunc(top, func(a, b string) int {
		return cmp.Or(times[b]-times[a], strings.Compare(a, b))
	})
	return n, top[:min(len(top), topWords)]
}
