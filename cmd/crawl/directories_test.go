package crawl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestRefusedDirectories: the command refuses a missing or foreign directory and changes nothing.
// Regression: it created the missing one, and left a lock file in the foreign one.
func TestRefusedDirectories(t *testing.T) {
	web, flags := cmdtest.SmallWeb(t, nil)
	tmp := t.TempDir()
	flags = append(flags, "--seeds", cmdtest.SeedFile(t, web), "--max-pages=10")
	a, b, out, none := tmp+"/a", tmp+"/b", tmp+"/out", tmp+"/none"
	dirs := []string{"--dir=" + a, "--dir=" + b, "--out=" + out}
	wantExit(t, term.ExitPages, "", append(flags, dirs...)...)
	plain := tmp + "/plain"
	wantExit(t, term.ExitPages, "", append(flags, "--dir="+plain)...)
	thesis := filepath.Join(tmp, "thesis")
	must(t, os.Mkdir(thesis, 0o700))
	must(t, os.WriteFile(filepath.Join(thesis, "thesis.tex"), []byte("x"), 0o600))
	for _, c := range []struct {
		dirs []string
		want string
	}{
		{[]string{"--dir=" + a, "--dir=" + none, "--out=" + out}, "directory 1 of 2 (crawl)"},
		{[]string{"--dir=" + none, "--dir=" + b, "--out=" + out}, "directory 0 of 2 (crawl)"},
		{[]string{"--dir=" + a, "--out=" + out, "--dir=" + thesis}, "is not empty"},
		{[]string{"--dir=" + a, "--dir=" + b, "--out=" + none}, "is a disk not mounted?"},
		{[]string{"--dir=" + a, "--dir=" + b}, "is in separate directories, but no --out is given"},
		{[]string{"--dir=" + plain, "--out=" + none}, "is in its state directories"},
		{[]string{"--dir=" + none, "--dir=" + thesis}, "is not empty"},
		{[]string{"--dir=" + none, "--out=" + thesis}, "is not empty"},
		{[]string{"--dir=" + a, "--dir=" + b, "--out=" + plain}, "is a directory for crawl, not for output"},
		{[]string{"--dir=" + a, "--dir=" + plain, "--out=" + out}, "belongs to crawl"},
	} {
		_, errs := wantExit(t, term.ExitDirectory, "", append(flags, c.dirs...)...)
		if !strings.Contains(errs, c.want) {
			t.Errorf("%v: got %q, want %q", c.dirs, errs, c.want)
		}
		if _, err := os.Stat(none); !os.IsNotExist(err) {
			t.Fatalf("%v: %s was made: %v", c.dirs, none, err)
		}
		if names, err := os.ReadDir(thesis); err != nil || len(names) != 1 {
			t.Fatalf("%v: the foreign directory holds %v, %v", c.dirs, names, err)
		}
	}
	wantExit(t, term.ExitPages, "", append(flags, append(dirs, "--max-pages=20")...)...)
}
