package crawl

import (
	"fmt"
	"math"

	"drumbeat/bench/report"
	"drumbeat/crawl"
	"drumbeat/crawl/state"
)

// diskSize is the size of a part of a crawl's files.
type diskSize struct {
	Name  string
	Bytes int64
}

// diskSizes are the sizes of all parts.
type diskSizes []diskSize

// The names of parts that are not structures.
const (
	seenKeysPart = "URLseen: keys"
	otherPart    = "other files"
)

// sizesOf returns the sizes of a running crawl's structures. used is the size of all its files, 0 if it is unknown.
func sizesOf(s *crawl.Structures, used int64) (list diskSizes) {
	add := func(name string, bytes int64) {
		if bytes > 0 {
			list = append(list, diskSize{name, bytes})
		}
	}
	for i := range s.Drums {
		d := &s.Drums[i].Stats
		name := s.Drums[i].Name
		if name == state.NameURLSeen {
			add(seenKeysPart, d.LiveBytes)
			add("URLseen: replaced keys", d.DeadBytes+d.DoomedBytes)
			add("URLseen: buckets and texts", d.IntakeBytes+d.SealedBytes)
			continue
		}
		add(name, d.IntakeBytes+d.SealedBytes+d.LiveBytes+d.DeadBytes+d.DoomedBytes)
	}
	b := &s.Beast
	records := max(1, b.CurrentRecords+b.SpreadRecords+b.MovedRecords+b.FailedRecords)
	failed := int64(float64(b.Bytes) * float64(b.FailedRecords) / float64(records))
	add("BEAST: queues", b.Bytes-failed)
	add("BEAST: QF", failed)
	for _, q := range s.Queues {
		add(q.Name, q.Bytes)
	}
	add(otherPart, used-list.sum())
	return list
}

func (l diskSizes) sum() (n int64) {
	for _, p := range l {
		n += p.Bytes
	}
	return n
}

// paperUnique is the number of unique URLs in the paper's crawl, which found 41 billion with 6.3 billion pages.
const paperUnique = 41e9

// keyBits is the least size of one of n random keys of 64 bits, as docs/BENCHMARKS.md has it.
func keyBits(n float64) float64 { return 64 - math.Log2(max(2, n)) + 1.44 }

// atPaper returns the size of a part at the paper's number of URLs: in proportion to the URLs, except that keys get
// shorter the more there are.
func (p diskSize) atPaper(unique float64) float64 {
	bytes := float64(p.Bytes) / max(1, unique) * paperUnique
	if p.Name == seenKeysPart {
		bytes *= keyBits(paperUnique) / keyBits(unique)
	}
	return bytes
}

// sizeTable is the table of bytes a URL.
func (b *crawlBench) sizeTable() report.Table {
	run := b.whole[len(b.whole)-1]
	unique := float64(max(1, run.AllUnique))
	t := report.Table{Title: "Disk at the end, by structure", Head: []string{"structure", "MB", "B/URL seen", "GB at 41e9 URLs"}}
	paper := 0.
	for _, p := range run.Sizes {
		t.Add(p.Name, report.Number(float64(p.Bytes)/1e6), report.Number(float64(p.Bytes)/unique), report.Number(p.atPaper(unique)/1e9))
		paper += p.atPaper(unique)
	}
	all := float64(run.Sizes.sum())
	t.Add("all", report.Number(all/1e6), report.Number(all/unique), report.Number(paper/1e9))
	peak := float64(max(run.PeakDisk, run.Sizes.sum()))
	t.Add("most at once", report.Number(peak/1e6), report.Number(peak/unique), report.Number(peak/max(1, all)*paper/1e9))
	t.Notes = append(t.Notes, "BEAST's bytes are divided by records. Parts that a drum holds in RAM count as on disk, so small crawls take less than the sum.",
		fmt.Sprintf("At 41e9: in proportion to the URLs seen, with keys of %.1f bits for %.1f here; the buckets' part follows --drum-disk.",
			keyBits(paperUnique), keyBits(unique)))
	return t
}

// seenSums are the measurements of URLseen in one process, as sums over its links.
type seenSums struct {
	Links, Passes                     int64
	Text, Stored, Moved, Model, Fully float64 // bytes
}

func sumsOf(c *crawl.SeenCheck) seenSums {
	n := float64(c.Links)
	s := seenSums{Links: c.Links, Passes: c.Passes, Text: n * c.URLBytes, Moved: n * c.Bytes, Model: n * c.Predicted, Fully: n * c.Full}
	if c.TextRatio > 0 {
		s.Stored = s.Text / c.TextRatio
	}
	return s
}

func (s *seenSums) add(o *seenSums) {
	s.Links, s.Passes = s.Links+o.Links, s.Passes+o.Passes
	s.Text, s.Stored, s.Moved, s.Model, s.Fully = s.Text+o.Text, s.Stored+o.Stored, s.Moved+o.Moved, s.Model+o.Model, s.Fully+o.Fully
}

// seenTable compares the I/O of URLseen with its prediction.
func (b *crawlBench) seenTable() report.Table {
	s := &b.whole[len(b.whole)-1].Seen
	n, text := float64(max(1, s.Links)), max(1, s.Text)
	t := report.Table{Title: "URLseen: disk traffic of a link that reaches it, and alpha",
		Head: []string{"links", "passes", "B of text", "text ratio", "B", "B predicted", "B if full", "alpha", "alpha predicted", "alpha if full"}}
	t.Add(report.Number(float64(s.Links)), report.Number(float64(s.Passes)), report.Number(s.Text/n), report.Number(s.Text/max(1, s.Stored)),
		report.Number(s.Moved/n), report.Number(s.Model/n), report.Number(s.Fully/n),
		report.Number(s.Moved/text), report.Number(s.Model/text), report.Number(s.Fully/text))
	t.Notes = append(t.Notes, "Predicted: the model of package drum for the passes as they were. If full: had each pass been of full buckets, as in a large crawl.",
		"Passes whose work a kill has lost are in these sums.")
	return t
}
