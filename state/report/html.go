package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/internal/human"
	"drumbeat/state"
)

// builder is HTML in the making.
type builder struct{ b bytes.Buffer }

// raw writes markup. Texts in it must be escaped.
func (p *builder) raw(s string) { p.b.WriteString(s) }

// escaper quotes what has a meaning in HTML text and attributes.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

func escape(s string) string { return escaper.Replace(s) }

// tag writes an element with a text.
func (p *builder) tag(name, text string) { p.raw("<" + name + ">" + escape(text) + "</" + name + ">") }

// table writes a table. The first column has names, the others numbers.
func (p *builder) table(head []string, rows [][]string) {
	p.raw("<table><thead><tr>")
	for _, h := range head {
		p.tag("th", h)
	}
	p.raw("</tr></thead><tbody>\n")
	for _, row := range rows {
		p.raw("<tr>")
		for _, cell := range row {
			p.tag("td", cell)
		}
		p.raw("</tr>\n")
	}
	p.raw("</tbody></table>\n")
}

const style = `
:root{color-scheme:light dark;--line:#8886}
body{font:15px/1.5 system-ui,sans-serif;max-width:860px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid var(--line)}
table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.15rem .8rem;border-bottom:1px solid var(--line);vertical-align:top}
th:first-child,td:first-child{text-align:left}
.text td:last-child,.text th:last-child{text-align:left}
figure{margin:1.2rem 0}figcaption{font-weight:600}
svg{width:100%;height:auto}svg text{font-size:11px;fill:currentColor}
.grid{stroke:var(--line);stroke-width:.5}.line{fill:none;stroke-width:1.5;stroke-linejoin:round}
.note{border-left:4px solid #d55e00;padding-left:.8rem}
@media print{body{max-width:none}figure,table{break-inside:avoid}}
`

// WriteHTML writes the report as one page.
func (r *Report) WriteHTML(w io.Writer) error {
	p := new(builder)
	title := "Report of crawl " + r.AsOf.Crawl
	p.raw(`<!doctype html><html lang="en"><head><meta charset="utf-8">` +
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">` +
		`<meta name="viewport" content="width=device-width"><title>` + escape(title) + "</title><style>" + style +
		"</style></head><body>\n")
	p.tag("h1", title)
	p.tag("p", r.introduction())
	for _, text := range r.Incomplete {
		p.raw(`<p class="note">` + escape(text) + "</p>\n")
	}
	r.summaryHTML(p)
	if len(r.Charts) > 0 {
		p.tag("h2", "Over time")
		for i := range r.Charts {
			r.Charts[i].svg(p)
		}
	}
	r.hoursHTML(p)
	r.topHTML(p)
	r.countsHTML(p)
	r.eventsHTML(p)
	p.raw("</body></html>\n")
	_, err := w.Write(p.b.Bytes())
	return err
}

