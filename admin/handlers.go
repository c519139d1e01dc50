package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/crawl/operate"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/explain"
	"drumbeat/state/snapshot"
)

// intParam returns an integer of the query, between 1 and most.
func intParam(r *http.Request, name string, def, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, problem(http.StatusBadRequest, fmt.Sprintf("%s is %q: want a number from 1 to %d", name, text, most))
	}
	return min(n, most), nil
}

// choice returns a parameter of the query that is one of a few words; the first one is the default.
func choice(r *http.Request, name string, words []string) (string, error) {
	text := cmp.Or(r.URL.Query().Get(name), words[0])
	if !slices.Contains(words, text) {
		return "", problem(http.StatusBadRequest,
			fmt.Sprintf("%s is %q: want %s", name, text, strings.Join(words, ", ")))
	}
	return text, nil
}

// readBody decodes a JSON body. Unknown fields are errors.
func readBody(r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return problem(http.StatusUnsupportedMediaType, "want a body of type application/json")
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.More() {
		err = fmt.Errorf("more than one value")
	}
	if err != nil {
		if p := problemOf(err); p.Status == http.StatusRequestEntityTooLarge {
			return p
		}
		return problem(http.StatusBadRequest, "the body: "+err.Error())
	}
	return nil
}

// who names the author of a change.
func who(r *http.Request) string {
	name := r.RemoteAddr
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	if by := r.Header.Get("X-Operator"); by != "" && len(by) <= 100 {
		name = strings.Map(func(c rune) rune {
			if c < ' ' {
				return -1
			}
			return c
		}, by) + " at " + name
	}
	return name
}

// make makes a change.
func (s *Server) make(r *http.Request, c changes.Change) (any, error) {
	c.Who = who(r)
	made, err := s.opt.Control.Make(r.Context(), c)
	made.Seeds = nil
	return changeOf(&made), err
}

// changeOf returns a change that was made.
func changeOf(c *changes.Change) Change {
	return Change{*c, string(c.Op.Undo()), Everywhere{c.Stamp != 0, c.Alone}}
}

func (s *Server) drain(r *http.Request) (any, error) {
	var d Drain
	if err := readBody(r, &d); err != nil {
		return nil, err
	}
	c := changes.Change{Op: changes.OpFill}
	if d.On {
		c.Op = changes.OpDrain
	}
	return s.make(r, c)
}

