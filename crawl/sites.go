package crawl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/internal/sites"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// sitesShare limits the settings of sites to 1/sitesShare of the Go heap. There are two of them during a reload.
const sitesShare = 16

// cookiesShare limits the cookies of all sites to 1/cookiesShare of the Go heap.
const cookiesShare = 64

// readSites reads the settings of sites; nil without a file.
func (e *engine) readSites() (*sites.Set, error) {
	set, err := admit.ReadSettings(e.opt.Disk.FS, e.opt.Admission.Sites,
		sites.Options{Suffixes: e.Suffixes, KeepEscapes: e.opt.Admission.KeepEscapes,
			Agent: e.opt.Identity.Agent, Contact: e.opt.Identity.Contact, Env: e.opt.env})
	if err != nil {
		return nil, err
	}
	if n := set.Stats().Bytes; n > e.plan.HeapBytes/sitesShare {
		return nil, fmt.Errorf("crawl: the settings of sites take %d bytes of RAM, twice that during a reload,"+
			" and the limit is %d: use more RAM or fewer sites", n, e.plan.HeapBytes/sitesShare)
	}
	return set, nil
}

// env returns a variable of the environment.
func (o *Options) env(name string) (value string, ok bool) {
	if o.Admission.Env == nil {
		return "", false
	}
	return o.Admission.Env(name)
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
func (d *dispatcher) warnOfLanes(set *sites.Set, late *account.LateLog) {
	if n := len(set.Priorities()); n > 0 && d.opt.Order.Lanes == 1 {
		late.Add(d.opt.Observe.Log.Warn,
			"priority in the settings of sites has no effect: this crawl has one lane (--priority lanes)", "tables", n)
	}
}

// openSites loads the settings of sites.
func (d *dispatcher) openSites() error {
	set, err := d.readSites()
	d.sites.Use(set)
	var late account.LateLog
	d.warnOfLanes(set, &late)
	late.Tell()
	if d.opt.Admission.Sites != "" {
		d.fetcher.OpenCookies(d.plan.HeapBytes / cookiesShare)
	}
	return err
}

// reloadSites puts new settings of sites in force, for requests that begin from now on. If the file has errors, late
// gets them and the old settings stay.
func (d *dispatcher) reloadSites(ctx context.Context, r *Reloaded, late *account.LateLog) error {
	if d.opt.Admission.Sites == "" {
		return nil
	}
	d.reloadingSites.Lock()
	defer d.reloadingSites.Unlock()
	set, err := d.readSites()
	if err != nil {
		late.Add(d.opt.Observe.Log.Error, "the settings of sites stay as they were: the file has errors", "error", err)
		return nil
	}
	old, err := d.newTerms(ctx, set, r)
	r.Priorities = otherPriorities(old.Priorities(), set.Priorities())
	d.warnOfLanes(set, late)
	d.fetcher.KeepCookies(set.Jars())
	r.Sites = set.Stats().String()
	late.Add(d.opt.Observe.Log.Info, "settings of sites reloaded", "sites", r.Sites, "before", old.Stats().String(),
		"hosts_and_plds_with_other_terms", r.Terms, "urls_evicted", r.Evicted, "budgets_changed", r.Budgets,
		"priorities_changed", r.Priorities)
	return err
}

// newTerms puts settings of sites in force and applies their delays to the hosts and PLDs of the URLs in RAM. URLs of
// connections that a host has no longer go to disk and come back; meanwhile polite begins no more exchanges than the
// host may have at once.
func (d *dispatcher) newTerms(ctx context.Context, set *sites.Set, r *Reloaded) (old *sites.Set, _ error) {
	old, beyond, err := d.swapSites(set, r)
	if err != nil {
		return old, err
	}
	for lot := range slices.Chunk(beyond, sweepLot) {
		if ctx.Err() != nil {
			return old, nil
		}
		err := d.Transact(func(tx *account.Tx) error {
			items := d.polite.EvictItems(time.Now(), lot)
			r.Evicted += len(items)
			return d.deferrals.Evicted(tx, items, state.ReasonEvicted)
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
func (d *dispatcher) swapSites(set *sites.Set, r *Reloaded) (old *sites.Set, beyond []*polite.Item, _ error) {
	d.admitting.Lock()
	defer d.admitting.Unlock()
	old, r.Budgets = d.sites.Use(set)
	hosts, plds := map[uint64]*polite.Terms{}, map[uint64]*polite.Terms{}
	for _, item := range d.polite.Snapshot() {
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
		if int(item.Connection) >= d.sites.Connections(host) {
			beyond = append(beyond, item)
		}
		if !done {
			t := d.sites.Terms(host)
			hosts[item.Host], plds[item.PLD] = t, t
		}
	}
	r.Terms = d.polite.SetTerms(time.Now(), hosts, plds)
	return old, beyond, nil
}
