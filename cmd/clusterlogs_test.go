package cmd

import (
	"bufio"
	"flag"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"drumbeat/internal/simweb"
)

var (
	clusterLogs  = flag.String("cluster.logs", "", "directory of packaging/docker/cluster/test.sh, for TestClusterLogs")
	clusterPages = flag.Int("cluster.pages", 0, "demo --pages of that run")
)

// Of packaging/docker/cluster/test.yaml.
var realLimits = outsideLimits{host: 100 * time.Millisecond, pld: 100 * time.Millisecond,
	address: 50 * time.Millisecond, rate: 10,
	late: time.Second}

// unsaved is how long before a kill a page may have been fetched that is fetched again. Checkpoints are 3 s apart, and
// two may be late on a loaded machine.
const unsaved = 20 * time.Second

// TestClusterLogs judges a run of containers by the lines of demo --server-log, the objects in the store, and the times
// at which nodes were killed.
func TestClusterLogs(t *testing.T) {
	if *clusterLogs == "" {
		t.Skip("packaging/docker/cluster/test.sh runs it")
	}
	o := realOutside(t, *clusterPages)
	must(t, o.readLog(filepath.Join(*clusterLogs, "web", "requests")))
	must(t, o.readKills(filepath.Join(*clusterLogs, "kills")))
	must(t, o.readStore(filepath.Join(*clusterLogs, "s3", "pages")))
	faults := o.check()
	t.Log(o.summary())
	t.Logf("least gap of a host: %v, from start to start", leastGap(o.log.Requests))
	for _, fault := range faults[:min(len(faults), 20)] {
		t.Error(fault)
	}
	if len(faults) > 20 {
		t.Errorf("and %d more faults", len(faults)-20)
	}
}

// realOutside returns what a check knows before it reads files: the web of demo --serve.
func realOutside(t *testing.T, pages int) *outside {
	t.Helper()
	o := simweb.Defaults(1)
	o.Pages, o.Hosts, o.PLDs = pages, 2000, 500
	o.IPs = min(o.IPs, o.Hosts)
	o.Networks, o.CrawlDelay, o.Signals = o.IPs, 50*time.Millisecond, true
	web, err := simweb.New(o)
	must(t, err)
	c := &outside{limits: realLimits, log: new(simweb.Snapshot), pld: web.PLD, want: map[string]bool{}}
	for url := range web.Expected("drumbeat").FetchedURLs() {
		c.want[url] = true
	}
	return c
}

// readLog reads lines of demo --server-log: time, address, URL. They have no ends of requests, so gaps count from start
// to start.
func (o *outside) readLog(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	var starts []time.Time
	for lines.Scan() {
		part := strings.Fields(lines.Text())
		if len(part) != 3 {
			return fmt.Errorf("%s: line %q", name, lines.Text())
		}
		start, err := time.Parse(time.RFC3339Nano, part[0])
		if err != nil {
			return err
		}
		ip, err := netip.ParseAddr(part[1])
		if err != nil {
			return err
		}
		u, err := url.Parse(part[2])
		if err != nil {
			return err
		}
		starts = append(starts, start)
		// Some hosts redirect for their rules, also to other hosts.
		robots := u.Path == "/robots.txt" || strings.HasPrefix(u.Path, "/robots-moved") ||
			strings.HasPrefix(u.Path, "/robots-for/")
		o.log.Requests = append(o.log.Requests, simweb.Request{URL: part[2], Host: u.Hostname(), IP: ip,
			Robots: robots})
	}
	if len(starts) == 0 {
		return fmt.Errorf("%s: %w, and no line", name, lines.Err())
	}
	o.log.Epoch = slices.MinFunc(starts, time.Time.Compare)
	for i := range starts {
		o.log.Requests[i].Start = starts[i].Sub(o.log.Epoch)
		o.log.Requests[i].End = o.log.Requests[i].Start + 1 // 0 is a request under way
	}
	slices.SortFunc(o.log.Requests, func(a, b simweb.Request) int { return int(a.Start - b.Start) })
	o.log.Total = len(starts)
	return lines.Err()
}

// readKills reads lines of a node, such as node1, and the times before its kill and after its start.
func (o *outside) readKills(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var node int
		var from, to string
		if _, err := fmt.Sscanf(line, "node%d %s %s", &node, &from, &to); err != nil {
			return fmt.Errorf("%s: line %q: %w", name, line, err)
		}
		k := kill{node: node}
		if k.from, err = time.Parse(time.RFC3339Nano, from); err != nil {
			return err
		}
		if k.to, err = time.Parse(time.RFC3339Nano, to); err != nil {
			return err
		}
		k.saved = k.from.Add(-unsaved)
		o.kills = append(o.kills, k)
	}
	return nil
}

// readStore reads the WARC files of all nodes, as the store has them: PREFIX/CRAWL/NODE/FILE.
func (o *outside) readStore(dir string) error {
	dirs, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		node, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return fmt.Errorf("%s is no node's", dir)
		}
		records, err := readRecords(node, dir)
		if err != nil {
			return err
		}
		o.records = append(o.records, records...)
	}
	return nil
}

// leastGap returns the least time between the starts of two requests to a host.
func leastGap(list []simweb.Request) time.Duration {
	least, last := time.Duration(1<<63-1), map[string]time.Duration{}
	for _, q := range list {
		if before, ok := last[q.Host]; ok {
			least = min(least, q.Start-before)
		}
		last[q.Host] = q.Start
	}
	return least
}
