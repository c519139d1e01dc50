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
	"drumbeat/bench/result"
)

// Contenders with bad hosts beside.
const (
	listsName = "drumbeat-lists" // with the pages that link to the bad hosts, whose names do not exist
	badName   = "drumbeat-bad"   // with the bad hosts
)

// discoverCmd is the command discover.
type discoverCmd struct {
	discoverFlags
	raceFlags
	Names      string        `help:"Path of libnss_wrapper.so for wget2. Default: run without wget2."`
	Contenders []string      `help:"Contenders: wget2, bare[-nostore], drumbeat[-nostore|-lists|-bad]."`
	Patience   time.Duration `default:"30s" help:"End a crawl that has not sent a request for this long."`
	Check      bool          `help:"Exit with code 1 if drumbeat misses a page, fetches one twice, or misses a target."`
	LeastWget2 float64       `name:"least-wget2" help:"Target: at least N times the pages/s of wget2."`
	MostBad    float64       `name:"most-bad" help:"Target: maximum share of pages/s that bad hosts cost."`
}

// discovery is the state of the command discover.
type discovery struct {
	*discoverCmd
	*discoverServers
	expect *docweb.Expected
	runs   runs[*discoverTrial] // by contender
	absent string               // why there is no wget2; "": it is there, or nobody wants it
}

// Run is the command discover.
func (c discoverCmd) Run(ctx context.Context) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	began := time.Now()
	d := &discovery{discoverCmd: &c, runs: runs[*discoverTrial]{}}
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
	progress("made a web of %d hosts with %d pages in %.1f s; a crawl from %d seeds must find %d pages on %d hosts",
		f.Hosts, f.Pages, time.Since(began).Seconds(), c.Seeds, d.expect.Pages, d.expect.Hosts)
	if d.absent != "" {
		progress("wget2 is left out: %s", d.absent)
	}
	if err := d.all(ctx); err != nil {
		return err
	}
	rep := result.New("discover", "drumbeat, wget2 and a bare loop fetch a web that the crawlers find from its seeds")
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
			return fmt.Errorf("realweb: unknown contender %q: want some of %s", name, strings.Join(known, ", "))
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
		d.Contenders = slices.DeleteFunc(slices.Clone(d.Contenders),
			func(name string) bool { return name == wget2Name })
	}
	if len(d.Contenders) == 0 {
		return fmt.Errorf("realweb: no contender to run: wget2 is left out: %s", d.absent)
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

// all runs the trials.
func (d *discovery) all(ctx context.Context) error {
	return d.alternate(d.Contenders, func(round int, name string) error {
		l, err := d.run(ctx, name)
		if err != nil {
			return err
		}
		d.runs[name] = append(d.runs[name], l)
		progress("%d/%d %-16s %s", round, d.Pairs, name, l)
		return nil
	})
}
