package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/condition"
	"drumbeat/state/report/page"
)

// View says what a page is for.
type View struct {
	// Paper adds the figures of the paper's crawl and where the paper has them, for those who compare.
	Paper bool
	// By is the program and its version.
	By string
}

// large is the number of unique URLs from which a page has the crawler's structures: smaller crawls need none of them.
const large = 10_000

// The most queues and events on the page; the JSON has all.
const (
	shownQueues = 32
	shownEvents = 200
)

// deep are the figures and charts of the crawler's structures and its model, which the page folds.
var deep = map[string]bool{"runs": true, "checked": true, "links_per_page": true, "unique_per_page": true, "p": true,
	"url_bytes": true, "record_bytes": true, "urlseen_bytes": true, "edges": true, "checkpoints": true,
	"degrees": true, "beast": true, "pld-responses": true, "io": true}

// figureOf is where the paper has a chart.
var figureOf = map[string]string{"pages": "6", "traffic": "6", "p": "7a", "degrees": "7b"}

// WriteHTML writes the report as one page.
func (r *Report) WriteHTML(w io.Writer, view View) error {
	p := page.Page{Kind: "Report of a crawl", Title: r.Title, Lines: r.lines(), Notes: r.Incomplete, By: view.By,
		Made: r.Made, Tiles: r.tiles(), Verdict: &page.Verdict{Level: page.Level(r.Verdict.Level),
			Text: r.Verdict.Text, Next: r.Verdict.Next}}
	add := func(id, title string, blocks ...page.Block) {
		if len(blocks) > 0 {
			p.Sections = append(p.Sections, page.Section{ID: id, Title: title, Blocks: blocks})
		}
	}
	charts, deepCharts := r.charts(view)
	add("over-time", "Over time", charts...)
	if view.Paper {
		add("paper", "The crawl beside that of the paper", r.besidePaper()...)
	}
	add("speed", "What limited the speed", r.hours()...)
	add("not-fetched", "Not fetched, and why", r.notFetched()...)
	add("earlier", "Earlier crawls", r.earlier()...)
	add("responses", "Responses by status", r.responses()...)
	add("domains", "Most linked domains", r.domains(view)...)
	add("events", "Events", r.events()...)
	add("settings", "Settings", r.settings()...)
	if !view.Paper {
		add("figures", "More figures", &page.Details{Summary: "Requests, bytes, links, hosts and connections",
			Blocks: r.figures(false)})
	}
	if view.Paper || r.value("unique") >= large {
		add("structures", "The crawler's structures", r.structures(view, deepCharts)...)
	}
	return p.Write(w)
}

