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

// useSites puts settings in force. It returns the old ones, and of how many PLDs the fixed budget changed.
func (d *dispatcher) useSites(set *sites.Set) (old *sites.Set, changed int) {
	var budgets *map[uint64]uint32
	if plds := set.Budgets(); len(plds) > 0 {
		byKey := make(map[uint64]uint32, len(plds))
		for pld, budget := range plds {
			byKey[d.Hasher.PLDKey([]byte(pld))] = budget
		}
		budgets = &byKey
	}
	return d.sites.Swap(set), differ(d.siteBudgets.Swap(budgets), budgets)
}

// differ returns the number of keys whose values differ.
func differ(a, b *map[uint64]uint32) (n int) {
	var none map[uint64]uint32
	if a == nil {
		a = &none
	}
	if b == nil {
		b = &none
	}
	for key, v := range *a {
		if (*b)[key] != v {
			n++
		}
	}
	for key := range *b {
		if _, both := (*a)[key]; !both {
			n++
		}
	}
	return n
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
	d.useSites(set)
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

// siteOf returns the settings of the site of a canonical URL; nil if it has none of its own.
func (e *engine) siteOf(parts *weburl.Parts) *sites.Site {
	if set := e.sites.Load(); set != nil {
		return set.Lookup(parts)
	}
	return nil
}

// tooDeep reports whether a queued URL is beyond the depth that the settings of its site allow now: they may
// have changed since the URL was found. The parts of pages may be deeper than pages (admit.AssetHops).
func (e *engine) tooDeep(rec *weburl.Record) bool {
	set := e.sites.Load()
	if set == nil || rec.Depth == 0 {
		return false
	}
	site := set.LookupURL(rec.URL)
	if site == nil || site.Has&sites.HasMaxDepth == 0 || site.MaxDepth < 0 {
		return false
	}
	most := site.MaxDepth
	if e.opt.Links.Assets {
		most += admit.AssetHops
	}
	return int(rec.Depth) > most
}

// terms returns the delays of a host's site; nil if it has none of its own. They are the same for all URLs of the
// host.
func (e *engine) terms(host []byte) *polite.Terms {
	set := e.sites.Load()
	if set == nil {
		return nil
	}
	site := set.Host(host)
	if site == nil || site.Has&(sites.HasDelay|sites.HasRate|sites.HasOwner) == 0 {
		return nil
	}
	t := &polite.Terms{HostDelay: -1, PLDDelay: -1, Own: site.Owner, Connections: site.Connections}
	if site.Has&sites.HasDelay != 0 {
		t.HostDelay = site.Delay
	}
	if site.Has&sites.HasRate != 0 {
		if site.PLDRate > 0 {
			t.PLDDelay = sites.Gap(site.PLDRate)
		}
		if site.HostRate > 0 {
			t.HostLeast = sites.Gap(site.HostRate)
		}
	}
	return t
}

// connection returns which of its host's connections a URL uses: 0 except on sites with several.
func (e *engine) connection(host, url []byte) uint8 {
	if n := e.connections(host); n > 1 {
		return uint8(e.Hasher.URLKey(url) % uint64(n))
	}
	return 0
}

// connections returns how many connections to a host may be open at once.
func (e *engine) connections(host []byte) int {
	if set := e.sites.Load(); set != nil {
		if site := set.Host(host); site != nil && site.Has&sites.HasConnections != 0 {
			return site.Connections
		}
	}
	return 1
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
			return d.deferrals.evicted(tx, items, state.ReasonEvicted)
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
	old, r.Budgets = d.useSites(set)
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
		if int(item.Connection) >= d.connections(host) {
			beyond = append(beyond, item)
		}
		if !done {
			t := d.terms(host)
			hosts[item.Host], plds[item.PLD] = t, t
		}
	}
	r.Terms = d.polite.SetTerms(time.Now(), hosts, plds)
	return old, beyond, nil
}
