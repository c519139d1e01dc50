package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/explain"
)

// printer prints answers in words.
type printer struct {
	out io.Writer
	now time.Time
}

// PrintURL prints an answer about a URL in words.
func PrintURL(out io.Writer, r *explain.URLReport) {
	p := &printer{out: out, now: time.Now()}
	if r.AsOf != nil {
		p.asOf(r.AsOf)
	}
	p.url(r)
	p.damage(r.Damage)
}

// PrintHost prints an answer about a host or a PLD in words.
func PrintHost(out io.Writer, r *explain.HostReport) {
	p := &printer{out: out, now: time.Now()}
	if r.AsOf != nil {
		p.asOf(r.AsOf)
	}
	p.host(r)
	p.damage(r.Damage)
}

// damage prints what could not be read.
func (p *printer) damage(lines []string) {
	for _, d := range lines {
		p.field("damage", "%s", d)
	}
}

// field prints a line of an answer, unless its value is empty.
func (p *printer) field(name, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != "" {
		fmt.Fprintf(p.out, "  %-9s %s\n", name, text)
	}
}

func (p *printer) list(name string, lines []string) {
	for _, line := range lines {
		p.field(name, "%s", line)
		name = ""
	}
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// when formats a time and its distance from now.
func (p *printer) when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	text := t.UTC().Format("2006-01-02 15:04:05Z")
	switch d := t.Sub(p.now).Round(time.Second); {
	case d > 0:
		return text + " (in " + human.Duration(d) + ")"
	case d < 0:
		return text + " (" + human.Duration(-d) + " ago)"
	}
	return text
}

func (p *printer) asOf(a *explain.AsOf) {
	state := "the crawl is " + a.State
	switch a.State {
	case "running":
		state = "the crawl is running"
	case "interrupted":
		state = "the crawl was interrupted; a restart resumes from here"
	case "finished":
		state = "the crawl is finished: " + a.Done
	case "unknown":
		state = "it is unknown whether the crawl is running"
	}
	fmt.Fprintf(p.out, "as of checkpoint %d, %s ago; %s\n", a.Checkpoint, human.Seconds(a.AgeSeconds), state)
}

func (p *printer) url(r *explain.URLReport) {
	fmt.Fprintln(p.out, r.Asked)
	if r.Error != "" {
		p.field("not a URL", "%s", r.Error)
		return
	}
	if r.URL != r.Asked {
		p.field("url", "%s", r.URL)
	}
	p.field("place", "%s", state.PlaceText(r.Place))
	p.list("why", r.Why)
	if e := r.Ended; e != nil {
		p.ended(e)
	}
	if rec := r.Record; rec != nil {
		p.record(rec)
	}
	if r.Ended == nil {
		p.field("link", "%s", r.Link.Why)
	}
	p.settings(r.Settings)
	p.site(r.Site)
	p.trap(r.Trap)
	p.origin(r.Robots, r.Verdict)
}

// settings prints the settings of a site.
func (p *printer) settings(s *explain.SettingsReport) {
	if s == nil {
		return
	}
	if s.Fault != "" {
		p.field("settings", "unknown: %s", strings.ReplaceAll(s.Fault, "\n", "; "))
		return
	}
	name := "settings"
	for _, r := range s.Rules {
		p.field(name, "%s", r.String())
		name = ""
	}
	if s.Connections > 0 {
		p.field("connections", "%d at once, by %s", s.Connections, s.ConnectionsWhy)
	}
	if s.Priority != nil {
		p.field("priority", "lane %d of 0 to %d, by %s", *s.Priority, s.Lanes-1, s.PriorityWhy)
	}
}

func (p *printer) ended(e *explain.EndedReport) {
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(e.Status > 0, "status %d", e.Status)
	add(e.MIME != "", "%s", e.MIME)
	add(e.Redirect != "", "to %s", e.Redirect)
	add(e.Bytes > 0, "%s received", human.Bytes(e.Bytes))
	add(e.Truncated != "", "cut: %s", e.Truncated)
	add(e.IP != "", "from %s", e.IP)
	p.field("response", "%s", strings.Join(parts, ", "))
	if e.File != "" {
		p.field("stored", "%s at offset %d", e.File, e.Offset)
	}
}

