package crawl

import (
	"testing"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// commands are those that the tests here run.
type commands struct {
	Crawl Command `cmd:""`
}

func run(a *term.App, args []string) int { return flags.Run(a, new(commands), args) }

func runApp(t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return cmdtest.Run[commands](t, input, args...)
}

func wantExit(t *testing.T, code int, input string, args ...string) (stdout, stderr string) {
	t.Helper()
	return cmdtest.WantExit[commands](t, code, input, args...)
}

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
