package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// countedIn are packages whose texts people read. A number in them may be 1.
var countedIn = regexp.MustCompile(`^(cmd|admin|state/(audit|condition|explain|export|extract|move|repair|report)|` +
	`crawl/(plan|space|node|observe))(/|$)`)

// countedNoun matches a verb of a format that a noun in the plural follows.
var countedNoun = regexp.MustCompile(
	`%(d|s|v) ((?:WARC|unique|queued|damaged|lost|stored|fetched|robots\.txt|failed) )?` +
		`(pages|URLs|nodes|keys|links|times|messages|records|edges|hosts|directories|PLDs|rules|` +
		`responses|requests|bodies|seeds|lines|rows|names|networks|connections|redirects|failures|` +
		`restarts|retries|servers|faults|parts|leases)\b`)

// bounded matches what stands before a number that is never 1: a limit, or a part of a sum that is named already.
var bounded = regexp.MustCompile(`(more than|at most|limit is|the crawl's|of the) $`)

// TestCounted: a number before a noun comes from human.Counted, so that 1 has the singular. A number is a %d, or a %s
// whose value is written with separators.
func TestCounted(t *testing.T) {
	files, list := sources(t)
	found := 0
	for _, s := range list {
		if s.test || !countedIn.MatchString(s.pkg) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Counted" {
				found++
			}
			for i, arg := range call.Args {
				if format, ok := formatOf(arg); ok {
					if bad := uncounted(format, call.Args[i+1:]); bad != "" {
						t.Errorf("%s:%d: %q: write it with human.Counted", s.name, files.Position(arg.Pos()).Line, bad)
					}
				}
			}
			return true
		})
	}
	if found < 150 {
		t.Errorf("only %d calls of human.Counted", found)
	}
}

// formatOf returns the text of a string, or of strings joined by +.
func formatOf(e ast.Expr) (string, bool) {
	switch v := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(v.Value)
		return text, v.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		a, ok1 := formatOf(v.X)
		b, ok2 := formatOf(v.Y)
		return a + b, v.Op == token.ADD && ok1 && ok2
	}
	return "", false
}

// verb matches a verb of a format.
var verb = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z%]`)

// uncounted returns the first number with a noun in a format that is not counted; "" if there is none.
func uncounted(format string, args []ast.Expr) string {
	if strings.Contains(format, "%[") {
		return ""
	}
	for _, at := range countedNoun.FindAllStringIndex(format, -1) {
		n := 0 // of the value
		for _, v := range verb.FindAllString(format[:at[0]], -1) {
			if v != "%%" {
				n++
			}
		}
		if n >= len(args) || bounded.MatchString(format[:at[0]]) || strings.HasPrefix(format[at[1]:], "/s") {
			continue
		}
		call, ok := args[n].(*ast.CallExpr)
		name := ""
		if ok {
			switch f := call.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
		}
		if format[at[0]+1] == 'd' || name == "Comma" || name == "n" || name == "count" || name == "Count" {
			return format[at[0]:at[1]]
		}
	}
	return ""
}
