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

// layers are the packages that docs/ARCHITECTURE.md describes, with their heights and imports. disk is listed
// with packages whose options name directories.
var layers = map[string]layer{
	"disk":           {0, nil},
	"disk/memfs":     {1, []string{"disk"}}, // for tests
	"weburl":         {0, nil},
	"dnscache":       {5, []string{"internal/list"}},
	"internal/pace":  {0, nil},
	"internal/ports": {0, nil},
	"internal/nat64": {0, nil},

	"fetch/inflate":     {0, nil},
	"fetch/h2":          {0, nil},
	"internal/bug":      {0, nil},
	"internal/list":     {0, nil},
	"internal/httphead": {0, nil},
	"internal/mimetype": {0, nil},
	"internal/human":    {0, nil},
	"internal/cputime":  {0, nil},
	"internal/revisit":  {5, []string{"internal/human"}},
	"internal/extsort":  {5, []string{"disk"}},
	"internal/tabular":  {5, []string{"disk"}},
	"fetch": {5, []string{"internal/bug", "internal/cputime", "fetch/h2", "fetch/inflate",
		"internal/httphead", "internal/nat64", "internal/pace", "internal/ports"}},
	"internal/histogram": {0, nil},
	"internal/objstore":  {5, []string{"disk", "internal/cputime"}}, // internal/cputime only in its tests

	"internal/objstore/objtest": {6, []string{"internal/objstore"}}, // for tests

	"warc/deflate": {5, []string{"fetch/inflate"}}, // only in its tests
	"warc/outfile": {5, []string{"disk"}},          // shared by warc and crawllog

	"drum":                       {10, []string{"internal/bug", "disk"}},
	"queue":                      {10, []string{"disk"}},
	"warc":                       {10, []string{"disk", "internal/httphead", "warc/deflate", "warc/outfile"}},
	"internal/crawllog":          {10, []string{"disk", "warc/outfile"}},
	"parse":                      {10, []string{"internal/mimetype", "weburl"}},
	"internal/simhash":           {11, []string{"parse"}},
	"internal/sitemap":           {10, []string{"internal/mimetype"}},
	"internal/scope":             {10, []string{"internal/human", "weburl"}},
	"internal/cookies":           {10, []string{"weburl"}},
	"internal/sites":             {10, []string{"fetch", "internal/human", "internal/revisit", "weburl"}},
	"internal/health":            {10, []string{"internal/list"}},
	"internal/hook":              {5, []string{"internal/bug"}},
	"internal/render":            {5, []string{"internal/render/rendertest"}}, // only in its tests
	"internal/render/rendertest": {0, nil},                                    // for tests
	"internal/pagetext":          {11, []string{"internal/mimetype", "parse"}},
	"internal/urllist":           {0, nil},
	"internal/urlrule":           {10, []string{"weburl"}},
	"internal/walk":              {10, []string{"weburl"}}, // only in its tests
	"internal/response":          {11, []string{"disk", "internal/httphead", "warc"}},
	"internal/maintext":          {12, []string{"internal/mimetype", "internal/pagetext", "parse", "weburl"}},

	"cluster":               {11, []string{"disk", "queue", "weburl"}},
	"cluster/transporttest": {12, []string{"cluster"}},                          // for tests
	"cluster/mem":           {13, []string{"cluster", "cluster/transporttest"}}, // for tests
	"cluster/nats":          {13, []string{"cluster", "cluster/transporttest", "internal/cputime"}},

	"internal/trapscore": {12, []string{"internal/simhash"}},

	"star":   {20, []string{"drum", "disk", "internal/extsort"}},
	"beast":  {20, []string{"queue", "disk"}},
	"robots": {20, []string{"internal/health"}},
	"polite": {20, []string{"internal/list"}},

	// cluster/nats for a benchmark.
	"cluster/lease": {21, []string{"cluster", "cluster/nats", "internal/cputime", "internal/list", "polite"}},

	"state": {25, []string{"disk", "drum", "cluster", "queue", "warc", "weburl", "internal/bug", "internal/objstore",
		"internal/ports", "internal/urlrule", "internal/revisit", "internal/walk"}},
	"admit": {26, []string{"disk", "drum", "cluster", "star", "weburl", "internal/nat64", "internal/ports",
		"internal/scope", "internal/revisit", "internal/sites", "internal/urlrule", "internal/bug", "state"}},
	"state/changes":   {10, []string{"disk"}},
	"crawl/strategy":  {10, []string{"weburl"}},
	"state/metrics":   {28, []string{"state/snapshot", "state/condition", "state", "internal/histogram"}},
	"state/condition": {27, []string{"cluster", "internal/human", "state", "state/snapshot"}},
	"state/snapshot":  {26, []string{"state", "internal/histogram"}},
	"state/history":   {10, []string{"disk"}},
	"state/audit":     {27, []string{"*", "internal/bug"}},
	"state/explain":   {28, []string{"*"}},
	"state/repair":    {28, []string{"*"}},
	"state/export":    {29, []string{"*", "internal/bug"}},
	"state/move":      {29, []string{"*"}},
	"state/extract":   {28, []string{"*", "internal/bug"}},
	"crawl":           {34, []string{"*"}},
	"crawl/resolve":   {0, nil},
	"crawl/dirs":      {27, []string{"cluster", "crawl/options", "crawl/strategy", "disk", "state", "weburl"}},
	"crawl/limits":    {28, []string{"crawl/options", "internal/pace", "state/changes"}},
	"crawl/figures": {32, []string{"beast", "crawl/account", "crawl/fetcher", "crawl/gate", "crawl/limits",
		"crawl/node", "crawl/observe", "crawl/outage", "crawl/plan", "crawl/seeds", "crawl/space", "disk", "drum",
		"internal/health", "internal/trapscore", "polite", "state", "state/snapshot", "weburl"}},
	"crawl/operate": {33, []string{"admit", "cluster", "crawl/account", "crawl/checkpoint", "crawl/figures",
		"crawl/gate", "crawl/inforce", "crawl/limits", "crawl/node", "crawl/observe", "crawl/outage", "crawl/output",
		"crawl/seeds", "crawl/space", "disk", "internal/linktrace", "internal/scope", "polite", "queue", "star",
		"state", "state/changes", "state/history", "state/snapshot", "weburl"}},
	"crawl/seeds": {29, []string{"admit", "crawl/account", "crawl/space", "disk", "state", "weburl"}},
	"crawl/checkpoint": {29, []string{"crawl/account", "crawl/space", "disk", "disk/memfs", "internal/bug", "state",
		"state/snapshot"}},
	"crawl/observe": {29, []string{"crawl/account", "disk", "internal/cputime", "internal/pace", "polite", "state",
		"state/changes", "state/history", "state/metrics", "state/snapshot", "internal/human"}},
	"crawl/output": {29, []string{"crawl/account", "crawl/plan", "crawl/resolve", "crawl/space", "disk", "fetch",
		"internal/crawllog", "internal/human", "internal/mimetype", "internal/objstore", "internal/tabular",
		"queue", "state", "state/extract", "state/snapshot", "warc", "warc/outfile", "weburl"}},
	"crawl/space": {28, []string{"crawl/account", "crawl/options", "crawl/plan", "disk", "internal/human", "state"}},
	"crawl/outage": {28, []string{"crawl/account", "crawl/resolve", "fetch", "internal/bug", "internal/health",
		"internal/human", "polite", "robots", "state", "state/snapshot", "weburl"}},
	"crawl/pass": {29, []string{"crawl/account", "crawl/space", "drum", "state", "state/snapshot"}},
	"crawl/contents": {30, []string{"admit", "crawl/account", "crawl/output", "crawl/pass", "crawl/plan", "crawl/space",
		"disk", "drum", "fetch", "internal/bug", "internal/crawllog", "internal/human", "internal/revisit", "state",
		"warc", "weburl"}},
	"crawl/fetcher": {30, []string{"admit", "crawl/account", "crawl/inforce", "crawl/options", "crawl/outage",
		"crawl/output", "crawl/space", "disk", "fetch", "internal/bug", "internal/cookies", "internal/health",
		"internal/pace", "internal/revisit", "internal/sitemap", "internal/sites", "parse", "polite", "robots",
		"state", "state/snapshot", "weburl"}},
	"crawl/gate": {31, []string{"admit", "cluster", "crawl/account", "crawl/fetcher", "crawl/inforce",
		"crawl/options", "crawl/outage", "crawl/output", "crawl/pass", "crawl/plan", "crawl/resolve", "crawl/space",
		"crawl/stock", "disk", "drum", "fetch", "internal/bug", "internal/crawllog", "internal/health",
		"internal/revisit", "internal/scope", "polite", "queue", "robots", "state", "weburl"}},
	"crawl/dispatch": {32, []string{"crawl/account", "crawl/fetcher", "crawl/gate", "crawl/inforce", "crawl/limits",
		"crawl/node", "crawl/options", "crawl/outage", "crawl/plan", "crawl/space", "crawl/stock", "disk", "fetch",
		"internal/health", "polite", "queue", "robots", "state", "weburl"}},
	"crawl/sitemaps": {31, []string{"admit", "crawl/fetcher", "crawl/options", "crawl/output", "crawl/strategy",
		"fetch", "internal/sitemap", "state", "weburl"}},
	"crawl/hook": {30, []string{"crawl/output", "crawl/reader", "crawl/strategy", "fetch", "internal/hook",
		"internal/pagetext", "parse", "state", "weburl"}},
	"crawl/render": {31, []string{"admit", "crawl/account", "crawl/fetcher", "crawl/inforce", "crawl/outage",
		"crawl/output", "crawl/reader", "crawl/space", "disk", "fetch", "internal/bug", "internal/health",
		"internal/render", "internal/revisit", "internal/scope", "parse", "polite", "queue", "robots", "state",
		"state/snapshot", "warc", "weburl"}},
	"crawl/reader": {28, []string{"admit", "fetch", "parse", "state", "warc"}},
	"crawl/visit": {32, []string{"admit", "crawl/account", "crawl/contents", "crawl/fetcher", "crawl/gate",
		"crawl/hook", "crawl/inforce", "crawl/options", "crawl/outage", "crawl/output", "crawl/reader", "crawl/render",
		"crawl/sitemaps", "crawl/space", "crawl/strategy", "crawl/walkers", "fetch", "internal/bug",
		"internal/crawllog", "internal/health", "internal/revisit", "internal/simhash", "internal/trapscore", "parse",
		"polite", "robots", "state", "warc", "weburl"}},
	"crawl/walkers": {29, []string{"admit", "crawl/account", "crawl/plan", "crawl/space", "internal/walk", "queue",
		"state", "weburl"}},
	"crawl/node": {29, []string{"admit", "cluster", "cluster/lease", "crawl/account", "crawl/space", "polite", "queue",
		"star", "state", "state/snapshot", "state/condition", "weburl", "internal/human"}},
	"crawl/deferred": {33, []string{"admit", "crawl/account", "crawl/gate", "crawl/inforce", "crawl/orders",
		"crawl/output", "crawl/space", "crawl/stock", "crawl/visit", "crawl/walkers", "internal/revisit",
		"internal/sites", "polite", "queue", "robots", "state", "state/snapshot", "weburl"}},
	"crawl/seen": {30, []string{"admit", "crawl/account", "crawl/node", "crawl/observe", "crawl/orders", "crawl/output",
		"crawl/pass", "crawl/plan", "crawl/space", "drum", "internal/linktrace", "star", "state", "state/snapshot",
		"weburl"}},
	"crawl/budgets": {32, []string{"beast", "crawl/account", "crawl/checkpoint", "crawl/gate", "crawl/inforce",
		"crawl/observe", "crawl/options", "crawl/pass", "crawl/plan", "crawl/seen", "crawl/space", "crawl/stock",
		"crawl/strategy", "disk", "drum", "internal/revisit", "internal/sites", "internal/trapscore", "star", "state",
		"state/changes", "state/snapshot", "weburl"}},
	"crawl/orders":  {26, []string{"disk", "state"}},
	"crawl/stock":   {28, []string{"crawl/account", "polite", "state"}},
	"crawl/plan":    {26, []string{"beast", "drum", "cluster", "internal/human", "robots", "star", "state", "warc"}},
	"crawl/account": {27, []string{"internal/bug", "internal/histogram", "state", "state/snapshot", "weburl"}},
	"crawl/inforce": {28, []string{"admit", "crawl/account", "crawl/options", "crawl/plan", "disk", "internal/scope",
		"internal/sites", "polite", "state", "weburl"}},
	"crawl/options": {26, []string{"crawl/resolve", "disk", "fetch", "internal/pace", "internal/ports",
		"internal/urlrule", "internal/walk", "parse", "polite", "state", "warc"}},

	// For tests: the webs and checks below crawl, and the crawls above it.
	"crawl/testworld": {29, []string{"beast", "crawl/resolve", "disk", "disk/memfs", "drum", "fetch",
		"internal/crawllog", "internal/render", "internal/simweb", "queue", "robots", "star", "state",
		"state/audit", "state/explain", "state/repair", "warc", "weburl"}},
	"crawl/crawltest": {35, []string{"crawl", "crawl/render", "crawl/testworld", "disk", "disk/memfs", "fetch",
		"internal/ports", "internal/simweb", "state"}},

	"admin/prom": {40, []string{"state/metrics", "state/snapshot", "internal/histogram"}},
	"admin/web":  {0, nil},
	"admin/e2e":  {43, []string{"admin/web", "cmd/term"}}, // for tests
	"state/report": {30, []string{"state/explain", "state/export", "state/history", "state/snapshot", "state", "disk",
		"internal/human"}},

	"admin": {41, []string{"admin/prom", "admin/web", "crawl", "crawl/figures", "crawl/operate",
		"state/snapshot", "state/condition", "state/audit", "state/changes", "state/explain", "state/history", "state",
		"disk", "cluster", "fetch", "internal/bug", "internal/ports", "star"}},

	"bench/result":       {0, nil},
	"bench/links":        {0, nil},
	"internal/linktrace": {15, []string{"internal/bug", "disk", "drum"}},
	"bench/measure":      {5, []string{"bench/result", "disk"}},
	"bench/baselines":    {20, []string{"disk", "drum"}},
	"bench/benchtest":    {1, []string{"bench/result"}}, // for tests
	"bench/model":        {30, []string{"beast", "bench/result", "drum"}},
	"bench/disk":         {20, []string{"bench/measure", "bench/result", "disk", "internal/cputime", "drum"}},
	"bench/drum": {30, []string{"bench/baselines", "bench/links", "bench/measure", "bench/result", "disk",
		"internal/cputime", "drum"}},
	"bench/queue": {30, []string{"bench/disk", "bench/links", "bench/measure", "bench/result", "disk",
		"internal/cputime", "queue", "weburl"}},
	"bench/cache":      {35, []string{"bench/measure", "bench/result", "disk", "drum", "internal/linktrace"}},
	"bench/checkpoint": {30, []string{"bench/measure", "bench/result", "disk", "drum"}},
	"bench/budget": {30, []string{"beast", "bench/measure", "bench/result", "disk", "internal/cputime", "drum",
		"queue", "star"}},
	"bench/crawl": {40, []string{"bench/measure", "bench/result", "crawl", "crawl/account", "crawl/figures",
		"state", "state/snapshot", "disk", "internal/cputime", "dnscache", "fetch", "internal/ports",
		"internal/simweb"}},

	// Packages that commands share, then one for each command.
	"cmd/term": {42, []string{"crawl/dirs", "crawl/space", "state/audit", "state", "disk", "cluster", "internal/bug",
		"internal/scope", "internal/human"}},
	"cmd/flags": {44, []string{"crawl/fetcher", "cmd/term", "crawl", "crawl/plan", "admit", "state", "disk", "cluster",
		"fetch", "internal/pace", "internal/profile", "internal/nat64", "internal/scope", "internal/sites",
		"internal/urlrule", "parse", "weburl", "internal/human"}},
	"cmd/audit": {46, []string{"cmd/flags", "cmd/term", "state/audit", "disk", "internal/human"}},
	"cmd/repair": {47, []string{"cmd/audit", "cmd/flags", "cmd/term", "state/audit", "state/repair", "disk",
		"cluster", "internal/human"}},
	"cmd/get": {46, []string{"cmd/flags", "cmd/term", "state", "disk", "internal/pagetext", "internal/response",
		"warc", "weburl", "internal/human"}},
	"cmd/report": {46, []string{"cmd/flags", "cmd/term", "state/export", "state", "disk", "state/report",
		"internal/human"}},
	"cmd/dirs": {46, []string{"cmd/flags", "cmd/term", "state/audit", "disk", "internal/human"}},
	"cmd/cluster": {46, []string{"cmd/flags", "cmd/term", "state/audit", "state/move", "disk", "cluster",
		"cluster/nats", "internal/human", "state/condition"}},
	"cmd/plan": {46, []string{"bench/disk", "bench/result", "cmd/flags", "cmd/term", "crawl", "crawl/plan",
		"internal/human", "star"}},
	"cmd/doctor": {46, []string{"bench/disk", "bench/result", "cmd/flags", "cmd/term", "crawl", "crawl/plan", "admit",
		"disk", "dnscache", "internal/bug", "internal/pace", "internal/human"}},
	"cmd/export": {46, []string{"cmd/flags", "cmd/term", "state/export", "state", "disk", "internal/human",
		"internal/tabular"}},
	"cmd/extract": {46, []string{"cmd/flags", "cmd/term", "state/extract", "state", "disk", "internal/human",
		"internal/tabular"}},
	"cmd/botpage": {46, []string{"cmd/flags", "cmd/term", "robots", "internal/human"}},
	"cmd/table":   {46, []string{"cmd/flags", "cmd/term"}},
	"cmd/explain": {46, []string{"cmd/flags", "cmd/term", "state/explain", "state", "disk",
		"internal/scope", "internal/sites", "parse", "robots", "weburl", "internal/human"}},
	"cmd/log": {46, []string{"cmd/flags", "cmd/term", "state", "disk", "internal/crawllog", "internal/human",
		"weburl"}},
	"cmd/ctl": {47, []string{"admin", "cmd/explain", "cmd/flags", "cmd/term", "state", "state/explain", "internal/bug",
		"internal/human"}},
	"cmd/crawl": {46, []string{"crawl/dirs", "crawl/fetcher", "crawl/sitemaps", "admin", "admin/prom", "admin/web",
		"cmd/flags", "cmd/term", "crawl", "crawl/outage", "crawl/output", "crawl/plan", "admit", "state/extract",
		"state/history", "state/snapshot", "state/condition", "state", "crawl/strategy", "disk", "dnscache", "fetch",
		"internal/bug",
		"internal/hook", "internal/objstore", "internal/pace", "internal/ports", "internal/render",
		"internal/scope", "internal/sites", "internal/tabular", "internal/urllist", "warc", "warc/outfile",
		"weburl", "internal/human", "internal/revisit", "internal/walk", "cluster", "cluster/lease",
		"cluster/nats"}},
	"cmd/demo": {47, []string{"cmd/crawl", "cmd/flags", "cmd/term", "crawl", "state", "disk", "dnscache", "fetch",
		"internal/crawllog", "internal/pace", "internal/ports", "internal/simweb", "internal/storedweb",
		"internal/human", "weburl"}},
	"cmd/bench": {49, []string{"*"}},

	// For tests: commands run within a test, and from outside.
	"internal/cmdtest": {45, []string{"cmd/term", "cmd/flags", "internal/simweb"}},
	"internal/soak":    {45, []string{"cmd/flags", "cmd/term", "warc"}},

	"cmd": {50, []string{"*", "internal/simweb"}},
	".":   {60, []string{"cmd"}},

	"bench/docweb":    {5, []string{"internal/simweb"}},
	"internal/simweb": {0, nil},
	"internal/storedweb": {12,
		[]string{"disk", "internal/extsort", "internal/ports", "internal/simweb", "warc", "weburl"}},
	"internal/tidy":    {0, nil},
	"internal/mutate":  {0, nil},
	"internal/profile": {0, nil},
	"internal/damage":  {5, []string{"disk", "disk/memfs"}}, // for tests

	// Examples for users to copy, so they import nothing of the module.
	"examples/hooks/words": {0, nil},

	// A separate command that compares libraries.

	// The yardstick of speed.
	"bench/bareloop": {15, []string{"disk", "fetch/inflate", "parse", "warc", "weburl"}},

	// A separate command, which shares no code with the crawler; it runs the bare loop.
	"bench/realweb": {16, []string{"bench/result", "bench/bareloop", "bench/docweb", "internal/cputime",
		"internal/simweb"}},
}

