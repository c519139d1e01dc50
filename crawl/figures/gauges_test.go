package figures

import (
	"slices"
	"testing"
	"time"

	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// TestPeak: the peak must be the highest mean over ten minutes, and 0 for a shorter crawl.
func TestPeak(t *testing.T) {
	var m peakMeter
	s := &snapshot.Snapshot{}
	peaks := []float64{}
	for second := range 1800 {
		s.Active = time.Duration(second) * time.Second
		m.note(s)
		if second%600 == 599 {
			peaks = append(peaks, s.Peak.Pages)
		}
		rate := int64(10)
		if second >= 600 && second < 900 {
			rate = 30 // half of a window
		}
		s.Counters[state.CountPages] += rate
		s.Counters[state.CountBytesWire] += 1000 * rate
	}
	if !slices.Equal(peaks, []float64{0, 20, 20}) || s.Peak.Bits != 8*20_000 {
		t.Errorf("got %v and %v bit/s", peaks, s.Peak.Bits)
	}
}
