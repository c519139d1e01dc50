package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"drumbeat/crawl"
	"drumbeat/disk"
)

// explainDirFlags make explain ask a crawl's directory instead of the crawler's rules alone.
type explainDirFlags struct {
	Dir  []string `placeholder:"DIR" help:"Directories of a crawl, all of them: answers are about it, as of its last checkpoint. It may run: nothing is written, and no lock taken."`
	Out  []string `placeholder:"DIR" help:"With --dir: directories of its output, if the crawl has --out."`
	Fast bool     `help:"With --dir: read some blocks only, no queues, indexes and logs. Says whether a URL is known, not where it is."`
	JSON bool     `name:"json" help:"With --dir: print one JSON object a line for each answer."`
}

// asked is true when a crawl's directory is; flags that need one are refused without.
func (f *explainDirFlags) asked(command string) (bool, error) {
	if len(f.Dir) > 0 {
		return true, nil
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"--out", len(f.Out) > 0}, {"--fast", f.Fast}, {"--json", f.JSON}} {
		if flag.set {
			return false, usageError{fmt.Errorf("explain %s: %s goes with --dir", command, flag.name)}
		}
	}
	return false, nil
}

// maxExplainGroup is how many lines of standard input are answered together: one scan of the queues does for all.
const maxExplainGroup = 10_000

// explainCrawl answers questions about a crawl's directory.
type explainCrawl struct {
	a        *app
	x        *crawl.Explainer
	json     bool
	progress *auditProgress
	head     bool // the moment has been printed
	bad      int
	damaged  int
}

func (f *explainDirFlags) open(a *app) (*explainCrawl, error) {
	c := &explainCrawl{a: a, json: f.JSON}
	c.progress = &auditProgress{out: a.stderr, began: time.Now(), terminal: isTerminal(a.stderr)}
	x, err := crawl.NewExplainer(crawl.ExplainOptions{FS: disk.OS(), Dirs: clean(f.Dir), Out: clean(f.Out), Fast: f.Fast, Progress: c.show})
	c.x = x
	return c, err
}

// show prints progress once it takes longer than a second.
func (c *explainCrawl) show(now crawl.AuditProgress) {
	if now.Elapsed >= time.Second {
		c.progress.show(now)
	}
}

