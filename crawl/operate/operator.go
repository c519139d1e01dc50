package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/internal/health"
	"drumbeat/internal/scope"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// Options are the options of an Operator.
type Options struct {
	Log       *slog.Logger
	Links     *admit.Policy
	Sites     *inforce.Sites
	MaxOrders int // URLs that wait after they were enqueued
	// Cluster is the secret of the cluster whose nodes all carry out some orders (orders.go); nil: there is none.
	Cluster []byte
}

// Budgets place URLs in queues.
type Budgets struct {
	// CheckFunction returns why a budget function cannot be used; nil is that of the flags. CheckPriority
	// does so for a strategy.
	CheckFunction func(f *changes.Function) error
	CheckPriority func(p *changes.Priority) error
	// NewFunction puts the function of the operator in force, NewPriority the strategy. Then, and after
	// Replace, the URLs in the queues are placed again.
	NewFunction, NewPriority func() error
	Replace                  func()
	Placed                   func() int64 // how many URLs Replace would move
}

// Orders are the URLs that were enqueued and wait.
type Orders struct {
	Room  func() int                  // how many more there may be
	Begin func(key, host uint64) bool // adds one; false if the URL waits already. It is part of a transaction
	Ahead func(host uint64) int       // those of a host on their way to RAM
	// Watch gives one a deadline, as state.Order.Deadline. It is part of a transaction.
	Watch func(key uint64, deadline int64)
}

// Others are the stages that an Operator calls.
type Others struct {
	Heaps      func() *polite.Scheduler // it exists once the crawl is open
	Budgets    Budgets
	Check      Check
	StateOf    func(host uint64, now time.Time) health.State // of a host in trouble
	Checkpoint func(late *account.LateLog) error             // the caller writes the lines in late
	Made       func(c *changes.Change)                       // a change is durable
	Limits     *limits.Limits
	Reloader   Reloader
	// Feed feeds lines of seeds; whole is false if ctx ended first.
	Feed      func(ctx context.Context, lines []string) (whole bool, _ error)
	Space     *space.Keeper
	Orders    Orders
	SendLinks func(b *admit.Batch, tx *account.Tx) error // to URLseen; part of a transaction
	// SendOrder sends an order to the node that owns the slot of its URL, with the record as its visits; sent is
	// false if this node does. It is part of a transaction.
	SendOrder func(order *state.Order) (sent bool, _ error)
	// Elsewhere reports whether another node visits a host. This node visits those of slots that move here.
	Elsewhere func(host []byte) bool
	// LogOrder writes the line of the crawl log of a URL of --watch that is not taken. It is part of a transaction.
	LogOrder     func(tx *account.Tx, rec *weburl.Record, why string) error
	Pause, Drain func(on bool) // no request starts; new links are not queued
	Drains       func() bool   // new links are not queued, for any reason
	Quiet        func() bool   // nothing may begin
	Stop         func()        // ends the crawl
	MayErase     func() error  // why pages of this crawl cannot be erased
	Rest         func()        // ends the run, to erase
	Ordered      func()        // an order of the cluster was taken
}

// Check is RobotsCache, to which enqueued URLs go.
type Check interface {
	// CheckRobots sends a URL to RobotsCache; data is its record. It is part of a transaction.
	CheckRobots(tx *account.Tx, data []byte, rec *weburl.Record, from state.Place) error
	PassWait() time.Duration // predicted until the pass for one more enqueued URL has ended
}

// Reloader puts the files of rules and sites in force again. inforce.Reloader is the implementation.
type Reloader interface {
	CheckFiles() error                         // why the files cannot be in force
	CheckBlocked(blocked []scope.Source) error // why what the operator blocks cannot be in force
	// Reload puts the rules and the blacklist in force, and returns the exchanges cut off and the URLs taken
	// from RAM; ReloadFiles does so with the sites and trusted PLDs. The caller writes the lines in late.
	Reload(ctx context.Context, late *account.LateLog) (cut, swept int, _ error)
	ReloadFiles(ctx context.Context, late *account.LateLog) (inforce.Reloaded, error)
}

