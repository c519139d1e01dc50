package plan

import (
	"flag"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// commands are those that the tests here run.
type commands struct {
	Plan Command `cmd:""`
}

func run(a *term.App, args []string) int { return flags.Run(a, new(commands), args) }

var update = flag.Bool("update", false, "rewrite testdata/plan.txt")
