package urlrule

import (
	"bytes"
	"strings"
	"testing"

	"drumbeat/bench/links"
	"drumbeat/weburl"
)

// defaults are the limits of the command line.
func defaults(t testing.TB) *Rules {
	t.Helper()
	list, err := ParseExtensions("default")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{SkipExtensions: list, MaxPathDepth: 32, MaxRepeats: 3, MaxParams: 32})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestJudge(t *testing.T) {
	r := defaults(t)
	for path, want := range map[string]Verdict{
		"/": Pass, "/a": Pass, "/a.html": Pass, "/a/": Pass, "/?": Pass, "//": Pass,
		// Extensions.
		"/a.pdf": Extension, "/A.PDF": Extension, "/a.b/c.Jpg": Extension, "/a.jpg?x=1": Extension,
		"/a.tar.gz": Extension,
		"/x.7z":     Extension, "/x.torrent": Extension, "/x.geojson": Extension,
		"/a.jpg/": Pass, "/a.jpg/b": Pass, "/a?b=c.jpg": Pass, "/.pdf": Pass, "/pdf": Pass, "/a.": Pass,
		"/a.pdf.": Pass,
		"/a.xjpg": Pass, "/a.jpgx": Pass, "/a.verylongextension": Pass, "/a.exactly8": Pass, "/a.com": Pass,
		"/a.js%20": Pass, "/a.php": Pass,
		"/wiki/File:A.jpg": Pass, "/a:b/c.jpg": Extension, "/a.pdf;v=1": Pass, "/.a.pdf": Extension,
		// Depth.
		strings.Repeat("/a/b", 1) + numbered(30): Pass, "/a/b" + numbered(30) + "/": Pass,
		"/a/b" + numbered(31): PathDepth,
		// Repeats.
		"/a/a/a": Pass, "/a/a/a/": Pass, "/a/a/a/a": Repeated, "/a/a/a/a/": Repeated, "/a/b/a/b/a/b": Pass,
		"/a/b/a/b/a/b/a": Repeated,
		"/a/x/a/y/a/z/a": Repeated, "/a/aa/aaa/a/a/aaaa": Pass, "////": Pass, "/////": Repeated, "/b////": Pass,
		"/b/////":          Repeated,
		"/1/2/3/a/a/4/a/a": Repeated, "/2020/01/01/01": Pass, "/a?/a/a/a/a/a": Pass,
		// Parameters.
		"/?" + strings.Repeat("a&", 31) + "a": Pass, "/?" + strings.Repeat("a&", 32) + "a": Params,
		"/?" + strings.Repeat("a", 100): Pass,
	} {
		if got := r.Judge([]byte(path)); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	none, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var zero Rules
	for _, path := range []string{"/a.pdf", strings.Repeat("/a", 900), "/?" + strings.Repeat("&", 900)} {
		if none.Judge([]byte(path)) != Pass || zero.Judge([]byte(path)) != Pass || zero.Rewrites() {
			t.Errorf("%.20s: refused without a rule", path)
		}
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte('/')
		b.WriteByte(byte('A' + i))
	}
	return b.String()
}

// TestJudgeAgainstDefinition compares Judge with define.
func TestJudgeAgainstDefinition(t *testing.T) {
	r, err := New(Options{SkipExtensions: []string{"a", "bc"}, MaxPathDepth: 70, MaxRepeats: 2, MaxParams: 2})
	if err != nil {
		t.Fatal(err)
	}
	pieces := []string{"/", "a", "b", "bc", ".", "?", "&", "/a", "/b", ":"}
	n := 0
	var try func(prefix string, left int)
	try = func(prefix string, left int) {
		n++
		if got, want := r.Judge([]byte(prefix)), define(prefix); got != want {
			t.Fatalf("%s: got %d, want %d", prefix, got, want)
		}
		for _, p := range pieces {
			if left > 0 {
				try(prefix+p, left-1)
			}
		}
	}
	try("/", 5)
	if n < 100_000 {
		t.Errorf("only %d paths", n)
	}
	for _, long := range []string{strings.Repeat("/x/y/z", 21) + "/x", strings.Repeat("/x", 63),
		numbered(60) + "/a/a/b", numbered(61) + "/a/a/a"} {
		if got, want := r.Judge([]byte(long)), define(long); got != want {
			t.Errorf("%.30s: got %d, want %d", long, got, want)
		}
	}
}

// define is a plain version of Judge for the rules of TestJudgeAgainstDefinition.
func define(path string) Verdict {
	path, query, _ := strings.Cut(path, "?")
	if strings.Count(query, "&") >= 2 {
		return Params
	}
	segments := strings.Split(path[1:], "/")
	last := segments[len(segments)-1]
	if name, ext, ok := cutLast(last); ok && name != "" && (ext == "a" || ext == "bc") && !strings.Contains(last, ":") {
		return Extension
	}
	if last == "" {
		segments = segments[:len(segments)-1]
	}
	if len(segments) > 70 {
		return PathDepth
	}
	times := map[string]int{}
	for _, s := range segments {
		if times[s]++; times[s] > 2 {
			return Repeated
		}
	}
	return Pass
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func FuzzJudge(f *testing.F) {
	f.Add("/a/b/a/b/a/b/a/b.PDF?a&b&c")
	r := defaults(f)
	f.Fuzz(func(t *testing.T, ref string) {
		url, err := weburl.Canonical("http://h/" + ref)
		if err != nil {
			return
		}
		path := weburl.Split([]byte(url)).Path
		before := string(path)
		if v := r.Judge(path); v > Params || string(path) != before {
			t.Fatalf("%s: got %d", url, v)
		}
	})
}

// benchPaths are paths from the stream of bench/links, which has 111 bytes a URL.
func benchPaths(b *testing.B) (urls, paths [][]byte) {
	b.Helper()
	s, err := links.New(links.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var batch links.Batch
	s.Next(&batch, 20_000)
	for _, url := range batch.Texts {
		url = bytes.Clone(url)
		urls, paths = append(urls, url), append(paths, weburl.Split(url).Path)
	}
	return urls, paths
}

func BenchmarkJudge(b *testing.B) {
	_, paths := benchPaths(b)
	for _, bench := range []struct {
		name string
		r    *Rules
	}{{"off", new(Rules)}, {"default", defaults(b)}} {
		b.Run("rules="+bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				bench.r.Judge(paths[i%512])
			}
		})
	}
}

func BenchmarkRewrite(b *testing.B) {
	urls, _ := benchPaths(b)
	r := newRules(b, "session,tracking", Options{SortQuery: true, CollapseSlashes: true})
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.AppendRewritten(dst, urls[i%512])
	}
}
