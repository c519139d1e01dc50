package export

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/state/export"
)

// TestTarget: an output inside a directory of the crawl is refused, also through a link; a WACZ replaces nothing but a
// WACZ. Nothing is changed.
func TestTarget(t *testing.T) {
	tmp := t.TempDir()
	for _, dir := range []string{"/d/warc", "/out", "/full"} {
		if err := os.MkdirAll(tmp+dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(tmp+"/d/warc", tmp+"/link"); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"/note.txt": "precious", "/empty": ""} {
		if err := os.WriteFile(tmp+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, member := range map[string]string{"/old.wacz": "datapackage.json", "/other.zip": "notes.txt"} {
		f, err := os.Create(tmp + name)
		if err != nil {
			t.Fatal(err)
		}
		z := zip.NewWriter(f)
		if _, err := z.Create(member); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(z.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		kind, output, temp string
		good               bool
	}{
		{"pages", "/d", "", false}, {"pages", "/d/warc/tab", "", false}, {"pages", "/d/new/tab", "", false},
		{"pages", "/link/tab", "", false}, {"index", "/out", "", false}, {"wacz", "/out/x.wacz", "", false},
		{"pages", "/tab", "/d", false}, {"pages", "/tab", "", true}, {"pages", "/dd", "", true},
		{"pages", "/full", "", true}, {"index", "/full", "", true}, {"wacz", "/note.txt", "", false},
		{"wacz", "/other.zip", "", false}, {"wacz", "/full", "", false}, {"wacz", "/old.wacz", "", true},
		{"wacz", "/new.wacz", "", true}, {"wacz", "/empty", "", true},
	} {
		r := run{app: &term.App{Stdout: io.Discard, Stderr: io.Discard}, command: "export"}
		r.opt.Kind, r.opt.Dirs, r.opt.Out = export.Kind(c.kind), []string{tmp + "/d"}, []string{tmp + "/out"}
		temp := c.temp
		if temp != "" {
			temp = tmp + temp
		}
		r.to(tmp+c.output, temp)
		err := r.checkTarget()
		var ended *term.Ended
		if (err == nil) != c.good || err != nil && (!errors.As(err, &ended) || ended.Code != term.ExitDirectory) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if data, err := os.ReadFile(tmp + "/note.txt"); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
}
