package cmd

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/cmdtest"
)

// TestPlanIsTheCrawls: plan and crawl make the same plan from the same flags.
func TestPlanIsTheCrawls(t *testing.T) {
	seeds := t.TempDir() + "/seeds"
	must(t, os.WriteFile(seeds, []byte("http://example.org/\n"), 0o600))
	file := t.TempDir() + "/cluster.json"
	made, err := cluster.NewFile([]float64{1, 1, 1})
	must(t, err)
	data, err := made.Encode()
	must(t, err)
	must(t, os.WriteFile(file, data, 0o600))
	for _, given := range [][]string{
		{"--ram=4GiB", "--disk=1TB", "--cluster=embed", "--cluster-stream=2GiB"},
		{"--ram=1GiB", "--disk=100GB", "--cluster=tls://localhost:4222"},
		{"--ram=1GiB", "--disk=100GB"},
		{"--ram=96MiB", "--disk=10GB", "--connections=100"},
		{"--ram=300GiB", "--disk=80TB", "--dir=/a", "--dir=/b", "--dir=/c"},
		{"--ram=4GiB", "--disk=1TB", "--drum=buckets=64,merge=128MiB,buffer=64KiB,chunk=8MiB,disk=40GB,workers=3"},
		{"--ram=4GiB", "--disk=1TB", "--drum=cache=0", "--keep-free=1GB"},
		{"--ram=4GiB", "--disk=1TB", "--drum=cache=100MB"},
	} {
		var c, p commands
		crawled, planned := given, given
		if len(given) > 2 && strings.HasPrefix(given[2], "--cluster") { // a node of three
			crawled, planned = append(crawled, "--cluster-file="+file, "--node=1"), append(planned, "--nodes=3")
		}
		for _, parse := range []struct {
			c    *commands
			args []string
		}{{&c, append([]string{"crawl", "--seeds=" + seeds, "--contact=a@example.org", "--resolver=127.0.0.1:53"},
			crawled...)},
			{&p, append([]string{"plan"}, planned...)}} {
			cmdtest.Parse(t, parse.c, parse.args...)
		}
		m, err := term.ThisMachine()
		must(t, err)
		if _, err := c.Crawl.Complete(m); err != nil {
			t.Fatal(err)
		}
		crawlOpt := c.Crawl.Options()
		must(t, c.Crawl.ReadCluster(&crawlOpt))
		planOpt, err := p.Plan.Options()
		must(t, err)
		want, err1 := crawl.MakePlan(&crawlOpt)
		got, err2 := crawl.MakePlan(&planOpt)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v, the crawl has %+v, %v", given, got, err2, want, err1)
		}
	}
}
