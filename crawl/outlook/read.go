package outlook

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// A crawl with less than this has no figures to plan with.
const (
	LeastActive = 10 * time.Minute // time in which the crawl ran, within the history
	LeastPages  = 500
)

// Figures.Recent are the last recentHours in which the crawl ran, or the last half of a shorter history.
const recentHours = 6 * time.Hour

// Figures are the measured figures of a crawl.
type Figures struct {
	Crawl   string    `json:"crawl"`
	Dirs    []string  `json:"dirs"`    // of state, by number
	Time    time.Time `json:"time"`    // of the last sample of the history
	State   string    `json:"state"`   // as of state.Reader.Activity
	Done    string    `json:"done"`    // why the crawl finished; "" if it has not
	Visits  bool      `json:"visits"`  // pages are visited again (--recrawl)
	Node    bool      `json:"node"`    // the crawl is one node of several
	Storing bool      `json:"storing"` // responses are stored

	Pages  float64 `json:"pages"`
	Links  float64 `json:"links"` // that passed all filters
	Unique float64 `json:"unique"`
	Queued float64 `json:"queued"` // URLs that have not ended
	Hosts  float64 `json:"hosts"`
	PLDs   float64 `json:"plds"`
	Edges  float64 `json:"edges"`

	RAMBytes    int64 `json:"ramBytes"`  // --ram
	DiskLimit   int64 `json:"diskLimit"` // --disk
	DiskUsed    int64 `json:"diskUsed"`
	DiskReserve int64 `json:"diskReserve"` // distance from DiskLimit at which fetching pauses
	Connections int   `json:"connections"`
	FreeFor     Dir   `json:"freeFor"` // the directory whose file system is full first; no path if none is filling up

	Recent Span `json:"recent"`
	Whole  Span `json:"whole"`
	// Fade is how new URLs per page fall: as the number of pages to the power of -Fade. 0 if they do not fall.
	Fade float64 `json:"fade"`
	Uses []Use   `json:"uses"` // of connection slots in Recent, the largest first

	// Sizes on disk by structure: the last one, and the highest in Recent.
	Sizes       map[string]Size `json:"sizes"`
	QueuedBytes float64         `json:"queuedBytes"` // of a queued URL on disk; 0 if it is not known
	Merged      bool            `json:"merged"`      // URLseen ran a pass in Recent

	// I/O of URLseen for a link, measured and predicted, and of the crawl for a page; 0 before the first pass.
	LinkIO          float64 `json:"linkIO"`
	PredictedLinkIO float64 `json:"predictedLinkIO"`
	PageIO          float64 `json:"pageIO"`
	// TextRatio is the compression of links' texts in URLseen; 0 if it is not known.
	TextRatio float64 `json:"textRatio"`
	// DiskRate is W, the bytes/s of passes; 0 if none was large enough.
	DiskRate float64 `json:"diskRate"`
	// Damage has the files of the history that could not be read to their end.
	Damage []string `json:"damage,omitempty"`
}

// Size is the size of a structure on disk, in bytes.
type Size struct {
	Now     float64 `json:"now"`
	Highest float64 `json:"highest"`
}

// Dir is a directory whose file system fills up.
type Dir struct {
	Path  string  `json:"path"`
	Pages float64 `json:"pages"` // until it has too little space
}

// Use is the share of the connection slots with a use.
type Use struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// Span are the figures of a part of a crawl's time.
type Span struct {
	Active         float64 `json:"active"` // seconds in which the crawl ran
	Pages          float64 `json:"pages"`
	PagesPerSecond float64 `json:"pagesPerSecond"`
	LinksPerPage   float64 `json:"linksPerPage"` // after all filters: l
	UniqueShare    float64 `json:"uniqueShare"`  // p
	UniquePerPage  float64 `json:"uniquePerPage"`
	Misses         float64 `json:"misses"`       // share of links that the RAM cache did not know
	URLBytes       float64 `json:"urlBytes"`     // of a URL's record: b
	OutputBytes    float64 `json:"outputBytes"`  // stored for a page, with the crawl log
	EndedPerPage   float64 `json:"endedPerPage"` // URLs that leave the queue
	Requests       float64 `json:"requestsPerPage"`
	Hosts          float64 `json:"hostsPerPage"`
	PLDs           float64 `json:"pldsPerPage"`
	Edges          float64 `json:"edgesPerPage"`
}

