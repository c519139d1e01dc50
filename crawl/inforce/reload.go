package inforce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"drumbeat/botauth"
	"drumbeat/crawl/account"
	"drumbeat/crawl/options"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/internal/scope"
	"drumbeat/internal/sites"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// cookiesShare limits the cookies of all sites to 1/cookiesShare of the Go heap.
const cookiesShare = 64

// ReloadOptions are the options of a Reloader.
type ReloadOptions struct {
	Log            *slog.Logger
	FS             disk.FS
	Admission      *options.Admission
	Agent, Contact string
	Trusted        string          // the file of trusted PLDs; "": none
	Signer         *botauth.Signer // gets the keys of KeyFile; nil: none
	KeyFile        string
	Plan           *plan.Plan // HeapBytes limits what the files take; made before Open
	Lanes          func() int // of this crawl
	Guard          bool       // the operator may block sites while the crawl runs
}

// Heaps has the URLs in RAM. polite.Scheduler is the implementation.
type Heaps interface {
	Snapshot() []*polite.Item
	EvictItems(now time.Time, items []*polite.Item) []*polite.Item
	SetTerms(now time.Time, hosts, plds map[uint64]*polite.Terms) (changed int)
}

// Cookies has the jars of sites. fetcher.Fetcher is the implementation.
type Cookies interface {
	OpenCookies(bytes int64)
	KeepCookies(jars map[string]bool)
}

// Deferrals take URLs that leave RAM. Both methods are part of a transaction.
type Deferrals interface {
	DropBlocked(tx *account.Tx, item *polite.Item) error
	Evicted(tx *account.Tx, items []*polite.Item, why state.Reason) error
}

// Others are the stages that a Reloader calls.
type Others struct {
	Heaps     func() Heaps // they exist once the crawl is open
	Cookies   Cookies
	Deferrals Deferrals
	Blocked   func() []scope.Source // what the operator has blocked
	Reloaded  func()                // told of each reload
}

// Reloader reads the files of rules, blacklist, settings of sites and trusted PLDs, and puts them in force.
// Its goroutine is "reload".
type Reloader struct {
	run    *account.Run
	saved  *state.Saved
	opt    ReloadOptions
	rules  *Rules
	sites  *Sites
	others Others

	reloading      sync.Mutex // held while rules and blacklist are replaced
	reloadingSites sync.Mutex // held while the settings of sites are replaced
}

// NewReloader returns a Reloader. Wire must give it the other stages before Open.
func NewReloader(run *account.Run, saved *state.Saved, opt ReloadOptions, rules *Rules, sites *Sites) *Reloader {
	return &Reloader{run: run, saved: saved, opt: opt, rules: rules, sites: sites}
}

// Wire gives the Reloader the stages that it calls.
func (r *Reloader) Wire(others Others) { r.others = others }

// Open loads the files. No stage runs yet.
func (r *Reloader) Open() error { return errors.Join(r.openRules(), r.openSites()) }

// openRules loads the rule files.
func (r *Reloader) openRules() error {
	blocked := r.others.Blocked()
	r.rules.Suffixes = r.saved.Suffixes
	r.rules.Guard(len(r.opt.Admission.Blacklist)+len(blocked) > 0 || r.opt.Guard)
	rules, blacklist, err := r.readRules(blocked)
	if err != nil {
		return err
	}
	r.rules.Rules.Store(rules)
	r.rules.Blacklist.Store(blacklist)
	trusted, err := r.readTrusted()
	if err == nil && trusted != nil {
		r.rules.Trusted.Store(&trusted)
	}
	return err
}

// openSites loads the settings of sites.
func (r *Reloader) openSites() error {
	set, err := r.readSites()
	r.sites.Use(set)
	var late account.LateLog
	r.warnOfLanes(set, &late)
	late.Tell()
	if r.opt.Admission.Sites != "" {
		r.others.Cookies.OpenCookies(r.opt.Plan.HeapBytes / cookiesShare)
	}
	return err
}

// Run reloads rules, blacklist, settings of sites and trusted PLDs for each value from
// Options.Admission.Reload.
func (r *Reloader) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.opt.Admission.Reload:
			var late account.LateLog
			_, err := r.ReloadFiles(ctx, &late)
			late.Tell()
			if err != nil {
				return err
			}
		}
	}
}

