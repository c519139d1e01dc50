package botpage

import (
	"testing"

	"drumbeat/internal/cmdtest"
)

// commands are those that the tests here run.
type commands struct {
	BotPage Command `cmd:"" name:"bot-page"`
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
