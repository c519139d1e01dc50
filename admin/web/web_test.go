package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"drumbeat/state"
)

// handler is shared: making it compresses all files.
var handler = Handler()

func get(t *testing.T, name string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, name, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// names lists the embedded files.
func names(t *testing.T) (list []string) {
	t.Helper()
	for _, dir := range []string{"static", "static/vendor"} {
		entries, err := files.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				list = append(list, path.Join(dir, e.Name()))
			}
		}
	}
	return list
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReferencedFilesExist: the page and its modules name no file that is not served, and every file is named.
func TestReferencedFilesExist(t *testing.T) {
	inPage := regexp.MustCompile(`(?:href|src)="([^"#]+)"`)
	inModule := regexp.MustCompile(`from "\./([^"]+)"`)
	used := map[string]bool{"index.html": true, "vendor/uplot.LICENSE.txt": true}
	for _, page := range []string{"index.html", "cluster.html"} {
		for _, m := range inPage.FindAllStringSubmatch(read(t, "static/"+page), -1) {
			used[m[1]] = true
		}
	}
	for _, name := range names(t) {
		if path.Ext(name) == ".js" {
			for _, m := range inModule.FindAllStringSubmatch(read(t, name), -1) {
				used[m[1]] = true
			}
		}
	}
	for name := range used {
		if w := get(t, "/"+name); w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	for _, name := range names(t) {
		if !used[strings.TrimPrefix(name, "static/")] {
			t.Errorf("%s is not used", name)
		}
	}
}

// TestElementsExist: each id that a module looks up is in its page, once.
func TestElementsExist(t *testing.T) {
	ids, inCluster := idsOf(t, "index.html"), idsOf(t, "cluster.html")
	for _, name := range names(t) {
		if path.Dir(name) != "static" || path.Ext(name) != ".js" {
			continue
		}
		for _, m := range regexp.MustCompile(`byID\("([^"]+)"\)`).FindAllStringSubmatch(read(t, name), -1) {
			if has := ids[m[1]] > 0; name != "static/cluster.js" && !has ||
				name == "static/cluster.js" && inCluster[m[1]] == 0 {
				t.Errorf("%s: no element %s", name, m[1])
			}
		}
	}
}

// idsOf returns how often each id occurs in a page, which must be once.
func idsOf(t *testing.T, page string) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(read(t, "static/"+page), -1) {
		if ids[m[1]]++; ids[m[1]] > 1 {
			t.Errorf("%s: id %s occurs again", page, m[1])
		}
	}
	return ids
}

