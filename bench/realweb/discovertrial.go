package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drumbeat/bench/docweb"
	"drumbeat/internal/cputime"
)

// discoverTrial is one run of one contender. Times are from the start of its process.
type discoverTrial struct {
	docweb.Counts
	cost                     // the idle share is until the last page; this process is the server
	last  time.Duration      // answer of the last page
	slots map[string]float64 // share of the connection slots by their use, with drumbeat only
}

// span is the time from the start of the process to the last page.
func (l *discoverTrial) span() time.Duration { return max(l.last, 1) }

func (l *discoverTrial) rate() float64 { return float64(l.Pages) / l.span().Seconds() }

func (l *discoverTrial) perPage(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(max(l.Pages, 1))
}

func (l *discoverTrial) cpuMicros() float64 { return l.perPage(l.cpu) }

// seconds returns the number of pages in each whole second until the last page.
func (l *discoverTrial) seconds() []int {
	list := make([]int, l.span()/time.Second)
	for _, at := range l.Ends {
		if k := int(at / time.Second); k < len(list) {
			list[k]++
		}
	}
	return list
}

// startSeconds are not judged by worst and slowShare.
const startSeconds = 2

// worst returns the smallest number of pages in a whole second after the first two, as a share of the mean; 1
// if there is no such second.
func (l *discoverTrial) worst() float64 {
	list := l.seconds()
	if len(list) <= startSeconds {
		return 1
	}
	return float64(slices.Min(list[startSeconds:])) / l.rate()
}

// slowShare returns the share of the whole seconds after the first two with less than half of the mean.
func (l *discoverTrial) slowShare() float64 {
	list := l.seconds()
	if len(list) <= startSeconds {
		return 0
	}
	below := 0
	for _, n := range list[startSeconds:] {
		if float64(n) < l.rate()/2 {
			below++
		}
	}
	return float64(below) / float64(len(list)-startSeconds)
}

// hundredth returns the time from the first answer to the 100th page; to the last one if there are fewer.
func (l *discoverTrial) hundredth() time.Duration {
	if len(l.Ends) == 0 {
		return 0
	}
	return l.Ends[min(99, len(l.Ends)-1)] - l.First
}

func (l *discoverTrial) String() string {
	s := fmt.Sprintf(
		"%6.2f s %6.0f pages/s, CPU %4.0f µs/page, server %3.0f µs/page, RSS %.0f MB, CPUs idle %2.0f %%, "+
			"100 pages %.2f s after the first answer, worst second %.0f %% of the mean, %d pages, %d "+
			"missed, %d fetched twice",
		l.span().Seconds(), l.rate(),
		l.cpuMicros(),
		l.perPage(l.serverCPU), float64(l.rssBytes)/1e6, 100*l.idle, l.hundredth().Seconds(), 100*l.worst(), l.Pages,
		l.Missing, l.Twice)
	if len(l.slots) > 0 {
		s += "\n    slots: " + slotsText(l.slots)
	}
	return s + "\n    pages in each second: " + strings.Trim(fmt.Sprint(l.seconds()), "[]")
}

func slotsText(slots map[string]float64) string {
	var uses []string
	for use := range slots {
		uses = append(uses, use)
	}
	slices.SortFunc(uses, func(a, b string) int {
		return cmp.Or(cmp.Compare(slots[b], slots[a]), strings.Compare(a, b))
	})
	var parts []string
	for _, use := range uses {
		if slots[use] >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", use, 100*slots[use]))
		}
	}
	return strings.Join(parts, ", ")
}

// command returns the command line of a contender; dir is a new directory for its files.
func (d *discovery) command(name, dir string) *exec.Cmd {
	switch name {
	case wget2Name:
		return d.wget2(d.path("seeds.txt"), d.Names, d.path("names.txt"), 4*len(d.web.Hosts())+100, dir,
			"--span-hosts", "--tries=1")
	case bareName:
		return exec.Command("/proc/self/exe", "floor", "--list", d.path("list.txt"), "--store", dir)
	case bareNoStoreName:
		return exec.Command("/proc/self/exe", "floor", "--list", d.path("list.txt"))
	}
	args := append([]string{"crawl", "--seeds", d.path("seeds.txt"), "--dir", crawlDir(dir), "--contact",
		"realweb@example.org"}, d.crawlFlags()...)
	args = append(args, d.Flags...)
	if name == noStoreName {
		args = append(args, "--store", "none")
	}
	return exec.Command(d.Drumbeat, args...)
}

