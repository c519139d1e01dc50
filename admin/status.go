package admin

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/figures"
	"drumbeat/crawl/operate"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// status describes the crawl. After its end it is the last state.
func (s *Server) status() (*Status, error) {
	if end := s.opt.Control.Ended(); end != nil {
		return s.finished(end), nil
	}
	snap, err := s.opt.Control.Snapshot()
	if err != nil {
		return nil, err
	}
	settings, err := s.opt.Control.Settings()
	if err != nil {
		return nil, err
	}
	id, err := s.opt.Control.CrawlID()
	if err != nil {
		return nil, err
	}
	out := s.statusOf(snap, id)
	switch {
	case s.opt.Control.Stopping():
		out.State = "stopping"
	case settings.Paused:
		out.State = "paused"
	case settings.Drain:
		out.State = "draining"
	}
	out.Health = healthOf(out, s.opt.Control)
	return out, nil
}

// finished returns the status of a crawl that has ended.
func (s *Server) finished(end *operate.Ending) *Status {
	out := s.statusOf(end.Snapshot, end.ID)
	out.State, out.Reason, out.Waiting = "finished", end.Why, ""
	out.Health = Health{Level: "ok", Text: "The crawl has ended: " + end.Why + ".", Problems: []Trouble{}}
	if end.Err != nil {
		out.Reason = "error: " + end.Err.Error()
		out.Health = Health{Level: "bad", Text: "The crawl has ended with an error: " + end.Err.Error() + "."}
		out.Health.Problems = []Trouble{{"bad", "end", out.Health.Text}}
	}
	return out
}

// statusOf returns the status without its health.
func (s *Server) statusOf(snap *crawl.Snapshot, id string) *Status {
	out := &Status{Time: snap.Time.UTC(), State: "running", Version: s.opt.Version, Crawl: id, Agent: s.opt.Agent,
		Contact: s.opt.Contact, Host: s.opt.Host, PID: os.Getpid(), Dirs: s.opt.Dirs, Started: s.started.UTC(),
		Elapsed: snap.Elapsed.Seconds(), Active: snap.Active.Seconds(), Waiting: snap.Wait.Text, Limits: snap.Limits,
		Rates: Rates{Pages: snap.PagesPerSecond, Bits: snap.BitsPerSecond, Links: snap.LinksPerSecond,
			Responses: snap.ResponsesPerSecond, Errors: snap.FailuresPerSecond},
		Connections:  Connections{snap.Connections, snap.InFlight, snap.RobotsInFlight},
		DeferredLate: snap.DeferredLate.Seconds(), VisitsLate: snap.VisitsLate.Seconds(),
		Unique: snap.Unique, UniqueShare: snap.UniqueShare, PLDs: snap.PLDs, Hosts: snap.Hosts, Servers: snap.Servers,
		Refused: snap.Refused, Deferred: snap.Deferred, Counters: map[string]int64{}, Codes: map[string]int64{},
		Failures: snap.Failed, Checkpoint: checkpointOf(&snap.Checkpoint),
		Model: Model{snap.Seen.Bytes, snap.Seen.Predicted, "bytes of disk I/O a link"}}
	if !snap.Began.IsZero() {
		out.CrawlStarted = snap.Began.UTC()
	}
	for i, name := range state.PlaceNames {
		out.Places = append(out.Places, Count{name, snap.Place(state.Place(i))})
	}
	for c := range state.NumCounters {
		out.Counters[c.String()] = snap.Count(c)
	}
	for code, n := range snap.Codes {
		if n > 0 {
			out.Codes[strconv.Itoa(code)] = n
		}
	}
	out.Cluster = nodeOf(snap)
	space(out, snap)
	return out
}

