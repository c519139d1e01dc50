package report

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/explain"
	"drumbeat/state/history"
	"drumbeat/state/report/page"
	"drumbeat/state/snapshot"
)

// The intervals of the charts: those of the paper's figure 6 if they suffice, at most maxIntervals.
const (
	leastInterval = 10 * time.Second
	usualInterval = 10 * time.Minute
	maxIntervals  = 1000
)

// maxHours bounds the rows of the table of what limited the speed.
const maxHours = 60

// over is what the history has over the time of a crawl; empty without a history.
type over struct {
	data *history.Data
}

// readOver reads the history in a directory of a crawl.
func readOver(fsys disk.FS, dir string) (*over, error) {
	dir = path.Join(dir, state.HistoryName)
	o := &over{data: &history.Data{}}
	first, last, err := history.Span(fsys, dir)
	if err != nil || first.IsZero() {
		return o, err
	}
	span := last.Sub(first) + time.Millisecond
	points := int(span / usualInterval)
	if points < maxIntervals/10 { // a short crawl
		points = int(span / leastInterval)
	}
	points = min(max(points, 1), maxIntervals)
	o.data, err = history.Read(fsys, dir, history.Query{From: first, To: last.Add(time.Millisecond), Points: points,
		Names: []string{"active_seconds_total", "pages_total", "received_bytes_total", "robots_received_bytes_total",
			"links_cached_total", "links_checked_total", "unique_urls_total", "hosts", "servers", "hosts_answered",
			"servers_answered", "plds_answered", "slot_samples_total", "slots_sampled_total",
			"beast_queue", "beast_horizon", "urls", "pld_responses_below", "urlseen_link_io_bytes",
			"urlseen_link_io_predicted_bytes", "ram_used_bytes", "disk_used_bytes", "least_host_gap_seconds",
			"least_server_gap_seconds"}})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// value returns the value of a series at a sample; false if the run had no such series.
func (o *over) value(name string, i int) (v float64, ok bool) {
	values := o.data.Series[name]
	if i < 0 || i >= len(values) || math.IsNaN(values[i]) {
		return 0, false
	}
	return values[i], true
}

// at is value with 0 for none.
func (o *over) at(name string, i int) float64 {
	v, _ := o.value(name, i)
	return v
}

// last returns the last value of a series, unknown without a history.
func (o *over) last(name string) float64 {
	values := o.data.Series[name]
	for _, v := range slices.Backward(values) {
		if !math.IsNaN(v) {
			return v
		}
	}
	return unknown
}

// least returns the smallest positive value of a series, unknown without one.
func (o *over) least(name string) float64 {
	least := math.Inf(1)
	for _, v := range o.data.Series[name] {
		if v > 0 {
			least = min(least, v)
		}
	}
	if math.IsInf(least, 1) {
		return unknown
	}
	return least
}

// first is the first sample with a gain: 0 if the history begins with the crawl, so that all totals were 0 before,
// else 1.
func (o *over) first() int {
	if o.at("active_seconds_total", 0) < 2*o.data.Step.Seconds() { // it is the last one of the first interval
		return 0
	}
	return 1
}

// gain returns by how much a total grew from the sample before i to i. After a crash it may step back, which
// counts as no progress; a total of a run starts over at 0.
func (o *over) gain(name string, i int) float64 { return max(0, o.at(name, i)-o.at(name, i-1)) }

// gainOfRun is gain for a total that begins at 0 with each run.
func (o *over) gainOfRun(name string, i int) float64 {
	if now, before := o.at(name, i), o.at(name, i-1); now < before {
		return now
	}
	return o.gain(name, i)
}

// overTime adds what the history has.
func (r *Report) overTime(o *over, f *explain.Figures) {
	r.Events = o.data.Events
	for _, err := range o.data.Damage {
		r.Incomplete = append(r.Incomplete, "A file of the history is damaged: "+err.Error())
	}
	if len(o.data.Times) < 2 {
		why := "The crawl was too short for charts over time."
		if len(o.data.Times) == 0 {
			why = "There are no charts over time: the crawl has no history (--history-bytes)."
		}
		r.Incomplete = append(r.Incomplete, why)
		r.addDegrees(f)
		return
	}
	r.Hours = o.hours()
	r.Charts = append(r.Charts, o.rates()...)
	r.Charts = append(r.Charts, o.queued()...)
	r.Charts = append(r.Charts, o.uniqueness())
	r.addDegrees(f)
	for _, c := range gauges {
		r.Charts = append(r.Charts, o.lines(&c)...)
	}
}

// gauge is a chart of gauges over time, with the name of each line and its series.
type gauge struct {
	name, title, y string
	log            bool
	lines          [][2]string
}

var gauges = [...]gauge{
	{"space", "RAM and disk in use", page.Bytes, false,
		[][2]string{{"RAM", "ram_used_bytes"}, {"disk", "disk_used_bytes"}}},
	{"beast", "Queues of BEAST", "number of the queue", false,
		[][2]string{{"current queue", "beast_queue"}, {"horizon", "beast_horizon"}}},
	{"pld-responses", "Responses per visited domain: upper bounds for a share of the domains, in powers of two",
		"responses", true,
		[][2]string{{"50 %", `pld_responses_below{share="0.5"}`}, {"90 %", `pld_responses_below{share="0.9"}`},
			{"99 %", `pld_responses_below{share="0.99"}`}, {"99.9 %", `pld_responses_below{share="0.999"}`}}},
	{"io", "Disk I/O of URLseen per link", page.Bytes, false,
		[][2]string{{"measured", "urlseen_link_io_bytes"}, {"predicted", "urlseen_link_io_predicted_bytes"}}},
}

// unit returns the unit of time for the axes of charts and its length in seconds.
func (o *over) unit() (name string, seconds float64) {
	switch active := o.last("active_seconds_total"); {
	case active < 5*60:
		return "seconds", 1
	case active < 2*3600:
		return "minutes", 60
	case active < 72*3600:
		return "hours", 3600
	}
	return "days", 86400
}

// active returns the time that the crawl had run at a sample, in the unit of the axes.
func (o *over) active(i int) float64 {
	_, seconds := o.unit()
	return o.at("active_seconds_total", i) / seconds
}

// axis returns the name of the axis of active.
func (o *over) axis() string {
	name, _ := o.unit()
	return name + " of running time"
}

// rates returns the charts of the paper's figure 6: pages per second and the download rate, over the time in which the
// crawl ran.
func (o *over) rates() []page.Chart {
	pages, bits := page.Line{Name: "pages/s"}, page.Line{Name: "Mbit/s"}
	for i := o.first(); i < len(o.data.Times); i++ {
		took := o.gain("active_seconds_total", i)
		if took <= 0 {
			continue
		}
		x := o.active(i)
		pages.Add(x, o.gain("pages_total", i)/took)
		bits.Add(x, 8e-6*(o.gain("received_bytes_total", i)+o.gain("robots_received_bytes_total", i))/took)
	}
	mean := "means of " + human.Duration(o.data.Step)
	return []page.Chart{
		{Name: "pages", Title: "Pages per second, " + mean, X: o.axis(), Y: "pages/s",
			Lines: []page.Line{pages}},
		{Name: "traffic", Title: "Download rate, " + mean, X: o.axis(), Y: "Mbit/s",
			Lines: []page.Line{bits}},
	}
}

// queuedPlaces are the places of URLs that are left to fetch or refuse.
var queuedPlaces = []state.Place{state.PlaceUnstreamed, state.PlaceStar, state.PlaceBeast, state.PlaceRobotsCheck,
	state.PlaceAwaitRobots, state.PlaceReady, state.PlaceRAM, state.PlaceDeferred}

// queued returns the chart of the URLs that are left, none if the history does not have them.
func (o *over) queued() []page.Chart {
	c := page.Chart{Name: "queued", Title: "URLs that wait", X: o.axis(), Y: "URLs"}
	for i, places := range [][]state.Place{queuedPlaces, {state.PlaceOverBudget}} {
		line := page.Line{Name: [...]string{"queued", state.PlaceOverBudget.Text()}[i]}
		for i := range o.data.Times {
			n, known := 0.0, false
			for _, p := range places {
				if v, ok := o.value(`urls{place="`+p.String()+`"}`, i); ok {
					n, known = n+v, true
				}
			}
			if known {
				line.Add(o.active(i), n)
			}
		}
		if len(line.Points) > 0 {
			c.Lines = append(c.Lines, line)
		}
	}
	return chartOf(c)
}

// chartOf returns the chart, none without lines.
func chartOf(c page.Chart) []page.Chart {
	if c.Lines == nil {
		return nil
	}
	return []page.Chart{c}
}

// uniqueness returns the chart of the paper's figure 7(a): p as pages are fetched.
func (o *over) uniqueness() page.Chart {
	now, all := page.Line{Name: "in the interval"}, page.Line{Name: "since the start"}
	for i := o.first(); i < len(o.data.Times); i++ {
		x := o.at("pages_total", i)
		if links := o.gain("links_cached_total", i) + o.gain("links_checked_total", i); links > 0 {
			now.Add(x, min(1, o.gain("unique_urls_total", i)/links))
		}
		if links := o.at("links_cached_total", i) + o.at("links_checked_total", i); links > 0 {
			all.Add(x, min(1, o.at("unique_urls_total", i)/links))
		}
	}
	return page.Chart{Name: "p", Title: "Probability p that a link leads to a new URL", X: "pages", Y: "p",
		Lines: []page.Line{now, all}}
}

// addDegrees adds the chart of the paper's figure 7(b): the mean number of responses from the PLDs of an in-degree.
func (r *Report) addDegrees(f *explain.Figures) {
	var visited page.Line
	for _, c := range f.Degrees {
		if c.From > 0 && c.Visited > 0 {
			visited.Add(float64(c.From), float64(c.Fetched)/float64(c.Visited))
		}
	}
	if len(visited.Points) > 0 {
		visited.Name = "visited domains"
		r.Charts = append(r.Charts,
			page.Chart{Name: "degrees", Title: "Responses from a visited domain, by the domains that link to it",
				X: "domains that link to it", Y: "responses", LogX: true, LogY: true, Lines: []page.Line{visited}})
	}
}

// lines returns a chart of gauges over time, none if they have no values.
func (o *over) lines(g *gauge) []page.Chart {
	c := page.Chart{Name: g.name, Title: g.title, X: o.axis(), Y: g.y, LogY: g.log}
	for _, l := range g.lines {
		line := page.Line{Name: l[0]}
		for i := range o.data.Times {
			if v, ok := o.value(l[1], i); ok {
				line.Add(o.active(i), v)
			}
		}
		if len(line.Points) > 0 {
			c.Lines = append(c.Lines, line)
		}
	}
	return chartOf(c)
}

// Hour is a part of the crawl's time, an hour or more.
type Hour struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Pages float64   `json:"pages"`
	Rate  float64   `json:"pages_per_second"` // while the crawl ran
	Uses  []Use     `json:"uses"`             // of connection slots, largest first
	Text  string    `json:"text"`
}

