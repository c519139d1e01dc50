package bench

import (
	"testing"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// commands are those that the tests here run. Variables of a crawl's flags are known and must not matter.
type commands struct {
	Bench Command `cmd:""`
	Crawl struct {
		flags.Delays
	} `cmd:""`
}

func TestMain(m *testing.M) { cmdtest.Main[commands](m) }

func run(a *term.App, args []string) int { return flags.Run(a, new(commands), args) }
