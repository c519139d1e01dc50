package crawl

import (
	"context"
	"errors"
	"fmt"
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
	"drumbeat/crawl/gate"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/observe"
	"drumbeat/crawl/output"
	"drumbeat/crawl/seeds"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/internal/scope"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// operator applies the changes that the operator makes while the crawl runs, and those of earlier runs that
// are still in force. Package changes keeps them in a journal, which is durable before a change takes effect.
//
// Producer: Control, from any goroutine. Its goroutine "operator" feeds further seeds.
type operator struct {
	*engine
	journal *changes.Journal
	ordered *queue.Queue // keys of all URLs that were ever enqueued, for audits; only appended to

	mu       sync.Mutex // held while a change is made, so that changes take effect in the journal's order
	fedSeq   int64      // the last change whose seeds have been fed; guarded by the transaction lock
	budgets  atomic.Pointer[map[uint64]uint32]
	wakeSeed account.Signal
	feeding  sync.Mutex // held while enqueued URLs go from the journal to the table of orders; below mu, above txLock

	check        *gate.Check
	checkpointer *checkpoint.Maker
	health       *gate.Hosts
	limits       *limits.Limits
	history      *observe.History
	seeds        *seeds.Feeder
	space        *space.Keeper
	stars        *budgetStage
	sendLinks    func(b *admit.Batch, tx *account.Tx) error
	reloader     *inforce.Reloader
	quiet        func() bool // node.Node.Quiet
}

// goOn tells that seeds may be fed again.
func (o *operator) goOn() { o.wakeSeed.Raise() }

func newOperator(e *engine) *operator { return &operator{engine: e, wakeSeed: e.PulsedSignal()} }

// openJournal opens the journal. The checkpoint m tells which seeds have been fed.
func (o *operator) openJournal(m *state.Manifest) (err error) {
	if m != nil {
		o.fedSeq = m.Changes
	}
	o.journal, err = changes.Open(o.Set.FS, o.journalName(), o.fedSeq)
	if err != nil {
		return fmt.Errorf("crawl: changes of the operator: %w", err)
	}
	return nil
}

// restore puts the settings of earlier runs in force. The scheduler and the limits must be open.
func (o *operator) restore(*state.Manifest) error {
	s := o.journal.Settings()
	o.paused.Store(s.Paused)
	o.operatorDrain.Store(s.Drain)
	o.pinBudgets(s)
	for host, delay := range s.HostDelays {
		o.polite.SetHostDelay(o.HostKey([]byte(host)), seconds(delay))
	}
	if err := o.limits.Use(s); err != nil {
		return fmt.Errorf("crawl: limits of the operator's changes: %w", err)
	}
	if text := settingsText(s); text != "" {
		o.opt.Observe.Log.Warn("changes that the operator made are in force: "+text, "undo", "drumbeat ctl")
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
	add(len(s.HostDelays) > 0, "%d hosts with a delay of their own", len(s.HostDelays))
	add(len(s.Blocked) > 0, "%d blocked", len(s.Blocked))
	add(s.Function != nil, "another budget function")
	add(s.Priority != nil, "another priority")
	add(len(s.Budgets) > 0, "%d PLDs with a pinned budget", len(s.Budgets))
	return strings.Join(parts, ", ")
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// close closes the journal.
func (o *operator) close() error { return o.journal.Close() }

// freeze copies which seeds have been fed. Once a manifest says so, they may leave the journal.
func (o *operator) freeze() checkpoint.Copied {
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

// budgetsNow returns the budgets in force: those of the flags, with the operator's function.
func (o *operator) budgetsNow(flags star.Budgets) (star.Budgets, error) {
	f := o.journal.Settings().Function
	if f == nil {
		return flags, nil
	}
	return budgetsOf(flags, f)
}

// budgetsOf returns budgets with another function.
func budgetsOf(flags star.Budgets, f *changes.Function) (star.Budgets, error) {
	fn, err := star.ParseFunction(f.Name)
	if err == nil {
		flags.Function, flags.Default, flags.Max = fn, f.Default, f.Max
		err = flags.Validate()
	}
	return flags, err
}

// epoch identifies the budget function and the strategy in force, for the ledgers of BEAST.
func (o *operator) epoch() uint32 {
	s := o.journal.Settings()
	return uint32(max(s.FunctionSeq, s.PrioritySeq))
}

// priority returns the operator's strategy, nil for that of the flags.
func (o *operator) priority() *changes.Priority { return o.journal.Settings().Priority }

// fed reports whether the seeds of all changes have been fed.
func (o *operator) fed() bool { return !o.journal.SeedsLeft() }

// pinned returns the budget that the operator, or else a site's settings, have fixed for a PLD, 0 for none.
func (o *operator) pinned(pld uint64) uint32 {
	if b := o.budgets.Load(); b != nil && (*b)[pld] > 0 {
		return (*b)[pld]
	}
	return o.sites.Budget(pld)
}

// pins reports whether any PLD has a fixed budget.
func (o *operator) pins() bool { return o.budgets.Load() != nil || o.sites.HasBudgets() }

func (o *operator) pinBudgets(s *changes.Settings) {
	if len(s.Budgets) == 0 {
		o.budgets.Store(nil)
		return
	}
	keys := make(map[uint64]uint32, len(s.Budgets))
	for pld, budget := range s.Budgets {
		keys[o.PLDKey([]byte(pld))] = budget
	}
	o.budgets.Store(&keys)
}

// blocked returns what the operator has blocked.
func (o *operator) blocked() []scope.Source { return o.blacklist(o.journal.Settings()) }

// blacklist returns the blocked sites as a source of blacklist rules, none if nothing is blocked.
func (o *operator) blacklist(s *changes.Settings) []scope.Source {
	return admit.Blocked(o.journalName(), s.Blocked)
}

func (o *operator) journalName() string { return o.Set.Path(0, state.ChangesName) }

// make makes a change: it checks it, makes it durable, and puts it in force. The error is a
// *changes.RefusedError if the change cannot be made, else a failure of this machine. The caller writes the
// lines in late.
func (o *operator) make(ctx context.Context, c changes.Change, late *account.LateLog) (changes.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.normalize(&c); err != nil {
		return c, err
	}
	next, err := o.journal.Try(c)
	if err != nil {
		return c, err
	}
	if err := o.limits.Check(next); err != nil {
		return c, &changes.RefusedError{Why: err.Error()}
	}
	if c.Op == changes.OpEnqueue {
		if err := o.mayEnqueue(len(c.Seeds)); err != nil {
			return c, err
		}
	}
	if c.Op == changes.OpFunction || c.Anew {
		if err := o.stars.checkFunction(c.Function); err != nil {
			return c, &changes.RefusedError{Why: err.Error()}
		}
	}
	if c.Op == changes.OpPriority {
		if err := o.stars.checkPriority(c.Priority); err != nil {
			return c, &changes.RefusedError{Why: err.Error()}
		}
	}
	blocks := c.Op == changes.OpBlock || c.Op == changes.OpUnblock
	if blocks { // the rules must be valid and fit into RAM
		if err := o.reloader.CheckBlocked(o.blacklist(next)); err != nil {
			return c, &changes.RefusedError{Why: err.Error()}
		}
	}
	if c, err = o.journal.Append(c, time.Now()); err != nil {
		return c, err
	}
	o.Hook("change")
	late.Add(o.opt.Observe.Log.Info, "the operator changed something", "what", c.Op, "who", c.Who, "number", c.Seq)
	o.history.Made(&c)
	return c, o.enforce(ctx, &c, late)
}

// enforce puts a durable change in force.
func (o *operator) enforce(ctx context.Context, c *changes.Change, late *account.LateLog) error {
	s := o.journal.Settings()
	switch c.Op {
	case changes.OpPause, changes.OpResume:
		o.paused.Store(s.Paused)
		o.NoteProgress() // --linger counts from here
		o.Changed()
	case changes.OpDrain, changes.OpFill:
		o.operatorDrain.Store(s.Drain)
		o.WakeWatch.Raise()
	case changes.OpLimits:
		return o.limits.Use(s)
	case changes.OpHostDelay:
		o.polite.SetHostDelay(o.HostKey([]byte(c.Host)), seconds(c.Delay))
	case changes.OpHostNormal:
		o.polite.SetHostDelay(o.HostKey([]byte(c.Host)), -1)
	case changes.OpBlock, changes.OpUnblock:
		_, _, err := o.reloader.Reload(ctx, late)
		return err
	case changes.OpBudget, changes.OpBudgetFree:
		o.pinBudgets(s)
		if c.Anew {
			o.stars.replace()
		}
	case changes.OpFunction:
		return o.stars.newFunction()
	case changes.OpReload:
		_, err := o.reloader.ReloadFiles(ctx, late)
		return err
	case changes.OpPriority:
		return o.stars.newPriority()
	case changes.OpSeeds, changes.OpEnqueue:
		o.Changed()
		o.wakeSeed.Raise()
	case changes.OpCheckpoint:
		return o.checkpointer.SaveQuietly(late)
	case changes.OpStop:
		o.Stop(StopCancelled)
	}
	return nil
}

// normalize spells names as URLs do and checks seeds.
func (o *operator) normalize(c *changes.Change) error {
	var err error
	switch c.Op {
	case changes.OpHostDelay, changes.OpHostNormal:
		c.Host, err = canonicalHost(c.Host)
		if c.Delay < 0 || math.IsNaN(c.Delay) {
			err = fmt.Errorf("a delay of %v s", c.Delay)
		}
	case changes.OpBudget, changes.OpBudgetFree:
		var host string
		if host, err = canonicalHost(c.PLD); err == nil {
			if c.PLD = string(o.Suffixes.PLDBytes([]byte(host))); c.PLD != host {
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
			if url, _, bad := o.links.ParseSeed([]byte(line)); bad == nil && url != "" {
				kept = append(kept, line)
			}
		}
		if c.Seeds = kept; len(kept) == 0 {
			err = errors.New("none of the lines is a URL or a host")
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
		return "", fmt.Errorf("%q is no host name", name)
	}
	parts := weburl.Split([]byte(u))
	if parts.Port != 80 || string(parts.Path) != "/" {
		return "", fmt.Errorf("%q is no host name", name)
	}
	return string(parts.Host), nil
}

// badSeeds returns the lines that are no URL or host, each with the reason, at most MaxSeedReports.
func (o *operator) badSeeds(lines []string) (bad [][2]string) {
	for _, line := range lines {
		if _, _, err := o.links.ParseSeed([]byte(line)); err != nil && len(bad) < output.MaxSeedReports {
			bad = append(bad, [2]string{line, err.Error()})
		}
	}
	return bad
}

// feedSeeds feeds the seeds of changes, each change once. After a crash in the middle it feeds a change
// again; URLseen drops the URLs that it knows.
func (o *operator) feedSeeds(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := o.journal.Tidy(); err != nil {
			o.opt.Observe.Log.Warn("the journal of changes keeps seeds that have been fed", "error", err, "retry",
				"after the next checkpoint")
		}
		c, ok, err := o.journal.NextSeeds()
		if err != nil {
			return err
		}
		if why := o.space.Pausing(); !ok || o.drains() || o.quiet() ||
			why != "" && (c.Op != changes.OpEnqueue || why != space.PausedByOperator) {
			o.Await(ctx, o.wakeSeed, account.WakeAfter)
			continue
		}
		if c.Op == changes.OpEnqueue {
			if err := o.feedEnqueued(c); err != nil {
				return err
			}
			continue
		}
		if whole, err := o.seeds.Feed(ctx, c.Seeds); !whole {
			return err
		}
		if err := o.Transact(func(*account.Tx) error {
			o.fedSeq = c.Seq
			o.journal.Fed()
			return nil
		}); err != nil {
			return err
		}
		o.WakeWatch.Raise()
	}
	return nil
}

// feedEnqueued begins the orders of a change.
func (o *operator) feedEnqueued(c *changes.Change) error {
	o.feeding.Lock()
	defer o.feeding.Unlock()
	return o.Transact(func(tx *account.Tx) error {
		if err := o.feedOrders(tx, c.Seeds); err != nil {
			return err
		}
		o.fedSeq = c.Seq
		o.journal.Fed()
		return nil
	})
}
