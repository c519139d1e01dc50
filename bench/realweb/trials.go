package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"drumbeat/bench/result"
)

// Webs that differ in more than their packages.
const (
	webFull = "full"
	webOne  = "one"
)

type raceCmd struct {
	raceFlags
	Names        string   `required:"" help:"Path of libnss_wrapper.so, by which wget2 resolves names."`
	Web          string   `enum:"core,full,one" default:"core" help:"Kind of web. See docs/how-it-works/benchmarks.md."`
	Packages     []string `required:"" help:"Serve the HTML of these Debian packages: NAME[:SUBDIRECTORY]*HOSTS."`
	Check        bool     `help:"Exit with code 1 if a figure misses its target."`
	LeastWget2   float64  `name:"least-wget2" default:"1.5" help:"Target: at least N times the pages/s of wget2."`
	LeastNoStore float64  `name:"least-nostore" help:"Target: at least N times the bare loop, without WARC files."`
}

// trials is the state of the command race.
type trials struct {
	*raceCmd
	web     *web
	servers *servers
	began   time.Time
	pages   map[string]bool // URLs of pages in the walk
	runs    runs[*trial]    // by contender
}

// Run is the command race.
func (c raceCmd) Run(ctx context.Context) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	r := &trials{raceCmd: &c, runs: runs[*trial]{}, began: time.Now()}
	rep := result.New("race", "drumbeat, wget2 and a bare loop fetch the same static web of real HTML")
	if r.web, err = newTrialWeb(ctx, &c); err != nil {
		return err
	}
	if r.servers, err = startServers(ctx, r.web); err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			err = errors.Join(err, r.servers.close())
		}
	}()
	if err := r.writeInputs(); err != nil {
		return err
	}
	progress("made a web of %d hosts in %.1f s", len(r.web.hosts), time.Since(r.began).Seconds())
	if err := r.all(ctx); err != nil {
		return err
	}
	open = false
	if err := r.servers.close(); err != nil {
		return err
	}
	// After the trials, so its memory and CPU do not affect them.
	k, err := newWalk(r.web)
	if err != nil {
		return err
	}
	r.pages = map[string]bool{}
	for u, a := range k.fetched {
		if a.status == 200 && a.mime == mimes[".html"] {
			r.pages[u] = true
		}
	}
	r.report(rep, k)
	rep.Command = fmt.Sprintf("scripts/realweb.sh race --web %s --pairs %d --packages '%s'", c.Web, c.Pairs,
		strings.Join(c.Packages, ","))
	return finish(rep, c.Out, c.Check)
}

// finish prints a report, saves it to out if that is set, and with check returns an error if a figure misses
// its target.
func finish(rep *result.Report, out string, check bool) error {
	if err := rep.Write(os.Stdout); err != nil {
		return err
	}
	if out != "" {
		if _, err := rep.Save(out); err != nil {
			return err
		}
	}
	if check {
		return rep.Err()
	}
	return nil
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// all runs an untimed crawl, which warms the caches and yields the list of URLs for the bare loop, then the
// trials.
func (r *trials) all(ctx context.Context) error {
	first, err := r.run(ctx, drumbeatName)
	if err != nil {
		return err
	}
	if err := r.writeList(first.log); err != nil {
		return err
	}
	return r.alternate(contenders, func(round int, name string) error {
		l, err := r.run(ctx, name)
		if err != nil {
			return err
		}
		r.runs[name] = append(r.runs[name], l)
		progress("%d/%d %-16s %6.2f s %6.0f pages/s, CPU %4.0f µs/page, server %3.0f µs/page, idle %2.0f "+
			"%%, first answer after %.2f s, last answer %.2f s before the "+
			"end", round, r.Pairs, name, l.wall.Seconds(), l.rate(), l.perPage(l.cpu),
			l.perPage(l.serverCPU), 100*l.idle, l.first.Seconds(), l.tail.Seconds())
		return nil
	})
}

// writeInputs writes the seeds of both crawlers, and the host names for wget2.
func (r *trials) writeInputs() error {
	var seeds, names strings.Builder
	for _, h := range r.web.hosts {
		fmt.Fprintf(&seeds, "http://%s:%d/\n", h.name, r.web.httpPort)
		fmt.Fprintf(&names, "%s %s\n", h.addr, h.name)
	}
	return errors.Join(os.WriteFile(r.web.path("seeds.txt"), []byte(seeds.String()), 0o644),
		os.WriteFile(r.web.path("names.txt"), []byte(names.String()), 0o644))
}

// writeList writes the URLs of a crawl for the bare loop.
func (r *trials) writeList(log *requests) error {
	var list strings.Builder
	for _, u := range log.urls {
		name, target, _ := strings.Cut(strings.TrimPrefix(u, "http://"), "/")
		fmt.Fprintf(&list, "%s:%d %s:%d /%s\n", r.web.byName[name].addr, r.web.httpPort, name, r.web.httpPort, target)
	}
	return os.WriteFile(r.web.path("list.txt"), []byte(list.String()), 0o644)
}
