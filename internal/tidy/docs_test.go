package tidy

import (
	"go/ast"
	"io/fs"
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
	for _, page := range append(pages(t), "CHANGELOG.md") {
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		for _, name := range testName.FindAllString(string(text), -1) {
			if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, name) }) {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

// pages returns the names of the pages, without those of changes.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "CONTRIBUTING.md"}
	must(t, filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			list = append(list, strings.TrimPrefix(filepath.ToSlash(name), root+"/"))
		}
		return err
	}))
	if len(list) < 80 {
		t.Fatalf("only %d pages", len(list))
	}
	return list
}

var (
	heading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	marked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notSlug = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// anchors returns the anchors of a page's headings, as code hosts and the site make them.
func anchors(page string) map[string]bool {
	list := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := strings.ToLower(strings.TrimSpace(marked.ReplaceAllString(m[1], "$1")))
		list[strings.ReplaceAll(notSlug.ReplaceAllString(text, ""), " ", "-")] = true
	}
	return list
}

// TestLinks: what a page links to in the repository exists, with its anchor.
func TestLinks(t *testing.T) {
	for _, page := range append(pages(t), "CHANGELOG.md") {
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], ":") { // elsewhere
				continue
			}
			name, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if name != "" {
				target = filepath.Join(filepath.Dir(page), name)
			}
			info, err := os.Stat(filepath.Join(root, target))
			if err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
				continue
			}
			if anchor == "" || info.IsDir() {
				continue
			}
			to, err := os.ReadFile(filepath.Join(root, target))
			must(t, err)
			if !anchors(string(to))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

// inContents matches a line of a section's list of pages. The site makes its contents from these lists.
var inContents = regexp.MustCompile(`(?m)^- \[[^\]]*\]\(([^)#:]+\.md)\)`)

// TestContents: each page of docs is in the contents, once.
func TestContents(t *testing.T) {
	seen := map[string]int{}
	var visit func(page string)
	visit = func(page string) {
		if seen[page]++; seen[page] > 1 || !strings.HasSuffix(page, "/_index.md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		for _, m := range inContents.FindAllStringSubmatch(string(text), -1) {
			visit(filepath.Join(filepath.Dir(page), m[1]))
		}
	}
	visit("docs/_index.md")
	for _, page := range pages(t) {
		if page != "README.md" && seen[page] != 1 {
			t.Errorf("%s is %d times in the lists of _index.md", page, seen[page])
		}
	}
}

// twoScreens is the length of a page that is read at one go, in lines of maxColumns of source.
const twoScreens = 110

// TestTwoScreens: the pages that are read from begin to end are short.
func TestTwoScreens(t *testing.T) {
	guide := regexp.MustCompile(`^docs/(start|tutorials|howto)/`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		lines := 0
		for line := range strings.Lines(string(text)) {
			lines += 1 + len(line)/maxColumns
		}
		if guide.MatchString(page) && lines > twoScreens {
			t.Errorf("%s has %d lines, at most %d", page, lines, twoScreens)
		}
	}
}

// fileName is the path of a file of Go, a script or a page, or of a package as the go command takes it.
var fileName = regexp.MustCompile("(?:^|[\\s(,;\"`])(" +
	`(?:[a-z][a-z0-9_]*/)+[a-z0-9_-]+\.(?:go|sh)|docs/[A-Za-z0-9_/-]+\.md|\./[a-z][a-z0-9_]*(?:/[a-z][a-z0-9_]*)*)\b`)

// TestNamedFilesExist: each such file or package that a page or a comment names exists, from the root, from crawl
// or from the directory of the page. The program itself is built by the reader.
func TestNamedFilesExist(t *testing.T) {
	check := func(where, text string) {
		for _, m := range fileName.FindAllStringSubmatch(text, -1) {
			if m[1] == "./drumbeat" {
				continue
			}
			found := false
			for _, dir := range [...]string{".", "crawl", filepath.Dir(where)} {
				_, err := os.Stat(filepath.Join(root, dir, m[1]))
				found = found || err == nil
			}
			if !found {
				t.Errorf("%s names %s, which does not exist", where, m[1])
			}
		}
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		check(page, string(text))
	}
	_, list := sources(t)
	for _, s := range list {
		for _, group := range s.syntax.Comments {
			check(s.name, group.Text())
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
