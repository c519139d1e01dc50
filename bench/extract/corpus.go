package extract

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drumbeat/internal/maintext"
)

// Bounds of a corpus: pages, and bytes of their truth.
const (
	maxPages = 100_000
	maxTruth = 1 << 30
)

// page is a page of a corpus with its truth.
type page struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Main     string   `json:"main"`
	With     []string `json:"with"`     // must be in the text
	Without  []string `json:"without"`  // must not
	Markdown string   `json:"markdown"` // "": unknown
}

// corpus is a set of pages.
type corpus struct {
	dir   string
	pages []page // by id
	// shingled says that the score is that of scrapinghub's benchmark.
	shingled bool
}

// The files of the two layouts.
const (
	truthLines  = "truth.jsonl"
	truthObject = "ground-truth.json"
)

// openCorpus reads the truth of a corpus.
func openCorpus(dir string) (*corpus, error) {
	c := &corpus{dir: dir}
	read := c.readLines
	f, err := os.Open(filepath.Join(dir, truthLines))
	if errors.Is(err, fs.ErrNotExist) {
		c.shingled, read = true, c.readObject
		f, err = os.Open(filepath.Join(dir, truthObject))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("bench: extract: --corpus %s: neither %s nor %s is there", dir, truthLines, truthObject)
	}
	if err != nil {
		return nil, fmt.Errorf("bench: extract: open the truth: %w", err)
	}
	defer f.Close() // it is only read
	limited := &io.LimitedReader{R: f, N: maxTruth + 1}
	err = read(bufio.NewReader(limited))
	switch {
	case limited.N == 0:
		err = fmt.Errorf("more than %d bytes", maxTruth)
	case err == nil && len(c.pages) == 0:
		err = errors.New("no pages")
	}
	slices.SortFunc(c.pages, func(a, b page) int { return strings.Compare(a.ID, b.ID) })
	for i := range c.pages {
		if p := &c.pages[i]; err == nil && (p.ID == "" || p.ID != filepath.Base(p.ID)) {
			err = fmt.Errorf("id %.100q is no name of a file", p.ID)
		} else if err == nil && i > 0 && p.ID == c.pages[i-1].ID {
			err = fmt.Errorf("id %.100q is there twice", p.ID)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bench: extract: %s: %w", f.Name(), err)
	}
	return c, nil
}

// readLines reads truth.jsonl.
func (c *corpus) readLines(r io.Reader) error {
	d := json.NewDecoder(r)
	for {
		var p page
		if err := d.Decode(&p); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("page %d: %w", len(c.pages)+1, err)
		}
		if c.pages = append(c.pages, p); len(c.pages) > maxPages {
			return fmt.Errorf("more than %d pages", maxPages)
		}
	}
}

// readObject reads ground-truth.json.
func (c *corpus) readObject(r io.Reader) error {
	var all map[string]struct {
		Body string `json:"articleBody"`
	}
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return err
	}
	if len(all) > maxPages {
		return fmt.Errorf("more than %d pages", maxPages)
	}
	for id, of := range all {
		c.pages = append(c.pages, page{ID: id, Type: "article", Main: of.Body})
	}
	return nil
}

// html reads a page as it was served, without its end beyond maintext.MaxPage.
func (c *corpus) html(p *page) ([]byte, error) {
	name := filepath.Join(c.dir, "html", p.ID+".html")
	f, err := os.Open(name)
	packed := errors.Is(err, fs.ErrNotExist)
	if packed {
		f, err = os.Open(name + ".gz")
	}
	if err != nil {
		return nil, fmt.Errorf("bench: extract: open page %s: %w", p.ID, err)
	}
	defer f.Close() // it is only read
	r := io.Reader(f)
	if packed {
		if r, err = gzip.NewReader(bufio.NewReader(f)); err != nil {
			return nil, fmt.Errorf("bench: extract: %s: %w", f.Name(), err)
		}
	}
	text, err := io.ReadAll(io.LimitReader(r, maintext.MaxPage))
	if err != nil {
		return nil, fmt.Errorf("bench: extract: %s: %w", f.Name(), err)
	}
	return text, nil
}