func (p *printer) record(r *explain.RecordReport) {
	text := "depth " + fmt.Sprint(r.Depth)
	if !r.Found.IsZero() {
		text = p.when(r.Found) + ", " + text
	}
	switch {
	case r.ParentURL != "":
		text += ", on " + r.ParentURL
	case r.Parent != "":
		text += ", on the page with key " + r.Parent
	}
	if r.Redirects > 0 {
		text += ", " + human.Counted(r.Redirects, "redirect or style sheet", "redirects or style sheets") +
			" after a page linked to it"
	}
	if len(r.Flags) > 0 {
		text += " (" + strings.Join(r.Flags, ", ") + ")"
	}
	p.field("found", "%s", text)
	if r.Attempts+r.Waits+r.Faults > 0 || r.Reason != "" {
		text := fmt.Sprintf("%s, deferred %s", counted(r.Attempts, "time"), counted(r.Waits, "time"))
		if r.Faults > 0 {
			text += ", " + counted(r.Faults, "failure") + " not counted"
		}
		if r.Reason != "" {
			words, _ := state.ReasonText(r.Reason)
			text += ", last reason: " + words
		}
		p.field("tried", "%s", text)
	}
}

func (p *printer) site(s *explain.PLDReport) {
	if s == nil {
		return
	}
	if !s.Known {
		p.field("site", "%s: not known to STAR yet", s.PLD)
		return
	}
	text := fmt.Sprintf("%s: in-degree %d", s.PLD, s.Indegree)
	if s.Prior > s.Indegree {
		text += fmt.Sprintf(" (%d by --ranks)", s.Prior)
	}
	if s.BySupporters && !s.Newcomer {
		text += fmt.Sprintf(", supporters %.1f, standing %.3g", s.Supporters, s.Standing)
	}
	if s.Rank > 0 {
		text += fmt.Sprintf(", rank %d of %d top ranks", s.Rank, s.Ranks)
	}
	if s.PerQueue > 0 {
		text += ", " + counted(int(s.PerQueue), "page") + " per queue"
	}
	if s.Divided != state.ByPLDs { // so there are many
		text += fmt.Sprintf(" for classes of about %d %s or more", s.Parts, s.Divided)
	}
	if s.Next > 0 {
		text += fmt.Sprintf(", the next URL goes to BEAST's queue %d, where it has %d", s.Next, s.Used)
	}
	for _, l := range s.Further {
		text += fmt.Sprintf(", %d in queue %d of lane %d", l.Used, l.Next, l.Lane)
		if l.Class > 0 {
			text += fmt.Sprintf(" for class %d of its %s", l.Class, s.Divided)
		}
	}
	p.field("site", "%s; %s placed, %d fetched (%s)", text, human.Counted(s.Placed, "URL", "URLs"), s.Fetched,
		human.Bytes(min(s.Bytes, 1<<62)))
}

// trap prints how far the pages of a host repeat one another.
func (p *printer) trap(t *explain.TrapReport) {
	if t == nil {
		return
	}
	text := fmt.Sprintf("%d of the last %s of the host repeat earlier ones", t.Repeated,
		human.Counted(t.Pages, "page", "pages"))
	if t.Part > 0 {
		text += fmt.Sprintf(": score %.2f; its URLs get %d/16 of the PLD's budget (--budget traps)", t.Score, t.Part)
	}
	p.field("trap", "%s", text)
}

