package cluster

import (
	"fmt"
	"strings"

	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
)

type permissionsCmd struct {
	File   string `arg:"" name:"file" help:"File of the cluster."`
	Status bool   `help:"Print what cluster status needs, instead of what a node needs."`
}

// Run prints the permissions in the form of the configuration of a NATS server.
func (c *permissionsCmd) Run(a *term.App) error {
	f, err := read(c.File)
	if err != nil {
		return err
	}
	p, err := nats.NeededPermissions(f.Crawl, f.Table.Nodes(), !c.Status)
	if err != nil {
		return err
	}
	list := func(subjects []string) string { return `"` + strings.Join(subjects, "\",\n      \"") + `"` }
	_, err = fmt.Fprintf(a.Stdout, "permissions {\n  publish {\n    allow = [\n      %s\n    ]\n  }\n  subscribe {\n    allow = [\n      %s\n    ]\n  }\n}\n",
		list(p.Publish), list(p.Subscribe))
	return err
}