// run asks for all arguments; "-" stands for the lines of standard input.
func (c *explainCrawl) run(asked []string, answer func(asked []string) error) error {
	if len(asked) == 0 {
		return usageError{errors.New("explain: --dir needs something to be asked about: arguments, or - for lines on standard input")}
	}
	var group []string
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		err := answer(group)
		group = group[:0]
		return err
	}
	for _, a := range asked {
		if a != "-" {
			group = append(group, a)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		src := bufio.NewReaderSize(c.a.stdin, 1<<20)
		for {
			line, _, err := readLine(src, nil, maxExplainLine)
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("explain: read standard input: %w", err)
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				group = append(group, string(line))
			}
			if src.Buffered() == 0 || len(group) >= maxExplainGroup { // who asks one at a time gets each answer
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	switch {
	case c.damaged > 0:
		return &ended{code: exitDamage, why: "files of the crawl are damaged", quiet: true}
	case c.bad > 0:
		return &ended{code: exitUsage, why: "not a URL for the crawler", quiet: true}
	}
	return nil
}

// put prints one answer: its JSON, or what text makes of it.
func (c *explainCrawl) put(answer any, fault string, damage []string, asOf *crawl.AsOf, text func(p *explainPrinter)) error {
	c.progress.clear()
	if fault != "" {
		c.bad++
	}
	if len(damage) > 0 {
		c.damaged++
	}
	out := bufio.NewWriter(c.a.stdout)
	if c.json {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(answer); err != nil {
			return fmt.Errorf("explain: write: %w", err)
		}
	} else {
		p := &explainPrinter{out: out, now: time.Now()}
		if asOf != nil && !c.head {
			c.head = true
			p.asOf(asOf)
		}
		text(p)
		for _, d := range damage {
			p.field("damage", "%s", d)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("explain: write: %w", err)
	}
	return nil
}

func (c *explainCrawl) urls(asked []string) error {
	reports, err := c.x.URLs(asked)
	if err != nil {
		return err
	}
	for _, r := range reports {
		if err := c.put(r, r.Error, r.Damage, r.AsOf, func(p *explainPrinter) { p.url(r) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *explainCrawl) robots(asked []string) error {
	reports, err := c.x.Robots(asked)
	if err != nil {
		return err
	}
	for _, r := range reports {
		if err := c.put(r, r.Error, r.Damage, r.AsOf, func(p *explainPrinter) { p.robots(r) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *explainCrawl) hosts(asked []string) error {
	reports, err := c.x.Hosts(asked)
	if err != nil {
		return err
	}
	for _, r := range reports {
		if err := c.put(r, r.Error, r.Damage, r.AsOf, func(p *explainPrinter) { p.host(r) }); err != nil {
			return err
		}
	}
	return nil
}

// Run answers about some hosts of a crawl.
func (h *explainHostCmd) Run(a *app) error {
	if asked, err := h.asked("host"); err != nil || !asked {
		if err == nil {
			err = usageError{errors.New("explain host: --dir is needed: what is known of a host is known by a crawl")}
		}
		return err
	}
	c, err := h.open(a)
	if err != nil {
		return err
	}
	return c.run(h.Hosts, c.hosts)
}

// explainPrinter prints answers for a person.
type explainPrinter struct {
	out io.Writer
	now time.Time
}

// field prints a line of an answer; nothing if the value is empty.
func (p *explainPrinter) field(name, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != "" {
		fmt.Fprintf(p.out, "  %-9s %s\n", name, text)
	}
}

func (p *explainPrinter) list(name string, lines []string) {
	for _, line := range lines {
		p.field(name, "%s", line)
		name = ""
	}
}

// when spells a time and its distance.
func (p *explainPrinter) when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	text := t.UTC().Format("2006-01-02 15:04:05Z")
	switch d := t.Sub(p.now).Round(time.Second); {
	case d > 0:
		return text + fmt.Sprintf(" (in %v)", d)
	case d < 0:
		return text + fmt.Sprintf(" (%v ago)", -d)
	}
	return text
}

func (p *explainPrinter) asOf(a *crawl.AsOf) {
	state := "the crawl is " + a.State
	switch a.State {
	case "running":
		state = "the crawl runs"
	case "interrupted":
		state = "the crawl was interrupted, and goes on from here"
	case "finished":
		state = "the crawl is finished: " + a.Done
	case "unknown":
		state = "whether the crawl runs can't be told"
	}
	fmt.Fprintf(p.out, "as of checkpoint %d, %v ago; %s\n", a.Checkpoint, time.Duration(a.AgeSeconds*1e9).Round(time.Second), state)
}

func (p *explainPrinter) url(r *crawl.URLReport) {
	fmt.Fprintln(p.out, r.Asked)
	if r.Error != "" {
		p.field("no URL", "%s", r.Error)
		return
	}
	if r.URL != r.Asked {
		p.field("url", "%s", r.URL)
	}
	p.field("place", "%s", r.Place)
	p.list("why", r.Why)
	if e := r.Ended; e != nil {
		p.ended(e)
	}
	if rec := r.Record; rec != nil {
		p.record(rec)
	}
	if r.Ended == nil {
		p.field("link", "%s", r.Link.Why)
	}
	p.site(r.Site)
	p.origin(r.Robots, r.Verdict)
}

func (p *explainPrinter) ended(e *crawl.EndedReport) {
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(e.Status > 0, "status %d", e.Status)
	add(e.MIME != "", "%s", e.MIME)
	add(e.Redirect != "", "to %s", e.Redirect)
	add(e.Bytes > 0, "%s received", bytesOf(e.Bytes))
	add(e.Truncated != "", "cut: %s", e.Truncated)
	add(e.IP != "", "from %s", e.IP)
	p.field("answer", "%s", strings.Join(parts, ", "))
	if e.File != "" {
		p.field("stored", "%s at %d", e.File, e.Offset)
	}
}

func (p *explainPrinter) record(r *crawl.RecordReport) {
	text := "depth " + fmt.Sprint(r.Depth)
	if !r.Found.IsZero() {
		text = p.when(r.Found) + ", " + text
	}
	switch {
	case r.ParentURL != "":
		text += ", on " + r.ParentURL
	case r.Parent != "":
		text += ", on the page with key " + r.Parent
	}
	if r.Redirects > 0 {
		text += fmt.Sprintf(", %d redirects after a page linked to it", r.Redirects)
	}
	if len(r.Flags) > 0 {
		text += " (" + strings.Join(r.Flags, ", ") + ")"
	}
	p.field("found", "%s", text)
	if r.Attempts+r.Waits+r.Faults > 0 || r.Reason != "" {
		text := fmt.Sprintf("%d times, put off %d times", r.Attempts, r.Waits)
		if r.Faults > 0 {
			text += fmt.Sprintf(", failed %d times without being counted", r.Faults)
		}
		if r.Reason != "" {
			text += ", last because of " + r.Reason
		}
		p.field("tried", "%s", text)
	}
}

func (p *explainPrinter) site(s *crawl.PLDReport) {
	if s == nil {
		return
	}
	if !s.Known {
		p.field("site", "%s: not known to STAR yet", s.PLD)
		return
	}
	text := fmt.Sprintf("%s: in-degree %d", s.PLD, s.Indegree)
	if s.Rank > 0 {
		text += fmt.Sprintf(", rank %d of %d top ranks", s.Rank, s.Ranks)
	}
	if s.PerQueue > 0 {
		text += fmt.Sprintf(", %d pages a queue", s.PerQueue)
	}
	if s.Next > 0 {
		text += fmt.Sprintf(", %d in queue %d so far", s.Used, s.Next)
	}
	p.field("site", "%s; %d URLs placed, %d fetched (%s)", text, s.Placed, s.Fetched, bytesOf(int64(min(s.Bytes, 1<<62))))
}

func (p *explainPrinter) origin(o *crawl.OriginReport, d *crawl.VerdictReport) {
	if o == nil {
		return
	}
	text := o.Origin + ": "
	switch o.State {
	case "rules":
		group := "group *"
		if o.OwnGroup {
			group = "our own group"
		}
		text += fmt.Sprintf("%d rules of %s", o.Rules, group)
	case "no file":
		text += "no robots.txt, all is allowed"
	case "none":
		text += "nothing is known of robots.txt"
	default:
		text += "robots.txt: " + o.State
	}
	if o.Stale {
		text += ", stale"
	}
	if o.Failures > 0 {
		text += fmt.Sprintf(", %d failures", o.Failures)
	}
	p.field("robots", "%s", text)
	if d != nil {
		verdict := "forbidden by " + d.Rule
		switch {
		case d.Allowed && d.Rule != "":
			verdict = "allowed by " + d.Rule
		case d.Allowed:
			verdict = "allowed: no rule matches"
		case d.Rule == "":
			verdict = "not known"
		}
		p.field("verdict", "%s; what it would get now: %s", verdict, d.Decision)
	}
	if !o.Fetched.IsZero() {
		p.field("", "had %s, expires %s", p.when(o.Fetched), p.when(o.Expires))
	}
	if !o.RetryAt.IsZero() {
		p.field("", "asked again from %s on", p.when(o.RetryAt))
	}
	if !o.Asked.IsZero() {
		asking := ""
		if o.Asking != "" {
			asking = "; now: " + o.Asking
		}
		p.field("", "asked for last %s%s", p.when(o.Asked), asking)
	}
	if o.Health != nil {
		p.field("health", "%s", o.Health.Text)
	}
	if o.Pages > 0 {
		p.field("pages", "%d admitted (--max-pages-per-host)", o.Pages)
	}
	if len(o.Addresses) > 0 {
		p.field("address", "%s, until %s", strings.Join(o.Addresses, " "), p.when(o.AddrExpires))
	}
	p.field("delay", "%v between two visits: %s", time.Duration(o.Delay*1e9).Round(time.Millisecond), o.DelayWhy)
}

func (p *explainPrinter) robots(r *crawl.RobotsReport) {
	fmt.Fprintln(p.out, r.Asked)
	if r.Error != "" {
		p.field("no URL", "%s", r.Error)
		return
	}
	p.origin(r.Robots, r.Verdict)
	for line := range strings.Lines(r.Text) {
		p.field("", "| %s", strings.TrimSuffix(line, "\n"))
	}
}

func (p *explainPrinter) host(r *crawl.HostReport) {
	fmt.Fprintln(p.out, r.Asked)
	if r.Error != "" {
		p.field("no host", "%s", r.Error)
		return
	}
	p.list("why", r.Why)
	if r.Stored != nil {
		p.field("stored", "%d responses in the indexes", *r.Stored)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Later)) {
		p.field("later", "%d because of %s", r.Later[reason], reason)
	}
	if !r.NextDue.IsZero() {
		p.field("", "the first is due %s", p.when(r.NextDue))
	}
	p.site(r.Site)
	for _, o := range r.Origins {
		p.origin(o, nil)
	}
}
