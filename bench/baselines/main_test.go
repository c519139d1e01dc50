package baselines

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no goroutine outlives its store.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