// Use is the share of the connection slots with a use.
type Use struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// hours returns what limited the speed in each hour, or in each longer interval of a long crawl.
func (o *over) hours() (list []Hour) {
	times := o.data.Times
	span := times[len(times)-1].Sub(times[0])
	width := time.Hour
	for _, w := range []time.Duration{6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour} {
		if span/width > maxHours {
			width = w
		}
	}
	var h Hour
	var active float64
	sums := map[string]float64{}
	flush := func() {
		if active > 0 {
			h.Rate = h.Pages / active
			h.describe(sums)
			list = append(list, h)
		}
	}
	for i := o.first(); i < len(times); i++ {
		if from := times[i].Truncate(width); !from.Equal(h.From) {
			flush()
			h, active = Hour{From: from, To: from.Add(width)}, 0
			clear(sums)
		}
		h.Pages += o.gain("pages_total", i)
		active += o.gain("active_seconds_total", i)
		for _, u := range snapshot.SlotUses() {
			sums[u.String()] += o.gainOfRun(`slots_sampled_total{use="`+u.String()+`"}`, i)
		}
	}
	flush()
	return list[max(0, len(list)-maxHours):]
}

// busy are the uses of slots that work for a page.
var busy = []string{snapshot.SlotRead.String(), snapshot.SlotWork.String()}