func (p *printer) origin(o *explain.OriginReport, d *explain.VerdictReport) {
	if o == nil {
		return
	}
	text := o.Origin + ": "
	switch o.State {
	case "rules":
		group := "the group for *"
		if o.OwnGroup {
			group = "the group for this crawler"
		}
		text += fmt.Sprintf("%s of %s", counted(o.Rules, "rule"), group)
	case "no file":
		text += "no robots.txt, everything is allowed"
	case "none":
		text += "robots.txt is unknown"
	default:
		text += "robots.txt: " + o.State
	}
	if o.Stale {
		text += ", stale"
	}
	if o.Failures > 0 {
		text += ", " + counted(o.Failures, "failure")
	}
	p.field("robots", "%s", text)
	if !o.Fetched.IsZero() {
		p.field("", "fetched %s, expires %s", p.when(o.Fetched), p.when(o.Expires))
	}
	if !o.RetryAt.IsZero() {
		p.field("", "next request after %s", p.when(o.RetryAt))
	}
	if !o.Asked.IsZero() {
		asking := ""
		if o.Asking != "" {
			asking = "; now: " + o.Asking
		}
		p.field("", "last requested %s%s", p.when(o.Asked), asking)
	}
	if d != nil {
		verdict := "forbidden by " + d.Rule
		switch {
		case d.Allowed && d.Rule != "":
			verdict = "allowed by " + d.Rule
		case d.Allowed:
			verdict = "allowed: no rule matches"
		case d.Rule == "":
			verdict = "unknown"
		}
		p.field("verdict", "%s; decision now: %s", verdict, d.Decision)
	}
	if d != nil && d.Use != nil {
		p.field("use", "%s", d.Use.Text)
	}
	if o.Health != nil {
		p.field("health", "%s", o.Health.Text)
	}
	if o.Pages > 0 {
		p.field("pages", "%d admitted (--max-pages host)", o.Pages)
	}
	if len(o.Addresses) > 0 {
		p.field("address", "%s, until %s", strings.Join(o.Addresses, " "), p.when(o.AddrExpires))
	}
	p.field("delay", "%s between requests: %s", human.Seconds(o.Delay), o.DelayWhy)
}

func (p *printer) robots(r *explain.RobotsReport) {
	fmt.Fprintln(p.out, r.Asked)
	if r.Error != "" {
		p.field("not a URL", "%s", r.Error)
		return
	}
	p.origin(r.Robots, r.Verdict)
	for line := range strings.Lines(r.Text) {
		p.field("", "| %s", strings.TrimSuffix(line, "\n"))
	}
}

func (p *printer) host(r *explain.HostReport) {
	fmt.Fprintln(p.out, r.Asked)
	if r.Error != "" {
		p.field("not a host", "%s", r.Error)
		return
	}
	p.list("why", r.Why)
	if r.Stored != nil {
		p.field("stored", "%s in the indexes", counted(int(*r.Stored), "response"))
	}
	p.deferred(&r.Waiting)
	p.settings(r.Settings)
	p.site(r.Site)
	p.trap(r.Trap)
	if a := r.Pace; a != nil {
		p.field("pace", "%s between requests now; %d of %s to the minimum (--adaptive-delay), mean answer %s",
			human.Seconds(a.Delay), a.Steps, human.Counted(a.AllSteps, "step", "steps"),
			human.Seconds(a.Answer))
	}
	for _, o := range r.Origins {
		p.origin(o, nil)
	}
}

func (p *printer) deferred(w *explain.Waiting) {
	for _, reason := range slices.Sorted(maps.Keys(w.Deferred)) {
		words, _ := state.ReasonText(reason)
		p.field("deferred", "%d: %s", w.Deferred[reason], words)
	}
	if !w.NextDue.IsZero() {
		p.field("", "first due %s", p.when(w.NextDue))
	}
}

// mostHosts is the number of a PLD's hosts that are printed.
const mostHosts = 10

func (p *printer) pld(r *explain.SiteReport) {
	fmt.Fprintln(p.out, r.Asked)
	if r.Error != "" {
		p.field("not a PLD", "%s", r.Error)
		return
	}
	p.list("why", r.Why)
	p.deferred(&r.Waiting)
	p.site(r.Site)
	if len(r.Linking) > 0 {
		p.field("linked by", "%s", linkingText(r))
	}
	hosts := slices.SortedFunc(maps.Keys(r.Hosts), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Hosts[b], r.Hosts[a]), cmp.Compare(a, b))
	})
	name := "waiting"
	rest := r.OtherHosts
	for i, host := range hosts {
		if i >= mostHosts {
			rest += r.Hosts[host]
			continue
		}
		p.field(name, "%s %d", host, r.Hosts[host])
		name = ""
	}
	if rest > 0 {
		p.field("", "other hosts %d", rest)
	}
}

// linkingText lists the PLDs that link to one.
func linkingText(r *explain.SiteReport) string {
	var parts []string
	for _, l := range r.Linking {
		text := l.PLD
		if text == "" {
			text = "(no name yet)"
		}
		if l.Indegree > 0 {
			text += fmt.Sprintf(" (%d)", l.Indegree)
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, ", ")
	if more := int64(r.Site.Indegree) - int64(len(parts)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