// Reloaded counts what a reload of the files of rules, blacklist, sites and trusted PLDs changed.
type Reloaded struct {
	Sites string // describes the settings of sites now in force
	// Terms is the number of hosts and PLDs with URLs in RAM whose delays or connections changed, Evicted
	// that of URLs in RAM that went back to disk because their host has fewer connections, Budgets that of
	// PLDs whose fixed budget changed. Cut counts exchanges that ended, and Swept URLs that left RAM, because
	// of the blacklist. Replaced is the number of URLs of BEAST that are placed again.
	Terms, Evicted, Budgets, Cut, Swept int
	// Priorities is the number of tables of sites whose priority is new, another one or gone.
	Priorities int
	Replaced   int64
}

// ReloadFiles puts new trusted PLDs, keys, settings of sites, rules and blacklist in force. Of each, if its files
// have errors, late gets them and the old ones stay.
func (r *Reloader) ReloadFiles(ctx context.Context, late *account.LateLog) (n Reloaded, err error) {
	defer r.others.Reloaded()
	r.reloadTrusted(late)
	r.reloadKeys(late)
	if err := r.reloadSites(ctx, &n, late); err != nil ||
		len(r.opt.Admission.Rules)+len(r.opt.Admission.Blacklist) == 0 {
		return n, err
	}
	n.Cut, n.Swept, err = r.Reload(ctx, late)
	return n, err
}

// reloadTrusted puts the file of trusted PLDs in force, for the next computation of supporters. If it has
// errors, late gets them and the old list stays.
func (r *Reloader) reloadTrusted(late *account.LateLog) {
	if r.opt.Trusted == "" {
		return
	}
	trusted, err := r.readTrusted()
	if err != nil {
		late.Add(r.opt.Log.Error, "trusted PLDs are unchanged: the file has errors", "error", err)
		return
	}
	before := r.rules.Trusted.Swap(&trusted)
	late.Add(r.opt.Log.Info, "trusted PLDs reloaded", "plds", len(trusted), "before", len(*before))
}

// reloadKeys puts the key file in force, for the requests that follow. If it has errors, late gets them and the old
// keys stay.
func (r *Reloader) reloadKeys(late *account.LateLog) {
	if r.opt.Signer == nil {
		return
	}
	keys, err := botauth.ReadKeys(r.opt.KeyFile)
	if err == nil {
		err = r.opt.Signer.SetKeys(keys)
	}
	if err != nil {
		late.Add(r.opt.Log.Error, "the keys of --sign are unchanged: the key file has errors", "error", err)
		return
	}
	late.Add(r.opt.Log.Info, "keys of --sign reloaded", "keys", len(keys),
		"signs", keys.At(time.Now()).ID())
}

// Reload puts new rules in force. If the files have errors, late gets them and the old rules stay.
func (r *Reloader) Reload(ctx context.Context, late *account.LateLog) (cut, swept int, _ error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	rules, blacklist, err := r.readRules(r.others.Blocked())
	if err != nil {
		late.Add(r.opt.Log.Error, "rules and blacklist are unchanged: the files have errors", "error", err)
		return 0, 0, nil
	}
	oldRules, oldBlacklist := r.rules.Rules.Swap(rules), r.rules.Blacklist.Swap(blacklist)
	cut = r.rules.CutOff()
	swept, err = r.sweepBlocked(ctx, late)
	late.Add(r.opt.Log.Info, "rules and blacklist reloaded",
		"rules", rules.Stats().String(), "before", oldRules.Stats().String(),
		"blacklist", blacklist.Stats().String(), "blacklist_before", oldBlacklist.Stats().String(),
		"exchanges_cut", cut, "urls_swept", swept)
	return cut, swept, err
}

// sweepLot limits the URLs in one transaction of sweepBlocked.
const sweepLot = 256

