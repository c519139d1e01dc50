package repair

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
)

// TestResyncFlags: --resync and --cluster-file go together, and the file must be that of a cluster.
func TestResyncFlags(t *testing.T) {
	dir := t.TempDir()
	file, text := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "text")
	f, err := cluster.NewFile([]float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	data, err := f.Encode()
	if err = errors.Join(err, os.WriteFile(file, data, 0o600), os.WriteFile(text, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	one := 1
	var out bytes.Buffer
	a := &term.App{Stdout: &out, Stderr: &out}
	for _, c := range []struct {
		cmd  Command
		code int
	}{
		{Command{Resync: &one}, term.ExitUsage}, {Command{ClusterFile: file}, term.ExitUsage},
		{Command{Resync: &one, ClusterFile: text}, term.ExitUsage}, {Command{Resync: &one, ClusterFile: file + "2"},
			term.ExitUsage}, {Command{Resync: &one, ClusterFile: file, Taken: []string{text}}, term.ExitUsage},
		{Command{Resync: &one, ClusterFile: file}, term.ExitDirectory}, // there is no crawl
	} {
		c.cmd.Dir = []string{filepath.Join(dir, "crawl")}
		if err := c.cmd.Run(a); term.ExitCode(err) != c.code {
			t.Errorf("%+v: %v, want exit code %d", c.cmd, err, c.code)
		}
	}
}