// lines are the lines under the title.
func (r *Report) lines() (list []string) {
	if r.Description != "" {
		list = append(list, r.Description)
	}
	if r.Operator != "" {
		list = append(list, "Crawled by "+r.Operator)
	}
	where := "In " + strings.Join(r.Dirs, ", ")
	if len(r.Dirs) == 0 {
		where = "Crawl " + r.AsOf.Crawl
	}
	return append(list, where+", as of "+timeText(r.AsOf.Time))
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// value returns the value of a figure, unknown if there is none.
func (r *Report) value(key string) float64 {
	for i := range r.Summary {
		if r.Summary[i].Key == key {
			return r.Summary[i].Value
		}
	}
	return unknown
}

// tiles are the figures that people ask for first.
func (r *Report) tiles() (list []page.Tile) {
	number := func(key string) string { return Number.text(r.value(key)) }
	add := func(name, value, sub string) { list = append(list, page.Tile{Name: name, Value: value, Sub: sub}) }
	add("Pages", number("pages"), "of "+human.Counted(int64(r.value("responses")), "response", "responses"))
	if rate := r.value("pages_per_second"); rate > 0 && r.value("active") >= 1 {
		text, sub := condition.Rate(rate), "mean of the whole crawl"
		if rate >= 1 {
			text = Rate.text(rate) + " pages/s"
		}
		if peak := r.value("peak_pages_per_second"); peak != unknown {
			sub = "at best " + condition.Rate(peak) + ", over 10 minutes"
		}
		add("Speed", text, sub)
	}
	add("Time", Seconds.text(r.value("active")), "in "+human.Counted(int64(r.value("runs")), "run", "runs"))
	sub := ""
	if bits := r.value("bits_per_second"); bits > 0 && r.value("active") >= 1 {
		sub = Bits.text(bits)
	}
	add("Received", Bytes.text(r.value("received")), sub)
	if hosts := r.value("hosts_answered"); hosts != unknown {
		add("Hosts", number("hosts_answered"), "answered, of "+number("hosts")+" found")
	}
	if domains := r.value("plds_answered"); domains != unknown {
		add("Domains", number("plds_answered"), "answered, of "+number("plds")+" found")
	} else {
		add("Domains", number("plds"), "found")
	}
	add("URLs", number("unique"), "found in "+human.Counted(int64(r.value("links")), "link", "links"))
	refused, left := int64(0), int64(0)
	for _, c := range r.Places {
		if c.Name == state.PlaceRefused.String() {
			refused = c.N
		}
	}
	for _, l := range r.Verdict.Left {
		left += l.URLs
	}
	sub = "none is left"
	if left > 0 {
		sub = "and " + human.Counted(left, "is left", "are left")
	}
	add("Refused URLs", humanize.Comma(refused), sub)
	return list
}

func total(list []Count) (n int64) {
	for _, c := range list {
		n += c.N
	}
	return n
}

// text formats the value of a figure.
func (u Unit) text(v float64) string {
	if v == unknown {
		return "unknown"
	}
	switch u {
	case Bytes:
		return human.Bytes(v)
	case Bits:
		if v < 1e6 {
			return strconv.FormatFloat(v/1e3, 'f', 0, 64) + " kbit/s"
		}
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + " Mbit/s"
	case Rate:
		return humanize.Commaf(math.Round(10*v) / 10)
	case Seconds:
		return human.Seconds(v)
	case Mean:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case Share:
		return percent(v)
	}
	return humanize.Comma(int64(v))
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

// charts returns the charts for everybody, and those of the crawler's structures.
func (r *Report) charts(view View) (plain, structures []page.Block) {
	var lists [2]page.Charts
	for _, c := range r.Charts {
		if at := figureOf[c.Name]; view.Paper && at != "" {
			c.Title += " (figure " + at + " of the paper)"
		}
		i := 0
		if deep[c.Name] {
			i = 1
		}
		lists[i] = append(lists[i], c)
	}
	block := func(list page.Charts) []page.Block {
		if len(list) == 0 {
			return nil
		}
		return []page.Block{list}
	}
	return block(lists[0]), block(lists[1])
}

// table makes a table; a column whose name begins with # has numbers, one with @ times, one with % shares.
func table(columns ...string) *page.Table {
	t := new(page.Table)
	for _, name := range columns {
		c := page.Column{Name: strings.TrimLeft(name, "#@%")}
		switch name[0] {
		case '#':
			c.Kind = page.Number
		case '@':
			c.Kind = page.Time
		case '%':
			c.Kind = page.Share
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

func (r *Report) hours() []page.Block {
	if len(r.Hours) == 0 {
		return nil
	}
	t := table("@from (UTC)", "#pages", "#pages/s", "use of the connections")
	for _, h := range r.Hours {
		t.Rows = append(t.Rows, page.Cells(h.From.Format("2006-01-02 15:04"), humanize.Comma(int64(h.Pages)),
			Rate.text(h.Rate), h.Text))
	}
	return []page.Block{t}
}

// reasons makes a table of counts by reason; nothing for none.
func reasons(title, what string, list []Count) []page.Block {
	if len(list) == 0 {
		return nil
	}
	list = slices.SortedFunc(slices.Values(list), func(a, b Count) int { return cmp.Compare(b.N, a.N) })
	t, all := table(title, "#"+what, "%share"), total(list)
	for _, c := range list {
		words, more := state.ReasonText(c.Name)
		t.Rows = append(t.Rows, append([]page.Cell{{Text: words, Lead: more}}, counted(c.N, all)...))
	}
	return []page.Block{t}
}

// counted returns a number and its share.
func counted(n, all int64) []page.Cell {
	share := float64(n) / float64(max(1, all))
	return []page.Cell{{Text: humanize.Comma(n)}, {Text: percent(share), Share: share}}
}

// notFetched has the URLs that were not fetched, and the requests that failed.
func (r *Report) notFetched() (list []page.Block) {
	if len(r.Verdict.Left) > 0 {
		t := table("URLs left", "how to fetch them")
		for _, l := range r.Verdict.Left {
			_, more := state.ReasonText(l.Reason)
			t.Rows = append(t.Rows, []page.Cell{{Text: l.Text, Lead: more}, {Text: l.Do}})
		}
		list = append(list, t)
	}
	list = append(list, reasons("Refused, by reason", "URLs", r.Refused)...)
	if len(r.Payments) > 0 {
		t := table("Hosts that asked for payment", "#responses", "last price")
		for _, p := range r.Payments {
			t.Rows = append(t.Rows, page.Cells(p.Host, humanize.Comma(p.Responses), p.Price))
		}
		list = append(list, t)
	}
	return append(list, reasons("Failed requests, before another attempt", "requests", r.Failed)...)
}

// earlier has what the crawl took from those of --since.
func (r *Report) earlier() []page.Block {
	if r.Options == nil || len(r.Options.Earlier) == 0 {
		return nil
	}
	t := table("crawl", "#bodies", "#URLs of this scope that it fetched",
		"#left out but for seeds", "#to visit as planned")
	for _, e := range r.Options.Earlier {
		row := []page.Cell{{Text: strings.Join(e.Dirs, ", "), Lead: e.Crawl}}
		for _, n := range []int64{e.Bodies, e.URLs, e.LeftOut, e.Planned} {
			row = append(row, page.Cell{Text: humanize.Comma(n)})
		}
		t.Rows = append(t.Rows, row)
	}
	return []page.Block{t, page.Text("A page with the body of an earlier crawl is a revisit record that refers to " +
		"it. URLs are counted with --since-known due or skip.")}
}

func (r *Report) responses() []page.Block {
	if len(r.Codes) == 0 {
		return nil
	}
	t, all := table("status", "#responses", "%share"), total(r.Codes)
	for _, c := range r.Codes {
		code, _ := strconv.Atoi(c.Name)
		t.Rows = append(t.Rows, append(page.Cells(strings.TrimSpace(c.Name+" "+http.StatusText(code))),
			counted(c.N, all)...))
	}
	return []page.Block{t}
}

func (r *Report) domains(view View) (list []page.Block) {
	if len(r.Top) == 0 {
		return nil
	}
	if view.Paper {
		list = append(list, page.Text("Table VIII of the paper: the PLDs with the largest in-degrees."))
	}
	t := table("domain", "#domains that link to it", "#responses", "#received")
	for _, d := range r.Top {
		t.Rows = append(t.Rows, page.Cells(cmp.Or(d.PLD, "(its name is not stored yet)"),
			humanize.Comma(int64(d.Indegree)), humanize.Comma(int64(d.Fetched)), human.Bytes(d.Bytes)))
	}
	list = append(list, t)
	if r.Most90 > 0 {
		list = append(list, page.Text(fmt.Sprintf("90 %% of the visited domains returned fewer than %s each, 99 %% "+
			"fewer than %s (powers of two).", human.Counted(r.Most90, "response", "responses"),
			humanize.Comma(r.Most99))))
	}
	return list
}

func (r *Report) events() (list []page.Block) {
	if len(r.Events) == 0 {
		return nil
	}
	events := r.Events[max(0, len(r.Events)-shownEvents):]
	if len(events) < len(r.Events) {
		list = append(list, page.Text(fmt.Sprintf("The last %d of %d.", len(events), len(r.Events))))
	}
	t := table("@time (UTC)", "@event", "what happened")
	for _, e := range events {
		t.Rows = append(t.Rows, page.Cells(e.Time.UTC().Format(time.DateTime), e.What, e.Text))
	}
	return append(list, t)
}

// settings has the options of the last run that decide what a crawl fetches, and how fast.
func (r *Report) settings() []page.Block {
	o := r.Options
	if o == nil {
		return nil
	}
	t := table("setting of the last run", "value")
	add := func(name, value string) {
		if value != "" {
			t.Rows = append(t.Rows, page.Cells(name, value))
		}
	}
	delay := func(ms int64) string { return human.Duration(time.Duration(ms) * time.Millisecond) }
	add("User agent", o.Agent)
	add("First seeds", strings.Join(o.FirstSeeds, ", "))
	add("File of seeds", o.Seeds)
	add("Links that are followed (--scope)", string(o.Scope))
	if o.Scope == state.ScopeAll {
		by := strings.Replace(o.Budget, "paper", "by the domains that link to it", 1)
		add("Budget of a domain (--budget)", fmt.Sprintf("%s: %s at first, at most %s", by,
			human.Counted(o.BudgetDefault, "page", "pages"), human.Count(int64(o.BudgetMax))))
	}
	if o.MaxDepth > 0 {
		add("Links from a seed (--guards depth)", "at most "+human.Count(int64(o.MaxDepth)))
	}
	add("Delay of a host (--host-delay)", delay(o.HostDelay))
	add("Delay of a server (--server-delay)", delay(o.ServerDelay))
	add("Program", strings.TrimSuffix("drumbeat "+o.Version, " "))
	add("Crawl", r.AsOf.Crawl)
	add("Checkpoint", strconv.FormatUint(r.AsOf.Checkpoint, 10))
	return []page.Block{t}
}

// figures has the known figures: those of the crawler's structures, or all others.
func (r *Report) figures(structures bool) []page.Block {
	t := table("figure", "#value")
	for _, f := range r.Summary {
		if deep[f.Key] == structures && f.Value != unknown {
			t.Rows = append(t.Rows, page.Cells(f.Name, f.Unit.text(f.Value)))
		}
	}
	return []page.Block{t}
}

func (r *Report) besidePaper() []page.Block {
	t := table("figure", "#this crawl", "#the paper's")
	for _, f := range r.Summary {
		paper := ""
		if f.Paper != 0 {
			paper = f.Unit.text(f.Paper)
		}
		t.Rows = append(t.Rows, page.Cells(f.Name, f.Unit.text(f.Value), paper))
	}
	return []page.Block{page.Text("The paper's figures are those of its section VIII. Its domains are PLDs."), t}
}

// structures has the queues and the stores of the crawler, folded.
func (r *Report) structures(view View, charts []page.Block) (list []page.Block) {
	add := func(summary string, blocks ...page.Block) {
		if len(blocks) > 0 {
			list = append(list, &page.Details{Summary: summary, Blocks: blocks})
		}
	}
	list = append(list, page.Text("These figures are for readers who know how drumbeat works: DRUM keeps the URLs on "+
		"disk, STAR sets the budgets of domains, and BEAST orders the queues by them."))
	add("Charts of the structures", charts...)
	if !view.Paper {
		add("Figures of the structures", r.figures(true)...)
	}
	add("URLs by place", r.places()...)
	add("Responses by the number of domains that link to a domain", r.degrees()...)
	add("Queues of BEAST", r.queues()...)
	return list
}

func (r *Report) places() []page.Block {
	t, all := table("place", "#URLs", "%share"), total(r.Places)
	for _, c := range r.Places {
		t.Rows = append(t.Rows, append(page.Cells(state.PlaceText(c.Name)), counted(c.N, all)...))
	}
	return []page.Block{t}
}

func (r *Report) degrees() []page.Block {
	if len(r.Degrees) == 0 {
		return nil
	}
	t := table("#domains that link, from", "#domains", "#visited", "#responses", "#per visited domain")
	for _, d := range r.Degrees {
		mean := "–"
		if d.Visited > 0 {
			mean = Mean.text(float64(d.Fetched) / float64(d.Visited))
		}
		t.Rows = append(t.Rows, page.Cells(humanize.Comma(int64(d.From)), humanize.Comma(d.PLDs),
			humanize.Comma(d.Visited), humanize.Comma(d.Fetched), mean))
	}
	return []page.Block{t}
}

func (r *Report) queues() []page.Block {
	if len(r.Queues) == 0 {
		return nil
	}
	t := table("queue", "#URLs")
	for _, q := range r.Queues[:min(shownQueues, len(r.Queues))] {
		name := strconv.FormatInt(q.Number, 10)
		if q.Lane > 0 {
			name += fmt.Sprintf(" of lane %d", q.Lane)
		}
		t.Rows = append(t.Rows, page.Cells(name, humanize.Comma(q.URLs)))
	}
	if more := r.Queues[len(t.Rows):]; len(more) > 0 {
		n := int64(0)
		for _, q := range more {
			n += q.URLs
		}
		t.Rows = append(t.Rows, page.Cells(fmt.Sprintf("%d more", len(more)), humanize.Comma(n)))
	}
	return []page.Block{t}
}
