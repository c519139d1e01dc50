package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The first argument makes the test binary one of these processes.
const (
	serveFetchArg = "serve-fetch"
	serveDNSArg   = "serve-dns"
	runLabArg     = "bench"
)

func TestMain(m *testing.M) {
	var err error
	switch first := append(os.Args, "")[1]; first {
	case serveFetchArg:
		err = serveFetch()
	case serveDNSArg:
		err = serveDNS()
	case runLabArg:
		main()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestPebble: Pebble runs in a process of its own and is in the same report as DRUM.
func TestPebble(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	dir := t.TempDir()
	out, err := exec.Command(os.Args[0], runLabArg, "drum", "--dir="+dir, "-q", "--known=3e4", "--links=5e4", "--ram=8MiB", "--disk=2MB",
		"--forms=plain", "--against=pebble").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"BenchmarkDrum/keys=3e4/ram=8MiB/form=plain \t", "form=pebble", "right, by number of each link"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("left %v, %v", names, err)
	}
}
