package outlook

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// Input is what an outlook is made from.
type Input struct {
	Figures *Figures
	// Plan makes the plan of a machine: Machine, or one with more.
	Plan    func(Machine) (plan.Plan, error)
	Machine Machine
	Dirs    []string // of state; their number is that of Machine
	// Elsewhere says that the machine has other disks than the crawl's, so how theirs fill up does not matter.
	Elsewhere bool
	// Given replaces measured figures of the pages to come; zero fields do not. Pages is the target, MaxRate the
	// rate.
	Given plan.Load
	// NoOutput says that no responses will be stored.
	NoOutput bool
	Now      time.Time
}

// Outlook is what is ahead of a crawl.
type Outlook struct {
	Made    time.Time `json:"made"`
	Figures *Figures  `json:"measured"`
	Ahead   Span      `json:"ahead"`  // figures of the next pages
	Fade    float64   `json:"fade"`   // how new URLs per page fall from there, as Figures.Fade
	Target  float64   `json:"target"` // pages for which sizes and changes are computed
	// Beyond says that the queue is empty before Target: sizes and changes are those of a crawl of a wider web, with
	// the figures of the whole crawl so far.
	Beyond bool `json:"beyond"`
	// Reached is when the crawl has Target pages; DiskFull when its disk is full, nil if it does not become full before
	// the end; End when its queue is empty, nil if that is out of reach.
	Reached  When   `json:"reached"`
	DiskFull *When  `json:"diskFull,omitempty"`
	FullDir  string `json:"fullDir,omitempty"` // whose file system is full first; "" for --disk
	End      *When  `json:"end,omitempty"`
	Grows    bool   `json:"queueGrows"`

	Parts    []Part   `json:"parts"`
	DiskThen float64  `json:"diskThen"` // sum of Parts at Target
	Limit    string   `json:"limit"`    // what limits the crawl now, in sentences
	Changes  []Change `json:"changes"`  // the first is the machine as it is
	Bound    Bound    `json:"bound"`
	Theorem  string   `json:"theorem"`
	// DisksLimitAt is the number of pages at which the disks allow no more than the rate of now; 0 if that is out of
	// reach.
	DisksLimitAt float64 `json:"disksLimitAt"`
	DiskRateBy   RateBy  `json:"diskRateBy"`
	// Model is measured beside predicted I/O, in a sentence.
	Model string   `json:"model"`
	Notes []string `json:"notes"`
}

// When is a moment of a crawl.
type When struct {
	Pages   float64   `json:"pages"`
	Seconds float64   `json:"seconds"`     // of crawling from now, at the rate of now
	At      time.Time `json:"at,omitzero"` // if the crawl is running
	// Fading is Seconds if the rate falls with the queue, as it does once few hosts are left and their delays
	// decide; 0 where that is not to be expected. A host with far more URLs than the others takes longer still.
	Fading float64 `json:"fadingSeconds,omitzero"`
}

const (
	// assumedDiskRate is the speed of a disk that was not measured, in bytes/s.
	assumedDiskRate = 150e6
	// usualURLBytes is b in the paper, for a crawl that has found no URL.
	usualURLBytes = 110
	// leastLinks stands for the links per page of a crawl that follows none.
	leastLinks = 1e-6
)

