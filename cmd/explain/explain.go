// Package explain is the command explain: it explains decisions of the crawler about a URL, the links of a
// page, a robots.txt, a host or a scope rule, by the code that a crawl runs.
//
// Each kind of question is a command below Command: robots, url, links, pld, scope, host. With arguments it
// answers in words. Without arguments it reads JSON lines from standard input and answers each with one
// line, in order. It answers at once if no more input is waiting (lines.go), so a program may ask one
// question at a time. rules.go, links.go and scope.go answer from the crawler's rules alone. A question
// without an answer gets {"error": …}; only reading and writing can fail.
//
// With --dir (dirFlags in crawl.go) robots, url, pld and host read a crawl's directory as of its last checkpoint.
// The crawl may be running: explain writes nothing and takes no lock. Package state/explain finds the
// answers, for up to 10,000 lines of input by one scan of the queues; print.go puts them into words.
//
// Exit codes: 0, term.ExitUsage (2) for a bad flag or a question that is not a URL for the crawler,
// term.ExitDamage (5) if files of the crawl are damaged. The answers are printed in each case.
//
// A line has at most 32 MiB, a file 16 MiB; other memory is that of one group of questions. All runs in the
// caller's goroutine; after a second the progress of a scan goes to standard error.
package explain

import (
	"errors"
	"fmt"
	"io"
	"os"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/weburl"
)

// Command is the table of explain's commands.
type Command struct {
	Robots robotsCmd `cmd:""`
	URL    urlCmd    `cmd:"" name:"url"`
	Links  linksCmd  `cmd:""`
	PLD    pldCmd    `cmd:"" name:"pld"`
	Scope  scopeCmd  `cmd:""`
	Host   hostCmd   `cmd:""`
}

// robotsCmd is the table of explain robots' flags.
type robotsCmd struct {
	File  string   `arg:"" optional:""`
	URLs  []string `arg:"" name:"url" optional:""`
	Agent string   `placeholder:"TOKEN" default:"${defaultAgent}"`
	dirFlags
}

// urlCmd is the table of explain url's flags.
type urlCmd struct {
	Refs            []string `arg:"" name:"ref" optional:""`
	Base            string   `placeholder:"URL"`
	PrivateSuffixes bool
	dirFlags
}

// linksCmd is the table of explain links' flags.
type linksCmd struct {
	File        string `arg:"" optional:""`
	URL         string `name:"url" placeholder:"URL" default:"http://page.invalid/"`
	ContentType string `placeholder:"TYPE"`
}

// pldCmd is the table of explain pld's flags.
type pldCmd struct {
	Hosts           []string `arg:"" name:"host" optional:""`
	PrivateSuffixes bool
	dirFlags
}

// hostCmd is the table of explain host's flags.
type hostCmd struct {
	Hosts []string `arg:"" name:"host" optional:""`
	dirFlags
}

// maxFile bounds the size of a file, in bytes.
const maxFile = 16 << 20

// Run answers JSON lines, or URLs by one file.
func (c *robotsCmd) Run(a *term.App) error {
	args := c.URLs
	if c.File != "" {
		args = append([]string{c.File}, args...)
	}
	args = c.takeDirs(args)
	if asked, err := c.asked("robots"); err != nil || asked {
		if err != nil {
			return err
		}
		x, err := c.open(a)
		if err != nil {
			return err
		}
		return x.run(args, x.robots) // by the rules that the crawl has stored
	}
	e := newRobotsExplainer()
	if c.File == "" {
		return answerLines(a.Stdin, a.Stdout, e.answer)
	}
	if len(c.URLs) == 0 {
		return term.Usage(errors.New("explain robots: give a URL after the file"))
	}
	body, err := readFile(a, c.File)
	if err != nil {
		return err
	}
	if err := e.person(a.Stdout, body, c.Agent, c.URLs); err != nil {
		return term.Usage(fmt.Errorf("explain robots: %w", err))
	}
	return nil
}

// Run answers JSON lines, or references.
func (c *urlCmd) Run(a *term.App) error {
	c.Refs = c.takeDirs(c.Refs)
	if asked, err := c.asked("url"); err != nil || asked {
		if err != nil {
			return err
		}
		x, err := c.open(a)
		if err != nil {
			return err
		}
		return x.run(c.Refs, x.urls)
	}
	e := newURLExplainer(weburl.NewSuffixes(c.PrivateSuffixes))
	if len(c.Refs) == 0 {
		return answerLines(a.Stdin, a.Stdout, e.answer)
	}
	bad := 0
	for _, ref := range c.Refs {
		answer := e.ask(c.Base, ref)
		answer.print(a.Stdout, ref)
		if answer.Error != "" {
			bad++
		}
	}
	sayNoCrawl(a, "This is how a crawl would write it", "url", "URL")
	if bad > 0 {
		return &term.Ended{Code: term.ExitUsage, Why: "not a URL for the crawler", Quiet: true}
	}
	return nil
}

// sayNoCrawl says that an answer is of no crawl, and how to ask one.
func sayNoCrawl(a *term.App, answer, command, question string) {
	fmt.Fprintf(a.Stderr, "%s; this answer uses no crawl. To ask one: drumbeat explain %s --dir %s %s\n",
		answer, command, flags.DefaultDir, question)
}

// Run answers JSON lines, or host names.
func (c *pldCmd) Run(a *term.App) error {
	c.Hosts = c.takeDirs(c.Hosts)
	if asked, err := c.asked("pld"); err != nil || asked {
		if err != nil {
			return err
		}
		x, err := c.open(a)
		if err != nil {
			return err
		}
		return x.run(c.Hosts, x.sites)
	}
	e := newPLDExplainer(weburl.NewSuffixes(c.PrivateSuffixes))
	if len(c.Hosts) == 0 {
		return answerLines(a.Stdin, a.Stdout, e.answer)
	}
	for _, host := range c.Hosts {
		answer, err := e.ask(host)
		if err != nil {
			return term.Usage(fmt.Errorf("explain pld: %w", err))
		}
		note := ""
		if answer.Suffix {
			note = "  (a public suffix itself)"
		}
		fmt.Fprintf(a.Stdout, "%s\n  pld  %s%s\n", host, answer.PLD, note)
	}
	sayNoCrawl(a, "This is the pay-level domain by the public suffix list", "pld", "HOST")
	return nil
}

// Run answers JSON lines, or lists the links of one page.
func (c *linksCmd) Run(a *term.App) error {
	e := newLinksExplainer()
	if c.File == "" {
		return answerLines(a.Stdin, a.Stdout, e.answer)
	}
	body, err := readFile(a, c.File)
	if err != nil {
		return err
	}
	answer, err := e.ask(c.URL, c.ContentType, body)
	if err != nil {
		return term.Usage(fmt.Errorf("explain links: %w", err))
	}
	answer.print(a.Stdout)
	return nil
}

// readFile reads a file, or standard input if the name is "-".
func readFile(a *term.App, name string) ([]byte, error) {
	src := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, term.Usage(fmt.Errorf("explain: %w", err))
		}
		defer f.Close()
		src = f
	}
	body, err := io.ReadAll(io.LimitReader(src, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("explain: read %s: %w", name, err)
	}
	if len(body) > maxFile {
		return nil, term.Usage(fmt.Errorf("explain: %s has more than %d bytes", name, maxFile))
	}
	return body, nil
}
