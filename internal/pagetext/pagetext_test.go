package pagetext

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// text returns the text of a page.
func text(t *testing.T, page, contentType string) string {
	t.Helper()
	var b strings.Builder
	w := bufio.NewWriter(&b)
	if err := Write(w, iotest.OneByteReader(strings.NewReader(page)), contentType); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite(t *testing.T) {
	for page, want := range map[string]string{
		"":    "",
		"one": "one\n",
		"<title>T</title><p>a &amp; <b>b</b>c\n\t d<p>e":                                      "T\na & bc d\ne\n",
		"a<script>x</script><style>y</style><template><p>z</template><noscript>n</noscript>b": "ab\n",
		"<tr><td>1<td>2<tr><th>3</th> <th>4":                                                  "1 2\n3 4\n",
		"a<br>b<br><br>c &lt;p&gt;":                                                           "a\nb\nc <p>\n",
		"<script>a<p>b":                                                                       "",
		"<iframe><p>x</iframe>a<script/>y</script>b":                                          "ab\n",
		"\xff": "ÿ\n", // windows-1252
	} {
		if got := text(t, page, "text/html"); got != want {
			t.Errorf("%q: got %q, want %q", page, got, want)
		}
	}
	if got := text(t, "\xcf\xf0", "text/html; charset=windows-1251"); got != "Пр\n" {
		t.Errorf("got %q", got)
	}
	var b strings.Builder
	if err := Write(bufio.NewWriter(&b), strings.NewReader("<p>"+strings.Repeat("x", maxToken+1)), ""); err == nil {
		t.Error("a text node that is too long: no error")
	}
	broken := errors.New("broken")
	if err := Write(bufio.NewWriter(&b), io.MultiReader(strings.NewReader(strings.Repeat("a ", 5000)),
		iotest.ErrReader(broken)), ""); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestIsHTML(t *testing.T) {
	for kind, want := range map[string]bool{"": true, "text/html": true, "Text/HTML; charset=x": true,
		"text/html;;": true, "application/xhtml+xml": true, "text/plain": false, "image/png; a=b": false} {
		if IsHTML(kind) != want {
			t.Errorf("%q: got %t", kind, !want)
		}
	}
}
