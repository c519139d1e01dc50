package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/dnscache"
	"drumbeat/linktrace"
	"drumbeat/star"
)

// resolvConf names the resolvers of this machine.
const resolvConf = "/etc/resolv.conf"

// defaultHostDelay is the default of --host-delay: the paper's.
const defaultHostDelay = 40 * time.Second

// defaultConnections is the default of --connections.
const defaultConnections = 2000

// check returns the first fault that can be seen in the flags alone.
func (c *crawlCmd) check() error {
	for _, f := range []func() error{c.whoFlags.check, c.checkDelays, c.checkNumbers, c.urlFlags.check, c.acceptFlags.check,
		c.checkSeeds, c.checkDirs} {
		if err := f(); err != nil {
			return usageError{err}
		}
	}
	return nil
}

func (c *crawlCmd) checkDelays() error {
	for _, d := range []struct {
		flag    string
		v       *time.Duration
		nonzero bool
	}{{"backoff", &c.Backoff, true}, {"backoff-max", &c.BackoffMax, true}, {"robots-wait", &c.RobotsWait, false}, {"robots-forget", &c.RobotsForget, false},
		{"host-delay", c.HostDelay, false}, {"host-delay-min", c.HostDelayMin, false}, {"server-delay", &c.ServerDelay, false},
		{"server-delay-min", c.ServerDelayMin, false}, {"pld-delay", c.PLDDelay, false}, {"pld-delay-min", c.PLDDelayMin, false},
		{"max-crawl-delay", &c.MaxCrawlDelay, true}, {"max-time", &c.MaxTime, false}, {"linger", &c.Linger, false},
		{"checkpoint-every", &c.CheckpointEvery, true}, {"roll-every", &c.RollEvery, false}, {"connect-timeout", &c.ConnectTimeout, true},
		{"first-byte-timeout", &c.FirstByteTimeout, true}, {"timeout", &c.Timeout, true}} {
		switch {
		case d.v == nil:
		case *d.v < 0:
			return fmt.Errorf("--%s %v is negative", d.flag, *d.v)
		case *d.v == 0 && d.nonzero:
			return fmt.Errorf("--%s can't be 0", d.flag)
		case *d.v > 0 && *d.v < time.Millisecond:
			return fmt.Errorf("--%s %v: less than 1ms isn't kept; give 0 for none", d.flag, *d.v)
		}
	}
	return nil
}

func (c *crawlCmd) checkNumbers() error {
	for _, n := range []struct {
		flag        string
		v           count
		least, most int64
	}{{"budget-default", c.BudgetDefault, 1, star.MaxBudget}, {"budget-max", c.BudgetMax, int64(c.BudgetDefault), star.MaxBudget},
		{"budget-ranks", c.BudgetRanks, 1, 1 << 20}, {"queues-max", c.QueuesMax, 1, 1 << 20}, {"retries", c.Retries, 0, 200},
		{"dns-rate", c.DNSRate, 0, 1e7},
		{"max-depth", orZero(c.MaxDepth), 0, math.MaxUint16 - 1}} {
		if int64(n.v) < n.least || int64(n.v) > n.most {
			return fmt.Errorf("--%s %d: must lie between %d and %d", n.flag, n.v, n.least, n.most)
		}
	}
	if n := c.QueuesMax; n&(n-1) != 0 {
		return fmt.Errorf("--queues-max %d: must be a power of 2", n)
	}
	for _, s := range []struct {
		flag string
		v    *size
	}{{"ram", c.RAM}, {"disk", c.Disk}, {"sitemap-body", c.SitemapBody}} {
		if s.v != nil && *s.v == 0 {
			return fmt.Errorf("--%s can't be 0", s.flag)
		}
	}
	if c.TraceLinks != "" && c.TraceLimit < linktrace.MinLimitBytes {
		return fmt.Errorf("--trace-limit %v: want %v at least", c.TraceLimit, size(linktrace.MinLimitBytes))
	}
	if err := errors.Join(c.delayFlags.checkRates(), c.healthFlags.check()); err != nil {
		return err
	}
	if err := c.linkFlags.check(); err != nil {
		return err
	}
	return c.drumFlags.check()
}