func (s *Server) setLimits(r *http.Request) (any, error) {
	var l LimitChange
	if err := readBody(r, &l); err != nil {
		return nil, err
	}
	now, err := s.opt.Control.Settings()
	if err != nil {
		return nil, err
	}
	c := changes.Change{Op: changes.OpLimits, Rate: now.Rate, Bandwidth: now.Bandwidth, Connections: now.Connections}
	for _, f := range []struct {
		from *string
		to   *string
	}{{l.Rate, &c.Rate}, {l.Bandwidth, &c.Bandwidth}, {l.Connections, &c.Connections}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return s.make(r, c)
}

func (s *Server) setDelay(r *http.Request) (any, error) {
	var d Delay
	if err := readBody(r, &d); err != nil {
		return nil, err
	}
	return s.make(r, changes.Change{Op: changes.OpHostDelay, Host: r.PathValue("host"), Delay: d.Delay})
}

func (s *Server) setBudget(r *http.Request) (any, error) {
	var b Budget
	if err := readBody(r, &b); err != nil {
		return nil, err
	}
	return s.make(r, changes.Change{Op: changes.OpBudget, PLD: r.PathValue("pld"), Budget: b.Budget,
		Requeue: b.Requeue})
}

func (s *Server) clearBudget(r *http.Request) (any, error) {
	requeue, err := choice(r, "requeue", yesOrNo)
	if err != nil {
		return nil, err
	}
	return s.make(r, changes.Change{Op: changes.OpBudgetFree, PLD: r.PathValue("pld"), Requeue: requeue == "true"})
}

func (s *Server) setFunction(r *http.Request) (any, error) {
	var f Function
	if err := readBody(r, &f); err != nil {
		return nil, err
	}
	return s.makeFunction(r, &changes.Function{Name: f.Function, Default: f.Default, Max: f.Max})
}

// makeFunction changes the budget function; nil is that of the flags.
func (s *Server) makeFunction(r *http.Request, f *changes.Function) (any, error) {
	return s.makeReplacing(r, changes.Change{Op: changes.OpFunction, Function: f})
}

// makeReplacing makes a change that places queued URLs again, and says how many.
func (s *Server) makeReplacing(r *http.Request, c changes.Change) (any, error) {
	now, err := s.opt.Control.Structures()
	if err != nil {
		return nil, err
	}
	made, err := s.make(r, c)
	if err != nil {
		return nil, err
	}
	return FunctionSet{made.(Change), now.Beast.SpreadRecords + now.Beast.MovedRecords}, nil
}

func (s *Server) setPriority(r *http.Request) (any, error) {
	var p Priority
	if err := readBody(r, &p); err != nil {
		return nil, err
	}
	return s.makePriority(r, &changes.Priority{Name: p.Priority, Weights: p.Weights})
}

// makePriority changes which URLs go first; nil is the priority set by flags.
func (s *Server) makePriority(r *http.Request, p *changes.Priority) (any, error) {
	return s.makeReplacing(r, changes.Change{Op: changes.OpPriority, Priority: p})
}

func (s *Server) block(r *http.Request) (any, error) {
	var b Rule
	if err := readBody(r, &b); err != nil {
		return nil, err
	}
	return s.make(r, changes.Change{Op: changes.OpBlock, Rule: b.Rule})
}

// unblock removes a rule. URLs are refused by the blacklist as a whole, so the number in the answer is that of
// all its rules. They stay refused: URLseen knows them, so seeds and links with them change nothing.
func (s *Server) unblock(r *http.Request) (any, error) {
	snap, err := s.opt.Control.Exact()
	if err != nil {
		return nil, err
	}
	made, err := s.make(r, changes.Change{Op: changes.OpUnblock, Rule: r.URL.Query().Get("rule")})
	if err != nil {
		return nil, err
	}
	return Unblocked{made.(Change), snap.Refused[state.ReasonBlocked.String()]}, nil
}

func (s *Server) addSeeds(r *http.Request) (any, error) {
	var in Seeds
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "text/plain" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(body) {
			if text := strings.TrimSpace(string(line)); text != "" && !strings.HasPrefix(text, "#") {
				in.Seeds = append(in.Seeds, text)
			}
		}
	} else if err := readBody(r, &in); err != nil {
		return nil, err
	}
	bad, err := s.opt.Control.BadSeeds(in.Seeds)
	if err != nil {
		return nil, err
	}
	made, err := s.make(r, changes.Change{Op: changes.OpSeeds, Seeds: in.Seeds})
	if err != nil {
		return nil, err
	}
	out := SeedsTaken{Refused: []BadSeed{}, Change: made.(Change)}
	out.Accepted = out.Change.Count
	for _, b := range bad {
		out.Refused = append(out.Refused, BadSeed{b[0], b[1]})
	}
	return out, nil
}

func (s *Server) enqueue(r *http.Request) (any, error) {
	var in Enqueue
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	answers, made, err := s.opt.Control.Enqueue(r.Context(), who(r), in.URLs)
	if err != nil {
		return nil, err
	}
	made.Seeds = nil
	out := EnqueueTaken{Accepted: made.Count, URLs: []Enqueued{}, Change: changeOf(&made)}
	for _, a := range answers {
		out.URLs = append(out.URLs, Enqueued{a.Line, a.URL, a.Refused, a.Wait.Seconds(), a.Because})
	}
	return out, nil
}

func (s *Server) reload(r *http.Request) (any, error) {
	var in Reload
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	re, made, err := s.opt.Control.Reload(r.Context(), who(r), in.Requeue)
	return Reloaded{changeOf(&made), re.Sites, re.Terms, re.Evicted, re.Budgets, re.Priorities, re.Cut, re.Swept,
		re.Replaced}, err
}

func (s *Server) changes(r *http.Request) (any, error) {
	n, err := intParam(r, "limit", 50, 1000)
	if err != nil {
		return nil, err
	}
	list, err := s.opt.Control.Changes(n)
	out := Changes{Changes: []Change{}}
	for _, c := range list {
		out.Changes = append(out.Changes, changeOf(&c))
	}
	return out, err
}

func (s *Server) limits() (any, error) {
	l, err := s.opt.Control.Limits()
	if err != nil {
		return nil, err
	}
	changed, err := s.opt.Control.Settings()
	return Limits{l.Rate, l.Bandwidth, l.Connections, l.ConnectionsNow, l.Slots, changed}, err
}

func (s *Server) slots() (any, error) {
	snap, err := s.opt.Control.Snapshot()
	if err != nil {
		return nil, err
	}
	out := Slots{Total: snap.Connections, Uses: []Use{}}
	for _, u := range snapshot.SlotUses() {
		out.Uses = append(out.Uses, Use{u.String(), snap.SlotsNow.Mean(u), snap.Slots.Mean(u)})
	}
	return out, nil
}

// maxFills is the number of groups of URLseen's buckets.
const maxFills = 256

