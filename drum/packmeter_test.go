package drum

import (
	"testing"
	"time"
)

// TestPackMeter: blocks are compressed where writing and reading what that saves takes longer; one in packProbe is
// compressed to measure it.
func TestPackMeter(t *testing.T) {
	for _, tt := range []struct {
		name         string
		write, pack  time.Duration // for a block of 1,000 bytes
		to           int
		packed, most int // of 640 blocks
	}{
		{"fast disk", 500, 2000, 400, 10, 10},
		{"slow disk", 50000, 2000, 400, 600, 640},
		{"slow disk, random texts", 50000, 2000, 1000, 10, 10},
		{"no time passes", 0, 0, 400, 10, 10},
	} {
		var m packMeter
		n := 0
		for range 640 {
			size := 1000
			if m.pays() {
				n++
				m.packed(1000, tt.to, tt.pack)
				size = tt.to
			}
			m.wrote(size, time.Duration(int64(tt.write)*int64(size)/1000))
		}
		if n < tt.packed || n > tt.most {
			t.Errorf("%s: %d of 640 blocks are compressed, want %d to %d", tt.name, n, tt.packed, tt.most)
		}
	}
}
