package cluster

import (
	"fmt"
	"io"
	"strings"

	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
)

type permissionsCmd struct {
	File   string `arg:"" name:"file"`
	Status bool
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
	return printPermissions(a.Stdout, p)
}

// printPermissions writes permissions of a user.
func printPermissions(w io.Writer, p nats.Permissions) error {
	list := func(subjects []string) string { return `"` + strings.Join(subjects, "\",\n      \"") + `"` }
	_, err := fmt.Fprintf(w, "permissions {\n  publish {\n    allow = [\n      %s\n    ]\n  }\n"+
		"  subscribe {\n    allow = [\n      %s\n    ]\n  }\n}\n", list(p.Publish), list(p.Subscribe))
	return err
}
