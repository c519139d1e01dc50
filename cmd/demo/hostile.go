package demo

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/human"
	"drumbeat/internal/simweb"
	"drumbeat/weburl"
)

// hostileTime is the default of --max-time with --hostile.
const hostileTime = time.Minute

// limits returns the limits of an exchange. With hostile hosts they are lower than usual, so the demo reaches
// them within its time.
func (c *Command) limits() fetch.Limits {
	if !c.Hostile {
		return fetch.Limits{}
	}
	return fetch.Limits{Connect: 5 * time.Second, TLS: 5 * time.Second, FirstByte: 5 * time.Second,
		Total: 15 * time.Second, Grace: 5 * time.Second, BodyBytes: 1 << 20, DecodedBytes: 2 << 20}
}

// limitTime sets the default of --max-time. ended returns the error of a crawl's end; the default time is an
// ordinary one.
func (c *Command) limitTime(opt *crawl.Options) (ended func(stop string) error) {
	if !c.Hostile || c.MaxTime > 0 {
		return crawlcmd.EndOf
	}
	opt.Limits.MaxTime = hostileTime
	return func(stop string) error {
		if stop == crawl.StopTime {
			return nil
		}
		return crawlcmd.EndOf(stop)
	}
}

// kindSum sums up a kind of hostile host.
type kindSum struct {
	hosts, requests, lookups int
	bytes                    int64
	ended                    map[string]int // URLs by how they ended
}

// printHostile prints what each kind of hostile host did, and how the crawl dealt with its URLs.
func printHostile(out io.Writer, web *simweb.Web, dir string) error {
	sums, err := sumHostile(web, dir)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nHostile hosts\tbehavior\thosts asked\tlookups\trequests\tsent\toutcome of their URLs\n")
	for _, k := range simweb.HostileKinds() {
		s := sums[k.Name]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n", k.Name, k.Does, s.hosts, s.lookups, s.requests,
			human.Bytes(s.bytes), s.ends())
	}
	return t.Flush()
}

// sumHostile reads the log of the web's servers and the log of the crawl.
func sumHostile(web *simweb.Web, dir string) (map[string]*kindSum, error) {
	sums := map[string]*kindSum{}
	for _, k := range simweb.HostileKinds() {
		sums[k.Name] = &kindSum{ended: map[string]int{}}
	}
	log := web.Log().Snapshot()
	for host, n := range log.Hostile {
		if s := sums[web.HostileScenario(host)]; s != nil {
			s.hosts, s.requests, s.bytes = s.hosts+1, s.requests+n.Requests, s.bytes+n.Bytes
		}
	}
	for host, n := range log.Lookups {
		if s := sums[web.HostileScenario(host)]; s != nil {
			s.lookups += n
		}
	}
	fsys := disk.OS()
	files, err := crawllog.Files(disk.Set{FS: fsys, Paths: []string{dir}}, "crawl")
	if err != nil {
		return nil, fmt.Errorf("demo: read the crawl log: %w", err)
	}
	for _, name := range files {
		err := crawllog.ReadFile(fsys, name, func(e *crawllog.Entry) error {
			if url, err := weburl.Canonical(e.URL); err == nil {
				if s := sums[web.HostileScenario(string(weburl.Split([]byte(url)).Host))]; s != nil {
					s.ended[endOf(e)]++
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("demo: read the crawl log: %w", err)
		}
	}
	return sums, nil
}

// endOf says how a URL ended.
func endOf(e *crawllog.Entry) string {
	switch {
	case e.Reason != "":
		return e.Reason
	case e.Truncated != "":
		return "cut off (" + e.Truncated + ")"
	}
	return "fetched"
}

// ends lists how URLs ended, the most frequent first.
func (s *kindSum) ends() string {
	var names []string
	for name := range s.ended {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "none is done; all wait for another attempt"
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ended[b], s.ended[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, s.ended[name])
	}
	return strings.Join(names, ", ")
}
