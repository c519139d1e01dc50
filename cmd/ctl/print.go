package ctl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/admin"
	"drumbeat/cmd/explain"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/condition"
)

// printer returns a function that decodes an answer and prints it.
func printer[T any](a *term.App, print func(io.Writer, *T)) func(json.RawMessage) error {
	return func(answer json.RawMessage) error {
		v := new(T)
		if err := json.Unmarshal(answer, v); err != nil {
			return err
		}
		t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
		print(t, v)
		return t.Flush()
	}
}

type statusCmd struct{ atDir }

// Run prints the state.
func (statusCmd) Run(a *term.App, w *Where) error {
	return call(a, w, http.MethodGet, "/api/v1/status", nil, printer(a, printStatus))
}

func printStatus(out io.Writer, s *admin.Status) {
	row := func(name, format string, args ...any) { fmt.Fprintf(out, name+"\t"+format+"\n", args...) }
	now := s.State
	if s.Reason != "" {
		now += " (" + s.Reason + ")"
	}
	row("state", "%s, for %s (%s in all runs)", now, human.Seconds(s.Elapsed), human.Seconds(s.Active))
	row("started", "%s", startText(s))
	row("health", "%s: %s", s.Health.State, s.Health.Text)
	for _, p := range s.Health.Problems[min(1, len(s.Health.Problems)):] { // the first one is Health.Text
		row("", "%s: %s", p.Level, p.Text)
	}
	if s.Health.Next != "" {
		row("", "Try: %s", s.Health.Next)
	}
	if s.Progress.Text != "" {
		row("progress", "%s", s.Progress.Text)
	}
	row("speed", "%s, %s/s, %.0f links/s", condition.Rate(s.Rates.Pages), humanize.SIWithDigits(s.Rates.Bits, 1, "bit"),
		s.Rates.Links)
	row("connections", "%d of %d busy, %s for robots.txt", s.Connections.Busy, s.Connections.Limit,
		human.Counted(s.Connections.Robots, "request", "requests"))
	row("pages", "%s; %s, %s received", count(s.Counters["pages"]),
		human.Counted(s.Counters["responses"], "response", "responses"),
		human.Bytes(s.Counters["received_bytes"]))
	row("URLs", "%s found, %.3f per link; %s, %s", count(s.Unique), s.UniqueShare,
		human.Counted(s.PLDs, "PLD", "PLDs"),
		human.Counted(s.Hosts, "host", "hosts"))
	for _, p := range s.Places {
		if p.URLs > 0 {
			row("  "+state.PlaceText(p.Name), "%s", count(p.URLs))
		}
	}
	if len(s.Refused) > 0 {
		row("refused", "%s", condition.ReasonCounts(s.Refused))
	}
	if text := condition.Signatures(func(c state.Counter) int64 { return s.Counters[c.String()] }); text != "" {
		row("signatures", "%s", text)
	}
	if late := max(s.DeferredLate, s.VisitsLate); late >= 2 {
		row("late", "deferred URLs by %s, visits by %s: they are due, and wait for room", human.Seconds(s.DeferredLate),
			human.Seconds(s.VisitsLate))
	}
	if s.State != "finished" {
		row("waits for", "%s", cmp.Or(s.Waiting, "nothing: nearly all connections are busy"))
	}
	row("RAM", "%s of %s", human.Bytes(s.RAM.Used), human.Bytes(s.RAM.Limit))
	row("disk", "%s of %s", human.Bytes(s.Disk.Used), human.Bytes(s.Disk.Limit))
	for _, d := range s.Disk.Dirs {
		row("  "+d.Path, "%s free, %s kept free", human.Bytes(d.Free), human.Bytes(d.KeepFree))
	}
	if s.Model.Measured > 0 {
		row("model", "URLseen: %.1f %s, %.1f predicted", s.Model.Measured, s.Model.Unit, s.Model.Predicted)
	}
	printSaved(row, s)
	if s.Limits != "" {
		row("limits", "%s", s.Limits)
	}
	printErase(row, s.Erasures)
	printOrders(row, s.Cluster)
}

// printErase prints the requests to erase pages that wait.
func printErase(row func(name, format string, args ...any), e *admin.Erasures) {
	if e != nil && e.Since.IsZero() { // otherwise health says it
		text := human.Counted(e.Waiting, "request to erase pages waits", "requests to erase pages wait")
		if e.Refused > 0 {
			text += fmt.Sprintf("; %d could not be carried out: %s", e.Refused, e.Why)
		}
		row("erase", "%s", text)
	}
}

// printOrders prints the orders to all nodes of a cluster.
func printOrders(row func(name, format string, args ...any), c *admin.NodeOf) {
	if c == nil || c.Orders.Done+c.Orders.Waiting == 0 {
		return
	}
	text := human.Counted(c.Orders.Done, "order", "orders") + " to all nodes carried out"
	if c.Orders.Waiting > 0 {
		text += fmt.Sprintf("; %d could not be carried out yet: %s", c.Orders.Waiting, c.Orders.Why)
	}
	row("cluster", "%s", text)
}