// sweepBlocked removes the blacklisted URLs from RAM. URLs with addresses left go to RobotsCache again. If
// a URL is admitted under the old list during the sweep, its exchange detects it.
func (r *Reloader) sweepBlocked(ctx context.Context, late *account.LateLog) (n int, err error) {
	if r.rules.Blacklist.Load() == nil {
		return 0, nil
	}
	var hit []*polite.Item
	for _, item := range r.others.Heaps().Snapshot() {
		if item.Robots {
			continue // its exchange checks the blacklist
		}
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return n, fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if r.rules.BlockedURL(rec.URL) || len(r.rules.Open(item.Addrs)) < len(item.Addrs) {
			hit = append(hit, item)
		}
	}
	for len(hit) > 0 && ctx.Err() == nil {
		lot := hit[:min(len(hit), sweepLot)]
		hit = hit[len(lot):]
		lines, err := r.run.TransactQuietly(func(tx *account.Tx) error {
			for _, item := range r.others.Heaps().EvictItems(time.Now(), lot) {
				n++
				if err := r.others.Deferrals.DropBlocked(tx, item); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		late.Join(lines)
	}
	return n, nil
}

// reloadSites puts new settings of sites in force, for requests that begin from now on. If the file has
// errors, late gets them and the old settings stay.
func (r *Reloader) reloadSites(ctx context.Context, n *Reloaded, late *account.LateLog) error {
	if r.opt.Admission.Sites == "" {
		return nil
	}
	r.reloadingSites.Lock()
	defer r.reloadingSites.Unlock()
	set, err := r.readSites()
	if err != nil {
		late.Add(r.opt.Log.Error, "site settings are unchanged: the file has errors", "error", err)
		return nil
	}
	old, err := r.newTerms(ctx, set, n)
	n.Priorities = otherPriorities(old.Priorities(), set.Priorities())
	r.warnOfLanes(set, late)
	r.others.Cookies.KeepCookies(set.Jars())
	n.Sites = set.Stats().String()
	late.Add(r.opt.Log.Info, "site settings reloaded", "sites", n.Sites, "before", old.Stats().String(),
		"hosts_and_plds_with_other_terms", n.Terms, "urls_evicted", n.Evicted, "budgets_changed", n.Budgets,
		"priorities_changed", n.Priorities)
	return err
}

// newTerms puts settings of sites in force and applies their delays to the hosts and PLDs of the URLs in
// RAM. URLs of connections that a host has no longer go to disk and come back; meanwhile polite begins no
// more exchanges than the host may have at once.
func (r *Reloader) newTerms(ctx context.Context, set *sites.Set, n *Reloaded) (old *sites.Set, _ error) {
	old, beyond, err := r.swapSites(set, n)
	if err != nil {
		return old, err
	}
	for lot := range slices.Chunk(beyond, sweepLot) {
		if ctx.Err() != nil {
			return old, nil
		}
		err := r.run.Transact(func(tx *account.Tx) error {
			items := r.others.Heaps().EvictItems(time.Now(), lot)
			n.Evicted += len(items)
			return r.others.Deferrals.Evicted(tx, items, state.ReasonEvicted)
		})
		if err != nil {
			return old, err
		}
	}
	return old, nil
}

// swapSites puts settings of sites in force, and their terms for the hosts and PLDs in RAM. No URL is
// admitted meanwhile, so none has terms of the old settings afterwards. It returns the URLs of connections
// that their host has no longer.
func (r *Reloader) swapSites(set *sites.Set, n *Reloaded) (old *sites.Set, beyond []*polite.Item, _ error) {
	r.sites.Admitting.Lock()
	defer r.sites.Admitting.Unlock()
	old, n.Budgets = r.sites.Use(set)
	hosts, plds := map[uint64]*polite.Terms{}, map[uint64]*polite.Terms{}
	for _, item := range r.others.Heaps().Snapshot() {
		if item.Robots {
			continue
		}
		_, done := hosts[item.Host]
		if done && item.Connection == 0 {
			continue
		}
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return old, nil, fmt.Errorf("crawl: record in RAM: %w", err)
		}
		host := weburl.Split(rec.URL).Host
		if int(item.Connection) >= r.sites.Connections(host) {
			beyond = append(beyond, item)
		}
		if !done {
			t := r.sites.Terms(host)
			hosts[item.Host], plds[item.PLD] = t, t
		}
	}
	n.Terms = r.others.Heaps().SetTerms(time.Now(), hosts, plds)
	return old, beyond, nil
}

// otherPriorities returns the number of tables whose priorities differ.
func otherPriorities(a, b map[string]int) (n int) {
	for table, lane := range a {
		if other, both := b[table]; !both || other != lane {
			n++
		}
	}
	for table := range b {
		if _, both := a[table]; !both {
			n++
		}
	}
	return n
}

// warnOfLanes tells late that priorities have no effect in a crawl with one lane.
func (r *Reloader) warnOfLanes(set *sites.Set, late *account.LateLog) {
	if n := len(set.Priorities()); n > 0 && r.opt.Lanes() == 1 {
		late.Add(r.opt.Log.Warn,
			"priority in the site settings has no effect: this crawl has one lane (--priority lanes)", "tables", n)
	}
}