// introduction says what the report is about.
func (r *Report) introduction() string {
	text := fmt.Sprintf("As of checkpoint %d of %s. The crawl is %s", r.AsOf.Checkpoint,
		timeText(r.AsOf.Time), r.AsOf.State)
	if r.AsOf.Done != "" {
		text += " (" + r.AsOf.Done + ")"
	}
	text += "."
	if o := r.Options; o != nil {
		text += fmt.Sprintf(" Agent %s, scope %s, budgets by function %s (default %d, maximum %s), delay of %s "+
			"to a host and %s to a server.", o.Agent, o.Scope, o.Budget, o.BudgetDefault,
			human.Counted(o.BudgetMax, "page", "pages"),
			human.Duration(time.Duration(o.HostDelay)*time.Millisecond),
			human.Duration(time.Duration(o.ServerDelay)*time.Millisecond))
	}
	return text
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// text formats the value of a figure.
func (u Unit) text(v float64) string {
	if v == unknown {
		return "unknown"
	}
	switch u {
	case Bytes:
		return human.Bytes(v)
	case Bits:
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + " Mbit/s"
	case Rate:
		return humanize.Commaf(math.Round(10*v) / 10)
	case Seconds:
		if v >= 86400 {
			return strconv.FormatFloat(v/86400, 'f', 2, 64) + " days"
		}
		return human.Seconds(v)
	case Mean:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case Share:
		return percent(v)
	}
	return humanize.Comma(int64(v))
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

func (r *Report) summaryHTML(p *builder) {
	p.tag("h2", "Summary")
	p.tag("p", "The last column has the figures of the crawl in the paper, section VIII.")
	var rows [][]string
	for _, f := range r.Summary {
		paper := ""
		if f.Paper != 0 {
			paper = f.Unit.text(f.Paper)
		}
		rows = append(rows, []string{f.Name, f.Unit.text(f.Value), paper})
	}
	p.table([]string{"", "this crawl", "paper"}, rows)
}

func (r *Report) hoursHTML(p *builder) {
	if len(r.Hours) == 0 {
		return
	}
	p.tag("h2", "What limited the speed")
	var rows [][]string
	for _, h := range r.Hours {
		rows = append(rows,
			[]string{h.From.Format("2006-01-02 15:04"), humanize.Comma(int64(h.Pages)), Rate.text(h.Rate), h.Text})
	}
	p.raw(`<div class="text">`)
	p.table([]string{"from (UTC)", "pages", "pages/s", ""}, rows)
	p.raw("</div>\n")
}

func (r *Report) topHTML(p *builder) {
	if len(r.Top) == 0 {
		return
	}
	p.tag("h2", "PLDs with the largest in-degree")
	p.tag("p", "Table VIII of the paper.")
	var rows [][]string
	for i, t := range r.Top {
		name := t.PLD
		if name == "" {
			name = "(name not merged yet)"
		}
		rows = append(rows, []string{strconv.Itoa(i+1) + "  " + name, humanize.Comma(int64(t.Indegree)),
			humanize.Comma(int64(t.Fetched)), human.Bytes(t.Bytes)})
	}
	p.table([]string{"PLD", "in-degree", "responses", "received"}, rows)
	if r.Most90 > 0 {
		p.tag("p", fmt.Sprintf("90 %% of the visited PLDs contributed fewer than %s each, 99 %% fewer than "+
			"%s (powers of two).", human.Counted(r.Most90, "response", "responses"),
			humanize.Comma(r.Most99)))
	}
	if len(r.Degrees) > 0 {
		rows = nil
		for _, d := range r.Degrees {
			mean := "–"
			if d.Visited > 0 {
				mean = Mean.text(float64(d.Fetched) / float64(d.Visited))
			}
			rows = append(rows,
				[]string{humanize.Comma(int64(d.From)), humanize.Comma(d.PLDs), humanize.Comma(d.Visited),
					humanize.Comma(d.Fetched), mean})
		}
		p.table([]string{"in-degree from", "PLDs", "visited", "responses", "for each visited"}, rows)
	}
}

// placesText returns counts of places with their names in text.
func placesText(list []Count) []Count {
	list = slices.Clone(list)
	for i := range list {
		list[i].Name = state.PlaceText(list[i].Name)
	}
	return list
}

func (r *Report) countsHTML(p *builder) {
	for _, t := range []struct {
		title, name, of string
		list            []Count
	}{
		{"Responses by status code", "code", "responses", r.Codes},
		{"Requests without a final response", "reason", "requests", r.Failed},
		{"Refused URLs", "reason", "URLs", r.Refused},
		{"Deferred URLs", "reason", "URLs", r.Deferred},
		{"URLs by place", "place", "URLs", placesText(r.Places)},
	} {
		if len(t.list) == 0 {
			continue
		}
		p.tag("h2", t.title)
		all := int64(0)
		for _, c := range t.list {
			all += c.N
		}
		var rows [][]string
		for _, c := range t.list {
			rows = append(rows, []string{c.Name, humanize.Comma(c.N), percent(float64(c.N) / float64(max(1, all)))})
		}
		p.table([]string{t.name, t.of, "share"}, rows)
	}
	if len(r.Queues) > 0 {
		p.tag("h2", "Queues of BEAST")
		var rows [][]string
		more := int64(0)
		for i, q := range r.Queues {
			if i >= shownQueues {
				more += q.URLs
				continue
			}
			name := strconv.FormatInt(q.Number, 10)
			if q.Lane > 0 {
				name += fmt.Sprintf(" of lane %d", q.Lane)
			}
			rows = append(rows, []string{name, humanize.Comma(q.URLs)})
		}
		if n := len(r.Queues) - shownQueues; n > 0 {
			rows = append(rows, []string{fmt.Sprintf("%d more", n), humanize.Comma(more)})
		}
		p.table([]string{"queue", "URLs"}, rows)
	}
}

// The most queues and events on the page; the JSON has all.
const (
	shownQueues = 32
	shownEvents = 200
)

func (r *Report) eventsHTML(p *builder) {
	if len(r.Events) == 0 {
		return
	}
	p.tag("h2", "Events")
	events := r.Events[max(0, len(r.Events)-shownEvents):]
	if len(events) < len(r.Events) {
		p.tag("p", fmt.Sprintf("The last %d of %d.", len(events), len(r.Events)))
	}
	var rows [][]string
	for _, e := range events {
		rows = append(rows, []string{timeText(e.Time), e.What, e.Text})
	}
	p.raw(`<div class="text">`)
	p.table([]string{"time", "event", ""}, rows)
	p.raw("</div>\n")
}