// Operator applies the changes that the operator makes while the crawl runs, and those of earlier runs that
// are still in force. Its goroutine is "operator".
type Operator struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others

	journal *changes.Journal
	Ordered *queue.Queue // keys of all URLs that were ever enqueued, for audits; only appended to

	mu       sync.Mutex // held while a change is made, so that changes take effect in the journal's order
	ordered  orderList
	fedSeq   int64 // the last change whose seeds have been fed; guarded by the transaction lock
	budgets  atomic.Pointer[map[uint64]uint32]
	wakeSeed account.Signal
	erasures atomic.Pointer[erasures]
	feeding  sync.Mutex // held while enqueued URLs go from the journal to the table of orders; below mu, above TxLock
}

// New returns an Operator. Wire must give it the other stages before OpenJournal.
func New(run *account.Run, saved *state.Saved, opt Options) *Operator {
	return &Operator{run: run, saved: saved, opt: opt, wakeSeed: run.PulsedSignal()}
}

// Wire gives the Operator the stages that it calls.
func (o *Operator) Wire(others Others) { o.others = others }

// GoOn tells that seeds may be fed again.
func (o *Operator) GoOn() { o.wakeSeed.Raise() }

// OpenJournal opens the journal. The checkpoint m tells which seeds have been fed.
func (o *Operator) OpenJournal(m *state.Manifest) (err error) {
	if m != nil {
		o.fedSeq = m.Changes
	}
	o.journal, err = changes.Open(o.saved.Set.FS, o.journalName(), o.fedSeq)
	if err != nil {
		return fmt.Errorf("crawl: operator's changes: %w", err)
	}
	if err := o.openRequests(); err != nil {
		return err
	}
	return o.openOrders()
}

// Restore puts the settings of earlier runs in force. The scheduler and the limits must be open.
func (o *Operator) Restore(*state.Manifest) error {
	s := o.journal.Settings()
	o.others.Pause(s.Paused)
	o.others.Drain(s.Drain)
	o.pinBudgets(s)
	for host, delay := range s.HostDelays {
		o.others.Heaps().SetHostDelay(o.saved.HostKey([]byte(host)), seconds(delay))
	}
	if err := o.others.Limits.Use(s); err != nil {
		return fmt.Errorf("crawl: limits set by the operator: %w", err)
	}
	if text := settingsText(s); text != "" {
		o.opt.Log.Warn("the operator's changes are in force: "+text, "undo", "drumbeat ctl")
	}
	return nil
}

// settingsText describes settings, "" for none.
func settingsText(s *changes.Settings) string {
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.Paused, "paused")
	add(s.Drain, "new links are not queued")
	add(s.Rate != "", "rate %s", s.Rate)
	add(s.Bandwidth != "", "bandwidth %s", s.Bandwidth)
	add(s.Connections != "", "connections %s", s.Connections)
	add(len(s.HostDelays) > 0, "%d hosts with their own delay", len(s.HostDelays))
	add(len(s.Blocked) > 0, "%d blocked", len(s.Blocked))
	add(s.Function != nil, "another budget function")
	add(s.Priority != nil, "another priority")
	add(len(s.Budgets) > 0, "%d PLDs with a pinned budget", len(s.Budgets))
	return strings.Join(parts, ", ")
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Close closes the journal.
func (o *Operator) Close() error { return o.journal.Close() }

// Freeze copies which seeds have been fed. Once a manifest says so, they may leave the journal.
func (o *Operator) Freeze() checkpoint.Copied {
	fed := o.fedSeq
	return checkpoint.Copied{
		Save: func(m *state.Manifest, _ *disk.Tails) error { m.Changes = fed; return nil },
		Durable: func(*state.Manifest) error {
			o.journal.Saved(fed)
			o.wakeSeed.Raise()
			return nil
		},
	}
}

// Function returns the operator's budget function, nil for that of the flags.
func (o *Operator) Function() *changes.Function { return o.journal.Settings().Function }

// Settings returns the changes in force. The caller must not change them.
func (o *Operator) Settings() *changes.Settings { return o.journal.Settings() }

