package admin

import (
	"os"
	"strconv"
	"strings"

	"drumbeat/crawl"
	"drumbeat/crawl/figures"
	"drumbeat/crawl/operate"
	"drumbeat/state"
	"drumbeat/state/condition"
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
	case !snap.Erasures.Since.IsZero():
		out.State = "erasing"
	case s.opt.Control.Stopping():
		out.State = "stopping"
	case settings.Paused:
		out.State = "paused"
	case settings.Drain:
		out.State = "draining"
	}
	out.Health = s.healthOf(condition.Of(snap))
	p := condition.ProgressOf(snap)
	out.Progress = Progress{p.String(), p.Ended, p.Queued, p.Rate, p.LongRate, p.Left.Seconds(), p.Grows}
	return out, nil
}

// finished returns the status of a crawl that has ended.
func (s *Server) finished(end *operate.Ending) *Status {
	out := s.statusOf(end.Snapshot, end.ID)
	out.State, out.Reason, out.Waiting = "finished", end.Why, ""
	out.Progress = Progress{Ended: end.Snapshot.Ended(), Queued: end.Snapshot.Queued()}
	if end.Err != nil {
		out.Reason = "error: " + end.Err.Error()
	}
	out.Health = s.healthOf(condition.OfEnd(end.Snapshot, condition.End{Why: end.Why, Err: end.Err,
		Done: end.Why == crawl.StopDone, Fault: end.Why == crawl.StopDisk || end.Why == crawl.StopOutage}))
	return out
}

// statusOf returns the status without its health.
func (s *Server) statusOf(snap *crawl.Snapshot, id string) *Status {
	last := &snap.Recent
	out := &Status{Time: snap.Time.UTC(), State: "running", Version: s.opt.Version, Crawl: id, Agent: s.opt.Agent,
		Contact: s.opt.Contact, Host: s.opt.Host, PID: os.Getpid(), Dirs: s.opt.Dirs, Started: s.started.UTC(),
		Elapsed: snap.Elapsed.Seconds(), Active: snap.Active.Seconds(), Waiting: snap.Wait.Text, Limits: snap.Limits,
		Rates: Rates{Pages: last.Rate(last.Pages), Bits: 8 * last.Rate(last.Bytes), Links: last.Rate(last.Links),
			Responses: last.Rate(last.Responses), Errors: last.Rate(last.Failures)},
		Connections:  Connections{snap.Connections, snap.InFlight, snap.RobotsInFlight},
		DeferredLate: snap.DeferredLate.Seconds(), VisitsLate: snap.VisitsLate.Seconds(),
		Unique: snap.Unique, UniqueShare: snap.UniqueShare, PLDs: snap.PLDs, Hosts: snap.Hosts, Servers: snap.Servers,
		Refused: snap.Refused, Deferred: snap.Deferred, Counters: map[string]int64{}, Codes: map[string]int64{},
		Failures: snap.Failed, Checkpoint: checkpointOf(&snap.Checkpoint),
		Model: Model{snap.Seen.Bytes, snap.Seen.Predicted, "bytes of disk I/O per link"}}
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
	if e := &snap.Erasures; e.Waiting > 0 || !e.Since.IsZero() {
		out.Erasures = &Erasures{e.Waiting, e.Refused, e.Why, e.Since, e.Step}
	}
	if b := &snap.Backup; b.On {
		out.Backup = &Backup{Place: b.Place, Number: b.Number, Bytes: b.Bytes, Total: b.Total, Copied: b.Done,
			Late: b.Late, Failing: b.Failing}
		if b.Number > 0 {
			out.Backup.Time = b.Time.UTC()
		}
	}
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

// healthOf returns a condition as the API has it.
func (s *Server) healthOf(v condition.Condition) Health {
	h := Health{State: string(v.State), Level: string(v.Level), Text: v.Text, Next: s.named(v.Next),
		Problems: []Trouble{}}
	if !v.Since.IsZero() {
		h.Since = v.Since.UTC()
	}
	if !v.Until.IsZero() {
		h.Until = v.Until.UTC()
	}
	for _, p := range v.Problems {
		h.Problems = append(h.Problems, Trouble{string(p.Level), p.What, p.Text, s.named(p.Next)})
	}
	return h
}

// named returns a command with the crawl's directory, if it takes one.
func (s *Server) named(command string) string {
	for _, takes := range [...]string{"drumbeat ctl ", "drumbeat explain ", "drumbeat log", "drumbeat report"} {
		if strings.HasPrefix(command, takes) && len(s.opt.Dirs) > 0 && s.opt.Dirs[0] != "drumbeat-crawl" {
			return command + " --dir " + s.opt.Dirs[0]
		}
	}
	return command
}
