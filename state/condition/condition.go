package condition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drumbeat/cluster"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// State says how a crawl does.
type State string

// The states.
const (
	Working  State = "working"        // pages arrive as limits, delays and stock admit
	Waiting  State = "waiting"        // no page arrives, for a time that the operator or the sites chose
	Slow     State = "slow"           // a fault costs pages
	Standing State = "standing-still" // a fault lets no page through
	Complete State = "complete"       // ended: nothing is left
	Left     State = "ended"          // ended: URLs are left
	Failed   State = "failed"         // ended by a fault
)

// States are all states in the order of their severity within each group.
var States = []State{Working, Waiting, Slow, Standing, Complete, Left, Failed}

// Level says how much a state or a problem matters.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Bad  Level = "bad"
)

// Condition says how a crawl does, why, and which command helps.
type Condition struct {
	State State
	Level Level     // the worst of State and Problems
	Text  string    // one or two sentences
	Since time.Time // of the last response, if none has come for Patience or longer; else zero
	Until time.Time // when the next request is due, if it is known and in the future
	Next  string    // a command that shows more or helps; "" for none
	// Problems has all that is wrong, the worst first.
	Problems []Problem
}

// Problem is one thing that is wrong.
type Problem struct {
	Level Level
	What  string // what it concerns: disk, network, sites, browser, cluster, checkpoint, memory, operator, store
	Text  string // a sentence
	Next  string // a command; "" for none

	state State // that it puts the crawl into
}

// These times decide when silence is a fault.
const (
	// Patience is how long a crawl may be without a response before its condition says so.
	Patience = 10 * time.Second
	// startPatience is Patience from the start of a run, when names are looked up and robots.txt is read.
	startPatience = 15 * time.Second
	// checkpointLate is the age of the last checkpoint that is worth a warning; brokerAway is the time for which a
	// broker may be away while the node works from its stock.
	checkpointLate = 10 * time.Minute
	brokerAway     = time.Minute
	// silence is the time without a status of another node that is a fault; it writes one each cluster.StatusEvery.
	silence = cluster.StatusEvery + 4*time.Second
	// stalled is how long another node may make nothing durable of what waits for it, or three checkpoints.
	stalled = time.Minute
	// heldUp is how long records may wait for another node until that is a fault: the crawl cannot end meanwhile.
	heldUp = 30 * time.Minute
)

// view is a snapshot under examination.
type view struct {
	*snapshot.Snapshot
	quiet    time.Duration // since the last response
	problems []Problem
}

// Of returns the condition of a running crawl.
func Of(s *snapshot.Snapshot) Condition {
	v := &view{Snapshot: s, quiet: s.Elapsed}
	if !s.Answered.IsZero() {
		v.quiet = s.Time.Sub(s.Answered)
	}
	if !s.Erasures.Since.IsZero() {
		return v.erasing()
	}
	v.machine()
	v.cluster()
	v.parts()
	v.sites()
	out := v.state()
	sortProblems(v.problems)
	if len(v.problems) > 0 {
		p := &v.problems[0]
		out.Level, out.Text, out.Next = p.Level, p.Text, p.Next
		if rank(p.state) > rank(out.State) {
			out.State = p.state
		}
	}
	if v.silent() {
		out.Since = s.Time.Add(-v.quiet)
	}
	if s.Wait.Until.After(s.Time) {
		out.Until = s.Wait.Until
	}
	out.Problems = v.problems
	return out
}

// erasing returns the condition of a crawl that rests while pages are erased.
func (v *view) erasing() Condition {
	e := &v.Erasures
	v.add(Warn, Waiting, "operator", "drumbeat erase --report",
		"The crawl has erased pages for %s, and fetches nothing meanwhile: %s",
		human.Duration(v.Time.Sub(e.Since).Round(time.Second)), e.Step)
	p := v.problems[0]
	return Condition{State: Waiting, Level: Warn, Text: p.Text, Since: e.Since, Next: p.Next, Problems: v.problems}
}

// rank orders the states of a running crawl by their severity.
func rank(s State) int { return slices.Index(States, s) }

