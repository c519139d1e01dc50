package admin

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/state"
)

// status describes the crawl.
func (s *Server) status() (*Status, error) {
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
	out := &Status{Time: snap.Time.UTC(), State: "running", Version: s.opt.Version, Crawl: id, Agent: s.opt.Agent,
		Contact: s.opt.Contact, Host: s.opt.Host, PID: os.Getpid(), Dirs: s.opt.Dirs, Started: s.started.UTC(),
		Elapsed: snap.Elapsed.Seconds(), Active: snap.Active.Seconds(), Waiting: snap.Waiting, Limits: snap.Limits,
		Rates:       Rates{Pages: snap.PagesPerSecond, Bits: snap.BitsPerSecond, Links: snap.LinksPerSecond},
		Connections: Connections{snap.Connections, snap.InFlight, snap.RobotsInFlight},
		Unique:      snap.Unique, UniqueShare: snap.UniqueShare, PLDs: snap.PLDs, Hosts: snap.Hosts, Servers: snap.Servers,
		Refused: snap.Refused, Deferred: snap.Deferred, Counters: map[string]int64{}, Codes: map[string]int64{},
		Checkpoint: checkpointOf(&snap.Checkpoint),
		Model:      Model{snap.Seen.Bytes, snap.Seen.Predicted, "bytes of disk I/O a link"}}
	switch {
	case settings.Paused:
		out.State = "paused"
	case settings.Drain:
		out.State = "draining"
	}
	for i, name := range crawl.PlaceNames() {
		out.Places = append(out.Places, Count{name, snap.Place(state.Place(i))})
	}
	for c := range state.NumCounters {
		out.Counters[c.String()] = snap.Count(c)
	}
	for class, n := range snap.Status {
		name := "other"
		if class > 0 {
			name = strconv.Itoa(class) + "xx"
		}
		out.Codes[name] = n
	}
	if err := s.space(out); err != nil {
		return nil, err
	}
	out.Health = healthOf(out, s.opt.Control)
	return out, nil
}

// space adds RAM and disk.
func (s *Server) space(out *Status) error {
	plan, err := s.opt.Control.Plan()
	if err != nil {
		return err
	}
	out.RAM = Memory{Limit: plan.RAMBytes, Used: residentBytes(), Parts: []Part{
		{"urlseen", plan.URLSeen.RAMBytes}, {"pldindegree", plan.Edges.RAMBytes + plan.Indegree.RAMBytes},
		{"robotscache", plan.RobotsCache.RAMBytes}, {"robotsrequested", plan.RobotsRequested.RAMBytes},
		{"names", plan.Names.RAMBytes}, {"caches", plan.CacheBytes + plan.EdgeCacheBytes + plan.NameCacheBytes},
		{"polite", plan.PoliteBytes}, {"queues", plan.QueueBytes}, {"heap", plan.HeapBytes}}}
	d, err := s.disk()
	if err != nil {
		return err
	}
	out.Disk = DiskUse{Limit: d.Limit, Used: d.Used, KeepFree: d.KeepFree, Parts: []Part{}}
	for _, dir := range d.Dirs {
		out.Disk.Dirs = append(out.Disk.Dirs, Directory{dir.Path, dir.Free, dir.Total, dir.FreeFiles})
	}
	structures, err := s.opt.Control.Structures()
	if err != nil {
		return err
	}
	left := d.Used
	add := func(name string, bytes int64) {
		out.Disk.Parts = append(out.Disk.Parts, Part{name, bytes})
		left -= bytes
	}
	for i := range structures.Drums {
		add(structures.Drums[i].Name, drumBytes(&structures.Drums[i]))
	}
	queues := structures.Beast.Bytes
	for _, q := range structures.Queues {
		queues += q.Bytes
	}
	add("queues", queues)
	out.Disk.Parts = append(out.Disk.Parts, Part{"output, logs and the rest", max(0, left)})
	return nil
}

// diskEvery is how often the crawl's files are added up, which takes some thousand calls.
const diskEvery = 10 * time.Second

// disk returns the disk space in use, at most diskEvery old.
func (s *Server) disk() (crawl.Disk, error) {
	s.diskMu.Lock()
	defer s.diskMu.Unlock()
	if time.Since(s.diskAt) < diskEvery {
		return s.diskUse, nil
	}
	d, err := s.opt.Control.Disk()
	if err == nil {
		s.diskUse, s.diskAt = d, time.Now()
	}
	return d, err
}

func drumBytes(d *crawl.DrumInfo) int64 {
	s := &d.Stats
	return s.IntakeBytes + s.SealedBytes + s.LiveBytes + s.DeadBytes + s.DoomedBytes
}

func checkpointOf(c *crawl.CheckpointStats) Checkpoint {
	out := Checkpoint{Number: c.Number, Pause: c.Pause.Seconds(), Stall: c.Stall.Seconds(), Total: c.Total.Seconds(),
		Bytes: c.Bytes, LongestPause: c.LongestPause.Seconds(), LongestStall: c.LongestStall.Seconds()}
	if !c.When.IsZero() {
		out.Time = c.When.UTC()
	}
	return out
}

// residentBytes returns the resident memory of this process, 0 if it is not known.
func residentBytes() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// When something is worth a warning.
const (
	checkpointLate = 10 * time.Minute // since the last checkpoint
	failuresMany   = 0.2              // share of failed requests
)

// healthOf says whether the crawl is well.
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
	if s.State == "paused" {
		add("warn", "operator", "The operator paused the crawl.")
	}
	if s.State == "draining" {
		add("warn", "operator", "The crawl drains: new links are not queued.")
	}
	if age := s.Time.Sub(s.Checkpoint.Time); !s.Checkpoint.Time.IsZero() && age > checkpointLate && s.Rates.Pages > 0 {
		add("bad", "checkpoint", "The last checkpoint is %v old.", age.Round(time.Second))
	}
	if s.RAM.Limit > 0 && s.RAM.Used > s.RAM.Limit {
		add("warn", "memory", "The process uses more RAM than --ram.")
	}
	for _, d := range s.Disk.Dirs {
		if s.Disk.KeepFree > 0 && d.Free < 2*s.Disk.KeepFree {
			add("warn", "disk", "%s runs low on space.", d.Path)
		}
	}
	switch {
	case len(h.Problems) > 0:
		h.Text = h.Problems[0].Text
	case s.Waiting == "":
		h.Text = "The crawl is well: nearly all connections are busy."
	default:
		h.Text = "The crawl is well. It waits for " + s.Waiting + "."
	}
	return h
}
