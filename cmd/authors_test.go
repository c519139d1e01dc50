package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"drumbeat/internal/cmdtest"
)

// TestNoAuthorsInDefaults: by default the program names no contact, since the operator must be the contact.
// Strings in the source contain no addresses except those reserved for examples, and links to standards and
// tools.
func TestNoAuthorsInDefaults(t *testing.T) {
	var c commands
	p := cmdtest.Parser(t, &c)
	for _, command := range p.Model.Leaves(true) {
		for _, f := range command.Flags {
			if command.Name != "crawl" && command.Name != "bot-page" {
				continue // other commands send no requests
			}
			if f.Name == "contact" && f.HasDefault || f.Name == "from" && f.HasDefault ||
				f.Name == "user-agent" && f.HasDefault {
				t.Errorf("%s: --%s has the default %q", command.Path(), f.Name, f.Default)
			}
		}
	}
	mail := regexp.MustCompile(`[\w.+-]+@([\w-]+\.[\w.-]+)`)
	link := regexp.MustCompile(`https?://([\w.-]+)`)
	fine := regexp.MustCompile(
		`(^|\.)(example(\.(org|com|net))?|test|invalid|localhost|w3\.org|whatwg\.org|` +
			`ietf\.org|sitemaps\.org|iipc\.github\.io|netpreserve\.org|bibnum\.bnf\.fr|` +
			`publicsuffix\.org|mozilla\.org|unicode\.org|iana\.org|h|a|b|x|y)$|^[\d.]+$|^[^.]*$`)
	fset, files := token.NewFileSet(), 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../")
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "bench/") {
			return err
		}
		files++
		syntax, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			for _, m := range append(mail.FindAllStringSubmatch(text, -1), link.FindAllStringSubmatch(text, -1)...) {
				if !fine.MatchString(strings.Trim(m[1], ".")) {
					t.Errorf("%s: %q", fset.Position(lit.Pos()), m[0])
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("%d files read: %v", files, err)
	}
}
