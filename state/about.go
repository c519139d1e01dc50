package state

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// About says what a crawl is to the people who get its results. It goes into warcinfo records, WACZ files and
// reports; sites do not see it.
type About struct {
	Title       string `json:"title,omitempty"`       // a line
	Description string `json:"description,omitempty"` // sentences, as one line
	Operator    string `json:"operator,omitempty"`    // the person or institution that crawls
}

// Bounds of the texts of About in bytes: readers show a title in a line, and every WARC file repeats all three.
const (
	MaxTitle       = 200
	MaxDescription = 2000
	MaxOperator    = 200
)

// Check returns the first fault: a text that is too long, or that would break the line of a header.
func (a *About) Check() error {
	for _, t := range []struct {
		name, text string
		most       int
	}{
		{"title", a.Title, MaxTitle},
		{"description", a.Description, MaxDescription},
		{"operator", a.Operator, MaxOperator},
	} {
		switch {
		case len(t.text) > t.most:
			return fmt.Errorf("%s has %d bytes, %d more than a %s may have", t.name, len(t.text), len(t.text)-t.most,
				t.name)
		case !utf8.ValidString(t.text):
			return errors.New(t.name + " is not UTF-8")
		case strings.ContainsFunc(t.text, unicode.IsControl):
			return errors.New(t.name + " has a line break or another control character; write one line")
		}
	}
	return nil
}

// Name returns the title of a crawl, or one made from its seeds; r may be nil, as in old manifests.
func (r *LastRun) Name(crawl string) string {
	switch {
	case r == nil:
		return "Crawl " + crawl
	case r.About.Title != "":
		return r.About.Title
	case len(r.FirstSeeds) == 1:
		return "Crawl of " + r.FirstSeeds[0]
	case len(r.FirstSeeds) > 1:
		return fmt.Sprintf("Crawl of %s and other seeds", r.FirstSeeds[0])
	case r.Seeds != "" && r.Seeds != "-":
		return "Crawl of the seeds in " + r.Seeds
	}
	return "Crawl " + crawl
}
