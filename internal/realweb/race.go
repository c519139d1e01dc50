package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"drumbeat/bench/report"
)

type raceCmd struct {
	Work     string        `required:"" help:"Directory for the web, logs and crawls; must exist."`
	Drumbeat string        `required:"" help:"The binary."`
	Wget2    string        `default:"wget2" help:"The binary of wget2."`
	Names    string        `required:"" help:"libnss_wrapper.so, which lets wget2 find the web's names."`
	Packages []string      `required:"" help:"Debian packages whose HTML is served, as NAME*HOSTS or NAME:SUBDIRECTORY*HOSTS."`
	Pairs    int           `default:"5" help:"How often each crawls the web, in turns."`
	Limit    time.Duration `default:"5m" help:"A crawl is stopped after so long."`
	Flags    []string      `sep:"none" help:"Further flags of drumbeat crawl; repeatable."`
	Check    bool          `help:"Exit with 1 if a figure misses its target."`
	Out      string        `help:"Also put the report into this directory: text, JSON, a plot."`
}

// leastRatio is the target: drumbeat's pages/s over wget2's.
const leastRatio = 1.5

// Names of contenders.
const (
	wget2Name    = "wget2"
	drumbeatName = "drumbeat"
	floorName    = "fetch-only"
	gunzipName   = "fetch-gunzip"
)

// race is the state of one command.
type race struct {
	*raceCmd
	web     *web
	servers *servers
	began   time.Time
	pages   map[string]bool // URLs that the walk says are pages
	runs    map[string][]*lap
	ratios  report.Sample
}

// Run is the command race.
func (c raceCmd) Run(ctx context.Context) (err error) {
	if c.Pairs < 1 || c.Pairs > 1000 {
		return fmt.Errorf("realweb: %d pairs: want 1 to 1000", c.Pairs)
	}
	r := &race{raceCmd: &c, runs: map[string][]*lap{}, began: time.Now()}
	rep := report.New("race", "drumbeat and wget2 crawl the same static web of real HTML")
	if r.web, err = newRaceWeb(ctx, &c); err != nil {
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
	progress("web of %d hosts made in %.1f s", len(r.web.hosts), time.Since(r.began).Seconds())
	if err := r.all(ctx); err != nil {
		return err
	}
	open = false
	if err := r.servers.close(); err != nil {
		return err
	}
	// Only now, so that its memory and CPU are in nobody's way.
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
	rep.Command = fmt.Sprintf("scripts/realweb.sh race --pairs %d --packages '%s'", c.Pairs, strings.Join(c.Packages, ","))
	if err := rep.Write(os.Stdout); err != nil {
		return err
	}
	if c.Out != "" {
		if _, err := rep.Save(c.Out); err != nil {
			return err
		}
	}
	if err := rep.Err(); c.Check && err != nil {
		return err
	}
	return nil
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// all runs an untimed crawl that warms the caches and gives the list for the floors, then the pairs.
func (r *race) all(ctx context.Context) error {
	first, err := r.run(ctx, drumbeatName)
	if err != nil {
		return err
	}
	if err := r.writeList(first.log); err != nil {
		return err
	}
	for i := range r.Pairs {
		order := []string{wget2Name, drumbeatName}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		if i < 3 {
			order = append(order, floorName, gunzipName)
		}
		for _, name := range order {
			l, err := r.run(ctx, name)
			if err != nil {
				return err
			}
			r.runs[name] = append(r.runs[name], l)
			progress("%d/%d %-12s %6.2f s %6.0f pages/s, CPU %4.0f us/page, server %3.0f us/page, idle %2.0f %%, first answer after %.2f s, "+
				"last %.2f s before the end", i+1, r.Pairs, name, l.wall.Seconds(), l.rate(), l.perPage(l.cpu), l.perPage(l.serverCPU),
				100*l.idle, l.first.Seconds(), l.tail.Seconds())
		}
		w, d := r.runs[wget2Name][i], r.runs[drumbeatName][i]
		r.ratios = append(r.ratios, d.rate()/w.rate())
	}
	return nil
}

// writeInputs writes what both crawlers start from, and the names for wget2.
func (r *race) writeInputs() error {
	var seeds, names strings.Builder
	for _, h := range r.web.hosts {
		fmt.Fprintf(&seeds, "http://%s:%d/\n", h.name, r.web.httpPort)
		fmt.Fprintf(&names, "%s %s\n", h.addr, h.name)
	}
	return errors.Join(os.WriteFile(r.web.path("seeds.txt"), []byte(seeds.String()), 0o644),
		os.WriteFile(r.web.path("names.txt"), []byte(names.String()), 0o644))
}

// writeList writes the pages of a crawl for the floors, in the order in which they were asked for.
func (r *race) writeList(log *requests) error {
	var list strings.Builder
	for _, u := range log.pages {
		name, target, _ := strings.Cut(strings.TrimPrefix(u, "http://"), "/")
		fmt.Fprintf(&list, "%s:%d %s:%d /%s\n", r.web.byName[name].addr, r.web.httpPort, name, r.web.httpPort, target)
	}
	return os.WriteFile(r.web.path("list.txt"), []byte(list.String()), 0o644)
}
