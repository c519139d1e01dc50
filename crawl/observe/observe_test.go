package observe

import (
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/cputime"
)

// work returns the use of a device that moves a number of MB in some seconds.
func work(mb int64, seconds float64) disk.Use {
	return disk.Use{ReadBytes: mb * 4e5, WrittenBytes: mb * 6e5, Busy: time.Duration(seconds * float64(time.Second))}
}

func TestJudge(t *testing.T) {
	fast := work(1000, 10) // 100 MB/s
	for _, c := range []struct {
		name string
		uses []disk.Use // the first is judged, over 300 s
		want paceVerdict
	}{
		{"ten times slower", []disk.Use{work(2000, 200), fast, fast, fast}, paceSlow},
		{"of two", []disk.Use{work(2000, 200), fast}, paceSlow},
		{"hangs", []disk.Use{work(0, 300), fast, fast}, paceSlow},
		{"slower, but hardly in use", []disk.Use{work(1000, 100), fast, fast, fast}, paceUnknown},
		{"three times slower", []disk.Use{work(9000, 270), fast, fast, fast}, paceUnknown},
		{"fewer bytes, but not longer in use", []disk.Use{work(100, 60), work(1000, 60), work(1000, 60)}, paceFine},
		{"the same, all the time", []disk.Use{work(100, 200), work(1000, 200), work(1000, 200)}, paceFine},
		{"three times slower, hardly in use", []disk.Use{work(300, 9), work(1000, 10), fast}, paceFine},
		{"1.9 times slower", []disk.Use{work(9000, 171), fast, fast, fast}, paceFine},
		{"equal", []disk.Use{work(20_000, 200), fast, fast, fast}, paceFine},
		{"faster", []disk.Use{work(20_000, 20), fast, fast, fast}, paceFine},
		{"idle", []disk.Use{work(0, 0), fast, fast, fast}, paceUnknown},
		{"all idle", []disk.Use{work(0, 0), work(0, 0), work(0, 0)}, paceUnknown},
		{"one of two slow neighbours", []disk.Use{work(2000, 200), work(2000, 200), fast, fast, fast}, paceSlow},
		{"the fast one of three slow ones",
			[]disk.Use{fast, work(2000, 200), work(2000, 200), work(2000, 200)}, paceFine},
		{"busy with small syncs beside idle ones", []disk.Use{work(1, 200), work(0, 0), work(0, 0)}, paceUnknown},
		{"others in RAM", []disk.Use{work(2000, 200), work(2000, 0), work(2000, 0)}, paceSlow},
		{"alone", []disk.Use{work(2000, 200)}, paceUnknown},
	} {
		if p, got := judge(5*time.Minute, c.uses, 0); got != c.want {
			t.Errorf("%s: got %d, want %d: %+v", c.name, got, c.want, p)
		}
	}
	p, _ := judge(5*time.Minute, []disk.Use{work(2000, 200), work(100, 1), work(300, 1), work(200, 1), work(400, 1)}, 0)
	if p.rate != 10e6 || p.others != 200e6 {
		t.Errorf("got %+v", p)
	}
	if _, got := judge(0, []disk.Use{work(2000, 200), fast}, 0); got != paceUnknown {
		t.Errorf("without a window: got %d", got)
	}
}

// TestPaceHysteresis: a named device stays named until a window finds it fine, or none tells anything for
// slowKept.
func TestPaceHysteresis(t *testing.T) {
	var d paceDevice
	now := time.Unix(1e9, 0)
	for i, c := range []struct {
		after         time.Duration
		v             paceVerdict
		slow, changed bool
	}{
		{0, paceUnknown, false, false},
		{0, paceSlow, true, true},
		{time.Minute, paceSlow, true, false},
		{slowKept, paceUnknown, true, false},
		{time.Minute, paceUnknown, false, true},
		{time.Minute, paceSlow, true, true},
		{time.Minute, paceFine, false, true},
		{time.Minute, paceFine, false, false},
	} {
		now = now.Add(c.after)
		if changed := d.note(c.v, now); d.slow != c.slow || changed != c.changed {
			t.Errorf("step %d: slow %t, changed %t", i, d.slow, changed)
		}
	}
}

