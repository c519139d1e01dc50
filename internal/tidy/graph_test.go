package tidy

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// graph has the successors of each node.
type graph map[string][]string

// cycles returns the strongly connected components of more than one node, each sorted, the largest first (Tarjan).
func (g graph) cycles() [][]string {
	var (
		index, low = map[string]int{}, map[string]int{}
		onStack    = map[string]bool{}
		stack      []string
		found      [][]string
		visit      func(n string)
	)
	visit = func(n string) {
		index[n] = len(index) + 1
		low[n] = index[n]
		stack, onStack[n] = append(stack, n), true
		for _, to := range g[n] {
			if index[to] == 0 {
				visit(to)
				low[n] = min(low[n], low[to])
			} else if onStack[to] {
				low[n] = min(low[n], index[to])
			}
		}
		if low[n] != index[n] {
			return
		}
		at := slices.Index(stack, n)
		part := slices.Sorted(slices.Values(stack[at:]))
		for _, m := range part {
			onStack[m] = false
		}
		if stack = stack[:at]; len(part) > 1 {
			found = append(found, part)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(g)) {
		if index[n] == 0 {
			visit(n)
		}
	}
	slices.SortStableFunc(found, func(a, b []string) int { return len(b) - len(a) })
	return found
}

// edges returns the number of edges.
func (g graph) edges() int {
	n := 0
	for _, to := range g {
		n += len(to)
	}
	return n
}

// typeName returns the name of a pointer's struct type with its package: "crawl.T" or, of a room,
// "crawl/room.T"; "" for other expressions.
func typeName(pkg string, e ast.Expr) string {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return ""
	}
	switch x := star.X.(type) {
	case *ast.Ident:
		return pkg + "." + x.Name
	case *ast.SelectorExpr:
		if id, ok := x.X.(*ast.Ident); ok {
			return "crawl/" + id.Name + "." + x.Sel.Name
		}
	}
	return ""
}

// rooms says which stage holds which as a concrete type, which package of crawl imports which, and for each stage
// what it embeds and its comment. A stage is a struct of these packages to which the crawler has a pointer.
type rooms struct {
	stages, packages, embedded graph
	comments                   map[string]string
}

func roomsOf(t *testing.T) rooms {
	t.Helper()
	_, all := sources(t)
	structs, packages, comments := map[string]*ast.StructType{}, graph{}, map[string]string{}
	for _, file := range all {
		inside := file.pkg == "crawl" || strings.HasPrefix(file.pkg, "crawl/")
		if !inside || file.test || slices.Contains(named, file.pkg) {
			continue
		}
		if packages[file.pkg] == nil {
			packages[file.pkg] = []string{}
		}
		for _, imp := range file.syntax.Imports {
			to := strings.TrimPrefix(strings.Trim(imp.Path.Value, `"`), module+"/")
			if strings.HasPrefix(to, "crawl/") && !slices.Contains(packages[file.pkg], to) {
				packages[file.pkg] = append(packages[file.pkg], to)
			}
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if decl, ok := n.(*ast.GenDecl); ok && len(decl.Specs) == 1 {
				if spec, ok := decl.Specs[0].(*ast.TypeSpec); ok {
					comments[file.pkg+"."+spec.Name.Name] = decl.Doc.Text()
				}
			}
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[file.pkg+"."+spec.Name.Name] = s
				}
			}
			return true
		})
	}
	stages, embedded := graph{}, graph{}
	for _, f := range structs["crawl.crawler"].Fields.List {
		if name := typeName("crawl", f.Type); structs[name] != nil && name != "crawl.engine" {
			stages[name] = nil
		}
	}
	for name := range stages {
		pkg, _, _ := strings.Cut(name, ".")
		for _, f := range structs[name].Fields.List {
			to := typeName(pkg, f.Type)
			if len(f.Names) == 0 {
				embedded[name] = append(embedded[name], types.ExprString(f.Type))
			}
			if _, stage := stages[to]; stage && !slices.Contains(stages[name], to) {
				stages[name] = append(stages[name], to)
			}
		}
		slices.Sort(stages[name])
	}
	return rooms{stages, packages, embedded, comments}
}

// TestStageGraph: no stages hold one another in a cycle, no packages of crawl import one another, and no stage
// embeds the state of another type. A stage may call one above it by an interface or a function. With -v it
// prints both graphs.
func TestStageGraph(t *testing.T) {
	r := roomsOf(t)
	if len(r.stages) < 20 {
		t.Fatalf("only %v are stages", slices.Sorted(maps.Keys(r.stages)))
	}
	for _, g := range []struct {
		name string
		graph
	}{{"stages", r.stages}, {"packages", r.packages}} {
		t.Logf("%s: %d, with %d edges", g.name, len(g.graph), g.edges())
		for _, from := range slices.Sorted(maps.Keys(g.graph)) {
			t.Logf("  %s -> %s", from, strings.Join(g.graph[from], " "))
		}
		if c := g.cycles(); len(c) > 0 {
			t.Errorf("%s in cycles: %v", g.name, c)
		}
	}
	if len(r.embedded) > 0 {
		t.Errorf("stages embed other types: %v", r.embedded)
	}
}

// TestCyclesAreFound: a cycle is found, and a graph without one has none.
func TestCyclesAreFound(t *testing.T) {
	g := graph{"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": nil, "f": {"g"}, "g": {"f"}}
	want := [][]string{{"a", "b", "c"}, {"f", "g"}}
	if got := g.cycles(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("cycles %v, want %v", got, want)
	}
	if got := (graph{"a": {"b", "c"}, "b": {"c"}, "c": nil}).cycles(); got != nil {
		t.Errorf("cycles %v in a graph without", got)
	}
}
