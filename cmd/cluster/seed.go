package cluster

import (
	"errors"
	"fmt"
	"io/fs"

	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
)

type seedCmd struct {
	File string `arg:"" name:"file" help:"File to make."`
}

// Run makes a seed.
func (c *seedCmd) Run(a *term.App) error {
	seed, err := nats.NewSeed()
	if err != nil {
		return err
	}
	defer clear(seed)
	if err := create(c.File, seed); errors.Is(err, fs.ErrExist) {
		return term.Usage(fmt.Errorf("%s exists", c.File))
	} else if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s: copy it to each node, and keep it secret\n", c.File)
	return nil
}
