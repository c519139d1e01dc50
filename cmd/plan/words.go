package plan

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"drumbeat/bench/result"
	"drumbeat/cmd/flags"
	"drumbeat/crawl/outlook"
	"drumbeat/internal/human"
)

// words prints an outlook for people.
type words struct{ *outlook.Outlook }

// wide is the width of the text, label that of its labels.
const (
	wide  = 100
	label = 7
)

// paragraph wraps a text behind a label.
func paragraph(b *strings.Builder, name, text string) {
	for _, line := range flags.Wrap(text, wide-label) {
		fmt.Fprintf(b, "%-*s%s\n", label, name, line)
		name = ""
	}
}

// write prints what is ahead first, and then the figures that it rests on.
func (o *words) write(w io.Writer) error {
	f := o.Figures
	var b strings.Builder
	paragraph(&b, "Crawl", fmt.Sprintf("%s (%s): %s pages in %s, %s links, %s unique URLs, %s of them queued",
		strings.Join(f.Dirs, ", "), f.State, human.Rough(f.Pages), human.Seconds(f.Whole.Active),
		human.Rough(f.Links), human.Rough(f.Unique), human.Rough(f.Queued)))
	paragraph(&b, "Disk", o.disk())
	paragraph(&b, "End", o.end())
	if o.isTarget() {
		paragraph(&b, "Pages", o.pages())
	}
	paragraph(&b, "Speed", o.Limit+" "+o.disksLimit())
	paragraph(&b, "More", o.Theorem+".")
	paragraph(&b, "Model", o.Model)
	for i, note := range o.Notes {
		name := ""
		if i == 0 {
			name = "Notes"
		}
		paragraph(&b, name, note)
	}
	if _, err := io.WriteString(w, b.String()+"\n"); err != nil {
		return err
	}
	for _, t := range []result.Table{o.sizes(), o.measured(), o.changes()} {
		if err := t.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// isTarget reports whether the target is neither the end nor a full disk.
func (o *words) isTarget() bool {
	return (o.DiskFull == nil || o.Target != o.DiskFull.Pages) && (o.End == nil || o.Target != o.End.Pages)
}

// when writes a moment: pages, the time until then, and its date.
func when(m *outlook.When) string {
	text := fmt.Sprintf("at %s pages, after %s more", human.Rough(m.Pages), human.Seconds(m.Seconds))
	switch {
	case m.Seconds < 1:
		return fmt.Sprintf("now, at %s pages", human.Rough(m.Pages))
	case m.At.IsZero():
		return text + " of crawling"
	}
	return text + ", about " + date(m.At, time.Duration(m.Seconds*float64(time.Second)))
}

// date writes a date, with the time of day if it is near.
func date(t time.Time, in time.Duration) string {
	if in < 10*24*time.Hour {
		return t.Format("2 Jan 2006 15:04 UTC")
	}
	return t.Format("2 Jan 2006")
}

// disk says when the disk is full.
func (o *words) disk() string {
	f, limit := o.Figures, o.Changes[0].Machine.DiskBytes
	now := fmt.Sprintf("%s of %s are in use", human.Bytes(f.DiskUsed), human.Bytes(limit))
	switch {
	case o.DiskFull != nil && o.FullDir == "" && o.Beyond && o.DiskFull.Pages > o.End.Pages:
		return fmt.Sprintf("enough until the end; with a wider scope it is full %s; %s", when(o.DiskFull), now)
	case o.DiskFull != nil && o.FullDir != "":
		return fmt.Sprintf("the file system of %s is full %s, if it keeps filling as in the last hours; %s", o.FullDir,
			when(o.DiskFull), now)
	case o.DiskFull != nil:
		return fmt.Sprintf("full %s; %s", when(o.DiskFull), now)
	case o.End != nil && !o.Beyond:
		return fmt.Sprintf("enough until the end; %s", now)
	}
	return fmt.Sprintf("enough for 1,000 times the pages so far; %s", now)
}

// end says when the crawl ends.
func (o *words) end() string {
	f := o.Figures
	flow := fmt.Sprintf("a page adds %s URLs to the queue and takes %s", human.Rough(o.Ahead.UniquePerPage),
		human.Rough(o.Ahead.EndedPerPage))
	switch {
	case f.Done != "":
		return "the crawl has ended: " + f.Done
	case f.Visits:
		return "none: pages are visited again (--recrawl)"
	case o.End == nil && o.Grows:
		return "not in sight, the queue grows: " + flow
	case o.End == nil:
		return "not in sight: " + flow
	case o.Grows:
		return fmt.Sprintf("the queue grows: %s. If new URLs become rarer as before, the crawl ends %s; that is rough",
			flow, when(o.End))
	case o.End.Fading > 1.5*o.End.Seconds:
		return fmt.Sprintf("%s, at the current rate (%s). Expect %s or more: the rate falls as hosts run out "+
			"of URLs", when(o.End), flow, human.Seconds(o.End.Fading))
	}
	return fmt.Sprintf("%s (%s)", when(o.End), flow)
}

// pages says when the crawl has the pages of --pages, and whether it gets there.
func (o *words) pages() string {
	text := fmt.Sprintf("%s pages %s, with %s on disk", human.Rough(o.Target), strings.TrimPrefix(when(&o.Reached),
		"at "+human.Rough(o.Target)+" pages, "), human.Bytes(int64(o.DiskThen)))
	switch {
	case o.DiskFull != nil && o.DiskFull.Pages < o.Target:
		text += ": more than the disk holds"
	case o.Beyond:
		text += ", if the scope is wider"
	}
	return text
}

// disksLimit says when the disks become the limit.
func (o *words) disksLimit() string {
	switch at := o.DisksLimitAt; {
	case at == 0:
		return "They can keep up with the current rate for 1,000 times the pages so far."
	case at <= o.Figures.Pages:
		return "They are at their limit now."
	default:
		return fmt.Sprintf("They can keep up with the current rate until %s pages.", human.Rough(at))
	}
}

// sizes is the table of disk space.
func (o *words) sizes() result.Table {
	t := result.Table{Title: "Disk space",
		Head: []string{"part", "now", fmt.Sprintf("at %s pages", human.Rough(o.Target))}}
	sum := outlook.Part{Name: "total"}
	for _, p := range o.Parts {
		sum.Now, sum.Then = sum.Now+p.Now, sum.Then+p.Then
	}
	for _, p := range append(o.Parts, sum) {
		t.Add(p.Name, human.Bytes(int64(p.Now)), human.Bytes(int64(p.Then)))
	}
	t.Notes = []string{fmt.Sprintf("Fetching pauses %s before the limit. Stores count at their largest size of "+
		"the last hours.", human.Bytes(o.Figures.DiskReserve))}
	return t
}

// measured is the table of the figures, beside those of the paper's crawl.
func (o *words) measured() result.Table {
	f := o.Figures
	t := result.Table{Title: "Figures measured", Head: []string{"", "last " + human.Seconds(f.Recent.Active),
		"whole crawl", "next pages", "paper"}}
	type row struct {
		name  string
		of    func(s *outlook.Span) float64
		paper string
	}
	for _, r := range []row{
		{"pages/s", func(s *outlook.Span) float64 { return s.PagesPerSecond }, "1,790"},
		{"links per page (l)", func(s *outlook.Span) float64 { return s.LinksPerPage }, "59"},
		{"new URLs per link (p)", func(s *outlook.Span) float64 { return s.UniqueShare }, "0.11"},
		{"new URLs per page", func(s *outlook.Span) float64 { return s.UniquePerPage }, "6.5"},
		{"queued URLs used per page", func(s *outlook.Span) float64 { return s.EndedPerPage }, "1.19"},
		{"links that the RAM cache misses", func(s *outlook.Span) float64 { return s.Misses }, "0.33"},
		{"bytes per URL (b)", func(s *outlook.Span) float64 { return s.URLBytes }, "110"},
		{"bytes stored per page", func(s *outlook.Span) float64 { return s.OutputBytes }, ""},
		{"requests per page", func(s *outlook.Span) float64 { return s.Requests }, "1.19"},
		{"new hosts per page", func(s *outlook.Span) float64 { return s.Hosts }, "0.101"},
		{"new PLDs per page", func(s *outlook.Span) float64 { return s.PLDs }, "0.0141"},
	} {
		t.Add(r.name, human.Rough(r.of(&f.Recent)), human.Rough(r.of(&f.Whole)), human.Rough(r.of(&o.Ahead)),
			r.paper)
	}
	switch {
	case o.Fade == 0 && f.Fade > 0:
		t.Notes = []string{"p stays as given."}
	case o.Fade > 0.02:
		t.Notes = []string{fmt.Sprintf("New URLs per page fall by %.0f %% with each doubling of the pages.",
			100*(1-math.Exp2(-o.Fade)))}
	default:
		t.Notes = []string{"New URLs per page do not fall as the crawl grows."}
	}
	return t
}

// changes is the table of what more RAM and disks would change.
func (o *words) changes() result.Table {
	t := result.Table{Title: fmt.Sprintf("Effect of more RAM and disks, at %s pages", human.Rough(o.Target)),
		Head: []string{"machine", "RAM", "disk", "disk speed", "bytes per link", "alpha", "disks allow",
			"disk full at"}}
	for i := range o.Changes {
		c := &o.Changes[i]
		full := "never"
		if c.DiskFull > 0 {
			full = human.Rough(c.DiskFull) + " pages"
		}
		t.Add(c.Name, human.Bytes(c.Machine.RAMBytes), human.Bytes(c.Machine.DiskBytes),
			human.Bytes(int64(c.Machine.DiskRate))+"/s", fmt.Sprintf("%.1f", c.LinkBytes), fmt.Sprintf("%.2f", c.Alpha),
			human.Rough(c.DiskPages)+" pages/s", full)
	}
	return t
}
