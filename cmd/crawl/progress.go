package crawl

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/crawl"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/condition"
	"drumbeat/state/snapshot"
)

// progressFields returns the fields of a progress line in the log.
func progressFields(s *crawl.Snapshot) []any {
	fields := []any{"pages", s.Count(state.CountPages), "pages_s", math.Round(100*s.Recent.Rate(s.Recent.Pages)) / 100,
		"mbit_s", fmt.Sprintf("%.1f", s.BitsPerSecond/1e6), "links", s.Count(state.CountLinks), "unique", s.Unique,
		"p", fmt.Sprintf("%.3f", s.UniqueShare)}
	for i, name := range state.PlaceNames {
		if n := s.Place(state.Place(i)); n > 0 {
			if state.Place(i) == state.PlaceOverBudget {
				name = "over-budget" // as logs have had it
			}
			fields = append(fields, name, n)
		}
	}
	fields = append(fields, "exchanges", s.InFlight, "goroutines", runtime.NumGoroutine())
	if s.Disk.Used > 0 {
		fields = append(fields, "ram_bytes", ramUsed(), "disk_bytes", s.Disk.Used)
	}
	if c := s.Checkpoint; c.Number > 0 {
		fields = append(fields, "checkpoint", c.Number, "checkpoint_took", short(c.Total), "checkpoint_pause",
			short(c.Pause), "checkpoint_stall", short(c.Stall), "checkpoint_bytes", c.Bytes)
	}
	if c := s.Seen; c.Links > 0 {
		fields = append(fields, "urlseen_link_bytes", oneDecimal(c.Bytes), "predicted_link_bytes",
			oneDecimal(c.Predicted), "alpha", twoDecimals(c.Alpha), "predicted_alpha", twoDecimals(c.PredictedAlpha))
		if c.DiskRate > 0 {
			fields = append(fields, "disk_pages_s", int64(c.DiskRate), "predicted_disk_pages_s",
				int64(c.PredictedDiskRate))
		}
	}
	if s.Limits != "" {
		fields = append(fields, "limits", s.Limits)
	}
	if u := s.Uploads; u.On {
		fields = append(fields, "objects", u.Objects, "spool_bytes", u.WaitingBytes, "upload_faults", u.Faults)
	}
	if b := s.Backup; b.On {
		fields = append(fields, "backup", b.Number, "backup_faults", b.Faults)
	}
	fields = append(fields, clusterFields(s)...)
	v, p := condition.Of(s), condition.ProgressOf(s)
	fields = append(fields, "health", string(v.State), "ended", p.Ended, "queued", p.Queued)
	if rest := p.Rest(); rest != "" {
		fields = append(fields, "left", rest)
	}
	if len(v.Problems) > 0 {
		fields = append(fields, "problem", v.Text)
	}
	if s.Wait.Text != "" {
		fields = append(fields, "waits_for", s.Wait.Text)
	}
	if s.SlotsNow.Samples > 0 {
		fields = append(fields, "slots", s.SlotsNow.String())
	}
	return fields
}

// progressLines returns the lines of the block on a terminal. ram is the limit of the process. A small crawl has no
// lines about structures that it does not fill.
func progressLines(s *crawl.Snapshot, ram int64) []string {
	n := humanize.Comma
	v, p := condition.Of(s), condition.ProgressOf(s)
	verdict := fmt.Sprintf("  %-9s %s", strings.ReplaceAll(string(v.State), "-still", ""), v.Text)
	var lines []string
	if large(s) {
		lines = append(lines,
			fmt.Sprintf("%s  pages %s  %.1f Mb/s  %s", human.Duration(s.Elapsed), n(p.Pages), s.BitsPerSecond/1e6, &p),
			verdict)
		lines = append(lines, structureLines(s)...)
	} else {
		lines = []string{smallHead(s, &p), verdict,
			fmt.Sprintf("  found     %s, %s on %s", human.Counted(s.Count(state.CountLinks), "link", "links"),
				human.Counted(s.Unique, "URL", "URLs"), human.Counted(s.Hosts, "host", "hosts")),
			"  done      " + placesIn(s, state.PlaceFetched, state.PlaceHeld) + reasons(s.Refused)}
		if s.Place(state.PlaceDeferred) > 0 {
			lines = append(lines, "  waiting   "+placesIn(s, state.PlaceDeferred, state.PlaceDeferred)+
				reasons(s.Deferred))
		}
	}
	lines = append(lines, "  RAM       "+bar(ramUsed(), ram), "  space     "+bar(s.Disk.Used, s.Disk.Limit))
	if s.Limits != "" {
		lines = append(lines, "  limits    "+s.Limits)
	}
	if text := uploadsText(s); text != "" {
		lines = append(lines, "  store     "+text)
	}
	if s.Cluster.Nodes > 0 {
		lines = append(lines, "  cluster   "+brokerText(s))
	}
	if text := leaseText(s); text != "" {
		lines = append(lines, "  leases    "+text)
	}
	for _, text := range pairTexts(s) {
		lines = append(lines, "            "+text)
	}
	return lines
}

