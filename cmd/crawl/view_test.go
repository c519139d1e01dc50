package crawl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

var delayed = snapshot.Wait{Kind: snapshot.WaitDelay, Text: "politeness"}

// TestProgress: on a terminal a block of lines is rewritten in place, below the log; elsewhere there are no
// control characters.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	v := NewView(&out, new(flags.Logging))
	s := &crawl.Snapshot{Time: time.Now().Add(time.Minute), Wait: delayed, Unique: 20_000,
		Deferred: map[string]int64{"timeout": 3, "robots": 7}}
	s.RAM.Limit, s.Disk.Used, s.Disk.Limit = 1<<50, 3<<30, 4<<30
	s.SlotsNow.Samples, s.SlotsNow.Use[snapshot.SlotPolite], s.SlotsNow.Use[snapshot.SlotRead] = 100, 750, 250
	v.show(s)
	v.out.wait()
	if got := out.String(); !strings.Contains(got, "msg=progress") || !strings.Contains(got, "waits_for=politeness") ||
		strings.Contains(got, "\x1b") {
		t.Errorf("not a terminal: got %q", got)
	}
	out.Reset()
	v.width = func() int { return 60 }
	v.show(s)
	v.out.wait()
	block := out.String()
	if !strings.Contains(block, "waits for politeness\n") ||
		!strings.Contains(block, "deferred 0; reasons: forbidden by robots.txt\n            (7), timeout (3)\n") ||
		!strings.Contains(block, "slots     politeness 75 %, exchange 25 %\n") {
		t.Errorf("got %q", block)
	}
	for _, want := range []string{"  RAM       [------------------------------]   0 %",
		"  space     [#######################-------]  75 %"} {
		if !strings.Contains(block, want) {
			t.Errorf("no %q in %q", want, block)
		}
	}
	for _, line := range strings.Split(block, "\n") {
		if len([]rune(line)) >= 60 {
			t.Errorf("a line of %d columns on a terminal of 60: %q", len([]rune(line)), line)
		}
	}
	out.Reset()
	v.Note("hello")
	n := strings.Count(block, "\n")
	if got, erase := out.String(), fmt.Sprintf("\x1b[%dF\x1b[J", n); !strings.HasPrefix(got, erase) ||
		!strings.HasSuffix(got, block) || !strings.Contains(got, "hello") {
		t.Errorf("got %q, want the line between %q and the block", got, erase)
	}
}

// TestLogOnTerminal: on a terminal lines of the log have the time of day, and break at spaces.
func TestLogOnTerminal(t *testing.T) {
	var out bytes.Buffer
	v := &View{width: func() int { return 60 }}
	log := slog.New(v.handler(&out, nil))
	text := strings.TrimSpace(strings.Repeat("a sentence of some words ", 9))
	log.Info(text, "dir", "crawl")
	log.Warn("short")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range lines {
		if len(line) >= 60 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
	all := strings.Join(strings.Fields(out.String()), " ")
	if _, err := time.Parse(time.TimeOnly, strings.TrimPrefix(strings.Fields(all)[0], "time=")); err != nil ||
		!strings.Contains(all, " level=INFO msg=\""+text+"\" dir=crawl time=") || len(lines) < 5 ||
		!strings.HasSuffix(lines[len(lines)-1], " level=WARN msg=short") {
		t.Errorf("%v: %q", err, lines)
	}
}

// TestSmallProgress: a small crawl shows how far it is, and nothing about structures.
func TestSmallProgress(t *testing.T) {
	s := &crawl.Snapshot{Elapsed: time.Minute, Unique: 210, Hosts: 1, Refused: map[string]int64{"robots": 4},
		Recent: snapshot.Window{Over: 10 * time.Second, Pages: 50, Ended: 50}}
	s.Places[state.PlaceFetched], s.Places[state.PlaceRAM], s.Counters[state.CountLinks] = 60, 150, 1204
	text := strings.Join(progressLines(s, 1<<30), "\n")
	for _, want := range []string{"1 min  [#########---------------------]  60 URLs of 210 done (29 %)",
		"about 30 s left\n", "  found     1,204 links, 210 URLs on 1 host\n", "reasons: forbidden by robots.txt (4)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, not := range []string{"URLseen", "p = ", "slots", "STAR", "BEAST", "deferred", "checkpoint"} {
		if strings.Contains(text, not) {
			t.Errorf("%q in\n%s", not, text)
		}
	}
	s.Recent.New = 500
	if head := progressLines(s, 1<<30)[0]; strings.Contains(head, "[") || !strings.Contains(head, "grows") {
		t.Errorf("a queue that grows: %q", head)
	}
}

// TestProgressFits: lines of the block are wrapped, not cut, and stay narrower than the terminal.
func TestProgressFits(t *testing.T) {
	text := "  limits    " + strings.Repeat("some words and more ", 12)
	for width := 20; width < 300; width++ {
		lines := fit(text, width)
		for _, l := range lines {
			if len(l) >= width {
				t.Errorf("%d columns: %q", width, l)
			}
		}
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); width >= 80 &&
			got != strings.Join(strings.Fields(text), " ") {
			t.Errorf("%d columns: got %q", width, got)
		}
	}
}

