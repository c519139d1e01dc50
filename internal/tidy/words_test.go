package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// unwanted are words that comments and pages do without: "continues", "again", "repair", "alternately"
	// say the same.
	unwanted = regexp.MustCompile(`(?i)\b(goes on|go on|going on|anew|mend(s|ed|ing)?|in vain|by turns)\b`)
	quoted   = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")
)

// TestWords: comments and pages use none of the unwanted words, except in quotes.
func TestWords(t *testing.T) {
	check := func(name, text string) {
		text = quoted.ReplaceAllString(strings.Join(strings.Fields(text), " "), "")
		for _, at := range unwanted.FindAllStringIndex(text, -1) {
			t.Errorf("%s: …%s…: do without %q (CONTRIBUTING, \"A term\")", name,
				text[max(0, at[0]-40):min(len(text), at[1]+20)], text[at[0]:at[1]])
		}
	}
	if unwanted.FindString("The crawl goes on.") == "" || unwanted.FindString("It continues.") != "" {
		t.Fatal("the words are not found")
	}
	_, list := sources(t)
	for _, s := range list {
		for _, group := range s.syntax.Comments {
			check(s.name, group.Text())
		}
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		check(page, string(text))
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
