package explain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/state/explain"
)

// dirFlags are the flags for questions about a crawl's directory.
type dirFlags struct {
	Dir  []string `short:"d" placeholder:"DIR"`
	Out  []string `placeholder:"DIR"`
	Fast bool
	JSON bool `name:"json"`
}

// takeDirs moves the arguments that are directories of a crawl into --dir, unless that is given, and returns the
// others.
func (f *dirFlags) takeDirs(args []string) (rest []string) {
	if len(f.Dir) > 0 {
		return args
	}
	for _, arg := range args {
		if _, err := disk.ReadIdentity(disk.OS(), arg); err == nil {
			f.Dir = append(f.Dir, arg)
		} else {
			rest = append(rest, arg)
		}
	}
	return rest
}

// asked reports whether a crawl is named. Without one, it refuses the flags that need it.
func (f *dirFlags) asked(command string) (bool, error) {
	if len(f.Dir) > 0 {
		return true, nil
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"--out", len(f.Out) > 0}, {"--fast", f.Fast}, {"--json", f.JSON}} {
		if flag.set {
			return false, term.Usage(fmt.Errorf("explain %s: %s needs --dir", command, flag.name))
		}
	}
	return false, nil
}

// maxGroup is the largest number of input lines that are answered together, by one scan of the queues.
const maxGroup = 10_000

// crawlExplainer answers questions about a crawl's directory.
type crawlExplainer struct {
	a        *term.App
	x        *explain.Explainer
	json     bool
	progress *term.Progress
	head     bool // the checkpoint has been printed
	bad      int
	damaged  int
}

func (f *dirFlags) open(a *term.App) (*crawlExplainer, error) {
	c := &crawlExplainer{a: a, json: f.JSON}
	c.progress = term.NewProgress(a.Stderr)
	x, err := explain.NewExplainer(explain.Options{FS: disk.OS(), Dirs: flags.Clean(f.Dir),
		Out: flags.Clean(flags.Directories(f.Out)), Fast: f.Fast, Progress: c.progress.Show})
	c.x = x
	return c, err
}

// run answers all arguments; "-" stands for the lines of standard input.
func (c *crawlExplainer) run(asked []string, answer func(asked []string) error) error {
	if len(asked) == 0 {
		return term.Usage(
			errors.New("explain: --dir needs a question: give arguments, or - for lines on standard input"))
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
		src := bufio.NewReaderSize(c.a.Stdin, 1<<20)
		for {
			line, _, err := readLine(src, nil, maxLine)
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("explain: read standard input: %w", err)
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				group = append(group, string(line))
			}
			// Without more input, answer now: the caller may wait for it before the next question.
			if src.Buffered() == 0 || len(group) >= maxGroup {
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
		return &term.Ended{Code: term.ExitDamage, Why: "files of the crawl are damaged", Quiet: true}
	case c.bad > 0:
		return &term.Ended{Code: term.ExitUsage, Why: "not a URL for the crawler", Quiet: true}
	}
	return nil
}

// put prints one answer, as JSON or by text, and counts faults and damage.
func (c *crawlExplainer) put(answer any, fault string, damage []string, asOf *explain.AsOf,
	text func(p *printer)) error {
	c.progress.Clear()
	if fault != "" {
		c.bad++
	}
	if len(damage) > 0 {
		c.damaged++
	}
	out := bufio.NewWriter(c.a.Stdout)
	if c.json {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(answer); err != nil {
			return fmt.Errorf("explain: write: %w", err)
		}
	} else {
		p := &printer{out: out, now: time.Now()}
		if asOf != nil && !c.head {
			c.head = true
			p.asOf(asOf)
		}
		text(p)
		p.damage(damage)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("explain: write: %w", err)
	}
	return nil
}

func (c *crawlExplainer) urls(asked []string) error {
	reports, err := c.x.URLs(asked)
	if err != nil {
		return err
	}
	for _, r := range reports {
		if err := c.put(r, r.Error, r.Damage, r.AsOf, func(p *printer) { p.url(r) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *crawlExplainer) robots(asked []string) error {
	reports, err := c.x.Robots(asked)
	if err != nil {
		return err
	}
	for _, r := range reports {
		if err := c.put(r, r.Error, r.Damage, r.AsOf, func(p *printer) { p.robots(r) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *crawlExplainer) hosts(asked []string) error {
	reports, err := c.x.Hosts(asked)
	if err != nil {
		return err
	}
	for _, r := range reports {
		if err := c.put(r, r.Error, r.Damage, r.AsOf, func(p *printer) { p.host(r) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *crawlExplainer) sites(asked []string) error {
	reports, err := c.x.Sites(asked)
	if err != nil {
		return err
	}
	for _, r := range reports {
		if err := c.put(r, r.Error, r.Damage, r.AsOf, func(p *printer) { p.pld(r) }); err != nil {
			return err
		}
	}
	return nil
}

// Run answers questions about hosts of a crawl.
func (h *hostCmd) Run(a *term.App) error {
	h.Hosts = h.takeDirs(h.Hosts)
	if len(h.Dir) == 0 {
		h.Dir = []string{flags.DefaultDir}
	}
	c, err := h.open(a)
	if err != nil {
		return err
	}
	return c.run(h.Hosts, c.hosts)
}
