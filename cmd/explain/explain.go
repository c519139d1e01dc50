// Package explain is the command explain: what the crawler thinks of a URL, a page's links, a robots.txt, a host, a scope
// rule, asked of the code that a crawl runs.
//
// Each kind of question is a command of its own below Command: robots, url, links, pld, scope, host. With arguments it
// answers a person in words. Without them it reads JSON lines from standard input and answers each with one line, in
// order, and at once when no input is waiting (lines.go), so that a program may ask one at a time. rules.go, links.go and
// scope.go answer from the crawler's rules alone; a line that can't be answered becomes {"error": …}, and only reading and
// writing can fail.
//
// With --dir (dirFlags in crawl.go) robots, url and host ask a crawl's directory instead, as of its last checkpoint. It may
// run: nothing is written and no lock taken. package crawl/explain finds the answers, 10,000 lines of input at a time, since one
// scan of the queues does for all; print.go puts them into words.
//
// Exit codes: 0, term.ExitUsage (2) for a bad flag, or when something that was asked for is no URL for the crawler,
// term.ExitDamage (5) when files of the crawl are damaged; both have been printed then.
//
// Lines are bounded at 32 MiB, files at 16 MiB; memory is otherwise that of one group of questions. All runs in the
// caller's goroutine; progress of a scan goes to standard error once it takes longer than a second.
package explain

import (
	"errors"
	"fmt"
	"io"
	"os"

	"drumbeat/cmd/term"
	"drumbeat/weburl"
)

// Command is the table of explain's commands.
type Command struct {
	Robots robotsCmd `cmd:"" help:"Does a robots.txt allow a URL, and by which rule? Lines: {\"robots\" or \"robots_base64\", \"agent\", \"url\"}. With --dir: what do the rules that a crawl has say of URLs?"`
	URL    urlCmd    `cmd:"" name:"url" help:"What becomes of a reference? Lines: {\"base\", \"ref\"}. With --dir: why was a URL crawled, or not?"`
	Links  linksCmd  `cmd:"" help:"Which links does a page have? Lines: {\"url\", \"content_type\", \"html\" or \"html_base64\"}."`
	PLD    pldCmd    `cmd:"" name:"pld" help:"Which pay-level domain does a host belong to? Lines: {\"host\"}."`
	Scope  scopeCmd  `cmd:"" help:"Which scope rule, and which rule of a blacklist, decides for a URL? Lines: {\"url\", \"addr\"}."`
	Host   hostCmd   `cmd:"" help:"With --dir: what does a crawl know of a host, and where are its URLs?"`
}

// robotsCmd is the table of explain robots' flags.
type robotsCmd struct {
	File  string   `arg:"" optional:"" help:"A robots.txt; \"-\" is standard input. With --dir: a URL, or \"-\" for lines on standard input."`
	URLs  []string `arg:"" name:"url" optional:"" help:"URLs, or paths that start with /."`
	Agent string   `placeholder:"TOKEN" default:"${defaultAgent}" help:"Product token of the crawler."`
	dirFlags
}

// urlCmd is the table of explain url's flags.
type urlCmd struct {
	Refs            []string `arg:"" name:"ref" optional:"" help:"References as they stand on a page. With --dir: URLs; \"-\" is lines on standard input."`
	Base            string   `placeholder:"URL" help:"URL of that page."`
	PrivateSuffixes bool     `help:"As for crawl."`
	dirFlags
}

// linksCmd is the table of explain links' flags.
type linksCmd struct {
	File        string `arg:"" optional:"" help:"A page; \"-\" is standard input."`
	URL         string `name:"url" placeholder:"URL" default:"http://page.invalid/" help:"URL of the page."`
	ContentType string `placeholder:"TYPE" help:"Content-Type header that came with the page."`
}

// pldCmd is the table of explain pld's flags.
type pldCmd struct {
	Hosts           []string `arg:"" name:"host" optional:"" help:"Host names or addresses."`
	PrivateSuffixes bool     `help:"As for crawl."`
}

// hostCmd is the table of explain host's flags.
type hostCmd struct {
	Hosts []string `arg:"" name:"host" optional:"" help:"Host names or addresses, with a port if it isn't 80 or 443; \"-\" is lines on standard input."`
	dirFlags
}

// maxFile bounds a file that explain is given by name, in bytes.
const maxFile = 16 << 20

// Run answers lines, or one file and some URLs.
func (c *robotsCmd) Run(a *term.App) error {
	if asked, err := c.asked("robots"); err != nil || asked {
		if err != nil {
			return err
		}
		return c.ofCrawl(a)
	}
	e := newRobotsExplainer()
	if c.File == "" {
		return answerLines(a.Stdin, a.Stdout, e.answer)
	}
	if len(c.URLs) == 0 {
		return term.Usage(errors.New("explain robots: a URL must follow the file"))
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

// ofCrawl answers by the rules that a crawl has: all arguments are URLs.
func (c *robotsCmd) ofCrawl(a *term.App) error {
	x, err := c.open(a)
	if err != nil {
		return err
	}
	asked := c.URLs
	if c.File != "" {
		asked = append([]string{c.File}, asked...)
	}
	return x.run(asked, x.robots)
}

// Run answers lines, or some references.
func (c *urlCmd) Run(a *term.App) error {
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
	if bad > 0 {
		return &term.Ended{Code: term.ExitUsage, Why: "not a URL for the crawler", Quiet: true}
	}
	return nil
}

// Run answers lines, or some hosts.
func (c *pldCmd) Run(a *term.App) error {
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
	return nil
}

// Run answers lines, or one page.
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

// readFile reads a file, or standard input where it is named "-".
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
