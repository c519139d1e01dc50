package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drumbeat/bench/docweb"
	"drumbeat/bench/report"
)

// Contenders with bad hosts beside.
const (
	listsName = "drumbeat-lists" // with the pages that link to the bad hosts, whose names do not exist
	badName   = "drumbeat-bad"   // with the bad hosts
)

// discoverCmd is the command discover.
type discoverCmd struct {
	discoverFlags
	Work       string        `required:"" help:"Directory for inputs and crawls; must exist."`
	Drumbeat   string        `required:"" help:"Binary of drumbeat."`
	Wget2      string        `default:"wget2" help:"Binary of wget2."`
	Names      string        `help:"Path of libnss_wrapper.so, by which wget2 resolves the web's names. Default: no wget2."`
	Contenders []string      `help:"Run these: wget2, bare, bare-nostore, drumbeat, drumbeat-nostore; with --bad-hosts also drumbeat-lists and drumbeat-bad. Default: wget2, bare and drumbeat, or with --bad-hosts drumbeat, drumbeat-lists and drumbeat-bad."`
	Pairs      int           `default:"5" help:"Number of trials of each contender, alternately."`
	Limit      time.Duration `default:"5m" help:"Maximum duration of a trial."`
	Patience   time.Duration `default:"30s" help:"End a crawl that has not sent a request for this long."`
	Flags      []string      `sep:"none" help:"Further flags of drumbeat crawl; repeatable."`
	Check      bool          `help:"Exit with code 1 if drumbeat misses a page, fetches one twice, or misses a target."`
	Out        string        `help:"Also write the report to this directory, as text and JSON; go run ./bench/lab/plot draws its figure."`
	LeastWget2 float64       `name:"least-wget2" help:"Target: at least N times the pages/s of wget2."`
	LeastBare  float64       `help:"Target: at least N times the pages/s of the bare loop."`
	MostCPU    float64       `name:"most-cpu" help:"Target: at most N times the CPU per page of the bare loop."`
	MostBad    float64       `name:"most-bad" help:"Target, with --bad-hosts: they cost at most this share of the pages/s, such as 0.05."`
}

// discovery is the state of the command discover.
type discovery struct {
	*discoverCmd
	*discoverServers
	expect *docweb.Expected
	runs   map[string][]*discoverTrial // by contender
	absent string                      // why there is no wget2; "": it is there, or nobody wants it
}

// Run is the command discover.
func (c discoverCmd) Run(ctx context.Context) (err error) {
	if c.Pairs < 1 || c.Pairs > 1000 {
		return fmt.Errorf("realweb: %d pairs: want 1 to 1000", c.Pairs)
	}
	began := time.Now()
	d := &discovery{discoverCmd: &c, runs: map[string][]*discoverTrial{}}
	if c.Work, err = filepath.Abs(c.Work); err != nil {
		return err
	}
	if err := d.choose(); err != nil {
		return err
	}
	if d.discoverServers, err = c.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.expect = d.web.Expected(c.Seeds)
	if err := d.writeInputs(); err != nil {
		return err
	}
	f := d.web.Figures()
	progress("web of %d hosts with %d pages made in %.1f s; a crawl from %d seeds must find %d pages on %d hosts",
		f.Hosts, f.Pages,
		time.Since(began).Seconds(), c.Seeds, d.expect.Pages, d.expect.Hosts)
	if d.absent != "" {
		progress("wget2 does not take part: %s", d.absent)
	}
	if err := d.all(ctx); err != nil {
		return err
	}
	rep := report.New("discover", "drumbeat, wget2 and a bare loop fetch a web that the crawlers find from its seeds")
	d.report(rep, f)
	return finish(rep, c.Out, c.Check)
}

// choose fills the list of contenders, and leaves out wget2 where it is not installed.
func (d *discovery) choose() error {
	known := []string{wget2Name, bareName, bareNoStoreName, drumbeatName, noStoreName}
	if d.BadHosts {
		known = append(known, listsName, badName)
	}
	switch {
	case len(d.Contenders) > 0:
	case d.BadHosts:
		d.Contenders = []string{drumbeatName, listsName, badName}
	default:
		d.Contenders = []string{wget2Name, bareName, drumbeatName}
	}
	for _, name := range d.Contenders {
		if !slices.Contains(known, name) {
			return fmt.Errorf("realweb: contender %q: want some of %s", name, strings.Join(known, ", "))
		}
	}
	if !slices.Contains(d.Contenders, wget2Name) {
		return nil
	}
	if _, err := exec.LookPath(d.Wget2); err != nil {
		d.absent = "it is not installed"
	} else if d.Names == "" {
		d.absent = "libnss_wrapper.so, by which it resolves the names, is not installed"
	}
	if d.absent != "" {
		d.Contenders = slices.DeleteFunc(slices.Clone(d.Contenders), func(name string) bool { return name == wget2Name })
	}
	if len(d.Contenders) == 0 {
		return fmt.Errorf("realweb: no contender is left: wget2: %s", d.absent)
	}
	return nil
}

// nowhere is an address without a server, to which wget2 resolves the names that do not exist. Otherwise it
// would ask the machine's name servers.
const nowhere = "127.0.7.254"

// writeInputs writes the seeds, the names for wget2, and the list for the bare loop.
func (d *discovery) writeInputs() error {
	var names strings.Builder
	for _, h := range d.web.Hosts() {
		addr := h.Addr.String()
		if _, known := d.web.Lookup(h.Name); !known {
			addr = nowhere
		}
		fmt.Fprintf(&names, "%s %s\n", addr, h.Name)
	}
	for _, name := range d.web.DeadNames() {
		fmt.Fprintf(&names, "%s %s\n", nowhere, name)
	}
	list, err := os.Create(d.path("list.txt"))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(list)
	d.expect.Requests(func(h *docweb.Host, path string) {
		fmt.Fprintf(out, "%s:%d %s:%d %s\n", h.Addr, d.port, h.Name, d.port, path)
	})
	seeds := strings.Join(d.web.Seeds(d.Seeds), "\n") + "\n"
	return errors.Join(out.Flush(), list.Close(), os.WriteFile(d.path("seeds.txt"), []byte(seeds), 0o644),
		os.WriteFile(d.path("names.txt"), []byte(names.String()), 0o644))
}

func (d *discovery) path(name string) string { return filepath.Join(d.Work, name) }

// all runs the trials. The order of the contenders changes from round to round.
func (d *discovery) all(ctx context.Context) error {
	for i := range d.Pairs {
		order := slices.Clone(d.Contenders)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			l, err := d.run(ctx, name)
			if err != nil {
				return err
			}
			d.runs[name] = append(d.runs[name], l)
			progress("%d/%d %-16s %s", i+1, d.Pairs, name, l)
		}
	}
	return nil
}
