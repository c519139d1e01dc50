package bench

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"drumbeat/bench/model"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// TestBenchModelDefaults: the defaults of the flags are the paper's values.
func TestBenchModelDefaults(t *testing.T) {
	var c commands
	cmdtest.Parse(t, &c, "bench", "model")
	if got := c.Bench.Model.Options; !reflect.DeepEqual(got, model.Paper()) {
		t.Errorf("got %+v, want %+v", got, model.Paper())
	}
}

// TestBenchCommands: exit codes and output for good and bad flags.
func TestBenchCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Setenv("DRUMBEAT_HOST_DELAY", "7s")
	dir := t.TempDir()
	disk := []string{"bench", "disk", "--dir=" + dir}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"bench", "model"}, 0, "18,051  18,051"},
		{[]string{"bench", "model", "--pages=1e9", "--column-ram=64GB"}, 0, "DRUM 64 GB"},
		{[]string{"bench", "model", "--unique=7"}, term.ExitUsage, "--unique 7: want at most 1"},
		{[]string{"bench", "model", "--miss-curve=x"}, term.ExitUsage, "such as 0:0.84;1:0.41"},
		{append(disk, "--size=64KiB", "--chunk=4KiB", "--stream=4", "--block=8KiB", "--repeat=1"), 0,
			"BenchmarkDisk/op=mixed/chunk=4KiB/streams=1/direct=false/dir=0"},
		{append(disk, "--chunk=100"), term.ExitUsage, "multiple of 4KiB"},
		{[]string{"bench", "disk"}, term.ExitUsage, "--dir"},
		{[]string{"bench", "cache", "-q", "--hosts=10", "--size=512", "--entries=16384", "--repeat=1"}, 0,
			"BenchmarkCacheHits/policy=ours/entries=512"},
		{[]string{"bench", "cache", "-q", "--hosts=10", "--size=512", "--entries=16384", "--repeat=1",
			"--trace=" + dir + "/none"}, 1, "does not exist"},
		{[]string{"bench", "cache", "--from=7"}, term.ExitUsage, "give --trace, too"},
		{[]string{"bench", "cache", "--size=1"}, term.ExitUsage, "want 512 to"},
		{[]string{"bench", "star", "--dir=" + dir, "--plds=1"}, term.ExitUsage, "want 100 to"},
		{[]string{"bench", "star", "--dir=" + dir, "-q", "--plds=200", "--edges=400", "--neighbours=500",
			"--checks=1000", "--repeat=1"}, 0, "BenchmarkStarCheck/case=giant"},
		{[]string{"bench", "beast", "--dir=" + dir, "--url-bytes=10"}, term.ExitUsage, "want 64 to 512"},
		{[]string{"bench", "beast", "--dir=" + dir, "-q", "--plds=100", "--urls=3e4", "--naive-urls=2e4"}, 0,
			"BenchmarkBeast/scheme=beast/urls=3e4"},
		{[]string{"bench", "extract", "-q", "--corpus=../../bench/extract/testdata/corpus", "--repeat=1"}, 0,
			"BenchmarkExtract/pages=forum"},
		{[]string{"bench", "extract", "-q", "--json", "--corpus=../../bench/extract/testdata/corpus", "--repeat=1"}, 0,
			`"name": "BenchmarkExtract/pages=all",`},
		{[]string{"bench", "extract"}, term.ExitUsage, "--corpus"},
		{[]string{"bench", "extract", "--corpus=" + dir}, 1, "truth.jsonl"},
	} {
		var out bytes.Buffer
		a := &term.App{Stdout: &out, Stderr: &out}
		if code := run(a, c.args); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: got code %d and\n%s\nwant code %d and %q", c.args, code, out.String(), c.code, c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want an empty directory", left, err)
	}
}