// check returns the first fault but those of durations, which checkDelays finds.
func (h *healthFlags) check() error {
	if h.BackoffMax < h.Backoff {
		return fmt.Errorf("--backoff-max %v is less than --backoff %v", h.BackoffMax, h.Backoff)
	}
	for _, n := range []struct {
		flag string
		v    count
		most int64
	}{{"host-failures", h.HostFailures, 10_000}, {"host-rests", h.HostRests, 10_000}, {"host-refusals", h.HostRefusals, 10_000},
		{"max-pages-per-host", h.MaxPagesPerHost, 1e12}} {
		if n.v < 0 || int64(n.v) > n.most {
			return fmt.Errorf("--%s %d: must lie between 0 and %d", n.flag, n.v, n.most)
		}
	}
	return nil
}

// apply puts them into a crawl's options.
func (h *healthFlags) apply(o *crawl.Options) {
	o.Backoff, o.BackoffMax, o.RobotsWait, o.RobotsForget = h.Backoff, h.BackoffMax, h.RobotsWait, h.RobotsForget
	o.HostFailures, o.HostRests, o.HostRefusals = int(h.HostFailures), int(h.HostRests), int(h.HostRefusals)
	o.MaxPagesPerHost = int64(h.MaxPagesPerHost)
}

// check returns the first fault.
func (d *drumFlags) check() error {
	if k := d.DrumBuckets; k < 0 || k > 1<<16 || k&(k-1) != 0 {
		return fmt.Errorf("--drum-buckets %d: must be a power of 2 up to %d", k, 1<<16)
	}
	if d.DrumWorkers > 64 {
		return fmt.Errorf("--drum-workers %d: at most 64", d.DrumWorkers)
	}
	for _, s := range []struct {
		flag string
		v    *size
	}{{"drum-buffer", d.DrumBuffer}, {"drum-chunk", d.DrumChunk}, {"drum-bucket", d.DrumBucket}, {"drum-disk", d.DrumDisk}} {
		if s.v != nil && *s.v == 0 {
			return fmt.Errorf("--%s can't be 0", s.flag)
		}
	}
	if n := d.DrumBucket; n != nil && *n > math.MaxUint32 {
		return fmt.Errorf("--drum-bucket %v: must be less than 4GiB", *n)
	}
	if n := d.DrumChunk; n != nil && (*n < 4096 || *n > math.MaxInt32) {
		return fmt.Errorf("--drum-chunk %v: must lie between 4KiB and 2GiB", *n)
	}
	if m := d.DrumBuffer; m != nil && (*m%4096 != 0 || *m > math.MaxInt32) {
		return fmt.Errorf("--drum-buffer %v: must be a multiple of 4KiB below 2GiB", *m)
	}
	return nil
}

// apply puts them into a crawl's options.
func (d *drumFlags) apply(o *crawl.Options) {
	o.DrumBufferBytes, o.DrumChunkBytes, o.DrumBuckets = int(orZero(d.DrumBuffer)), int(orZero(d.DrumChunk)), int(d.DrumBuckets)
	o.DrumBucketBytes, o.DrumDiskBytes = int64(orZero(d.DrumBucket)), int64(orZero(d.DrumDisk))
	o.DrumWorkers, o.CacheRAMBytes = int(d.DrumWorkers), int64(orZero(d.CacheRAM))
	if d.CacheRAM != nil && *d.CacheRAM == 0 {
		o.CacheRAMBytes = crawl.Unlimited // its zero is the default
	}
}

// maxBodyLimit bounds --max-body: a body is held in RAM as a whole.
const maxBodyLimit = 1 << 30