// printSaved prints what is safe: the last checkpoint, and the newest backup.
func printSaved(row func(name, format string, args ...any), s *admin.Status) {
	if c := s.Checkpoint; c.Number > 0 {
		row("checkpoint", "%d, %s ago; stalled fetching for %s", c.Number, human.Duration(time.Since(c.Time)),
			human.Seconds(c.Stall))
	}
	if b := s.Backup; b != nil && b.Number > 0 {
		row("backup", "number %d in %s, %s ago", b.Number, b.Place, human.Duration(time.Since(b.Time)))
	} else if b != nil {
		row("backup", "none in %s yet", b.Place)
	}
}

// count prints a number with separators.
func count(n int64) string { return humanize.Comma(n) }

// startText says when this run and the crawl began.
func startText(s *admin.Status) string {
	text := s.Started.Local().Format(time.DateTime)
	if !s.CrawlStarted.IsZero() {
		text += "; the crawl " + s.CrawlStarted.Local().Format(time.DateTime)
	}
	return text
}

type structuresCmd struct{ atDir }

// Run prints the structures.
func (structuresCmd) Run(a *term.App, w *Where) error {
	return call(a, w, http.MethodGet, "/api/v1/structures", nil, printer(a, printStructures))
}

func printStructures(out io.Writer, s *admin.Structures) {
	fmt.Fprintln(out, "drum\tkeys\tpending\tbuckets\tfull\tpasses\tlast pass\ton disk\tI/O\ta tuple\tmodel\t")
	for _, d := range s.Drums {
		running := ""
		if d.Running {
			running = " (running)"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%d\t%d%s\t%s\t%s\t%s\t%.0f B\t%.0f B\t\n", d.Name, count(d.Keys),
			count(d.Pending), d.Buckets, d.FullBuckets, d.Passes, running, human.Seconds(d.LastPass),
			human.Bytes(d.DiskBytes), human.Bytes(d.IOBytes), d.TupleIO, d.PredictedIO)
	}
	fmt.Fprintln(out, "\nqueue\tURLs\tbytes\t")
	for _, q := range s.Queues {
		fmt.Fprintf(out, "%s\t%s\t%s\t\n", q.Name, count(q.URLs), human.Bytes(q.Bytes))
	}
	fmt.Fprintf(out, "\nBEAST\tURLs\tbytes\treads Q%d, horizon %d, %s of QF\n", s.Beast.Current,
		s.Beast.Horizon, human.Counted(s.Beast.Scans, "scan", "scans"))
	for _, q := range s.Beast.Queues {
		fmt.Fprintf(out, "Q%d\t%s\t%s\t\n", q.Number, count(q.URLs), human.Bytes(q.Bytes))
	}
	fmt.Fprintf(out, "QF\t%s\t\t\n", count(s.Beast.Failed))
}

type slotsCmd struct{ atDir }

// Run prints the use of slots.
func (slotsCmd) Run(a *term.App, w *Where) error {
	return call(a, w, http.MethodGet, "/api/v1/slots", nil, printer(a, func(out io.Writer, s *admin.Slots) {
		fmt.Fprintln(out, "use\tslots now\tslots in this run\t")
		for _, u := range s.Uses {
			fmt.Fprintf(out, "%s\t%.1f\t%.1f\t\n", u.Name, u.Now, u.Run)
		}
	}))
}

type hostsCmd struct {
	atDir
	Sort  string `enum:"inram,trouble" default:"inram"`
	Limit int    `default:"20"`
}

// Run prints hosts.
func (c hostsCmd) Run(a *term.App, w *Where) error {
	path := fmt.Sprintf("/api/v1/hosts?sort=%s&limit=%d", c.Sort, c.Limit)
	return call(a, w, http.MethodGet, path, nil, printer(a, func(out io.Writer, s *admin.Hosts) {
		fmt.Fprintln(out, "host\tURLs in RAM\tstate\t")
		for _, h := range s.Hosts {
			fmt.Fprintf(out, "%s\t%d\t%s\t\n", cmp.Or(h.Host, "key "+h.Key), h.InRAM, h.State)
		}
	}))
}

type pldsCmd struct {
	atDir
	Sort  string `enum:"indegree,pages,bytes" default:"indegree"`
	Limit int    `default:"20"`
}

// Run prints PLDs.
func (c pldsCmd) Run(a *term.App, w *Where) error {
	path := fmt.Sprintf("/api/v1/plds?limit=%d&sort=%s", c.Limit, c.Sort)
	return call(a, w, http.MethodGet, path, nil, printer(a, func(out io.Writer, s *admin.PLDs) {
		fmt.Fprintln(out, "rank\tPLD\tin-degree\tbudget\tresponses\tbytes\t")
		for _, p := range s.PLDs {
			pinned := ""
			if p.Pinned {
				pinned = " (pinned)"
			}
			fmt.Fprintf(out, "%d\t%s\t%d\t%d%s\t%s\t%s\t\n", p.Rank, cmp.Or(p.PLD, "key "+p.Key), p.Indegree,
				p.Budget, pinned, count(int64(p.Pages)), human.Bytes(p.Bytes))
		}
	}))
}