// Make computes the outlook.
func Make(in Input) (*Outlook, error) {
	f := in.Figures
	made, err := in.Plan(in.Machine)
	if err != nil {
		return nil, err
	}
	g := in.growth(&made, f.Recent, f.Fade)
	o := &Outlook{Made: in.Now, Figures: f, Ahead: g.per, Fade: g.fade}
	in.Machine.DiskRate, o.DiskRateBy = in.diskRate()
	o.Ahead.UniquePerPage = g.newPerPage()
	o.Ahead.UniqueShare = o.Ahead.UniquePerPage / max(leastLinks, o.Ahead.LinksPerPage)
	if g.per.PagesPerSecond <= 0 {
		return nil, errors.New("crawl: no pages arrived in the last hours of crawling: give a rate (--max-rate)")
	}
	if in.Given.Pages > 0 && in.Given.Pages <= f.Pages {
		return nil, fmt.Errorf("crawl: --pages %.0f: the crawl has %.0f already", in.Given.Pages, f.Pages)
	}
	o.Grows = o.Ahead.UniquePerPage >= g.per.EndedPerPage
	near := g
	if end, ends := g.end(); ends && !f.Visits {
		o.End = o.when(&in, end)
		if use := f.idle(); use.Name == snapshot.SlotPolite.String() && f.Queued > 1 && !o.Grows {
			o.End.Fading = o.End.Seconds * max(1, math.Log(f.Queued))
		}
		if in.Given.Pages > end {
			o.Beyond = true
			g = in.growth(&made, in.wider(), 0)
		}
	}
	o.moments(&in, near, g)
	o.Parts = g.parts(o.Target)
	for _, p := range o.Parts {
		o.DiskThen += p.Then
	}
	if err := o.compare(&in, g); err != nil {
		return nil, err
	}
	o.Limit, o.Model = o.limit(), o.model()
	o.note()
	return o, nil
}

// wider returns the figures of more pages than the web in scope has: those of the whole crawl, with as many new URLs as
// the pages take at least.
func (in *Input) wider() Span {
	per, recent := in.Figures.Whole, &in.Figures.Recent
	per.PagesPerSecond, per.OutputBytes = recent.PagesPerSecond, recent.OutputBytes
	per.UniqueShare = min(1, max(per.UniqueShare, per.EndedPerPage/max(1, per.LinksPerPage)))
	return per
}

// growth returns the growth of a crawl whose pages to come are like those of a span, but for what was given.
func (in *Input) growth(p *plan.Plan, per Span, fade float64) *growth {
	f := in.Figures
	g := &growth{f: f, per: per, fade: fade, plan: p, text: max(1, cmp.Or(f.TextRatio, plan.TextRatio)),
		most: max(farthest*f.Pages, 2*in.Given.Pages)}
	given := &in.Given
	for _, set := range []struct{ at, to *float64 }{{&g.per.LinksPerPage, &given.LinksPerPage},
		{&g.per.Misses, &given.Misses}, {&g.per.URLBytes, &given.URLBytes}, {&g.per.OutputBytes, &given.PageBytes},
		{&g.per.PagesPerSecond, &given.MaxRate}, {&g.text, &given.TextRatio}} {
		if *set.to > 0 {
			*set.at = *set.to
		}
	}
	if g.per.URLBytes == 0 { // no new URL in the last hours, or none at all
		g.per.URLBytes = cmp.Or(f.Whole.URLBytes, usualURLBytes)
	}
	if in.NoOutput {
		g.per.OutputBytes = 0
	}
	if given.UniqueFraction > 0 {
		g.per.UniqueShare, g.fade = given.UniqueFraction, 0
	}
	g.per.UniquePerPage = g.per.UniqueShare * g.per.LinksPerPage
	g.per.Misses = max(g.per.Misses, g.per.UniqueShare) // new links are in no cache
	return g
}

// RateBy says where the speed of the disks comes from.
type RateBy string

// The sources.
const (
	RateGiven   RateBy = "given"
	RatePasses  RateBy = "passes"  // of the crawl, with the work on their results
	RateAssumed RateBy = "assumed" // no pass was large enough, or the disks are others
)

// diskRate returns the speed of the disks, in bytes/s, and where it comes from.
func (in *Input) diskRate() (float64, RateBy) {
	switch f := in.Figures; {
	case in.Given.DiskRate > 0:
		return in.Given.DiskRate, RateGiven
	case f.DiskRate > 0 && !in.Elsewhere:
		return f.DiskRate, RatePasses
	}
	return assumedDiskRate * float64(max(1, in.Machine.Dirs)), RateAssumed
}

// when returns when the crawl has pages.
func (o *Outlook) when(in *Input, pages float64) *When {
	w := &When{Pages: pages, Seconds: (pages - in.Figures.Pages) / o.Ahead.PagesPerSecond}
	if days := w.Seconds / 86400; in.Figures.State == state.StateRunning && days < 100*366 {
		w.At = in.Now.Add(time.Duration(w.Seconds * float64(time.Second))).UTC().Truncate(time.Second)
	}
	return w
}