// sortProblems puts the worst problem first.
func sortProblems(list []Problem) {
	weight := func(p *Problem) int {
		n := rank(p.state)
		if p.Level == Bad {
			n += len(States)
		}
		return n
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return weight(&b) - weight(&a) })
}

// add adds a problem.
func (v *view) add(level Level, state State, what, next, format string, args ...any) {
	v.problems = append(v.problems, Problem{Level: level, What: what, Next: next, state: state,
		Text: sentence(fmt.Sprintf(format, args...))})
}

// silent reports whether no response has come for so long that the condition says so.
func (v *view) silent() bool {
	if v.Answered.IsZero() {
		return v.quiet >= startPatience
	}
	return v.quiet >= Patience
}

// still returns Standing for a silent crawl, and Slow for another one.
func (v *view) still() State {
	if v.silent() {
		return Standing
	}
	return Slow
}

// machine adds what is wrong with disk, RAM and network of this machine.
func (v *view) machine() {
	switch w := &v.Wait; w.Kind {
	case snapshot.WaitSpace:
		v.add(Bad, Standing, "disk", "df -h", "Fetching pauses for %s", w.Text)
	case snapshot.WaitOutage:
		v.add(Bad, v.still(), "network", "drumbeat doctor", "The network or the name servers fail: %s", w.Text)
	case snapshot.WaitOperator:
		v.add(Warn, Waiting, "operator", "drumbeat ctl resume", "The operator paused the crawl")
	}
	if v.Draining {
		v.add(Warn, Working, "operator", "", "The crawl drains: new links are not queued")
	}
	c := &v.Checkpoint
	if age := v.Time.Sub(c.When); !c.When.IsZero() && age > max(checkpointLate, 2*v.CheckpointEvery) &&
		v.PagesPerSecond > 0 {
		v.add(Bad, Slow, "checkpoint", "drumbeat ctl checkpoint", "The last checkpoint is %s old", human.Duration(age))
	}
	if v.RAM.Limit > 0 && v.RAM.Used > v.RAM.Limit+v.RAM.Limit/32 { // the collector is a few percent late at times
		v.add(Warn, Working, "memory", "", "The process uses %s of RAM, more than --ram %s", human.Bytes(v.RAM.Used),
			human.Bytes(v.RAM.Limit))
	}
	var slow []string
	for i := range v.Dirs {
		d := &v.Dirs[i]
		if d.KeepFree > 0 && d.Free < 2*d.KeepFree && v.Wait.Kind != snapshot.WaitSpace {
			v.add(Warn, Working, "disk", "df -h", "%s has %s left; fetching pauses at %s", d.Path, human.Bytes(d.Free),
				human.Bytes(d.KeepFree))
		}
		if d.Slow != "" && !slices.Contains(slow, d.Slow) { // once for all directories of a device
			slow = append(slow, d.Slow)
			v.add(Warn, Slow, "disk", "", "%s", d.Slow)
		}
	}
}

// cluster adds what is wrong with the broker and the other nodes.
func (v *view) cluster() {
	c := &v.Cluster
	if c.Nodes == 0 {
		return
	}
	const next = "drumbeat cluster status"
	switch v.Wait.Kind {
	case snapshot.WaitDisowned:
		v.add(Bad, Standing, "cluster", next, "This node waits for %s", v.Wait.Text)
	case snapshot.WaitLeases:
		if !c.Leases.Starting || v.silent() {
			v.add(Bad, v.still(), "cluster", next, "This node waits for %s", v.Wait.Text)
		}
	}
	if away := v.Time.Sub(c.Since); !c.Connected && (away > brokerAway || v.silent() && away > Patience) {
		v.add(Bad, v.still(), "network", next, "The broker of the cluster has been away for %s", human.Duration(away))
	}
	for i := range c.Pairs {
		if p := &c.Pairs[i]; !p.Abandoned && c.Connected {
			v.pair(p, next)
		}
	}
}

