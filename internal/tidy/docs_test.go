package tidy

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var testName = regexp.MustCompile(`\b(Test|Fuzz)[A-Z][A-Za-z0-9_]*`)

// TestNamedTestsExist: each test that a page names exists. A name may be a prefix, as in go test -run.
func TestNamedTestsExist(t *testing.T) {
	_, list := sources(t)
	var names []string
	for _, s := range list {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
	}
	pages := []string{"README.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/formats/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages for %s: %v", pattern, err)
		}
		for _, name := range found {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(name), root+"/"))
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		for _, name := range testName.FindAllString(string(text), -1) {
			if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, name) }) {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

// TestChangelogFiles: scripts/changelog.sh leaves out a file without a kind, and a file of another form
// breaks its list.
func TestChangelogFiles(t *testing.T) {
	files, err := filepath.Glob("../../changelog/*")
	must(t, err)
	name, form := regexp.MustCompile(`^[a-z0-9-]+\.md$`),
		regexp.MustCompile(`^(Security|Removed|Changed|New|Faster|Fixed): \S[^\n]*\n(\S[^\n]*\n)*$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		if !name.MatchString(filepath.Base(file)) || !form.Match(text) {
			t.Errorf("%s: want changelog/NAME.md in small letters, with a kind, a colon and lines of text "+
				"without blank ones", file)
		}
	}
}