// moments finds when the disk is full, and the target. near is the growth until the end, g that until the target.
func (o *Outlook) moments(in *Input, near, g *growth) {
	f := in.Figures
	last := max(in.Given.Pages, f.Pages*farthest)
	if o.End != nil && !o.Beyond {
		last = o.End.Pages
	}
	full, fills := near.full(in.Machine.DiskBytes)
	if o.Beyond && (!fills || full > o.End.Pages) {
		full, fills = g.full(in.Machine.DiskBytes)
	}
	if dir := f.FreeFor; dir.Path != "" && !in.Elsewhere && (!fills || f.Pages+dir.Pages < full) {
		full, fills, o.FullDir = f.Pages+dir.Pages, true, dir.Path
	}
	if fills && full < last {
		o.DiskFull = o.when(in, full)
	} else {
		o.FullDir = ""
	}
	switch {
	case in.Given.Pages > 0:
		o.Target = in.Given.Pages
	case o.DiskFull != nil:
		o.Target = full
	case o.End != nil:
		o.Target = o.End.Pages
	default:
		o.Target = 10 * f.Pages
	}
	o.Target = max(o.Target, f.Pages)
	o.Reached = *o.when(in, o.Target)
}

// full returns the number of pages at which fetching pauses for a limit of all files; ok is false if that is out of
// reach.
func (g *growth) full(limit int64) (pages float64, ok bool) {
	room := float64(limit - g.f.DiskReserve)
	return g.reaches(func(pages float64) bool { return g.used(pages) >= room })
}

// compare judges the machine as it is and with more.
func (o *Outlook) compare(in *Input, g *growth) error {
	o.Changes = changes(in.Machine)
	for i := range o.Changes {
		c := &o.Changes[i]
		made, err := in.Plan(c.Machine)
		if err != nil {
			return err
		}
		other := *g
		other.plan, other.base = &made, nil
		if err := other.judge(c, o.Target, in.dirs(c.Machine.Dirs)); err != nil {
			return err
		}
		if full, ok := other.full(c.Machine.DiskBytes); ok && (o.End == nil || o.Beyond || full < o.End.Pages) {
			c.DiskFull = full
		}
	}
	o.Bound = boundOf(o.Changes)
	o.Theorem = o.theorem()
	slow := func(pages float64) bool {
		c := Change{Machine: in.Machine}
		return g.judge(&c, pages, in.Dirs) == nil && c.DiskPages <= g.per.PagesPerSecond
	}
	if at, ok := g.reaches(slow); ok {
		o.DisksLimitAt = at
	}
	return nil
}

// dirs returns so many directories.
func (in *Input) dirs(n int) []string {
	list := slices.Clone(in.Dirs)
	for len(list) < n {
		list = append(list, fmt.Sprint("more", len(list)))
	}
	return list[:n]
}

// limits say what the uses of idle slots mean, and what helps.
var limits = map[string][2]string{
	snapshot.SlotCPU.String():    {"The CPU", "Faster or more cores help"},
	snapshot.SlotLimit.String():  {"Your limits (--rate, --bandwidth, --connections)", "Raise them to go faster"},
	snapshot.SlotPolite.String(): {"The delays of hosts and servers", "More hosts help: more seeds, a wider scope"},
	snapshot.SlotRoom.String():   {"The admission of URLs into RAM", "More RAM helps"},
	snapshot.SlotDNS.String():    {"DNS", "Faster or more name servers help"},
	snapshot.SlotRobots.String(): {"Requests for robots.txt", "More connections help"},
	snapshot.SlotDisk.String():   {"Merges on disk", "RAM and disks help as the table says"},
	snapshot.SlotDeferred.String(): {"The waits of deferred URLs",
		"They are due later; drumbeat explain shows the reasons"},
	snapshot.SlotSpace.String(): {"Lack of disk space, or an outage", "More disk space or a better network helps"},
	snapshot.SlotLinks.String(): {"The web in scope", "Nothing else is queued: more seeds or a wider scope help"},
}

