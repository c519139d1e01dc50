package cmd

import (
	"os"
	"testing"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

func TestMain(m *testing.M) {
	switch os.Getenv(term.ChildMode) {
	case "bug":
		commandWithBug()
	case "broker":
		brokerProcess(os.Args[1], os.Args[2])
		return
	}
	cmdtest.Main[commands](m)
}

// notShort leaves a test out with -short. It takes long, and the tests that stay run most of its code.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
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