// smallHead is the first line of a small crawl, with a bar while an end is in sight.
func smallHead(s *crawl.Snapshot, p *condition.Progress) string {
	head := human.Duration(s.Elapsed) + "  "
	if p.Left > 0 {
		head += cells(p.Share()/100) + "  "
	}
	return head + p.String()
}

// placesIn returns the number of URLs in each of some places.
func placesIn(s *crawl.Snapshot, from, to state.Place) string {
	var parts []string
	for p := from; p <= to; p++ {
		parts = append(parts, p.Text()+" "+humanize.Comma(s.Place(p)))
	}
	return strings.Join(parts, "  ")
}

// structureLines are about the structures of a large crawl, and what it waits for.
func structureLines(s *crawl.Snapshot) []string {
	n := humanize.Comma
	waiting := "nothing: all connections are busy"
	if s.Wait.Text != "" {
		waiting = s.Wait.Text
	}
	checkpoint := "none yet"
	if c := s.Checkpoint; c.Number > 0 {
		checkpoint = fmt.Sprintf("no. %d, %s ago, took %s, wrote %s, paused transactions for %s (longest %s)", c.Number,
			human.Duration(s.Time.Sub(c.When)), human.Duration(c.Total), human.Bytes(c.Bytes), human.Duration(c.Pause),
			human.Duration(c.LongestPause))
	}
	return []string{
		fmt.Sprintf("  links     %s  %s/s  unique URLs %s%s", n(s.Count(state.CountLinks)), n(int64(s.LinksPerSecond)),
			n(s.Unique), shareText(s)),
		"  to check  " + placesIn(s, state.PlaceUnstreamed, state.PlaceOverBudget),
		"  to fetch  " + placesIn(s, state.PlaceRobotsCheck, state.PlaceRAM),
		"  waiting   " + placesIn(s, state.PlaceDeferred, state.PlaceDeferred) + reasons(s.Deferred),
		"  done      " + placesIn(s, state.PlaceFetched, state.PlaceHeld) + reasons(s.Refused),
		fmt.Sprintf(
			"  network   %d of %s  robots.txt %d in flight, %s queued  hosts %s  servers %s  PLDs %s",
			s.InFlight, human.Counted(s.Connections, "connection", "connections"), s.RobotsInFlight,
			n(s.RobotsQueued), n(s.Hosts), n(s.Servers), n(s.PLDs)),
		fmt.Sprintf("  disk      read %s  written %s  URLseen %s, %s  checkpoint %s",
			human.Bytes(s.DiskRead), human.Bytes(s.DiskWritten), human.Counted(s.URLSeenKeys, "key", "keys"),
			human.Counted(s.URLSeenPasses, "pass", "passes"), checkpoint),
		"  waits for " + waiting,
		"  slots     " + s.SlotsNow.String(),
		"  model     " + modelText(&s.Seen),
	}
}

// large reports whether a crawl is large enough for words about DRUM and its model: below, all URLs are in RAM.
func large(s *crawl.Snapshot) bool { return s.Unique >= 10_000 }

// shareText is the paper's p of a large crawl.
func shareText(s *crawl.Snapshot) string {
	if !large(s) {
		return ""
	}
	return fmt.Sprintf(", p = %.3f", s.UniqueShare)
}

// barCells is the width of a bar.
const barCells = 30

// bar shows a number of bytes and its share of a limit.
func bar(used, limit int64) string {
	if used <= 0 || limit <= 0 {
		return "not measured yet"
	}
	share := float64(used) / float64(limit)
	return fmt.Sprintf("%s %3.0f %%  %s of %s", cells(share), 100*share, human.Bytes(used), human.Bytes(limit))
}

// cells draws a share, of 0 to 1.
func cells(share float64) string {
	full := min(barCells, int(share*barCells+0.5))
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", barCells-full) + "]"
}

// modelText compares measured figures of URLseen and the disks with their predictions.
func modelText(c *snapshot.SeenCheck) string {
	switch {
	case c.Links == 0:
		return "no merge of URLseen yet"
	case c.Bytes == 0:
		return "URLseen has been in RAM"
	}
	text := fmt.Sprintf("URLseen I/O %s B per link, %s predicted (%s in full passes); alpha %s, %s predicted",
		oneDecimal(c.Bytes), oneDecimal(c.Predicted), oneDecimal(c.Full), twoDecimals(c.Alpha),
		twoDecimals(c.PredictedAlpha))
	if c.DiskRate > 0 {
		text += fmt.Sprintf("; at %s/s the disks allow %s pages/s, %s predicted", human.Bytes(c.DiskBandwidth),
			humanize.Comma(int64(c.DiskRate)), humanize.Comma(int64(c.PredictedDiskRate)))
	}
	return text
}

func oneDecimal(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

func twoDecimals(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// reasons lists numbers by reason, "" for none.
func reasons(m map[string]int64) string {
	if text := condition.ReasonCounts(m); text != "" {
		return "; reasons: " + text
	}
	return ""
}

// short formats a duration with about three digits, for a field of the log. Texts use human.Duration.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
