package profile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	stop, err := Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.TempDir()); err == nil {
		t.Error("Start accepted a second concurrent profile")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu", "allocs", "heap", "mutex", "block", "goroutine"} {
		info, err := os.Stat(filepath.Join(dir, name+".pprof"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 {
			t.Errorf("%s.pprof is empty", name)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(file); err == nil {
		t.Error("Start accepted a file as directory")
	}
}
