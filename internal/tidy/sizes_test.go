package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The limits of sizes, for the product and for tests. A tab counts as four columns, another rune as one.
const (
	maxColumns       = 120
	maxFunctionLines = 70
	maxFileLines     = 600
)

// hotLoopMark begins a file of one loop that a call would slow down, because its variables stay in registers. The
// rest of the line gives the loss. Functions of such a file have no limit.
const hotLoopMark = "//tidy:long "

// TestSizes: no line, function or file is larger than its limit.
func TestSizes(t *testing.T) {
	fset, list := sources(t)
	for _, s := range list {
		wide, long := sizes(fset, &s)
		for _, f := range slices.Concat(wide, long) {
			t.Error(f)
		}
	}
}

// sizes returns what is larger than its limit: lines, then functions and the file. Lines that begin within a raw string
// are free, since a break would change the text, and so are the directives of the go command.
func sizes(fset *token.FileSet, s *source) (wide, long []string) {
	raw := map[int]bool{}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			for i := fset.Position(lit.Pos()).Line + 1; i <= fset.Position(lit.End()).Line; i++ {
				raw[i] = true
			}
		}
		return true
	})
	count := 0
	for line := range strings.Lines(string(s.text)) {
		count++
		line = strings.TrimRight(line, "\n")
		columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
		if columns > maxColumns && !raw[count] && !strings.HasPrefix(line, "//go:") {
			wide = append(wide, fmt.Sprintf("%s:%d: %d columns, at most %d", s.name, count, columns, maxColumns))
		}
	}
	if count > maxFileLines {
		long = append(long, fmt.Sprintf("%s has %d lines, at most %d", s.name, count, maxFileLines))
	}
	hotLoop := !s.test && strings.HasPrefix(string(s.text), hotLoopMark)
	for _, d := range s.syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
		if n > maxFunctionLines && !hotLoop {
			long = append(long, fmt.Sprintf("%s: %s has %d lines, at most %d", fset.Position(f.Pos()), f.Name.Name, n,
				maxFunctionLines))
		}
	}
	return wide, long
}

// TestSizesAreFound: sizes at the limit pass, larger ones are found, and what cannot be broken is free.
func TestSizesAreFound(t *testing.T) {
	for _, c := range []struct {
		name       string
		text       string
		wide, long int
	}{
		{"limits", "package p\n\n" + "//" + strings.Repeat("ä", 118) + "\n\n" +
			"func f() {\n" + strings.Repeat("\tf()\n", 68) + "}\n" + strings.Repeat("\n", 525), 0, 0},
		{"a rune more", "package p\n\n//" + strings.Repeat("ä", 119) + "\n", 1, 0},
		{"tabs", "package p\n\nfunc f() {\n\t\t//" + strings.Repeat("x", 111) + "\n}\n", 1, 0},
		{"raw string", "package p\n\nconst s = `\n" + strings.Repeat("x", 200) + "`\n", 0, 0},
		{"its first line", "package p\n\nconst s = `" + strings.Repeat("x", 200) + "\n`\n", 1, 0},
		{"behind its end", "package p\n\nconst s = `\n`\n\n//" + strings.Repeat("x", 200) + "\n", 1, 0},
		{"directive", "package p\n\n//go:generate " + strings.Repeat("x", 200) + "\n", 0, 0},
		{"function", "package p\n\nfunc f() {\n" + strings.Repeat("\tf()\n", 69) + "}\n", 0, 1},
		{"file", "package p\n" + strings.Repeat("\n", 600), 0, 1},
	} {
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, "p/a_test.go", c.text, parser.ParseComments)
		must(t, err)
		wide, long := sizes(fset, &source{name: "p/a_test.go", text: []byte(c.text), syntax: syntax})
		if len(wide) != c.wide || len(long) != c.long {
			t.Errorf("%s: found %q and %q, want %d and %d", c.name, wide, long, c.wide, c.long)
		}
	}
}