// describe says in a sentence what the connections were used for.
func (h *Hour) describe(sums map[string]float64) {
	all := 0.0
	for _, n := range sums {
		all += n
	}
	if all == 0 {
		h.Text = "Nothing is known about the connections."
		return
	}
	for name, n := range sums {
		if share := n / all; share >= 0.005 {
			h.Uses = append(h.Uses, Use{name, share})
		}
	}
	slices.SortFunc(h.Uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	working := 0.0
	var idle []Use
	for _, u := range h.Uses {
		if slices.Contains(busy, u.Name) {
			working += u.Share
		} else {
			idle = append(idle, u)
		}
	}
	switch {
	case working >= 0.9:
		h.Text = fmt.Sprintf("Nearly all connections were busy (%.0f %%): more connections may be faster.", 100*working)
	case len(idle) == 0:
		h.Text = fmt.Sprintf("%.0f %% of the connections were busy.", 100*working)
	default:
		h.Text = fmt.Sprintf("%s: %.0f %% of the connections waited, %.0f %% were busy.",
			limitText(idle[0].Name), 100*idle[0].Share, 100*working)
	}
}

// limitTexts say what the uses of idle slots mean.
var limitTexts = map[string]string{
	snapshot.SlotCPU.String():      "The CPU limited the speed",
	snapshot.SlotLimit.String():    "--rate, --bandwidth or --connections limited the speed",
	snapshot.SlotPolite.String():   "The delays of hosts and servers limited the speed",
	snapshot.SlotRoom.String():     "Admission into RAM limited the speed",
	snapshot.SlotDNS.String():      "DNS lookups limited the speed",
	snapshot.SlotRobots.String():   "Requests for robots.txt limited the speed",
	snapshot.SlotDisk.String():     "Merges on disk limited the speed",
	snapshot.SlotDeferred.String(): "All URLs were deferred, which limited the speed",
	snapshot.SlotSpace.String():    "Missing disk space or an outage limited the speed",
	snapshot.SlotLinks.String():    "No URLs were left, which limited the speed",
}

func limitText(use string) string { return cmp.Or(limitTexts[use], use+" limited the speed") }