// Read reads the figures of the crawl whose state is in dirs, given in any order. A crawl without a history, or with
// one that is too short, is an error that wraps state.ErrIncompatible.
func Read(fsys disk.FS, dirs []string) (*Figures, error) {
	r, err := state.OpenReader(fsys, dirs, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m, dir := r.Manifest, r.Set.Path(0)
	all, err := readSeries(fsys, dir, time.Time{})
	if err != nil {
		return nil, err
	}
	if err := enough(all, dir, m.Done != ""); err != nil {
		return nil, err
	}
	recent, err := readSeries(fsys, dir, all.data.Times[all.recent()])
	if err != nil {
		return nil, err
	}
	f := &Figures{Crawl: r.CrawlID, Dirs: r.Set.Paths, Time: all.data.Times[all.last()], State: r.Activity(),
		Done: m.Done, Visits: m.Accounts.Recrawled(), Node: m.Frozen.Nodes > 1, Storing: m.Run == nil || m.Run.Store}
	for _, err := range all.data.Damage {
		f.Damage = append(f.Damage, err.Error())
	}
	f.totals(all)
	f.Whole, f.Fade = all.span(0), all.fade()
	f.ofRecent(recent)
	f.limits(recent)
	f.model(all)
	return f, nil
}

// enough returns an error if the history is too short to plan with.
func enough(s *series, dir string, done bool) error {
	if s.last() < 0 {
		return state.Incompatible("%s has no history of figures (the crawl ran with --history-bytes 0); plan --from "+
			"needs %s of it and %d pages", dir, human.Duration(LeastActive), LeastPages)
	}
	active := time.Duration((s.now("active_seconds_total") - s.at("active_seconds_total", 0)) * float64(time.Second))
	pages := int64(s.now("pages_total") - s.at("pages_total", 0))
	if active >= LeastActive && pages >= LeastPages {
		return nil
	}
	text := fmt.Sprintf("the history in %s has %s of crawling and %s; plan --from needs %s and %d pages", dir,
		human.Duration(active), human.Counted(pages, "page", "pages"), human.Duration(LeastActive), LeastPages)
	switch {
	case done:
		return state.Incompatible("%s: the crawl has ended and is too small to plan with", text)
	case active < LeastActive:
		return state.Incompatible("%s: try again after %s more of crawling", text, human.Duration(LeastActive-active))
	}
	return state.Incompatible("%s: try again later", text)
}

// recent returns the sample at which the last hours begin.
func (s *series) recent() int {
	half := (s.now("active_seconds_total") - s.at("active_seconds_total", 0)) / 2
	return min(s.from("active_seconds_total", min(half, recentHours.Seconds())), s.from("pages_total", LeastPages/2))
}

// totals takes the totals of the last sample.
func (f *Figures) totals(s *series) {
	f.Pages, f.Unique = s.now("pages_total"), s.now("unique_urls_total")
	f.Links = s.sum(s.last(), "links_cached_total", "links_checked_total")
	f.Hosts, f.PLDs, f.Edges = s.now("hosts"), s.now("plds"), s.now("pld_edges")
	f.Queued = s.sum(s.last(), waiting()...)
}

// waiting returns the series of the places of URLs that have not ended. What the flags forbid does not count.
func waiting() (names []string) {
	for p := range state.NumPlaces {
		if p != state.PlaceFetched && p != state.PlaceRefused && p != state.PlaceHeld {
			names = append(names, labelled("urls", "place", p.String()))
		}
	}
	return names
}

// ended are the series of URLs that have ended.
var ended = []string{labelled("urls", "place", state.PlaceFetched.String()),
	labelled("urls", "place", state.PlaceRefused.String())}

// span returns the figures from a sample on. Passes of URLseen find new URLs in bursts. So what concerns them is
// taken between two samples at which there were new ones.
func (s *series) span(from int) Span {
	last := s.last()
	gain := func(name string) float64 { return max(0, s.now(name)-s.at(name, from)) }
	v := Span{Active: gain("active_seconds_total"), Pages: gain("pages_total")}
	per := func(name string) float64 { return gain(name) / max(1, v.Pages) }
	v.PagesPerSecond = v.Pages / max(1, v.Active)
	checked := gain("links_checked_total")
	links := checked + gain("links_cached_total")
	v.LinksPerPage, v.Misses = links/max(1, v.Pages), checked/max(1, links)
	v.URLBytes = gain("record_bytes_total") / max(1, gain("urls_sized_total"))
	v.OutputBytes = per(labelled("disk_bytes", "part", "output"))
	v.EndedPerPage = max(0, s.sum(last, ended...)-s.sum(from, ended...)) / max(1, v.Pages)
	v.Requests, v.Hosts, v.PLDs, v.Edges = per("attempts_total"), per("hosts"), per("plds"), per("pld_edges")
	a, b := s.burst(from, 1), s.burst(last, -1)
	if a >= b {
		a, b = from, last
	}
	all := func(i int) float64 { return s.sum(i, "links_cached_total", "links_checked_total") }
	v.UniqueShare = min(1, max(0, s.at("unique_urls_total", b)-s.at("unique_urls_total", a))/max(1, all(b)-all(a)))
	v.UniquePerPage = v.UniqueShare * v.LinksPerPage
	return v
}

// burst returns the first sample from i on, in steps of 1 or -1, at which new URLs were found; i if there is none.
// The first sample of a history counts as one: the crawl has just begun.
func (s *series) burst(i, step int) int {
	for j := i; j >= 0 && j <= s.last(); j += step {
		if j == 0 || s.at("unique_urls_total", j) > s.at("unique_urls_total", j-1) {
			return j
		}
	}
	return i
}

// fade compares the new URLs per page of the last two doublings of the crawl.
func (s *series) fade() float64 {
	end, last := s.now("pages_total"), s.last()
	half, quarter := s.from("pages_total", end/2), s.from("pages_total", end*3/4)
	early, earlyAt := s.newURLs(quarter, half)
	late, lateAt := s.newURLs(half, last)
	if early <= 0 || late <= 0 || lateAt <= earlyAt || earlyAt <= 0 {
		return 0
	}
	return max(0, math.Log(early/late)/math.Log(lateAt/earlyAt))
}

// newURLs returns the new URLs per page between two samples, and the number of pages in the middle.
func (s *series) newURLs(from, to int) (perPage, at float64) {
	from, to = s.burst(from, 1), s.burst(to, -1)
	a, b := s.at("pages_total", from), s.at("pages_total", to)
	if b <= a {
		return 0, 0
	}
	return (s.at("unique_urls_total", to) - s.at("unique_urls_total", from)) / (b - a), (a + b) / 2
}

// ofRecent takes what the last hours tell.
func (f *Figures) ofRecent(s *series) {
	f.Recent = s.span(0)
	f.Merged = s.gainOfRun("urlseen_passes_total", 0) > 0
	f.Sizes = map[string]Size{}
	var queues []string
	for _, part := range s.labels("disk_bytes") {
		name := labelled("disk_bytes", "part", part)
		f.Sizes[part] = Size{s.now(name), s.highest(0, name)}
		if !slices.Contains(stores, part) && part != "output" {
			queues = append(queues, name)
		}
	}
	if f.Queued >= leastQueued {
		f.QueuedBytes = s.sum(s.last(), queues...) / f.Queued
	}
	all := 0.0
	for _, u := range snapshot.SlotUses() {
		n := s.gainOfRun(labelled("slots_sampled_total", "use", u.String()), 0)
		f.Uses = append(f.Uses, Use{u.String(), n})
		all += n
	}
	for i := range f.Uses {
		f.Uses[i].Share /= max(1, all)
	}
	slices.SortStableFunc(f.Uses, func(a, b Use) int { return cmp.Compare(b.Share, a.Share) })
}

// leastQueued is the number of queued URLs from which on the blocks of the queues do not count.
const leastQueued = 10_000

// stores are the structures in disk_bytes that are no queues, and not the output.
var stores = []string{state.NameURLSeen, partEdges, partIndegree, state.NameRobotsCache, state.NameRobotsRequested,
	state.NameNames, state.NameContent, state.NameHostLinks}

// partEdges and partIndegree are the names of STAR's stores in disk_bytes.
const (
	partEdges    = "pldindegree-edges"
	partIndegree = "pldindegree"
)

// limits takes the limits of the last run and how the file systems fill up.
func (f *Figures) limits(s *series) {
	f.RAMBytes, f.DiskLimit = int64(s.now("ram_limit_bytes")), int64(s.now("disk_limit_bytes"))
	f.DiskUsed, f.Connections = int64(s.now("disk_used_bytes")), int(s.positive("connections_limit"))
	keep := 0.0
	for _, dir := range s.labels("dir_free_bytes") {
		k := s.now(labelled("dir_keep_free_bytes", "dir", dir))
		keep = max(keep, k)
		free := labelled("dir_free_bytes", "dir", dir)
		lost := (s.at(free, 0) - s.now(free)) / max(1, f.Recent.Pages)
		if lost <= 0 {
			continue
		}
		if pages := max(0, s.now(free)-k) / lost; f.FreeFor.Path == "" || pages < f.FreeFor.Pages {
			f.FreeFor = Dir{dir, pages}
		}
	}
	// As crawl/space: the next checkpoint, and a margin.
	f.DiskReserve = int64(s.positive("checkpoint_bytes") + min(keep, float64(f.DiskLimit)/16))
}

// model takes what the runs measured and predicted of their I/O, the last one that did.
func (f *Figures) model(s *series) {
	f.LinkIO, f.PredictedLinkIO = s.positive("urlseen_link_io_bytes"), s.positive("urlseen_link_io_predicted_bytes")
	f.TextRatio = s.positive("urlseen_text_ratio")
	pageIO := func(i int) float64 {
		pages := s.at("pages_total", i) - s.at("pages_total", s.run(i))
		return s.sum(i, "disk_read_bytes_total", "disk_written_bytes_total") / max(1, pages)
	}
	f.PageIO = pageIO(s.last())
	for i := s.last(); i >= 0; i-- {
		if rate := s.at("disk_pages_per_second", i); rate > 0 {
			f.DiskRate = rate * pageIO(i)
			return
		}
	}
}