func crawlDir(dir string) string { return filepath.Join(dir, "crawl") }

func isDrumbeat(name string) bool { return strings.HasPrefix(name, drumbeatName) }

// run runs a contender as a child that dies with this process. drumbeat waits for hosts that do not answer,
// so it is stopped when it has every page.
func (d *discovery) run(ctx context.Context, name string) (*discoverTrial, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Limit)
	defer cancel()
	dir := d.path("trial")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d.web.SetBad(map[string]docweb.Bad{listsName: docweb.BadLists, badName: docweb.BadAll}[name])
	syscall.Sync() // write the data of the previous trial
	cmd := d.command(name, dir)
	out, err := os.Create(filepath.Join(dir, "out.txt"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	l := new(discoverTrial)
	server := cputime.Process()
	d.server.Log().Restart(d.expect)
	c, err := startChild(cmd, dir, out)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	why := d.awaitPages(ctx, ended)
	l.idle, l.serverCPU = c.idleSince(), cputime.Process()-server
	if why != itself && isDrumbeat(name) {
		l.slots = slotsOf(crawlDir(dir)) // an empty table if it fails
	}
	err = d.end(cmd, isDrumbeat(name), ended, why)
	c.ended(&l.cost)
	l.Counts = d.server.Log().Counts()
	d.server.Hangup()
	if len(l.Ends) > 0 {
		l.last = l.Ends[len(l.Ends)-1]
	}
	// wget2 exits with 8 if any URL had an error status, such as 404.
	if cmp.Or(ctx.Err(), err) != nil && (ctx.Err() != nil || name != wget2Name) || l.Pages == 0 {
		return nil, fmt.Errorf("realweb: %s: %w (pages: %d)\n%s\n%s", strings.Join(cmd.Args, " "),
			cmp.Or(ctx.Err(), err,
				errors.New("it ended without a page")), l.Pages, l, outputTail(out))
	}
	return l, nil
}

// ending is why a trial ends.
type ending int

const (
	itself   ending = iota // the process has ended
	complete               // all pages have been answered
	stalled                // no request for too long, or the time is over
)

// Times of a trial's end: settle lets a crawler fetch what it should not; grace is for its last checkpoint.
const (
	settle = 300 * time.Millisecond
	grace  = 60 * time.Second
)

// awaitPages waits until there is nothing to wait for. The end of a process goes back into ended.
func (d *discovery) awaitPages(ctx context.Context, ended chan error) ending {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	before, since := 0, time.Now()
	for {
		select {
		case err := <-ended:
			ended <- err
			return itself
		case <-ctx.Done():
			return stalled
		case now := <-t.C:
			answers, left := d.server.Log().Progress()
			switch {
			case left == 0:
				return complete
			case answers != before:
				before, since = answers, now
			case now.Sub(since) > d.Patience:
				return stalled
			}
		}
	}
}

// end ends a process that has not ended by itself, and returns its error. Programs other than drumbeat
// (crawl) end by themselves when they are complete.
func (d *discovery) end(cmd *exec.Cmd, crawl bool, ended chan error, why ending) error {
	ask := time.After(settle)
	if why == stalled {
		ask = time.After(0)
	} else if !crawl {
		ask = time.After(d.Patience)
	}
	select {
	case err := <-ended:
		return err
	case <-ask:
	}
	cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			return nil // stopped, as it was asked to
		}
		return err
	case <-time.After(grace):
		cmd.Process.Kill()
		return errors.Join(errors.New("killed because it did not stop"), <-ended)
	}
}

// slotsOf asks a running crawl by its socket how its connection slots were used.
func slotsOf(dir string) map[string]float64 {
	c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "admin.sock"))
		}}}
	answer, err := c.Get("http://localhost/metrics")
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	slots, sum := map[string]float64{}, 0.0
	for in := bufio.NewScanner(answer.Body); in.Scan(); {
		_, rest, found := strings.Cut(in.Text(), `slots_sampled_total{use="`)
		use, value, found2 := strings.Cut(rest, `"} `)
		if n, err := strconv.ParseFloat(value, 64); found && found2 && err == nil {
			slots[use] = n
			sum += n
		}
	}
	for use := range slots {
		slots[use] /= max(sum, 1)
	}
	return slots
}