// Last returns the last changes, newest first, at most n.
func (o *Operator) Last(n int) []changes.Change { return o.journal.Last(n) }

// Epoch identifies the budget function and the strategy in force, for the ledgers of BEAST.
func (o *Operator) Epoch() uint32 {
	s := o.journal.Settings()
	return uint32(max(s.FunctionSeq, s.PrioritySeq))
}

// Priority returns the operator's strategy, nil for that of the flags.
func (o *Operator) Priority() *changes.Priority { return o.journal.Settings().Priority }

// Fed reports whether the seeds of all changes have been fed.
func (o *Operator) Fed() bool { return !o.journal.SeedsLeft() }

// Pinned returns the budget that the operator, or else a site's settings, have fixed for a PLD, 0 for none.
func (o *Operator) Pinned(pld uint64) uint32 {
	if b := o.budgets.Load(); b != nil && (*b)[pld] > 0 {
		return (*b)[pld]
	}
	return o.opt.Sites.Budget(pld)
}

// Pins reports whether any PLD has a fixed budget.
func (o *Operator) Pins() bool { return o.budgets.Load() != nil || o.opt.Sites.HasBudgets() }

func (o *Operator) pinBudgets(s *changes.Settings) {
	if len(s.Budgets) == 0 {
		o.budgets.Store(nil)
		return
	}
	keys := make(map[uint64]uint32, len(s.Budgets))
	for pld, budget := range s.Budgets {
		keys[o.saved.PLDKey([]byte(pld))] = budget
	}
	o.budgets.Store(&keys)
}

// Blocked returns what the operator has blocked, and what is to be erased.
func (o *Operator) Blocked() []scope.Source {
	return append(o.blacklist(o.journal.Settings()), o.erased(o.erasures.Load().rules)...)
}

// blacklist returns the blocked sites as a source of blacklist rules, none if nothing is blocked.
func (o *Operator) blacklist(s *changes.Settings) []scope.Source {
	return admit.Blocked(o.journalName(), s.Blocked)
}

func (o *Operator) journalName() string { return o.saved.Set.Path(0, state.ChangesName) }

// Make makes a change: it checks it, makes it durable, and puts it in force. The error is a
// *changes.RefusedError if the change cannot be made, else a failure of this machine. The caller writes the
// lines in late.
func (o *Operator) Make(ctx context.Context, c changes.Change, late *account.LateLog) (changes.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.normalize(&c); err != nil {
		return c, err
	}
	if o.stamp(&c) {
		return c, nil
	}
	next, err := o.journal.Try(c)
	if err != nil {
		return c, err
	}
	if err := o.others.Limits.Check(next); err != nil {
		return c, &changes.RefusedError{Why: err.Error()}
	}
	if c.Op == changes.OpEnqueue {
		if err := o.mayEnqueue(len(c.Seeds)); err != nil {
			return c, err
		}
	}
	if c.Op == changes.OpFunction || c.Requeue {
		if err := o.others.Budgets.CheckFunction(c.Function); err != nil {
			return c, &changes.RefusedError{Why: err.Error()}
		}
	}
	if c.Op == changes.OpPriority {
		if err := o.others.Budgets.CheckPriority(c.Priority); err != nil {
			return c, &changes.RefusedError{Why: err.Error()}
		}
	}
	blocks := c.Op == changes.OpBlock || c.Op == changes.OpUnblock
	if blocks { // the rules must be valid and fit into RAM
		rules := append(o.blacklist(next), o.erased(o.erasures.Load().rules)...)
		if err := o.others.Reloader.CheckBlocked(rules); err != nil {
			return c, &changes.RefusedError{Why: err.Error()}
		}
	}
	if c, err = o.journal.Append(c, time.Now()); err != nil {
		return c, err
	}
	o.run.Hook("change")
	late.Add(o.opt.Log.Info, "change by the operator", "what", c.Op, "who", c.Who, "number", c.Seq)
	o.others.Made(&c)
	err = o.enforce(ctx, &c, late)
	if c.Stamp != 0 {
		o.others.Ordered()
	}
	return c, err
}

