package tidy

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unread are packages without texts for users of the crawler: tests and their helpers.
var unread = regexp.MustCompile(`^(bench/docweb/|internal/(simweb|mutate|soak|tidy|damage|cmdtest|storedweb)/|` +
	`crawl/(testworld|crawltest)/|examples/)|(^|/)\w+test/`)

// notWords matches what is left out of a text before it is searched: flags with their parts, and code.
var notWords = regexp.MustCompile(
	"^--[a-z0-9-]+ [a-z-]+$|--[a-z0-9-]+( [a-z-]+=)?|[a-z-]+=|`[^`]*`")

// TestWordsForPeople: no text that a user reads has a word of the table "Words for people" in
// docs/reference/glossary.md.
func TestWordsForPeople(t *testing.T) {
	words := wordsForbidden(t)
	texts := 0
	check := func(at, text string) {
		texts++
		if m := words.FindString(notWords.ReplaceAllString(text, " ")); m != "" {
			t.Errorf("%s: %q has %q; docs/reference/glossary.md, Words for people, says what to write", at, text, m)
		}
	}
	everyText(t, check)
	if texts < 4000 {
		t.Errorf("only %d texts found", texts)
	}
}

// wordsForbidden returns an expression of the first column of the table.
func wordsForbidden(t *testing.T) *regexp.Regexp {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/glossary.md"))
	must(t, err)
	_, table, ok := strings.Cut(string(page), "| not for people | instead |\n|---|---|\n")
	var all []string
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			break
		}
		for word := range strings.SplitSeq(cells[1], ",") {
			all = append(all, regexp.QuoteMeta(strings.Trim(word, " `")))
		}
	}
	if !ok || len(all) < 10 {
		t.Fatalf("docs/reference/glossary.md has no table of words for people: %v", all)
	}
	return regexp.MustCompile(`(?i)\b(` + strings.Join(all, "|") + `)\b`)
}

// everyText calls f with each text that a user may read, and its place: strings of Go and of the dashboard with a
// blank in them, texts of HTML, and help. Without a blank, a string is the name of something.
func everyText(t *testing.T, f func(at, text string)) {
	t.Helper()
	files, list := sources(t)
	for _, s := range list {
		if !s.test && !unread.MatchString(s.name) {
			goTexts(files, s, f)
		}
	}
	for pattern, texts := range map[string]func(line string) []string{
		"cmd/flags/help/*.txt":    func(line string) []string { return []string{line} },
		"admin/web/static/*.html": func(line string) []string { return []string{markup.ReplaceAllString(line, "\n")} },
		"cmd/botpage/*.html":      func(line string) []string { return []string{markup.ReplaceAllString(line, "\n")} },
		"admin/web/static/*.js":   jsTexts,
	} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("no files for %s: %v", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			must(t, err)
			for i, line := range strings.Split(string(text), "\n") {
				for _, part := range texts(line) {
					f(strings.TrimPrefix(filepath.ToSlash(name), root+"/")+":"+strconv.Itoa(i+1), part)
				}
			}
		}
	}
}

var (
	jsString = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	markup   = regexp.MustCompile(`</?[a-z0-9]+( [a-z-]+="[^"]*")*>`)
)

// jsTexts returns the strings of a line of JavaScript that have a blank.
func jsTexts(line string) (texts []string) {
	line, _, _ = strings.Cut(line, "// ")
	for _, m := range jsString.FindAllStringSubmatch(line, -1) {
		if strings.Contains(m[1], " ") {
			texts = append(texts, m[1])
		}
	}
	return texts
}

// goTexts calls f with the strings of a Go file that have a blank, but for those that only a bug prints.
func goTexts(files *token.FileSet, s source, f func(at, text string)) {
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if _, tags := n.(*ast.Field); tags {
			return false
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err == nil && strings.ContainsAny(strings.TrimSpace(text), " \t\n") && !strings.HasPrefix(text, "BUG:") {
			f(s.name+":"+strconv.Itoa(files.Position(lit.Pos()).Line), text)
		}
		return true
	})
}