type explainCmd struct {
	What string `arg:""`
}

// Run prints the explanation.
func (c explainCmd) Run(a *term.App, w *Where) error {
	return call(a, w, http.MethodGet, "/api/v1/explain?url="+url.QueryEscape(c.What), nil,
		func(answer json.RawMessage) error {
			var x admin.Explanation
			if err := json.Unmarshal(answer, &x); err != nil {
				return err
			}
			if x.URL != nil {
				explain.PrintURL(a.Stdout, x.URL)
			}
			if x.Host != nil {
				explain.PrintHost(a.Stdout, x.Host)
			}
			if len(x.At) > 0 {
				fmt.Fprintln(a.Stdout, "hosts at the address with URLs in RAM:")
			}
			for _, h := range x.At {
				fmt.Fprintf(a.Stdout, "  %s  %s, %s\n", cmp.Or(h.Host, "key "+h.Key),
					human.Counted(h.InRAM, "URL", "URLs"), h.State)
			}
			return nil
		})
}

func printLimits(out io.Writer, l *admin.Limits) {
	row := func(name, value, changed string) {
		if changed != "" {
			value += "  (changed by the operator)"
		}
		fmt.Fprintf(out, "%s\t%s\n", name, value)
	}
	row("rate", l.Rate, l.Changed.Rate)
	row("bandwidth", l.Bandwidth, l.Changed.Bandwidth)
	row("connections", fmt.Sprintf("%d now of %d; schedule %s", l.ConnectionsNow, l.Slots, l.Connections),
		l.Changed.Connections)
	for _, on := range []struct {
		is   bool
		name string
	}{{l.Changed.Paused, "paused"}, {l.Changed.Drain, "draining"}} {
		if on.is {
			fmt.Fprintf(out, "%s\tyes\n", on.name)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(l.Changed.HostDelays)) {
		fmt.Fprintf(out, "delay of %s\t%s\n", host, human.Seconds(l.Changed.HostDelays[host]))
	}
	for _, pld := range slices.Sorted(maps.Keys(l.Changed.Budgets)) {
		fmt.Fprintf(out, "budget of %s\t%s\n", pld, human.Counted(l.Changed.Budgets[pld], "page", "pages"))
	}
	for _, rule := range l.Changed.Blocked {
		fmt.Fprintf(out, "blocked\t%s\n", strings.TrimPrefix(rule, "- "))
	}
	if f := l.Changed.Function; f != nil {
		fmt.Fprintf(out, "budget function\t%s, default %d, max %s\n", f.Name, f.Default,
			human.Counted(f.Max, "page", "pages"))
	}
	if p := l.Changed.Priority; p != nil {
		fmt.Fprintf(out, "priority\t%s\n", p.Name)
	}
}

type logCmd struct {
	atDir
	Lines int `short:"n" default:"50"`
}

// Run prints the log.
func (c logCmd) Run(a *term.App, w *Where) error {
	path := fmt.Sprintf("/api/v1/log?lines=%d", c.Lines)
	return call(a, w, http.MethodGet, path, nil, printer(a, func(out io.Writer, s *admin.LogLines) {
		for _, l := range s.Lines {
			fmt.Fprintf(out, "%s %s %s\n", l.Time.Local().Format(time.DateTime), l.Level, l.Text)
		}
	}))
}

type changesCmd struct {
	atDir
	Limit int `default:"20"`
}

// Run prints the changes.
func (c changesCmd) Run(a *term.App, w *Where) error {
	path := fmt.Sprintf("/api/v1/changes?limit=%d", c.Limit)
	return call(a, w, http.MethodGet, path, nil, printer(a, func(out io.Writer, s *admin.Changes) {
		fmt.Fprintln(out, "number\ttime\twho\twhat\t")
		for _, ch := range s.Changes {
			fmt.Fprintf(out, "%d\t%s\t%s\t%s\t\n", ch.Seq, ch.Time.Local().Format(time.DateTime), ch.Who, describe(&ch))
		}
	}))
}

// describe describes a change in a line.
func describe(c *admin.Change) string {
	text := string(c.Op)
	for _, s := range []string{c.Host, c.PLD, strings.TrimPrefix(c.Rule, "- ")} {
		if s != "" {
			text += " " + s
		}
	}
	for _, l := range []struct{ name, value string }{{"rate", c.Rate}, {"bandwidth", c.Bandwidth},
		{"connections", c.Connections}} {
		if l.value != "" {
			text += fmt.Sprintf(" %s %q", l.name, l.value)
		}
	}
	if c.Delay > 0 {
		text += " " + human.Seconds(c.Delay)
	}
	if c.Budget > 0 {
		text += " " + human.Counted(c.Budget, "page", "pages")
	}
	if f := c.Function; f != nil {
		text += fmt.Sprintf(" %s, default %d, max %s", f.Name, f.Default,
			human.Counted(f.Max, "page", "pages"))
	}
	if c.Count > 0 {
		text += fmt.Sprintf(" (%d)", c.Count)
	}
	return text
}