// pair adds what is wrong with another node. next is a command.
func (v *view) pair(p *snapshot.Pair, next string) {
	waits := human.Counted(p.Waiting, "record waits", "records wait")
	level := Warn
	if p.Stalled >= heldUp || p.Silent >= cluster.StatusOld {
		level = Bad
	}
	switch {
	case p.Silent > silence:
		text, do := "Node %d has sent nothing for %s; %s for it", next
		if p.Missing {
			text = "Node %d has not started, %s after this node, and the crawl cannot end without it; %s for it"
			do = fmt.Sprintf("drumbeat crawl --node %d", p.Node)
		}
		v.add(level, Slow, "cluster", do, text, p.Node, human.Duration(p.Silent.Round(time.Second)), waits)
	case p.Replacing:
		v.add(Warn, Slow, "cluster", next, "Node %d takes its place again from a backup (drumbeat cluster replace); "+
			"%s for it", p.Node, waits)
	case p.Ended != "" && v.Cluster.Idle && v.quiet >= stalled:
		v.add(Bad, v.still(), "cluster", fmt.Sprintf("drumbeat crawl --node %d", p.Node),
			"Node %d has ended its run (%s), and the crawl cannot end before it runs again; %s for it", p.Node, p.Ended,
			waits)
	case p.Held && p.Waiting > 0:
		v.add(level, Slow, "cluster", next, "Node %d has an older version, and nothing is sent to it; %s for it",
			p.Node, waits)
	case p.Waiting > 0 && p.Stalled >= max(stalled, 3*v.CheckpointEvery):
		v.add(level, Slow, "cluster", next, "Node %d has stored nothing for %s; %s for it", p.Node,
			human.Duration(p.Stalled.Round(time.Second)), waits)
	}
	if p.Quarantined > 0 {
		v.add(Warn, Slow, "cluster", next, "Node %d: %s in quarantine, because this version cannot read them",
			p.Node, human.Counted(p.Quarantined, "message waits", "messages wait"))
	}
}

// parts adds what is wrong with the browser and the object store.
func (v *view) parts() {
	if b := &v.Browser; b.Why != "" && b.Waiting > 0 && v.Time.Sub(b.Gone) >= 2*time.Second {
		level, state := Warn, Slow
		if v.silent() {
			level, state = Bad, Standing
		}
		since, is := human.Duration(v.Time.Sub(b.Gone)), "has not answered"
		switch {
		case b.Over:
			is = fmt.Sprintf("is not started again after %d attempts and has rendered none", b.Losses)
		case b.Back:
			is = "is back but has rendered none"
		}
		v.add(level, state, "browser", "drumbeat render-command", "%s for a browser that %s for %s: %s",
			human.Counted(b.Waiting, "page waits", "pages wait"), is, since, b.Why)
	}
	if e := &v.Erasures; e.Refused > 0 {
		v.add(Warn, Working, "operator", "drumbeat erase --report",
			"%s not carried out, and waits for the next stop: %s", human.Counted(e.Refused,
				"request to erase pages was", "requests to erase pages were"), e.Why)
	}
	if o := &v.Cluster.Orders; o.Waiting > 0 {
		v.add(Warn, Working, "operator", "drumbeat ctl status",
			"%s of the cluster not carried out here, and tried again every minute: %s",
			human.Counted(o.Waiting, "order is", "orders are"), o.Why)
	}
	if why := v.Cluster.GiveWhy; why != "" {
		v.add(Warn, Working, "operator", "drumbeat cluster status",
			"this node cannot give its slots, and other nodes have given theirs: it tries every 5 minutes: %s", why)
	}
	v.backup()
	if u := &v.Uploads; u.Failing != "" {
		v.add(Warn, Slow, "store", "", "Uploads to the object store fail; %s (%s) here: %s",
			human.Counted(u.Waiting, "file waits", "files wait"), human.Bytes(u.WaitingBytes), u.Failing)
	}
}

