package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"drumbeat/weburl"
)

// maxExplainFile bounds a file that explain is given by name, in bytes.
const maxExplainFile = 16 << 20

// Run answers lines, or one file and some URLs.
func (c *explainRobotsCmd) Run(a *app) error {
	if asked, err := c.asked("robots"); err != nil || asked {
		if err != nil {
			return err
		}
		return c.ofCrawl(a)
	}
	e := newExplainRobots()
	if c.File == "" {
		return explainLines(a.stdin, a.stdout, e.answer)
	}
	if len(c.URLs) == 0 {
		return usageError{errors.New("explain robots: a URL must follow the file")}
	}
	body, err := a.readFile(c.File)
	if err != nil {
		return err
	}
	if err := e.person(a.stdout, body, c.Agent, c.URLs); err != nil {
		return usageError{fmt.Errorf("explain robots: %w", err)}
	}
	return nil
}

// ofCrawl answers by the rules that a crawl has: all arguments are URLs.
func (c *explainRobotsCmd) ofCrawl(a *app) error {
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
func (c *explainURLCmd) Run(a *app) error {
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
	e := newExplainURL(weburl.NewSuffixes(c.PrivateSuffixes))
	if len(c.Refs) == 0 {
		return explainLines(a.stdin, a.stdout, e.answer)
	}
	bad := 0
	for _, ref := range c.Refs {
		answer := e.ask(c.Base, ref)
		answer.print(a.stdout, ref)
		if answer.Error != "" {
			bad++
		}
	}
	if bad > 0 {
		return &ended{code: exitUsage, why: "not a URL for the crawler", quiet: true}
	}
	return nil
}

// Run answers lines, or some hosts.
func (c *explainPLDCmd) Run(a *app) error {
	e := newExplainPLD(weburl.NewSuffixes(c.PrivateSuffixes))
	if len(c.Hosts) == 0 {
		return explainLines(a.stdin, a.stdout, e.answer)
	}
	for _, host := range c.Hosts {
		answer, err := e.ask(host)
		if err != nil {
			return usageError{fmt.Errorf("explain pld: %w", err)}
		}
		note := ""
		if answer.Suffix {
			note = "  (a public suffix itself)"
		}
		fmt.Fprintf(a.stdout, "%s\n  pld  %s%s\n", host, answer.PLD, note)
	}
	return nil
}

// Run answers lines, or one page.
func (c *explainLinksCmd) Run(a *app) error {
	e := newExplainLinks()
	if c.File == "" {
		return explainLines(a.stdin, a.stdout, e.answer)
	}
	body, err := a.readFile(c.File)
	if err != nil {
		return err
	}
	answer, err := e.ask(c.URL, c.ContentType, body)
	if err != nil {
		return usageError{fmt.Errorf("explain links: %w", err)}
	}
	answer.print(a.stdout)
	return nil
}

// readFile reads a file, or standard input where it is named "-".
func (a *app) readFile(name string) ([]byte, error) {
	src := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("explain: %w", err)}
		}
		defer f.Close()
		src = f
	}
	body, err := io.ReadAll(io.LimitReader(src, maxExplainFile+1))
	if err != nil {
		return nil, fmt.Errorf("explain: read %s: %w", name, err)
	}
	if len(body) > maxExplainFile {
		return nil, usageError{fmt.Errorf("explain: %s has more than %d bytes", name, maxExplainFile)}
	}
	return body, nil
}
