// Package doctor is the command doctor: it checks whether this machine can run a planned crawl, before a
// crawl of weeks is started.
//
// Command is its flags. flags.Planned describes the crawl as for plan; the others of crawl that change what
// the machine must provide (--rate, --resolver, --ip, --direct-io) mean the same here. Run makes the crawl's
// own plan and forecast, derives the needs (needs.go), and runs a table of checks (checks in env.go). Each
// check compares what the machine has with what the crawl needs and returns results: ok, unknown, warn or
// fail, and for the last two the commands or settings that fix it. What cannot be found out (no permission,
// a file that is missing) is unknown, with the reason.
//
// The checks read /proc and /sys through a file system, which the tests replace by a directory, and other
// facts through functions of env. They start no program. They send at most --queries DNS queries, and write,
// read and delete one file of --disk-test bytes in each directory or in its nearest parent that exists; that
// a directory is writable is tried by a file of its own. Nothing else is written. The check of the admin port
// listens on it for a moment, or asks who has it.
//
// Each check runs in a goroutine with a deadline of its own; --deadline bounds all. A check that hangs, for
// example in statfs of a dead NFS server, is abandoned: its goroutine ends with the process. A check shares
// no mutable state with others. Progress goes to standard error, the table or the JSON to standard output.
//
// With --identity, Run makes other checks instead: it fetches what the operator publishes about the crawler, at most
// five files by GET, and verifies it as sites and networks do (identity.go). It looks up the names of at most 64
// addresses. No file is written.
//
// Exit codes: 0 if no check fails; term.ExitFailure (1) if one does; term.ExitUsage (2) for a bad flag, or
// if --ram is too little for any plan; term.ExitSignal (11) after a signal.
package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"drumbeat/admit"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/dnscache"
	"drumbeat/internal/human"
	"drumbeat/internal/urllist"
)

// Command is the table of doctor's flags.
type Command struct {
	flags.Planned
	DirectIO bool `group:"machine" name:"direct-io"`

	Rate     flags.PagesRate    `group:"net" placeholder:"N" default:"none"`
	Resolver []flags.ServerAddr `group:"net" placeholder:"HOST:PORT"`
	DNSRate  flags.Count        `group:"net" name:"dns-rate" placeholder:"N" default:"0"`
	IP       string             `group:"net" name:"ip" enum:"auto,4,6,both" default:"auto"`

	NoNetwork bool          `common:""`
	Queries   flags.Count   `common:"" placeholder:"N" default:"200"`
	Names     []string      `common:"" placeholder:"HOST"`
	Seeds     string        `common:"" placeholder:"FILE"`
	DiskTest  flags.Size    `common:"" placeholder:"SIZE" default:"256MiB"`
	Deadline  time.Duration `common:"" placeholder:"DURATION" default:"20s"`
	JSON      bool          `group:"report" common:"" name:"json"`
	flags.Sources
	flags.Admin
	identityFlags
}

// report is the output of the command: *summary or *identityReport.
type report interface {
	write(w io.Writer) error
	failed() bool
}

// Run checks the machine, or the identity of the crawler, and prints the results.
func (c *Command) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	stop, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	ctx, cancel := context.WithTimeout(stop, c.Deadline)
	defer cancel()
	progress := term.NewProgress(a.Stderr)
	checkAll := c.runMachine
	if c.Identity != "" {
		checkAll = c.runIdentity
	}
	r, err := checkAll(ctx, a, progress.Say)
	if err != nil {
		return err
	}
	progress.Clear()
	if stop.Err() != nil {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal"}
	}
	if c.JSON {
		err = term.WriteJSON(a.Stdout, r)
	} else {
		err = r.write(a.Stdout)
	}
	if err == nil && r.failed() {
		err = &term.Ended{Code: term.ExitFailure, Why: "a check failed", Quiet: true}
	}
	return err
}

// runMachine makes the checks of the machine.
func (c *Command) runMachine(ctx context.Context, a *term.App, say func(string)) (report, error) {
	need, err := c.needs()
	if err != nil {
		return nil, err
	}
	e := thisMachine(need)
	if err := c.configure(e, a); err != nil {
		return nil, err
	}
	e.say = say
	return newReport(need, run(ctx, e, checks())), nil
}

// leastDeadline is the least --deadline, leastQueries the least --queries: two for names that do not exist,
// and some for latency.
const (
	leastDeadline = time.Second
	leastQueries  = 10
)

// check returns the first fault that can be seen in the flags alone.
func (c *Command) check() error {
	switch {
	case c.Deadline < leastDeadline:
		return fmt.Errorf("--deadline %v: must be at least %v", human.Exact(c.Deadline), human.Exact(leastDeadline))
	case c.Queries < leastQueries || c.Queries > 10_000:
		return fmt.Errorf("--queries %d: must be between %d and 10000", c.Queries, leastQueries)
	case c.DiskTest > 64<<30:
		return fmt.Errorf("--disk-test %s: must be at most 64 GiB", human.Bytes(c.DiskTest))
	case len(c.Dir) == 0 || slices.Contains(slices.Concat(c.Dir, c.Out), ""):
		return errors.New("a directory of --dir or --out is empty")
	}
	return c.Check()
}

// configure sets what the checks of name servers and disks do.
func (c *Command) configure(e *env, a *term.App) error {
	e.family, e.diskTest, e.skipNetwork = c.IP, int64(c.DiskTest), c.NoNetwork
	e.admin = c.Admin
	e.queries, e.panicked = int(c.Queries), a.NamePanicked()
	for _, s := range c.Resolver {
		e.servers = append(e.servers, s.AddrPort)
	}
	if len(e.servers) == 0 {
		e.servers, e.noServers = dnscache.ReadResolvConf("/etc/resolv.conf")
	}
	e.names = c.Names
	if len(e.names) == 0 && c.Seeds != "" && c.Seeds != "-" {
		var err error
		if e.names, err = seedHosts(c.Seeds, e.queries); err != nil {
			return term.Usage(err)
		}
	}
	if len(e.names) == 0 {
		e.names = knownNames()
	}
	return nil
}

// knownNames are looked up if the user names none.
func knownNames() []string {
	return []string{"example.com", "example.net", "example.org", "iana.org", "icann.org", "ietf.org", "w3.org",
		"kernel.org", "gnu.org", "debian.org", "wikipedia.org", "archive.org"}
}

// seedHosts returns the first most hosts of a seed file, each once, without addresses.
func seedHosts(file string, most int) (hosts []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--seeds: %w", err)
	}
	defer f.Close()
	var lines io.Reader = f
	head := make([]byte, urllist.HeadBytes)
	if n, _ := f.ReadAt(head, 0); urllist.IsList(head[:n]) {
		list, err := urllist.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("--seeds %s: %w", file, err)
		}
		defer list.Close()
		lines = list
	}
	seen := map[string]bool{}
	sc := bufio.NewScanner(lines)
	for len(hosts) < most && sc.Scan() {
		text, _, err := admit.ParseSeed(sc.Text())
		if err != nil || text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || seen[u.Hostname()] {
			continue
		}
		if _, err := netip.ParseAddr(u.Hostname()); err == nil {
			continue
		}
		seen[u.Hostname()] = true
		hosts = append(hosts, u.Hostname())
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("--seeds %s: %w", file, err)
	}
	return hosts, nil
}
