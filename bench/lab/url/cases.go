package url

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// caseBase is the base of the made references.
const caseBase = "http://www.example.org/docs/library/reference/page-12.html"

// caseRefs is how many references a case has, so that the CPU can't learn them all by heart.
const caseRefs = 2000

// urlKinds are the cases of made references. Plain ones have a target.
var urlKinds = []struct {
	name  string
	plain bool
	like  string // shown in the report
}{
	{"absolute", true, "http://www.other.example/a/b.html"},
	{"same-host", true, "http://www.example.org/docs/b.html"},
	{"relative", true, "functions/b.html#part"},
	{"up", true, "../../tutorial/b.html"},
	{"rooted", true, "/docs/b.html"},
	{"query", true, "?page=2&sort=name"},
	{"path-query", true, "view.php?id=12&lang=en"},
	{"fragment", true, "#part"},
	{"dots", false, "a/./b/../../c.html"},
	{"encode", false, "a b/\u00FCber/%7Euser?q=\"x\""},
	{"upper", false, "HTTP://WWW.Example.ORG:80/A"},
	{"idn", false, "http://b\u00FCcher.example/a"},
	{"odd", false, "//user@h:8080\\a, javascript:x, http:a"},
}

// mixKinds are those of the made mix that are no repeats: half relative.
var mixKinds = []string{"relative", "relative", "relative", "relative", "up", "up", "rooted", "path-query", "same-host", "absolute",
	"absolute", "relative", "rooted", "dots", "encode", "relative", "up", "upper", "relative", "odd"}

var urlWords = strings.Fields("index api library functions about news archive module reference tutorial user page class interface java util " +
	"concurrent locks distutils release notes contents search introduction internals std string vector allocator bits a00123 sql-select")

// makeRef makes a reference of a kind.
func makeRef(rnd *rand.Rand, kind string) string {
	word := func() string { return urlWords[rnd.IntN(len(urlWords))] }
	path := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(word() + "/")
		}
		fmt.Fprintf(&b, "%s-%d.html", word(), rnd.IntN(1000))
		if rnd.IntN(3) == 0 {
			b.WriteString("#" + word())
		}
		return b.String()
	}
	few := func() string { return path(rnd.IntN(3)) }
	switch kind {
	case "absolute":
		return fmt.Sprintf("http%s://www.%s%d.example/%s", []string{"", "s"}[rnd.IntN(2)], word()[:3], rnd.IntN(100), few())
	case "same-host":
		return "http://www.example.org/" + few()
	case "relative":
		return few()
	case "up":
		return strings.Repeat("../", 1+rnd.IntN(3)) + few()
	case "rooted":
		return "/" + few()
	case "query":
		return fmt.Sprintf("?%s=%d&%s=%s", word(), rnd.IntN(100), word(), word())
	case "path-query":
		return fmt.Sprintf("%s.php?%s=%d&%s=%s", word(), word(), rnd.IntN(100), word(), word())
	case "fragment":
		return "#" + word() + "-" + word()
	case "dots":
		return []string{"a/../", "./a/./", "a/b/../../"}[rnd.IntN(3)] + few()
	case "encode":
		return word() + []string{" ", "/\u00FCber ", "{1}", "/\u041C\u043E\u0441\u043A\u0432\u0430"}[rnd.IntN(4)] + "/" + few() + "?q=\"" + word() + "\""
	case "upper":
		return fmt.Sprintf("HTTP://WWW.%s.ORG:80/%s", strings.ToUpper(word()[:3]), few())
	case "idn":
		return fmt.Sprintf("http://b\u00FCcher%d.example/%s", rnd.IntN(20), few())
	case "odd":
		return []string{"//user@host.example:8080/", "javascript:void(0)//", "http:", "mailto:a@b.example?", "\\\\host.example\\", " "}[rnd.IntN(6)] + few()
	}
	panic("BUG: bench: url: kind " + kind)
}

// makeLength makes a plain relative reference of n bytes.
func makeLength(rnd *rand.Rand, n int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_"
	ref := make([]byte, n)
	for i := range ref {
		ref[i] = letters[rnd.IntN(len(letters))]
		if i%10 == 9 && i < n-1 {
			ref[i] = '/'
		}
	}
	ref[0] = 'x' // no digit: nothing that could be taken for something else
	return ref
}