// enforce puts a durable change in force.
func (o *Operator) enforce(ctx context.Context, c *changes.Change, late *account.LateLog) error {
	s := o.journal.Settings()
	switch c.Op {
	case changes.OpPause, changes.OpResume:
		o.others.Pause(s.Paused)
		o.run.NoteProgress() // --linger counts from here
		o.run.Changed()
	case changes.OpDrain, changes.OpFill:
		o.others.Drain(s.Drain)
		o.run.WakeWatch.Raise()
	case changes.OpLimits:
		return o.others.Limits.Use(s)
	case changes.OpHostDelay:
		o.others.Heaps().SetHostDelay(o.saved.HostKey([]byte(c.Host)), seconds(c.Delay))
	case changes.OpHostNormal:
		o.others.Heaps().SetHostDelay(o.saved.HostKey([]byte(c.Host)), -1)
	case changes.OpBlock, changes.OpUnblock:
		_, _, err := o.others.Reloader.Reload(ctx, late)
		return err
	case changes.OpBudget, changes.OpBudgetFree:
		o.pinBudgets(s)
		if c.Requeue {
			o.others.Budgets.Replace()
		}
	case changes.OpFunction:
		return o.others.Budgets.NewFunction()
	case changes.OpReload:
		_, err := o.others.Reloader.ReloadFiles(ctx, late)
		return err
	case changes.OpPriority:
		return o.others.Budgets.NewPriority()
	case changes.OpSeeds, changes.OpEnqueue:
		o.run.Changed()
		o.wakeSeed.Raise()
	case changes.OpCheckpoint:
		return o.others.Checkpoint(late)
	case changes.OpStop:
		o.others.Stop()
	}
	return nil
}

// normalize spells names as URLs do and checks seeds.
func (o *Operator) normalize(c *changes.Change) error {
	var err error
	switch c.Op {
	case changes.OpHostDelay, changes.OpHostNormal:
		c.Host, err = canonicalHost(c.Host)
		if c.Delay < 0 || math.IsNaN(c.Delay) {
			err = fmt.Errorf("delay of %v s: want 0 or more", c.Delay)
		}
	case changes.OpBudget, changes.OpBudgetFree:
		var host string
		if host, err = canonicalHost(c.PLD); err == nil {
			if c.PLD = string(o.saved.Suffixes.PLDBytes([]byte(host))); c.PLD != host {
				err = fmt.Errorf("%s is not a PLD; its PLD is %s", host, c.PLD)
			}
		}
	case changes.OpBlock, changes.OpUnblock:
		if c.Rule = strings.TrimSpace(c.Rule); !strings.HasPrefix(c.Rule, "-") && !strings.HasPrefix(c.Rule, "+") {
			c.Rule = "- " + c.Rule
		}
	case changes.OpEnqueue:
		c.Seeds = slices.DeleteFunc(slices.Clone(c.Seeds),
			func(line string) bool { _, bad := o.judge(line); return bad != "" })
		if len(c.Seeds) == 0 {
			err = errors.New("the crawl may fetch none of the URLs")
		}
	case changes.OpSeeds:
		var kept []string
		for _, line := range c.Seeds {
			if url, _, bad := o.opt.Links.ParseSeed([]byte(line)); bad == nil && url != "" {
				kept = append(kept, line)
			}
		}
		if c.Seeds = kept; len(kept) == 0 {
			err = errors.New("no line is a URL or a host")
		}
	}
	if err != nil {
		return &changes.RefusedError{Why: err.Error()}
	}
	return nil
}

// canonicalHost returns a host name as the crawl's URLs spell it.
func canonicalHost(name string) (string, error) {
	u, err := weburl.Canonical((&url.URL{Scheme: "http", Host: name, Path: "/"}).String())
	if err != nil || name == "" {
		return "", fmt.Errorf("%q is not a host name", name)
	}
	parts := weburl.Split([]byte(u))
	if parts.Port != 80 || string(parts.Path) != "/" {
		return "", fmt.Errorf("%q is not a host name", name)
	}
	return string(parts.Host), nil
}