func TestPaceWindow(t *testing.T) {
	g := &paceGroup{}
	now := time.Unix(1e9, 0)
	for i := range int64(100) {
		window, uses := g.add(paceSample{now, []disk.Use{work(i, float64(i))}})
		if now.Sub(time.Unix(1e9, 0)) < PaceWindow {
			if window != 0 {
				t.Fatalf("sample %d: window of %v", i, window)
			}
		} else if window != PaceWindow || uses[0] != work(30, 30) || len(g.samples) != 31 {
			t.Fatalf("sample %d: window of %v, %+v, %d samples", i, window, uses, len(g.samples))
		}
		now = now.Add(paceEvery)
	}
}

func TestPaceGroup(t *testing.T) {
	dir := t.TempDir()
	if g := newPaceGroup(disk.OS(), "", []string{dir, t.TempDir()}); len(g.devices) != 1 ||
		len(g.devices[0].dirs) != 2 {
		t.Errorf("two directories of a device: got %+v", g.devices)
	}
	if g := newPaceGroup(memfs.New(1), "", []string{"a", "b"}); len(g.devices) != 2 {
		t.Errorf("unknown devices: got %+v", g.devices)
	}
	g := &paceGroup{of: "all passes", devices: make([]*paceDevice, 4)}
	d := &paceDevice{dirs: []string{"/d3"}, number: "8:48"}
	want := "directory /d3 (device 8:48) transfers 10 MiB/s, the others 134 MiB/s: the slowest disk sets the " +
		"pace of all passes"
	if got := slowText(g, d, diskPace{11e6, 140e6}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAsksForBrotli has the cases of a decision.
func TestAsksForBrotli(t *testing.T) {
	for _, c := range []struct {
		now                 bool
		processors, network float64
		want                bool
	}{
		{false, 0.2, 1, true},        // the network limits, and processors have room
		{false, 0.2, 0.5, true},      // at the threshold
		{false, 0.2, 0.49, false},    // politeness limits: fewer bytes make nothing faster
		{false, 0.2, 0, false},       //
		{false, 0.5, 1, false},       // no room
		{false, 0.49, 1, true},       //
		{false, 0.9, 1, false},       //
		{true, 0.2, 1, true},         // stays
		{true, 0.2, 0, true},         // that the network no longer limits is br's merit
		{true, 0.5, 1, true},         // the load of br itself does not end it
		{true, 0.49 * 1.35, 1, true}, //
		{true, 0.79, 1, true},        //
		{true, 0.8, 1, false},        // busy
		{true, 1, 0, false},          //
	} {
		if got := asksForBrotli(c.now, codingLoad{c.processors, c.network}); got != c.want {
			t.Errorf("asks for br: %t, processors %.2f, network %.2f: got %t, want %t", c.now, c.processors,
				c.network, got, c.want)
		}
	}
}

// TestProcessorMeter reads lines of /proc/stat, this machine's among them.
func TestProcessorMeter(t *testing.T) {
	for line, want := range map[string][2]int64{
		"cpu  10 20 30 400 5 6 7 8 1000 1000": {81, 486},
		"cpu  1 2 3 4":                        {6, 10},
		"":                                    {0, 0},
		"cpu a b c":                           {0, 0},
	} {
		if busy, all := parseMachineTime([]byte(line)); busy != want[0] || all != want[1] {
			t.Errorf("%q: busy %d of %d, want %v", line, busy, all, want)
		}
	}
	m := newProcessorMeter()
	for began := cputime.Process(); cputime.Process()-began < 50*time.Millisecond; { // use a processor
	}
	if share := m.inUse(time.Now()); share <= 0 || share > 1 {
		t.Errorf("the share of the processors in use is %v after use", share)
	}
}
