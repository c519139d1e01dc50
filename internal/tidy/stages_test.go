package tidy

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// crawlSource is the data of package crawl for the tests of its stages.
type crawlSource struct {
	stages  map[string]map[string]string // stage type -> field -> stage that it points to, or ""
	methods map[string]map[string]bool   // stage type -> its methods
	funcs   []*ast.FuncDecl
}

// receiver returns the type of a method's receiver and its name; "" for functions.
func receiver(f *ast.FuncDecl) (typ, name string) {
	if f.Recv == nil {
		return "", ""
	}
	if names := f.Recv.List[0].Names; len(names) > 0 {
		name = names[0].Name
	}
	return pointee(f.Recv.List[0].Type), name
}

// pointee returns T for T and *T, "" for other types.
func pointee(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// readCrawl reads package crawl. A stage is a struct that embeds *engine, other than the crawler, which
// wires them.
func readCrawl(t *testing.T) *crawlSource {
	t.Helper()
	_, all := sources(t)
	src := &crawlSource{
		stages:  map[string]map[string]string{},
		methods: map[string]map[string]bool{},
	}
	structs := map[string]*ast.StructType{}
	for _, file := range all {
		if file.pkg != "crawl" || file.test {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					structs[n.Name.Name] = s
				}
			case *ast.FuncDecl:
				src.funcs = append(src.funcs, n)
				if typ, _ := receiver(n); typ != "" {
					if src.methods[typ] == nil {
						src.methods[typ] = map[string]bool{}
					}
					src.methods[typ][n.Name.Name] = true
				}
			}
			return true
		})
	}
	isStage := func(name string) bool {
		s := structs[name]
		return s != nil && name != "crawler" && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
			return len(f.Names) == 0 && pointee(f.Type) == "engine"
		})
	}
	for name, s := range structs {
		if !isStage(name) {
			continue
		}
		src.stages[name] = map[string]string{}
		for _, f := range s.Fields.List {
			to := pointee(f.Type)
			if !isStage(to) {
				to = ""
			}
			for _, id := range f.Names {
				src.stages[name][id.Name] = to
			}
		}
	}
	return src
}

// TestStagesAreApart: a stage of the crawl owns its state. Other stages use its methods, never its
// fields.
func TestStagesAreApart(t *testing.T) {
	src := readCrawl(t)
	if len(src.stages) < 1 {
		t.Fatalf("only %v are stages", slices.Sorted(maps.Keys(src.stages)))
	}
	for _, f := range src.funcs {
		typ, recv := receiver(f)
		fields := src.stages[typ]
		if fields == nil || f.Body == nil {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			outer, ok := n.(*ast.SelectorExpr) // recv.handle.what
			if !ok {
				return true
			}
			inner, ok := outer.X.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := inner.X.(*ast.Ident); !ok || id.Name != recv {
				return true
			}
			if to := fields[inner.Sel.Name]; to != "" && !src.methods[to][outer.Sel.Name] {
				t.Errorf("%s.%s uses %s of %s: give it a method", typ, f.Name.Name, outer.Sel.Name, to)
			}
			return true
		})
	}
}

// TestStagesAreDescribed: the comment of each stage describes the goroutines that run it.
func TestStagesAreDescribed(t *testing.T) {
	stages, _, comments := crawlGraphs(t)
	for name := range stages {
		if !strings.Contains(comments[name], "oroutine") {
			t.Errorf("the comment of %s does not mention goroutines: %q", name, comments[name])
		}
	}
}
