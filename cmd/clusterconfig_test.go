package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
)

// configFlags are the flags of TestClusterConfigGolden, by the name of the golden file.
var configFlags = map[string][]string{
	"defaults": nil,
	"flags": {"--agent=Other-Bot", "--scope=pld", "--max-depth=5", "--max-pages=1000,host=100,pld=300",
		"--host-delay=2s,min=1s", "--pld-delay=500ms", "--network-rate=5", "--rate=20", "--retries=1",
		"--max-redirects=3", "--fetch=pdf", "--canonical=escapes=keep", "--max-body=1MiB,application/pdf=5MiB",
		"--ports=8080", "--cluster-lease=5m", "--sitemaps", "--budget=paper,default=20", "--recrawl",
		"--strip-params=utm_*", "--robots-meta=nofollow=ignore"},
}

// TestClusterConfigGolden: nodes with these flags have had this configuration since it was written. If a line changes
// or comes, nodes of this version are refused by those of earlier ones, and cannot be upgraded while the cluster runs.
// So a new option has a line only if it differs from its default, and fields that come into a value are left out of it
// while they are zero. An option that goes leaves its line with its former default.
func TestClusterConfigGolden(t *testing.T) {
	t.Parallel()
	for name, flags := range configFlags {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sharedConfig(t, flags)
			const list = "suffix list: "
			for i, line := range got { // a crawl keeps the list with which it began
				if strings.HasPrefix(line, list) {
					got[i] = list + `"…"`
				}
			}
			golden := filepath.Join("testdata", "clusterconfig", name+".txt")
			if *update {
				must(t, os.MkdirAll(filepath.Dir(golden), 0o755))
				must(t, os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o644))
			}
			data, err := os.ReadFile(golden)
			must(t, err)
			want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
			if !slices.Equal(got, want) {
				t.Errorf("nodes of earlier versions refuse nodes of this one: %s",
					strings.Join(cluster.NewConfig(want).Differ(cluster.NewConfig(got)), "; "))
			}
		})
	}
}

// sharedConfig returns the lines of the configuration that a node with some flags writes to the broker.
func sharedConfig(t *testing.T, flags []string) []string {
	t.Helper()
	dir := t.TempDir()
	file, seeds := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "seeds")
	wantExit(t, term.ExitDone, "", "cluster", "init", "--nodes=2", file)
	must(t, os.WriteFile(seeds, []byte("http://a.test/\n"), 0o600))
	data, err := os.ReadFile(file)
	must(t, err)
	f, err := cluster.DecodeFile(data)
	must(t, err)
	e, err := nats.Open(nats.Options{Crawl: f.Crawl, Secret: f.Secret[:],
		Embed: &nats.Embed{Dir: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0", Sync: time.Minute,
			StoreBytes: cluster.BrokerDisk(2, fleetStream, cluster.DefaultLeasesBytes)}})
	must(t, err)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	args := []string{"crawl", "--contact=a@example.org", "--seeds=" + seeds, "--dir=" + filepath.Join(dir, "n0"),
		"--cluster-file=" + file, "--node=0", "--ram=1GiB", "--disk=10GB", "--admin=", "--max-time=10ms",
		"--resolver=127.0.0.1:9", fmt.Sprintf("--cluster-stream=%d", fleetStream),
		"--cluster=nats://" + e.Addr().String()}
	wantExit(t, term.ExitTime, "", append(args, flags...)...)
	v, err := e.Get(t.Context(), cluster.BucketCrawl, cluster.ConfigKey)
	must(t, err)
	c, err := cluster.DecodeConfig(v.Data)
	must(t, err)
	return c.Lines
}