// space adds RAM and disk.
func space(out *Status, snap *crawl.Snapshot) {
	out.RAM = Memory{Limit: snap.RAM.Limit, Used: snap.RAM.Used, Parts: partsOf(snap.RAM.Parts)}
	out.Disk = DiskUse{Limit: snap.Disk.Limit, Used: snap.Disk.Used, Parts: partsOf(snap.Disk.Parts),
		Dirs: []Directory{}}
	for _, dir := range snap.Dirs {
		out.Disk.Dirs = append(out.Disk.Dirs, Directory{Path: dir.Path, Free: dir.Free, Size: dir.Total,
			FreeFiles: dir.FreeFiles, KeepFree: dir.KeepFree, Device: dir.Device, Read: dir.ReadBytes,
			Written: dir.WrittenBytes, Reading: dir.Reading.Seconds(), Writing: dir.Writing.Seconds(),
			Busy: dir.Busy.Seconds(), Slow: dir.Slow})
	}
}

func partsOf(parts []snapshot.Part) []Part {
	out := []Part{}
	for _, p := range parts {
		out = append(out, Part{p.Name, p.Bytes})
	}
	return out
}

func drumBytes(d *figures.DrumInfo) int64 {
	s := &d.Stats
	return s.IntakeBytes + s.SealedBytes + s.LiveBytes + s.DeadBytes + s.DoomedBytes
}

func checkpointOf(c *snapshot.CheckpointStats) Checkpoint {
	out := Checkpoint{Number: c.Number, Pause: c.Pause.Seconds(), Stall: c.Stall.Seconds(), Total: c.Total.Seconds(),
		Bytes: c.Bytes, LongestPause: c.LongestPause.Seconds(), LongestStall: c.LongestStall.Seconds()}
	if !c.When.IsZero() {
		out.Time = c.When.UTC()
	}
	return out
}

// checkpointLate is the age of the last checkpoint that is worth a warning.
const checkpointLate = 10 * time.Minute

// sentence returns text with a capital and a full stop, "" for none.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// healthOf says whether the crawl is healthy.
func healthOf(s *Status, control *crawl.Control) Health {
	h := Health{Level: "ok", Problems: []Trouble{}}
	add := func(level, what, format string, args ...any) {
		h.Problems = append(h.Problems, Trouble{level, what, fmt.Sprintf(format, args...)})
		if h.Level != "bad" {
			h.Level = level
		}
	}
	if why, err := control.Blocked(); err == nil {
		if why.Space != "" {
			add("bad", "disk", "Fetching pauses for disk space: %s.", why.Space)
		}
		if why.Outage != "" {
			add("bad", "network", "The network or the name servers fail: %s.", why.Outage)
		}
	}
	if text := brokerTrouble(s); text != "" {
		add("bad", "network", "%s", text)
	}
	if s.State == "paused" {
		add("warn", "operator", "The operator paused the crawl.")
	}
	if s.State == "draining" {
		add("warn", "operator", "The crawl drains: new links are not queued.")
	}
	if age := s.Time.Sub(s.Checkpoint.Time); !s.Checkpoint.Time.IsZero() && age > checkpointLate && s.Rates.Pages > 0 {
		add("bad", "checkpoint", "The last checkpoint is %s old.", human.Duration(age))
	}
	if s.RAM.Limit > 0 && s.RAM.Used > s.RAM.Limit {
		add("warn", "memory", "The process uses more RAM than --ram.")
	}
	for _, d := range s.Disk.Dirs {
		if d.KeepFree > 0 && d.Free < 2*d.KeepFree {
			add("warn", "disk", "%s runs low on space.", d.Path)
		}
		if text := sentence(d.Slow); text != "" &&
			!slices.ContainsFunc(h.Problems, func(p Trouble) bool { return p.Text == text }) {
			add("warn", "disk", "%s", text) // once for all directories of a device
		}
	}
	switch {
	case len(h.Problems) > 0:
		h.Text = h.Problems[0].Text
	case s.Waiting == "":
		h.Text = "The crawl is healthy: nearly all connections are busy."
	default:
		h.Text = "The crawl is healthy. It waits for " + s.Waiting + "."
	}
	return h
}
