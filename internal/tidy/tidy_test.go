package tidy

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the module's path; root is the path of its directory from here.
const (
	module = "drumbeat"
	root   = "../.."
)

// layer has the height of a package, in tenths of a layer, and the packages of the module that it may
// import. "*" stands for all packages of lower layers.
type layer struct {
	height  int
	imports []string
}

// testHelpers are packages that the tests of any package may import.
var testHelpers = []string{"bench/benchtest", "crawl/crawltest", "crawl/roomtest", "crawl/testworld",
	"internal/cmdtest", "internal/simweb", "internal/damage", "disk", "disk/memfs", "bench/links", "cluster/mem",
	"internal/objstore/objtest"}

// named are packages that "*" does not include.
var named = []string{"admin/e2e", "bench/benchtest", "crawl/crawltest", "crawl/roomtest", "crawl/testworld",
	"disk/memfs", "cluster/transporttest", "cluster/mem", "internal/bug", "internal/cmdtest", "internal/damage",
	"bench/bareloop", "bench/docweb", "internal/mutate", "internal/objstore/objtest", "internal/profile",
	"bench/realweb", "internal/simweb", "internal/soak", "internal/tidy"}

type source struct {
	name   string // path from the root
	pkg    string // directory from the root
	test   bool
	text   []byte
	syntax *ast.File
}

// sources returns every Go file of the module, which the first test parses for all.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	list, err := parsed()
	must(t, err)
	if len(list) < 10 {
		t.Fatalf("found only %d Go files", len(list))
	}
	return fset, list
}

var fset = token.NewFileSet()

var parsed = sync.OnceValues(func() (list []source, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(name, root), "/"))
		if d.IsDir() {
			base := d.Name()
			if rel != "" && (strings.HasPrefix(base, ".") || base == "testdata" || base == "docs") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
		if err != nil {
			return err
		}
		list = append(list, source{rel, path.Dir(rel), strings.HasSuffix(rel, "_test.go"), text, syntax})
		return nil
	})
	return list, err
})

// allowed reports whether from may import to.
func allowed(from, to string, test bool) bool {
	l := layers[from]
	if test && (slices.Contains(testHelpers, to) || from == to) {
		return true
	}
	if slices.Contains(l.imports, to) {
		return true
	}
	below, known := layers[to]
	return slices.Contains(l.imports, "*") && known && below.height < l.height && !slices.Contains(named, to)
}

// afterCrawl reports whether a source is an external test of a room or of a tool for a crawl at rest, and
// to is such a tool, crawl, or of a room's test a room or any lower package: these tests make crawls, or what
// is below a room, and use tools on the result.
func afterCrawl(s *source, to string) bool {
	room := strings.HasPrefix(s.pkg, "crawl/")
	return (room || strings.HasPrefix(s.pkg, "state/")) && strings.HasSuffix(s.syntax.Name.Name, "_test") &&
		(to == "crawl" || strings.HasPrefix(to, "state/") || room && (strings.HasPrefix(to, "crawl/") ||
			layers[to].height < layers[s.pkg].height && !slices.Contains(named, to)))
}

// TestImportTable: the imports inside the module are those of the table, and each goes to a lower layer.
func TestImportTable(t *testing.T) {
	_, list := sources(t)
	type edge struct{ from, to string }
	used := map[edge]bool{}
	for _, s := range list {
		used[edge{s.pkg, ""}] = true
		if _, known := layers[s.pkg]; !known {
			t.Errorf("%s: package %s is not in the table of layers", s.name, s.pkg)
			continue
		}
		for _, imp := range s.syntax.Imports {
			to, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module+"/")
			used[edge{s.pkg, to}] = true
			if ours && !allowed(s.pkg, to, s.test) && !afterCrawl(&s, to) {
				t.Errorf("%s imports %s, which layer %d may not", s.name, to, layers[s.pkg].height/10)
			}
		}
	}
	for from, l := range layers {
		if !used[edge{from, ""}] {
			t.Errorf("the table names %s, which does not exist", from)
		}
		for _, to := range l.imports {
			if to != "*" && !used[edge{from, to}] {
				t.Errorf("the table lets %s import %s, but it does not", from, to)
			}
			if to != "*" && layers[to].height >= l.height {
				t.Errorf("the table lets %s import %s, which is not below it", from, to)
			}
		}
	}
}

