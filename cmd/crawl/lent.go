package crawl

import (
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// kept are the flags that LentOptions takes of the groups "net" and "report". The other flags of these groups
// concern the network, the view and the admin server, which the other command has.
var kept = [...]string{"rate", "bandwidth", "time-zone", "keep-alive", "history-bytes"}

// LentOptions returns the options of a crawl by another command, which has its own network and directories. base
// are that command's values for flags of crawl, and args are flags of crawl given by its user, who cannot replace
// those named in own. Environment variables of crawl and its directories have no effect. Errors are term.Usage errors.
func LentOptions(a *term.App, base, args, own []string) (*crawl.Options, error) {
	var table struct {
		Crawl Command `cmd:""`
	}
	p, err := flags.NewParser(&table, kong.Writers(a.Stdout, a.Stderr))
	if err != nil {
		return nil, err
	}
	for _, f := range p.Model.Children[0].Flags {
		f.Envs, f.Tag.Envs = nil, nil
	}
	given, err := p.Parse(append([]string{"crawl"}, args...))
	if err != nil {
		return nil, term.Usage(fmt.Errorf("flags of crawl, after --: %w", err))
	}
	for _, part := range given.Path {
		switch f := part.Flag; {
		case part.Positional != nil:
			return nil, term.Usage(errors.New("flags of crawl, after --: no URL can be given"))
		case f == nil:
		case slices.Contains(own, f.Name) || (f.Group.Key == "net" || f.Group.Key == "report") &&
			!slices.Contains(kept[:], f.Name):
			return nil, term.Usage(fmt.Errorf("--%s cannot be given after --", f.Name))
		}
	}
	table.Crawl = Command{}
	if _, err = p.Parse(slices.Concat([]string{"crawl"}, base, args)); err != nil {
		return nil, term.Usage(fmt.Errorf("flags of crawl, after --: %w", err))
	}
	c := &table.Crawl
	c.renderFlags.env = a.Environment
	c.Fetching.Apply(&c.Bodies, &c.URLRules, &c.Links)
	if err := c.check(); err != nil {
		return nil, err
	}
	m, err := term.ThisMachine()
	if err != nil {
		return nil, err
	}
	if _, err := c.Complete(m); err != nil {
		return nil, err
	}
	o := c.Options()
	if o.Output.WARCDict, err = c.readDict(); err != nil {
		return nil, term.Usage(err)
	}
	if err := errors.Join(c.openStore(&o), c.openBackup(&o)); err != nil {
		return nil, err
	}
	hideSecrets(&o, a)
	if _, err := c.readRules(o.Admission.Env); err != nil {
		return nil, err
	}
	return &o, nil
}
