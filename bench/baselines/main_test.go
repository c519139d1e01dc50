package baselines

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no goroutine outlives its store.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