// TestLayersPage: the table in docs/how-it-works/architecture.md has each package with its height, in their order.
func TestLayersPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/how-it-works/architecture.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Layers\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") && strings.Contains(line, "`") {
			got = append(got, strings.TrimPrefix(cells[0], "| ")+" "+strings.Trim(cells[1], "`"))
		}
	}
	names := slices.SortedFunc(maps.Keys(layers), func(a, b string) int {
		return cmp.Or(layers[a].height-layers[b].height, strings.Compare(a, b))
	})
	for _, name := range names {
		want = append(want, fmt.Sprint(layers[name].height, " ", name))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/how-it-works/architecture.md, Layers:\n%s\nwant\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// dnsSpeakers are the packages that may import the DNS library.
var dnsSpeakers = []string{"dnscache", "internal/simweb"}

// TestMiekgStaysInside: the DNS library is an implementation detail of the resolver, and of the servers made
// for tests.
func TestMiekgStaysInside(t *testing.T) {
	_, list := sources(t)
	for _, s := range list {
		for _, imp := range s.syntax.Imports {
			if strings.Contains(imp.Path.Value, "miekg/dns") && !slices.Contains(dnsSpeakers, s.pkg) {
				t.Errorf("%s imports %s; only %v may", s.name, imp.Path.Value, dnsSpeakers)
			}
		}
	}
}

// TestHealthAloneKnows429: a rule for status 429 or 503 in a second place would sooner or later differ from
// health.KindOf.
func TestHealthAloneKnows429(t *testing.T) {
	fset, all := sources(t)
	for i := range all {
		file := &all[i]
		client := file.pkg == "crawl" || file.pkg == "robots" ||
			strings.HasPrefix(file.pkg, "crawl/") && file.pkg != "crawl/testworld"
		if file.test || !client {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Value == "429" || n.Value == "503" {
					t.Errorf("%s: status %s; ask health.KindOf", fset.Position(n.Pos()), n.Value)
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "StatusTooManyRequests" || n.Sel.Name == "StatusServiceUnavailable" {
					t.Errorf("%s: %s; ask health.KindOf", fset.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestPackageComments: every package has a package comment of at least 15 lines.
func TestPackageComments(t *testing.T) {
	_, list := sources(t)
	lines := map[string]int{}
	for _, s := range list {
		if s.test {
			continue
		}
		n := 0
		if s.syntax.Doc != nil {
			n = strings.Count(s.syntax.Doc.Text(), "\n")
		}
		lines[s.pkg] = max(lines[s.pkg], n)
	}
	for pkg, n := range lines {
		if least := 15; n < least && pkg != "." && pkg != "internal/tidy" {
			t.Errorf("package comment of %s has %d lines, want %d or more", pkg, n, least)
		} else if n == 0 {
			t.Errorf("package %s has no comment", pkg)
		}
	}
}

// TestOnlyTheCommand: only main, cmd/term and cmdtest use exit, environment and arguments; packages below
// crawl, other than its rooms, do not log; there is no init function.
func TestOnlyTheCommand(t *testing.T) {
	fset, list := sources(t)
	for _, s := range list {
		if s.test {
			continue
		}
		for _, imp := range s.syntax.Imports {
			switch p := strings.Trim(imp.Path.Value, `"`); {
			case p == "log", p == "flag" && s.pkg != "crawl/testworld" && s.pkg != "internal/cmdtest": // for tests
				t.Errorf("%s imports %s", s.name, p)
			case p == "log/slog" && layers[s.pkg].height < 30 && !strings.HasPrefix(s.pkg, "crawl/"):
				t.Errorf("%s imports %s, which only crawl, its rooms and packages above it may", s.name, p)
			}
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s: an init function", fset.Position(n.Pos()))
				}
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				free := s.syntax.Name.Name == "main" || s.pkg == "cmd/term" || s.pkg == "internal/cmdtest"
				if ok && !free && x.Name == "os" &&
					slices.Contains([]string{"Exit", "Getenv", "LookupEnv", "Environ", "Args"}, n.Sel.Name) {
					t.Errorf("%s: os.%s outside the command", fset.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestNoSleep: tests wait for events, and sleep only in a bubble of testing/synctest.
func TestNoSleep(t *testing.T) {
	fset, list := sources(t)
	for _, s := range list {
		if !s.test || bytes.Contains(s.text, []byte(`"testing/synctest"`)) ||
			bytes.Contains(bytes.ToLower(s.text), []byte("inbubble(")) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s: time.Sleep in a test", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// TestFormatted: all files are formatted with gofmt.
func TestFormatted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	_, list := sources(t)
	for _, s := range list {
		if want, err := format.Source(s.text); err != nil || !bytes.Equal(want, s.text) {
			t.Errorf("%s is not formatted (%v)", s.name, err)
		}
	}
}