func (s *Server) structures() (any, error) {
	in, err := s.opt.Control.Structures()
	if err != nil {
		return nil, err
	}
	fills, err := s.opt.Control.URLSeenFills(maxFills)
	if err != nil {
		return nil, err
	}
	out := Structures{Beast: Beast{Current: int64(in.Beast.Current), Horizon: int64(in.Beast.Horizon),
		Failed: in.Beast.OverBudgetRecords, Scanning: in.Beast.Scanning, Scans: in.Beast.Scans, Queues: []BeastQueue{},
		Priority: in.Priority}}
	for i := range in.Lanes {
		l := BeastLane{Weight: 1, Current: int64(in.Lanes[i].Current), Failed: in.Lanes[i].OverBudgetRecords,
			URLs: in.Lanes[i].CurrentRecords + in.Lanes[i].SpreadRecords + in.Lanes[i].MovedRecords}
		if i < len(in.Weights) {
			l.Weight = in.Weights[i]
		}
		out.Beast.Lanes = append(out.Beast.Lanes, l)
	}
	for i := range in.Drums {
		d := &in.Drums[i]
		row := Drum{Name: d.Name, Buckets: d.Buckets, Keys: d.Stats.Keys, Pending: d.Stats.Tuples,
			PendingBytes: d.Stats.TupleBytes, FullBuckets: d.Stats.FullBuckets, Running: d.Running,
			Passes: d.Stats.Passes, LastPass: d.Stats.LastPass.Seconds(), NextPass: d.Stats.PredictedEarly.Seconds(),
			DiskBytes: drumBytes(d), IOBytes: d.Stats.IOBytes(), TupleIO: d.TupleIO, PredictedIO: d.PredictedIO,
			Fill: []float64{}}
		if i == 0 {
			row.Fill = fills
			for _, f := range fills {
				row.Full += f / float64(len(fills))
			}
		}
		out.Drums = append(out.Drums, row)
	}
	for _, q := range in.Queues {
		out.Queues = append(out.Queues, Queue{q.Name, q.Records, q.Bytes})
	}
	for _, q := range in.Spread {
		out.Beast.Queues = append(out.Beast.Queues, BeastQueue{q.Lane, int64(q.Number), q.Records, q.Bytes})
	}
	return out, nil
}

// withExplainer calls f with one of the explainers.
func (s *Server) withExplainer(r *http.Request, f func(*explain.Explainer) error) error {
	explains := s.lane(r).explains
	wait := time.NewTimer(explainReads)
	defer wait.Stop()
	select {
	case x := <-explains:
		defer func() { explains <- x }()
		return f(x)
	case <-wait.C:
	case <-r.Context().Done():
	}
	return problem(http.StatusTooManyRequests, "the server is answering too many requests")
}

func (s *Server) explain(r *http.Request) (any, error) {
	asked := strings.TrimSpace(r.URL.Query().Get("url"))
	if asked == "" {
		return nil, problem(http.StatusBadRequest, "url is empty: give a URL, a host, a PLD or an address")
	}
	if at, err := netip.ParseAddr(asked); err == nil {
		return s.explainAddress(r, asked, at.Unmap())
	} else if !strings.Contains(asked, "/") {
		return s.explainHost(r, asked)
	}
	var out Explanation
	err := s.withExplainer(r, func(x *explain.Explainer) error {
		reports, err := x.URLs([]string{asked})
		if len(reports) == 1 {
			out.URL = reports[0]
		}
		return err
	})
	return out, err
}

// mostHostsAt is the number of hosts that the explanation of an address lists.
const mostHostsAt = 50

// explainAddress explains the host of that literal name, and lists the hosts at the address.
func (s *Server) explainAddress(r *http.Request, asked string, at netip.Addr) (any, error) {
	out, err := s.explainHost(r, asked)
	if err != nil {
		return nil, err
	}
	list, err := s.opt.Control.HostsInRAM(mostHostsAt, at)
	if errors.Is(err, operate.ErrNotRunning) {
		return out, nil
	} else if err != nil {
		return nil, err
	}
	out.At, err = s.hostRows(r, list)
	return out, err
}

func (s *Server) explainHost(r *http.Request, host string) (Explanation, error) {
	var out Explanation
	err := s.withExplainer(r, func(x *explain.Explainer) error {
		reports, err := x.Hosts([]string{host})
		if len(reports) == 1 {
			out.Host = reports[0]
		}
		return err
	})
	if err == nil && out.Host != nil && out.Host.Error != "" {
		err = problem(http.StatusUnprocessableEntity, out.Host.Error)
	}
	if err == nil && out.Host != nil {
		if p, notRunning := s.opt.Control.HostPace(out.Host.Host); notRunning == nil && p != nil {
			out.Host.Pace = &explain.PaceReport{Delay: p.Delay.Seconds(), Steps: p.Steps, AllSteps: p.AllSteps,
				Answer: p.Answer.Seconds()}
		}
	}
	return out, err
}