// backup adds what is wrong with the backups of the crawl.
func (v *view) backup() {
	b := &v.Backup
	switch {
	case b.Late && b.Number == 0:
		v.add(Bad, Working, "backup", "", "There is no backup in %s yet: %s", b.Place,
			cmp.Or(b.Failing, "it is under way"))
	case b.Late:
		v.add(Bad, Working, "backup", "", "The last backup in %s is %s old: %s", b.Place,
			human.Duration(v.Time.Sub(b.Time)), cmp.Or(b.Failing, "the next one is under way"))
	case b.Failing != "":
		v.add(Warn, Working, "backup", "", "The last attempt to make a backup failed: %s", b.Failing)
	}
}

// sites adds what is wrong with the sites, or with the way to them.
func (v *view) sites() {
	w := &v.Wait
	switch {
	case w.Kind == snapshot.WaitBackoff:
		v.backoff()
	case w.Kind == snapshot.WaitDue && v.due():
	case v.silent() && v.FailedSince > 0 && faulty[w.Kind]:
		waits := ""
		if w.Text != "" {
			waits = "; the crawl waits for " + w.Text
		}
		v.add(Bad, Standing, "sites", "drumbeat ctl hosts", "%s%s since then%s%s", v.quietly(),
			human.Counted(v.FailedSince, "request has failed", "requests have failed"), waits, v.again())
	case v.silent() && v.DoubtedSince > 0 && faulty[w.Kind]:
		failed := human.Counted(v.DoubtedSince, "request or lookup has failed", "requests and lookups have failed")
		v.add(Bad, Standing, "sites", "drumbeat doctor", "%s%s since then; each is repeated until it is "+
			"clear that the fault is not on this machine%s", v.quietly(), failed, v.again())
	case v.mostFail():
		r := &v.Recent
		v.add(Warn, v.still(), "sites", "drumbeat ctl hosts", "%d of %s in the last %s failed: %s",
			r.Failures+r.Errors, human.Counted(r.Responses+r.Failures, "request", "requests"),
			human.Duration(r.Over.Round(time.Second)), v.why())
	case v.silent():
		v.waitsTooLong()
	}
}

// mostFail reports whether most requests of the last seconds failed; one does not count.
func (v *view) mostFail() bool {
	bad := v.Recent.Failures + v.Recent.Errors
	return bad >= 2 && bad > v.Recent.Responses-v.Recent.Errors
}

// faulty are the waits that follow from failures if requests fail.
var faulty = map[snapshot.WaitKind]bool{snapshot.WaitNothing: true, snapshot.WaitAnswers: true,
	snapshot.WaitRobots: true, snapshot.WaitDue: true, snapshot.WaitLinks: true}

// why lists the failures of the last seconds.
func (v *view) why() string {
	text := ReasonCounts(v.Recent.Failed)
	if v.Recent.Errors > 0 {
		text = strings.TrimPrefix(text+", ", ", ") + "status 429 or 5xx (" + human.Count(v.Recent.Errors) + ")"
	}
	return text
}

// backoff adds the back-off of most hosts.
func (v *view) backoff() {
	w := &v.Wait
	who, next := fmt.Sprintf("%d of %s with URLs in RAM fail or refuse", w.Held,
		human.Counted(w.Hosts, "host", "hosts")), ""
	if w.Host != "" {
		next = "drumbeat explain host " + w.Host
		if w.Hosts == 1 {
			who = w.Host + ", the only host with URLs to fetch, fails or refuses"
		} else {
			who += ", " + w.Host + " among them"
		}
	}
	if len(v.Recent.Failed) > 0 {
		who += " (" + ReasonCounts(v.Recent.Failed) + ")"
	}
	level := Warn
	if v.silent() {
		level = Bad
	}
	v.add(level, v.still(), "sites", next, "%s%s%s", v.quietly(), who, v.again())
}

// due adds URLs that wait for another attempt after a failure. It reports whether most of those that wait do.
func (v *view) due() bool {
	faults, rest := map[string]int64{}, int64(0)
	total := int64(0)
	for why, n := range v.Deferred {
		if chosen[why] {
			rest += n
			continue
		}
		faults[why] += n
		total += n
	}
	if total <= rest {
		return false
	}
	level, next := Warn, ""
	if v.silent() && total*100 > v.Unique {
		level = Bad
	}
	if faults[state.ReasonRobotsUnavailable.String()]*2 > total {
		next = "drumbeat log --log robots" // it names the hosts
	}
	v.add(level, v.still(), "sites", next, "%s%s after a failure: %s%s", v.quietly(),
		human.Counted(total, "URL waits", "URLs wait"), ReasonCounts(faults), v.again())
	return true
}

