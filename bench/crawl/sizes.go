package crawl

import (
	"fmt"
	"math"
	"strings"

	"drumbeat/bench/result"
	"drumbeat/crawl/figures"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// diskSize is the size of a part of a crawl's files.
type diskSize struct {
	Name    string
	Bytes   int64
	Records int64 // of a queue, or the pending tuples of a drum; 0 for other parts
}

// diskSizes are the sizes of all parts.
type diskSizes []diskSize

// The names of parts whose size follows a rule of its own.
const (
	seenKeysPart = "URLseen: keys"
	seenDeadPart = "URLseen: replaced keys"
	beastPart    = "BEAST: queues"
	beastQFPart  = "BEAST: QF"
	waitingEnd   = ": waiting" // the buckets of other drums
)

// sizesOf returns the sizes of a running crawl's structures. used is the size of all its files, 0 if it is unknown.
func sizesOf(s *figures.Structures, used int64) (list diskSizes) {
	add := func(name string, bytes, records int64) {
		if bytes > 0 {
			list = append(list, diskSize{name, bytes, records})
		}
	}
	for i := range s.Drums {
		d := &s.Drums[i].Stats
		name := s.Drums[i].Name
		if name == state.NameURLSeen {
			add(seenKeysPart, d.LiveBytes, 0)
			add(seenDeadPart, d.DeadBytes+d.DoomedBytes, 0)
			add("URLseen: buckets and texts", d.IntakeBytes+d.SealedBytes, d.Tuples)
			continue
		}
		add(name, d.LiveBytes+d.DeadBytes+d.DoomedBytes, 0)
		add(name+waitingEnd, d.IntakeBytes+d.SealedBytes, d.Tuples)
	}
	b := &s.Beast
	records := max(1, b.CurrentRecords+b.SpreadRecords+b.MovedRecords+b.OverBudgetRecords)
	failed := int64(float64(b.DiskBytes) * float64(b.OverBudgetRecords) / float64(records))
	add(beastPart, b.DiskBytes-failed, b.CurrentRecords+b.SpreadRecords+b.MovedRecords)
	add(beastQFPart, failed, b.OverBudgetRecords)
	for _, q := range s.Queues {
		add(q.Name, q.DiskBytes, q.Records)
	}
	add("other files", used-list.sum(), 0)
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

// keyBits is the least size of one of n random keys of 64 bits, as docs/how-it-works/benchmarks.md has it.
func keyBits(n float64) float64 { return 64 - math.Log2(max(2, n)) + 1.44 }

// sizeAt returns the size of part i of the disk of a crawl like a run's with n unique URLs. Parts grow like
// the URLs, with three exceptions. Keys get shorter the more there are. What waits in drums other than
// URLseen is bounded by --ram, and stays; the URLs that wait there now would be in BEAST. So BEAST has all
// URLs that are not fetched, each with the bytes of one that it has now.
func (r *Result) sizeAt(i int, n float64) float64 {
	p, unique := &r.Sizes[i], float64(max(1, r.AllUnique))
	bytes := float64(p.Bytes) / unique * n
	switch {
	case p.Name == seenKeysPart || p.Name == seenDeadPart:
		return bytes * keyBits(n) / keyBits(unique)
	case strings.HasSuffix(p.Name, waitingEnd):
		return min(bytes, float64(p.Bytes))
	case p.Name == beastPart || p.Name == beastQFPart:
		var records int64
		for _, q := range r.Sizes {
			if q.Name == beastPart || q.Name == beastQFPart {
				records += q.Records
			}
		}
		return float64(p.Bytes) / float64(max(1, records)) * max(0, 1-float64(r.AllPages)/unique) * n
	}
	return bytes
}

// sizeTable is the table of bytes a URL.
func (b *crawlBench) sizeTable() result.Table {
	run := b.whole[len(b.whole)-1]
	unique := float64(max(1, run.AllUnique))
	t := result.Table{Title: "Disk at the end, by structure",
		Head: []string{"structure", "MB", "B/URL seen", "waiting records", "GB at 1e9 URLs", "GB at 41e9 URLs"}}
	var billion, paper float64
	for i, p := range run.Sizes {
		atBillion, atPaper := run.sizeAt(i, 1e9), run.sizeAt(i, paperUnique)
		t.Add(p.Name, result.Number(float64(p.Bytes)/1e6), result.Number(float64(p.Bytes)/unique),
			human.Count(p.Records), result.Number(atBillion/1e9), result.Number(atPaper/1e9))
		billion, paper = billion+atBillion, paper+atPaper
	}
	all := float64(run.Sizes.sum())
	t.Add("all", result.Number(all/1e6), result.Number(all/unique), "", result.Number(billion/1e9),
		result.Number(paper/1e9))
	peak := float64(max(run.PeakDisk, run.Sizes.sum()))
	t.Add("peak", result.Number(peak/1e6), result.Number(peak/unique), "",
		result.Number(peak/max(1, all)*billion/1e9), result.Number(peak/max(1, all)*paper/1e9))
	t.Notes = append(t.Notes,
		"BEAST's bytes are divided by records. Parts of a drum in RAM count as on disk, so small crawls "+
			"take less than the sum.",
		fmt.Sprintf("At more URLs, sizes grow in proportion. Keys have %.1f bits at 41e9 URLs, %.1f here. "+
			"URLs that are not fetched wait in BEAST.", keyBits(paperUnique), keyBits(unique)),
		"Other drums than URLseen keep their size, since --ram bounds it. URLseen's buckets follow --drum-disk.")
	return t
}

// seenSums are the measurements of URLseen in one process, as sums over its links.
type seenSums struct {
	Links, Passes                     int64
	Text, Stored, Moved, Model, Fully float64 // bytes
}

func sumsOf(c *snapshot.SeenCheck) seenSums {
	n := float64(c.Links)
	s := seenSums{Links: c.Links, Passes: c.Passes, Text: n * c.URLBytes, Moved: n * c.Bytes, Model: n * c.Predicted,
		Fully: n * c.Full}
	if c.TextRatio > 0 {
		s.Stored = s.Text / c.TextRatio
	}
	return s
}

func (s *seenSums) add(o *seenSums) {
	s.Links, s.Passes = s.Links+o.Links, s.Passes+o.Passes
	s.Text, s.Stored, s.Moved, s.Model, s.Fully = s.Text+o.Text, s.Stored+o.Stored, s.Moved+o.Moved, s.Model+o.Model,
		s.Fully+o.Fully
}

// seenTable compares the I/O of URLseen with its prediction.
func (b *crawlBench) seenTable() result.Table {
	s := &b.whole[len(b.whole)-1].Seen
	n, text := float64(max(1, s.Links)), max(1, s.Text)
	t := result.Table{Title: "URLseen: disk traffic per link that reaches it, and alpha",
		Head: []string{"links", "passes", "B of text", "text ratio", "B", "B predicted", "B if full", "alpha",
			"alpha predicted", "alpha if full"}}
	t.Add(human.Count(s.Links), human.Count(s.Passes), result.Number(s.Text/n),
		result.Number(s.Text/max(1, s.Stored)), result.Number(s.Moved/n), result.Number(s.Model/n),
		result.Number(s.Fully/n), result.Number(s.Moved/text), result.Number(s.Model/text), result.Number(s.Fully/text))
	t.Notes = append(t.Notes, "predicted: the model of package drum for the actual passes. if full: the "+
		"same if each pass had full buckets, as in a large "+
		"crawl.", "The sums include passes whose work a kill has lost.")
	return t
}
