package term

import (
	"bytes"
	"strings"
	"testing"
)

// TestPlain: characters that control a terminal or end a line are escaped, wherever writes split the text;
// others stay.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\nü€😀": "a\tb\nü€😀", "\x1b[2J": `\u001b[2J`, "\r\x00\x7f": `\u000d\u0000\u007f`,
		"\u009b1m\u2028\u202e": `\u009b1m\u2028\u202e`, "\x9b\xff": `\x9b\xff`, "x\xe2\x82": `x\xe2\x82`,
		"\U000e0001": `\udb40\udc01`, "\ufffd": "\ufffd",
	} {
		for step := 1; step <= len(in); step++ {
			var out bytes.Buffer
			w := &Plain{out: &out}
			for rest := in; rest != ""; {
				n := min(step, len(rest))
				if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
					t.Fatalf("write: %d, %v", got, err)
				}
				rest = rest[n:]
			}
			if err := w.Flush(); err != nil || out.String() != want {
				t.Errorf("%q by %d: got %q, %v, want %q", in, step, out.String(), err, want)
			}
		}
		if got := PlainText(in); got != strings.NewReplacer("\n", " ", "\t", " ").Replace(want) {
			t.Errorf("%q on one line: got %q", in, got)
		}
	}
}

// TestPaint: colours stand around escaped text, and only where they are asked for.
func TestPaint(t *testing.T) {
	for _, c := range []struct {
		colours bool
		colour  Colour
		want    string
	}{{true, Red, "a\x1b[31mb\\u001b\x1b[0m"}, {true, NoColour, `ab\u001b`}, {false, Red, `ab\u001b`}} {
		var out bytes.Buffer
		w := NewPlain(&out)
		w.colours = c.colours
		if _, err := w.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		if err := Paint(w, c.colour, "b\x1b"); err != nil || out.String() != c.want {
			t.Errorf("got %q, %v, want %q", out.String(), err, c.want)
		}
	}
}