// chosen are the reasons of deferrals that no fault caused.
var chosen = map[string]bool{
	state.ReasonRevisit.String(): true, state.ReasonEvicted.String(): true, state.ReasonHostBacklog.String(): true,
	state.ReasonPLDBusy.String(): true, state.ReasonNetworkLease.String(): true,
	state.ReasonAwaitRobots.String(): true,
	state.ReasonAwaitTDMRep.String(): true,
}

// waitsTooLong adds a wait that nobody chose.
func (v *view) waitsTooLong() {
	level, state := Warn, Slow
	if v.quiet >= time.Minute {
		level, state = Bad, Standing
	}
	switch w := &v.Wait; w.Kind {
	case snapshot.WaitNothing, snapshot.WaitAnswers:
		v.add(level, state, "sites", "drumbeat ctl hosts", "%sNo answer arrives on %s", v.quietly(),
			human.Counted(int64(v.InFlight), "connection", "connections"))
	case snapshot.WaitRobots:
		if !v.RobotsAnswered.IsZero() && v.Time.Sub(v.RobotsAnswered) < Patience {
			return // sites answer for robots.txt
		}
		v.add(level, state, "sites", "drumbeat ctl hosts", "%sNo robots.txt and no DNS answer arrives", v.quietly())
	case snapshot.WaitAdmission, snapshot.WaitDisk, snapshot.WaitSeeds:
		v.add(level, state, "disk", "drumbeat ctl structures", "%sThe crawl waits for %s", v.quietly(), w.Text)
	case snapshot.WaitNetwork, snapshot.WaitNodes:
		v.add(Warn, Waiting, "cluster", "drumbeat cluster status", "%sThis node waits for %s", v.quietly(), w.Text)
	}
}

// quietly says for how long nothing has come, "" if that is short.
func (v *view) quietly() string {
	if !v.silent() {
		return ""
	}
	return "No response for " + human.Duration(v.quiet.Round(time.Second)) + ". "
}

// again says when the next request is due, "" if that is unknown.
func (v *view) again() string {
	if in := v.Wait.Until.Sub(v.Time); in >= time.Second {
		return "; the next request is due in " + human.Duration(in.Round(time.Second))
	}
	return ""
}

// state returns the condition without problems.
func (v *view) state() Condition {
	out := Condition{State: Working, Level: OK}
	w := &v.Wait
	if v.Stopping {
		out.Text = "The crawl is stopping: it finishes running requests and writes its last checkpoint."
		return out
	}
	if !v.silent() {
		out.Text = "The crawl works"
		if v.Answered.IsZero() {
			out.Text = "The crawl starts"
		}
		if v.Recent.Over > 0 && v.Recent.Pages > 0 {
			out.Text += ": " + Rate(v.Recent.Rate(v.Recent.Pages))
		}
		if w.Text != "" && w.Kind != snapshot.WaitAnswers {
			out.Text += ". It waits for " + w.Text + v.again()
		}
		out.Text += "."
		return out
	}
	out.State = Waiting
	out.Text = v.quietly() + "The crawl waits for " + w.Text + v.again() + "."
	if w.Kind == snapshot.WaitLinks {
		out.Text = v.quietly() + "Nothing is left except requests under way."
	}
	return out
}

// Rate writes a number of pages per second for people: below one per second, the time for a page.
func Rate(perSecond float64) string {
	switch {
	case perSecond <= 0:
		return "no page"
	case perSecond < 0.95:
		return "one page in " + human.Seconds(1/perSecond)
	case perSecond < 10:
		return fmt.Sprintf("%.1f pages per second", perSecond)
	}
	return human.Counted(int64(perSecond+0.5), "page", "pages") + " per second"
}