func (c *crawlCmd) checkDirs() error {
	all := slices.Concat(c.dirs(), c.outs())
	for i, dir := range all {
		if dir == "" {
			return errors.New("--dir and --out can't be empty")
		}
		if slices.Contains(all[:i], dir) && !slices.Equal(c.dirs(), c.outs()) {
			return fmt.Errorf("directory %s is given twice", dir)
		}
	}
	if c.Summary != "" { // not hours later
		if info, err := os.Stat(filepath.Dir(c.Summary)); err != nil {
			return fmt.Errorf("--summary: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("--summary %s: %s is no directory", c.Summary, filepath.Dir(c.Summary))
		}
	}
	return nil
}

// dirs are all directories of the crawl.
func (c *crawlCmd) dirs() []string {
	return withAdded(c.Dir, c.AddDir)
}

// outs are all directories for output; none: those of the crawl.
func (c *crawlCmd) outs() []string { return withAdded(c.Out, c.AddOut) }

func withAdded(dirs, added []string) []string {
	dirs = slices.Clone(dirs)
	for _, d := range added {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// complete fills in what the machine decides, and returns what the person should know about it.
func (c *crawlCmd) complete(m machine) (notes []string, err error) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if who := c.whoFlags.complete(); who != "" {
		note("WARNING: %s", who)
	}
	if c.HostDelay == nil {
		c.HostDelay = new(defaultHostDelay)
		if c.Scope != "all" {
			*c.HostDelay = 2 * time.Second
		}
	}
	if c.Scope != "all" {
		note("scope %s: budgets are off, the delay between two visits to a host is %v", c.Scope, *c.HostDelay)
	}
	if err := c.delayFlags.complete(); err != nil {
		return nil, usageError{err}
	}
	if rude := c.delayFlags.rude(); rude != "" {
		note("WARNING: %s: that is for servers of your own only", rude)
	}
	if c.Connections == nil {
		c.Connections = new(connections)
	}
	n, why := m.forCrawl(c).connections(c.Connections.most())
	if why != "" {
		note("%s", why)
	}
	c.Connections.lower(n)
	if c.RAM == nil {
		var why string
		ram := size(c.ramFor(m.ramBytes/2, &why))
		c.RAM = &ram
		if why == "" {
			why = "half of " + m.ramFrom
		}
		note("--ram is %v, %s", *c.RAM, why)
	}
	if c.Disk == nil {
		n, err := diskBytes(disk.OS(), slices.Concat(c.dirs(), c.outs()))
		if err != nil {
			return nil, usageError{err}
		}
		c.Disk = new(size(n))
	}
	if len(c.Resolver) == 0 {
		servers, err := dnscache.ReadResolvConf(resolvConf)
		if err != nil {
			return nil, usageError{fmt.Errorf("--resolver is not given, and: %w", err)}
		}
		for _, s := range servers {
			c.Resolver = append(c.Resolver, serverAddr{s})
		}
	}
	return notes, nil
}

// The default of --ram for a crawl that isn't of the whole web.
const (
	modestRAM  = 1 << 30
	ramBodies  = 16  // of the longest body
	ramPerPage = 256 // bytes: from some hundred million pages on, all that there is
)

// ramFor is the default of --ram, most at most: a crawl of one site, or of --max-pages, isn't planned as one of a billion pages. It
// grows with what the crawl knew at its last checkpoint.
func (c *crawlCmd) ramFor(most int64, why *string) int64 {
	pages := float64(c.MaxPages)
	if c.Scope != "all" {
		pages = float64(crawl.KnownURLs(disk.OS(), clean(c.dirs())))
	} else if pages == 0 {
		return most
	}
	ram := modestRAM + ramBodies*float64(c.MaxBody.most()) + ramPerPage*pages
	if ram >= float64(most) {
		return most
	}
	*why = fmt.Sprintf("for --scope %s; --ram gives more", c.Scope)
	if c.Scope == "all" {
		*why = fmt.Sprintf("for --max-pages %d; --ram gives more", c.MaxPages)
	}
	return int64(ram) >> 20 << 20
}

// complete fills in what follows from other delays. --host-delay is known.
func (d *delayFlags) complete() (err error) {
	if d.HostDelayMin, err = leastDelay("host-delay", d.HostDelayMin, *d.HostDelay, time.Second); err != nil {
		return err
	}
	if d.ServerDelayMin, err = leastDelay("server-delay", d.ServerDelayMin, d.ServerDelay, 200*time.Millisecond); err != nil {
		return err
	}
	if d.PLDDelay == nil {
		d.PLDDelay = new(min(500*time.Millisecond, *d.HostDelay))
	}
	if d.PLDDelayMin, err = leastDelay("pld-delay", d.PLDDelayMin, *d.PLDDelay, 20*time.Millisecond); err != nil {
		return err
	}
	own := d.ServerDelay == 0 // a crawl of one's own servers
	if d.NetworkRate == nil {
		d.NetworkRate = new(float64)
		if !own {
			*d.NetworkRate = 10
		}
	}
	if d.NetworkConnections == nil {
		d.NetworkConnections = new(count)
		if !own {
			*d.NetworkConnections = 20
		}
	}
	if d.HostDelayFactor == nil {
		d.HostDelayFactor = new(float64)
		if *d.HostDelay > 0 {
			*d.HostDelayFactor = 10
		}
	}
	return nil
}

// rude names what no stranger's site should meet with; "" for nothing.
func (d *delayFlags) rude() string {
	var what []string
	if *d.HostDelayMin < time.Second {
		what = append(what, fmt.Sprintf("a delay of %v between visits to a host", *d.HostDelayMin))
	}
	if d.ServerDelay == 0 || *d.ServerDelayMin < 100*time.Millisecond {
		what = append(what, fmt.Sprintf("a delay of %v between visits to an address", *d.ServerDelayMin))
	}
	if *d.PLDDelay == 0 {
		what = append(what, "no delay between requests to a PLD")
	}
	if r := *d.NetworkRate; r == 0 || r > 100 {
		what = append(what, fmt.Sprintf("--network-rate %v", r))
	}
	return strings.Join(what, ", ")
}

// checkRates returns the first fault of what is counted, not timed.
func (d *delayFlags) checkRates() error {
	if r := orZero(d.NetworkRate); r != 0 && !(r >= 1e-3 && r <= 1e6) {
		return fmt.Errorf("--network-rate %v: must be 0 (no limit) or lie between 0.001 and 1e6", r)
	}
	if n := orZero(d.NetworkConnections); n > 1e6 {
		return fmt.Errorf("--network-connections %d: at most 1e6; 0 is no limit", n)
	}
	if f := orZero(d.HostDelayFactor); !(f >= 0 && f <= 1e6) {
		return fmt.Errorf("--host-delay-factor %v: must lie between 0 and 1e6", f)
	}
	return nil
}

// apply puts them into a crawl's options.
func (d *delayFlags) apply(o *crawl.Options) {
	o.HostDelay, o.HostDelayMin, o.ServerDelay, o.ServerDelayMin = *d.HostDelay, *d.HostDelayMin, d.ServerDelay, *d.ServerDelayMin
	o.PLDDelay, o.PLDDelayMin, o.MaxCrawlDelay, o.HostDelayFactor = *d.PLDDelay, *d.PLDDelayMin, d.MaxCrawlDelay, *d.HostDelayFactor
	o.NetworkRate, o.NetworkConnections = *d.NetworkRate, int(*d.NetworkConnections)
}

// leastDelay is the default of a least delay, or the one given if it is in order.
func leastDelay(flag string, given *time.Duration, full, standard time.Duration) (*time.Duration, error) {
	if given == nil {
		return new(min(standard, full)), nil
	}
	if *given > full {
		return nil, fmt.Errorf("--%s-min %v is more than --%s %v", flag, *given, flag, full)
	}
	return given, nil
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// printSettings prints the value of every flag of a command as a line that can be given again.
func printSettings(out io.Writer, command *kong.Node) error {
	for _, group := range flagGroups {
		for _, flag := range command.Flags {
			if flag.Group == nil || flag.Group.Key != group.Key {
				continue
			}
			for _, v := range flagValues(flag) {
				if _, err := fmt.Fprintf(out, "--%s=%s\n", flag.Name, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// flagValues are the values of a flag as text: one, or as many as it was repeated; none where it is unset.
func flagValues(flag *kong.Flag) []string {
	v := flag.Target
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Slice {
		text := fmt.Sprint(v.Interface())
		if text == "" {
			return nil
		}
		return []string{text}
	}
	var values []string
	for i := range v.Len() {
		values = append(values, fmt.Sprint(v.Index(i).Interface()))
	}
	return values
}

// portList has all ports of the ranges of --ports.
func portList(ranges []portRange) (ports []uint16) {
	for _, r := range ranges {
		for p := int(r.first); p <= int(r.last); p++ {
			ports = append(ports, uint16(p))
		}
	}
	return ports
}

// prefixes are the ranges of a repeated --allow-net.
func prefixes(nets []netPrefix) (out []netip.Prefix) {
	for _, n := range nets {
		out = append(out, n.Prefix)
	}
	return out
}
