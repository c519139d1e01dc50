package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
)

// TestSeed: a seed that cluster seed makes opens an embedded broker, is for its owner alone, and is not replaced.
func TestSeed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "seed")
	var out bytes.Buffer
	a := &term.App{Stdout: &out}
	must(t, (&seedCmd{File: file}).Run(a))
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := (&seedCmd{File: file}).Run(a); err == nil {
		t.Error("the file is replaced")
	}
	e, err := nats.Open(nats.Options{Crawl: "c", Seed: file,
		Embed: &nats.Embed{Dir: filepath.Join(dir, "n"), Sync: time.Minute}})
	must(t, err)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
