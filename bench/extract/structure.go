package extract

import (
	"regexp"
	"strings"
)

// kinds are the structures of Markdown that are scored.
var kinds = []string{"heading", "list", "table", "code"}

var (
	headingLine = regexp.MustCompile(`^ {0,3}#{1,6} `)
	itemLine    = regexp.MustCompile(`^ *(?:[-*+]|[0-9]+[.)]) `)
	delimiters  = regexp.MustCompile(`^ *\|?[ :|-]+$`)
	target      = regexp.MustCompile(`\]\([^)]*\)`)
)

// structure returns the words of each kind of structure of Markdown: of headings, items of lists, rows of tables and
// fenced code.
func structure(markdown string) map[string][]string {
	all := map[string][]string{}
	code := false
	for line := range strings.Lines(markdown) {
		bare := strings.TrimLeft(line, " >")
		fence := strings.HasPrefix(bare, "```")
		kind := ""
		switch {
		case fence || code:
			kind = "code"
		case headingLine.MatchString(line):
			kind = "heading"
		case strings.HasPrefix(bare, "|"):
			kind = "table"
		case itemLine.MatchString(line):
			kind = "list"
		}
		if fence {
			code = !code
		} else if kind != "" && !(kind == "table" && delimiters.MatchString(strings.TrimSpace(line))) {
			text := strings.ToLower(line)
			if kind != "code" {
				text = target.ReplaceAllString(text, "]")
			}
			if kind == "list" {
				text = text[len(itemLine.FindString(text)):]
			}
			all[kind] = append(all[kind], wordsOf(text)...)
		}
	}
	return all
}

// judgeStructure returns the F1 of each kind of structure that the truth has.
func judgeStructure(p *page, markdown string) map[string]score {
	got, want := structure(markdown), structure(p.Markdown)
	scores := map[string]score{}
	for _, kind := range kinds {
		if len(want[kind]) > 0 {
			scores[kind] = compare(got[kind], want[kind])
		}
	}
	return scores
}