// working is the share of busy connections from which on they are what limits a crawl.
const working = 0.75

// busy returns the share of connections that worked for a page.
func (f *Figures) busy() (share float64) {
	for _, u := range f.Uses {
		if works(u) {
			share += u.Share
		}
	}
	return share
}

// idle returns what most of the other connections waited for; no name if there were none.
func (f *Figures) idle() Use {
	for _, u := range f.Uses {
		if !works(u) && u.Share > 0 {
			return u
		}
	}
	return Use{}
}

func works(u Use) bool {
	return u.Name == snapshot.SlotRead.String() || u.Name == snapshot.SlotWork.String()
}

// limit says what limits the crawl now.
func (o *Outlook) limit() string {
	first, busy := o.Figures.idle(), o.Figures.busy()
	disks := fmt.Sprintf(" By the model, the disks allow %s pages/s.", human.Rough(o.Changes[0].DiskPages))
	text := limits[first.Name]
	switch {
	case busy == 0 && first.Name == "":
		return "The history does not show how the connections were used." + disks
	case busy >= working || first.Name == "":
		return fmt.Sprintf("The number of connections limits the crawl: %.0f %% of them are busy. More --connections "+
			"may be faster.", 100*busy) + disks
	}
	return fmt.Sprintf("%s: %.0f %% of the connections wait for this, %.0f %% are busy. %s.", text[0], 100*first.Share,
		100*busy, text[1]) + disks
}

// model compares what was measured with what was predicted.
func (o *Outlook) model() string {
	f := o.Figures
	if f.LinkIO <= 0 || f.PredictedLinkIO <= 0 {
		return "URLseen has written no links to disk yet, so the model cannot be checked."
	}
	ratio := f.LinkIO / f.PredictedLinkIO
	judgement := "the model holds"
	switch {
	case ratio > 1.25:
		judgement = "where URLseen is the limit, the disks allow less than the table says"
	case ratio < 0.8:
		judgement = "where URLseen is the limit, the disks allow more than the table says"
	}
	return fmt.Sprintf("URLseen read and wrote %.1f bytes per link; the model predicted %.1f for the same passes "+
		"(%+.0f %%): %s.", f.LinkIO, f.PredictedLinkIO, 100*(ratio-1), judgement)
}

// note adds what a reader must know to judge the rest.
func (o *Outlook) note() {
	f := o.Figures
	add := func(format string, args ...any) { o.Notes = append(o.Notes, fmt.Sprintf(format, args...)) }
	switch o.DiskRateBy {
	case RateAssumed:
		add("The plan assumes disks of 150 MB/s each. Give --disk-rate, or --measure.")
	case RatePasses:
		add("The speed of the disks is that of the passes so far, which also process their results: disks that do " +
			"nothing else may be faster. --measure measures them.")
	}
	if o.Beyond {
		add("The web in scope has fewer pages: the queue is empty at %s. Sizes at %s pages assume a wider "+
			"web with the figures of the crawl so far and a constant "+
			"p.", human.Rough(o.End.Pages), human.Rough(o.Target))
	}
	if o.Target > 10*f.Pages {
		add("%s pages are %s times the pages so far: the sizes are rough estimates.", human.Rough(o.Target),
			human.Rough(o.Target/f.Pages))
	}
	if f.Recent.Pages < 5*LeastPages || f.Whole.Active < time.Hour.Seconds() {
		add("The crawl is young: %s and %s. Ask again later for better figures.",
			human.Counted(int64(f.Pages), "page", "pages"), human.Seconds(f.Whole.Active))
	}
	if f.Node {
		add("The figures cover only this node of the cluster.")
	}
	if f.Visits {
		add("The crawl visits pages again, so it does not end by itself.")
	}
	if f.Done != "" {
		add("The crawl has ended (%s). The plan shows a crawl of more such pages.", f.Done)
	}
	if len(f.Damage) > 0 {
		add("Files of the history are damaged: %s.", strings.Join(f.Damage, "; "))
	}

}
