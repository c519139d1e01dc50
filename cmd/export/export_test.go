package export

import "testing"

// TestCheck: flags that do not fit together are refused.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		c    Command
		good bool
	}{
		{Command{Kind: "plds", Format: "parquet", Output: "x", RAM: leastRAM, PartSize: 1}, true},
		{Command{Kind: "plds", Format: "csv", Output: "-", RAM: leastRAM, PartSize: 1, Queued: true}, true},
		{Command{Kind: "pld-edges", Format: "arc", Output: "x", RAM: leastRAM, PartSize: 1}, true},
		{Command{Kind: "pld-edges", Format: "arc", Output: "-", RAM: leastRAM, PartSize: 1}, false},
		{Command{Kind: "hosts", Format: "arc", Output: "x", RAM: leastRAM, PartSize: 1}, false},
		{Command{Kind: "hosts", Format: "parquet", Output: "-", RAM: leastRAM, PartSize: 1}, false},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM - 1, PartSize: 1}, false},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM}, false},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM, PartSize: 1, Queued: true}, false},
	} {
		if err := c.c.check(); (err == nil) != c.good {
			t.Errorf("%+v: %v", c.c, err)
		}
	}
}