// TestJSONLog: with --log-format json every line is a JSON object, on a terminal as well.
func TestJSONLog(t *testing.T) {
	var out bytes.Buffer
	v := NewView(&out, &flags.Logging{LogFormat: "json"})
	v.Note("WARNING: careful \x1b[2J")
	v.Say("# rules: 2\nmore\n")
	v.show(&crawl.Snapshot{Time: time.Now().Add(time.Minute), Wait: delayed})
	v.out.wait()
	var messages []string
	for line := range strings.Lines(out.String()) {
		var record struct {
			Level, Msg string
			Waits      string `json:"waits_for"`
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		messages = append(messages, record.Level+" "+record.Msg+record.Waits)
	}
	want := "WARN careful \x1b[2J, INFO rules: 2, INFO more, INFO progresspoliteness"
	if got := strings.Join(messages, ", "); got != want || strings.Contains(out.String(), "\x1b") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLeaseText: progress and summary say which networks a node visits and waits for, and why it rests.
func TestLeaseText(t *testing.T) {
	for _, x := range []struct {
		l    snapshot.Leases
		want string
	}{
		{snapshot.Leases{}, ""},
		{snapshot.Leases{On: true, Held: 1200, Taken: 3400, HandedOver: 5},
			"visits 1,200 networks, waits for 0; 3,400 leases acquired, 5 handed over"},
		{snapshot.Leases{On: true, Held: 1, Wanted: 2, Longest: 15 * time.Second, URLs: 3000, Lost: 4},
			"visits 1 network, waits for 2 (for up to 15 s) " +
				"with 3,000 URLs; 0 leases acquired, 0 handed over, 4 lost"},
		{snapshot.Leases{On: true, Starting: true, Resting: true},
			"visits 0 networks, waits for 0; 0 leases acquired, 0 handed over; fetches nothing yet: " +
				"the other nodes must hear from it first"},
		{snapshot.Leases{On: true, Resting: true},
			"visits 0 networks, waits for 0; 0 leases acquired, 0 handed over; fetches nothing: the other nodes " +
				"have not heard from it for too long"},
	} {
		s := &crawl.Snapshot{Cluster: snapshot.Cluster{Nodes: 2, Leases: x.l}}
		if got := leaseText(s); got != x.want {
			t.Errorf("%+v: got %q, want %q", x.l, got, x.want)
		}
		if lines := strings.Join(progressLines(s, 0), "\n"); strings.Contains(lines, "  leases    "+x.want) != x.l.On {
			t.Errorf("%+v: progress is %s", x.l, lines)
		}
	}
	fields := fmt.Sprint(clusterFields(
		&crawl.Snapshot{Cluster: snapshot.Cluster{Nodes: 2, Connected: true, Leases: snapshot.Leases{On: true, Held: 1,
			Wanted: 2, Longest: 15 * time.Second, URLs: 3, Resting: true}}}))
	if want := "networks_held 1 networks_wanted 2 longest_wait 15s urls_wait_for_networks 3 " +
		"rests true"; !strings.Contains(fields, want) {
		t.Errorf("fields %s", fields)
	}
}

// TestBar: a bar never leaves its brackets.
func TestBar(t *testing.T) {
	for _, c := range []struct {
		used, limit int64
		want        string
	}{
		{0, 100, "not measured yet"}, {5, 0, "not measured yet"},
		{1, 1 << 40, "[" + strings.Repeat("-", barCells) + "]   0 %  1 B of 1.0 TiB"},
		{1 << 30, 1 << 30, "[" + strings.Repeat("#", barCells) + "] 100 %  1.0 GiB of 1.0 GiB"},
		{3 << 30, 2 << 30, "[" + strings.Repeat("#", barCells) + "] 150 %  3.0 GiB of 2.0 GiB"},
	} {
		if got := bar(c.used, c.limit); got != c.want {
			t.Errorf("%d of %d: got %q, want %q", c.used, c.limit, got, c.want)
		}
	}
}