// testHelpers are packages that the tests of any package may import.
var testHelpers = []string{"bench/benchtest", "crawl/crawltest", "crawl/testworld", "internal/cmdtest",
	"internal/simweb", "internal/damage", "disk", "disk/memfs", "bench/links", "cluster/mem",
	"internal/objstore/objtest"}

// named are packages that "*" does not include.
var named = []string{"admin/e2e", "bench/benchtest", "crawl/crawltest", "crawl/testworld", "disk/memfs",
	"cluster/transporttest", "cluster/mem", "internal/bug", "internal/cmdtest", "internal/damage", "bench/bareloop",
	"bench/docweb", "internal/mutate", "internal/objstore/objtest", "internal/profile", "bench/realweb",
	"internal/simweb", "internal/soak", "internal/tidy"}

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
// to is such a tool, crawl, or of a room's test a room: these tests make crawls, and use tools on the
// result.
func afterCrawl(s *source, to string) bool {
	room := strings.HasPrefix(s.pkg, "crawl/")
	return (room || strings.HasPrefix(s.pkg, "state/")) && strings.HasSuffix(s.syntax.Name.Name, "_test") &&
		(to == "crawl" || strings.HasPrefix(to, "state/") || room && strings.HasPrefix(to, "crawl/"))
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

// TestLayersPage: the table in docs/ARCHITECTURE.md has each package with its height, in their order.
func TestLayersPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/ARCHITECTURE.md"))
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
		t.Errorf("docs/ARCHITECTURE.md, Layers:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
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
			case p == "log", p == "flag" && s.pkg != "crawl/testworld": // whose flags are those of test binaries
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

// TestFormatPages: docs/FORMATS.md links to every page of docs/formats, and to no missing one.
func TestFormatPages(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs/FORMATS.md"))
	must(t, err)
	pages, err := filepath.Glob(filepath.Join(root, "docs/formats/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs/formats: %v", err)
	}
	there := map[string]bool{}
	for _, page := range pages {
		name := "formats/" + filepath.Base(page)
		there[name] = true
		if !bytes.Contains(index, []byte("]("+name+")")) {
			t.Errorf("docs/FORMATS.md has no link to %s", name)
		}
	}
	separator := func(r rune) bool { return strings.ContainsRune(" ,()[]\n", r) }
	for _, word := range strings.FieldsFunc(string(index), separator) {
		if strings.HasPrefix(word, "formats/") && strings.HasSuffix(word, ".md") && !there[word] {
			t.Errorf("docs/FORMATS.md names %s, which does not exist", word)
		}
	}
}