// TestNothingInlineOrOutside: the page obeys its policy. The patterns cover what a browser would block, and what
// would turn text into HTML.
func TestNothingInlineOrOutside(t *testing.T) {
	for what, pattern := range map[string]string{
		"an inline script":   `(?i)<script(?:\s+type="[^"]*")?\s*>`,
		"an inline style":    `(?i)<style|\sstyle="`,
		"an inline handler":  `(?i)<[^>]*\son[a-z]+="`,
		"an address outside": `(?i)(?:href|src|url\(|import|from)\s*[=(]?\s*["']?(?:https?:)?//`,
		"HTML from text": `innerHTML|outerHTML|insertAdjacentHTML|` +
			`document\.write|DOMParser|createContextualFragment`,
		"code from text":            `\beval\(|new Function|javascript:`,
		"the host of a registry":    `(?i)npmjs|jsdelivr|unpkg|cdnjs|registry\.`,
		"a style attribute by name": `setAttribute\("style"`,
	} {
		re := regexp.MustCompile(pattern)
		for _, name := range names(t) {
			if path.Dir(name) == "static" {
				if found := re.FindString(read(t, name)); found != "" {
					t.Errorf("%s has %s: %s", name, what, found)
				}
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	want := map[string]string{"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'; object-src 'none'",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
	mediaTypes := map[string]string{"/": "text/html; charset=utf-8",
		"/index.html": "text/html; charset=utf-8", "/cluster": "text/html; charset=utf-8",
		"/app.css": "text/css; charset=utf-8", "/app.js": "text/javascript; charset=utf-8",
		"/favicon.svg": "image/svg+xml", "/vendor/uplot.LICENSE.txt": "text/plain; charset=utf-8"}
	for name, mediaType := range mediaTypes {
		w := get(t, name)
		if got := w.Header().Get("Content-Type"); got != mediaType {
			t.Errorf("%s has type %q", name, got)
		}
		for header, value := range want {
			if got := w.Header().Get(header); got != value {
				t.Errorf("%s: %s: got %q, want %q", name, header, got, value)
			}
		}
	}
}

// TestCodings: gzip goes only to who accepts it, has a tag of its own, and a known tag is answered with 304.
func TestCodings(t *testing.T) {
	plain, packed := get(t, "/app.js"), get(t, "/app.js", "Accept-Encoding", "br, gzip;q=0.8")
	if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("codings %q and %q", plain.Header().Get("Content-Encoding"), packed.Header().Get("Content-Encoding"))
	}
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(z); err != nil || !bytes.Equal(data, plain.Body.Bytes()) {
		t.Errorf("the compressed file differs (%v)", err)
	}
	for _, coding := range []string{"gzip;q=0", "gzip; q=0.0", "identity", "gzipped"} {
		if got := get(t, "/app.js", "Accept-Encoding", coding).Header().Get("Content-Encoding"); got != "" {
			t.Errorf("Accept-Encoding %q gives %q", coding, got)
		}
	}
	for _, w := range []*httptest.ResponseRecorder{plain, packed} {
		tag := w.Header().Get("ETag")
		again := get(t, "/app.js", "Accept-Encoding", w.Header().Get("Content-Encoding"), "If-None-Match",
			`"x", W/`+tag)
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 || again.Header().Get("ETag") != tag {
			t.Errorf("tag %s: status %d, %d bytes", tag, again.Code, again.Body.Len())
		}
	}
	if plain.Header().Get("ETag") == packed.Header().Get("ETag") {
		t.Error("both codings have the same tag")
	}
}

func TestOtherRequests(t *testing.T) {
	for _, name := range []string{"/nothing", "/static/app.js", "/vendor", "/web.go"} {
		if w := get(t, name); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	for method, code := range map[string]int{http.MethodPost: http.StatusMethodNotAllowed,
		http.MethodHead: http.StatusOK} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, "/app.js", nil))
		if w.Code != code || method == http.MethodHead && w.Body.Len() > 0 {
			t.Errorf("%s: status %d, %d bytes", method, w.Code, w.Body.Len())
		}
	}
}

// TestSizes: the first visit transfers less than 100 KB with compression, and less than 255 KB without it.
func TestSizes(t *testing.T) {
	plain, packed := 0, 0
	for _, name := range append(names(t), "static/reasons.js") {
		if path.Ext(name) != ".txt" {
			url := strings.TrimPrefix(name, "static")
			plain += get(t, url).Body.Len()
			packed += get(t, url, "Accept-Encoding", "gzip").Body.Len()
		}
	}
	t.Logf("%d bytes, %d compressed", plain, packed)
	if plain > 255_000 || packed > 100_000 {
		t.Errorf("%d bytes, %d compressed", plain, packed)
	}
}

// TestVendor: the vendored library names its version and its licence lies beside it.
func TestVendor(t *testing.T) {
	if !strings.HasPrefix(read(t, "static/vendor/uplot.min.js"),
		"/*! https://github.com/leeoniya/uPlot (v1.6.32) */") {
		t.Error("uplot.min.js is not version 1.6.32, which doc.go names")
	}
	if !strings.Contains(read(t, "static/vendor/uplot.LICENSE.txt"), "The MIT License") {
		t.Error("the licence of uPlot is missing")
	}
}

// TestReasons: the page has the words of each reason that a URL may have, and no others.
func TestReasons(t *testing.T) {
	code, ok := strings.CutPrefix(get(t, "/reasons.js").Body.String(), "export const REASONS = ")
	var table map[string][]string
	if err := json.Unmarshal([]byte(code), &table); err != nil || !ok {
		t.Fatalf("got %q, %v", code, err)
	}
	for r := state.ReasonNone + 1; r < state.NumReasons; r++ {
		words, more := state.ReasonText(r.String())
		if got := append(table[r.String()], "", ""); got[0] != words || got[1] != more || words == "" {
			t.Errorf("%s: got %q, want %q and %q", r, got, words, more)
		}
		delete(table, r.String())
	}
	if len(table) > 0 {
		t.Errorf("got words for %v, which are no reasons", table)
	}
}
