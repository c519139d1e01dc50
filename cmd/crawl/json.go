package crawl

import (
	"encoding/json"
	"fmt"
	"os"

	"drumbeat/crawl"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// Figures is the JSON object of --summary: the figures of the printed summary.
type Figures struct {
	Stop           string             `json:"stop"`
	Seconds        float64            `json:"seconds"`       // of this run
	ActiveSeconds  float64            `json:"activeSeconds"` // of all runs
	Pages          int64              `json:"pages"`
	PagesPerSecond float64            `json:"pagesPerSecond"` // of all runs
	Responses      int64              `json:"responses"`
	Bytes          int64              `json:"bytes"`   // received
	Codings        map[string]Coded   `json:"codings"` // by content coding
	Links          int64              `json:"links"`
	LinksCached    int64              `json:"linksCached"`  // found in the RAM cache
	LinksChecked   int64              `json:"linksChecked"` // sent to URLseen
	Unique         int64              `json:"unique"`
	Places         map[string]int64   `json:"places"`
	Refused        map[string]int64   `json:"refused"`
	Deferred       map[string]int64   `json:"deferred"`
	Hosts          int64              `json:"hosts"`
	Servers        int64              `json:"servers"`
	PLDs           int64              `json:"plds"`
	DiskRead       int64              `json:"diskRead"` // bytes of this run
	DiskWritten    int64              `json:"diskWritten"`
	URLSeenKeys    int64              `json:"urlSeenKeys"`
	URLSeenPasses  int64              `json:"urlSeenPasses"` // of this run
	URLSeenFull    int64              `json:"urlSeenFullPasses"`
	Model          snapshot.SeenCheck `json:"model"` // measured and predicted
	PeakRSS        int64              `json:"peakRSS"`
	FinishedFiles  int64              `json:"finishedFiles"` // of output, in this run
	FinishedBytes  int64              `json:"finishedBytes"`
	Store          *StoreFigures      `json:"store,omitempty"` // with --out s3://…
}

// StoreFigures are about the object store.
type StoreFigures struct {
	Files        int64  `json:"files"` // put in this run
	Bytes        int64  `json:"bytes"`
	Objects      int64  `json:"objects"` // of all runs
	Waiting      int64  `json:"waiting"` // WARC files and logs that are still here
	WaitingBytes int64  `json:"waitingBytes"`
	Faults       int64  `json:"faults"` // failed attempts in this run
	Failing      string `json:"failing,omitempty"`
}

// Coded are the responses in a content coding.
type Coded struct {
	Responses int64 `json:"responses"`
	Received  int64 `json:"received"` // bytes of their bodies
	Decoded   int64 `json:"decoded"`
}

// saveSummary writes the figures of the end of a crawl.
func saveSummary(name string, res *crawl.Result) error {
	s := &res.Snapshot
	out := Figures{Stop: res.Stop, Seconds: s.Elapsed.Seconds(), ActiveSeconds: s.Active.Seconds(),
		Pages: s.Count(state.CountPages), Responses: s.Count(state.CountResponses),
		Bytes: s.Count(state.CountBytesWire), Links: s.Count(state.CountLinks),
		LinksCached: s.Count(state.CountLinksCached), LinksChecked: s.Count(state.CountLinksChecked), Unique: s.Unique,
		Places: map[string]int64{}, Codings: map[string]Coded{}, Refused: s.Refused, Deferred: s.Deferred,
		Hosts: s.Hosts, Servers: s.Servers, PLDs: s.PLDs, DiskRead: s.DiskRead, DiskWritten: s.DiskWritten,
		URLSeenKeys: s.URLSeenKeys, URLSeenPasses: s.URLSeenPasses, URLSeenFull: s.URLSeenFullPasses, Model: s.Seen,
		PeakRSS: peakRSS(), FinishedFiles: res.Finished.Files, FinishedBytes: res.Finished.Bytes}
	if u := &s.Uploads; u.On {
		out.Store = &StoreFigures{u.Files, u.Bytes, u.Objects, u.Waiting, u.WaitingBytes, u.Faults, u.Failing}
	}
	if sec := s.Active.Seconds(); sec > 0 {
		out.PagesPerSecond = float64(out.Pages) / sec
	}
	for i, coding := range state.Codings {
		c := state.Counter(i)
		if n := s.Count(state.CountCoded + c); n > 0 {
			out.Codings[coding] = Coded{n, s.Count(state.CountBytesCoded + c), s.Count(state.CountBytesUncoded + c)}
		}
	}
	for i, place := range state.PlaceNames {
		out.Places[place] = s.Place(state.Place(i))
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err == nil {
		err = os.WriteFile(name, append(data, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("--summary %s: %w", name, err)
	}
	return nil
}
