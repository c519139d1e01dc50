package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/internal/scope"
	"drumbeat/polite"
	"drumbeat/weburl"
)

// rulesShare limits rules and blacklist to 1/rulesShare of the Go heap. There are two of each during a
// reload.
const rulesShare = 8

// readRulesWith reads the files of rules and blacklist. blocked are rules of the blacklist that precede the
// files.
func (e *engine) readRulesWith(blocked []scope.Source) (rules, blacklist *scope.Set, err error) {
	rules, err1 := admit.ReadRules(e.opt.Disk.FS, scope.Rules, e.Suffixes, e.opt.Admission.Rules,
		e.opt.Admission.KeepEscapes)
	blacklist, err2 := admit.ReadRules(e.opt.Disk.FS, scope.Blacklist, e.Suffixes, e.opt.Admission.Blacklist,
		e.opt.Admission.KeepEscapes, blocked...)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	if n := rules.Stats().Bytes + blacklist.Stats().Bytes; n > e.plan.HeapBytes/rulesShare {
		return nil, nil, fmt.Errorf("crawl: rules and blacklist take %d bytes of RAM, twice that during a reload,"+
			" and the limit is %d: use more RAM or fewer rules", n, e.plan.HeapBytes/rulesShare)
	}
	return rules, blacklist, nil
}

// readRules reads the files of rules and blacklist, and what the operator has blocked.
func (d *dispatcher) readRules() (rules, blacklist *scope.Set, err error) {
	return d.readRulesWith(d.operator.blocked())
}

// openRules loads the rule files.
func (d *dispatcher) openRules() error {
	blocked := d.operator.blocked()
	e := d.engine
	e.rules.NAT64 = e.opt.Network.NAT64
	e.rules.Suffixes = e.Suffixes
	e.rules.Guard(len(e.opt.Admission.Blacklist)+len(blocked) > 0 || e.opt.Observe.Control != nil)
	rules, blacklist, err := e.readRulesWith(blocked)
	if err != nil {
		return err
	}
	e.rules.Rules.Store(rules)
	e.rules.Blacklist.Store(blacklist)
	trusted, err := e.readTrusted()
	if err == nil && trusted != nil {
		e.rules.Trusted.Store(&trusted)
	}
	return err
}

// readTrusted reads the file of trusted PLDs; nil without one.
func (e *engine) readTrusted() ([]uint64, error) {
	return admit.ReadTrusted(e.opt.Disk.FS, e.opt.Budgets.Trusted, e.PLDKey)
}

// reloadTrusted puts the file of trusted PLDs in force, for the next computation of supporters. If it has
// errors, late gets them and the old list stays.
func (e *engine) reloadTrusted(late *account.LateLog) {
	if e.opt.Budgets.Trusted == "" {
		return
	}
	trusted, err := e.readTrusted()
	if err != nil {
		late.Add(e.opt.Observe.Log.Error, "trusted PLDs stay as they were: the file has errors", "error", err)
		return
	}
	before := e.rules.Trusted.Swap(&trusted)
	late.Add(e.opt.Observe.Log.Info, "trusted PLDs reloaded", "plds", len(trusted), "before", len(*before))
}

// watchReload reloads rules, blacklist, settings of sites and trusted PLDs for each value from
// Options.Admission.Reload.
func (d *dispatcher) watchReload(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.opt.Admission.Reload:
			var late account.LateLog
			_, err := d.reloadFiles(ctx, &late)
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

// reloadFiles puts new trusted PLDs, settings of sites, rules and blacklist in force. Of each, if its files
// have errors, late gets them and the old ones stay.
func (d *dispatcher) reloadFiles(ctx context.Context, late *account.LateLog) (r Reloaded, err error) {
	defer d.reloaded()
	d.reloadTrusted(late)
	if err := d.reloadSites(ctx, &r, late); err != nil ||
		len(d.opt.Admission.Rules)+len(d.opt.Admission.Blacklist) == 0 {
		return r, err
	}
	r.Cut, r.Swept, err = d.reload(ctx, late)
	return r, err
}

// checkFiles returns the errors of the files that a reload would read.
func (d *dispatcher) checkFiles() error {
	_, err1 := d.readSites()
	_, err2 := d.readTrusted()
	err := errors.Join(err1, err2)
	if len(d.opt.Admission.Rules)+len(d.opt.Admission.Blacklist) > 0 {
		_, _, bad := d.readRules()
		err = errors.Join(err, bad)
	}
	return err
}

// reload puts new rules in force. If the files have errors, late gets them and the old rules stay.
func (d *dispatcher) reload(ctx context.Context, late *account.LateLog) (cut, swept int, _ error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	rules, blacklist, err := d.readRules()
	if err != nil {
		late.Add(d.opt.Observe.Log.Error, "rules and blacklist stay as they were: the files have errors", "error", err)
		return 0, 0, nil
	}
	oldRules, oldBlacklist := d.rules.Rules.Swap(rules), d.rules.Blacklist.Swap(blacklist)
	cut = d.rules.CutOff()
	swept, err = d.sweepBlocked(ctx, late)
	late.Add(d.opt.Observe.Log.Info, "rules and blacklist reloaded",
		"rules", rules.Stats().String(), "before", oldRules.Stats().String(),
		"blacklist", blacklist.Stats().String(), "blacklist_before", oldBlacklist.Stats().String(),
		"exchanges_cut", cut, "urls_swept", swept)
	return cut, swept, err
}

// sweepLot limits the URLs in one transaction of sweepBlocked.
const sweepLot = 256

// sweepBlocked removes the blacklisted URLs from RAM. URLs with addresses left go to RobotsCache again. If
// a URL is admitted under the old list during the sweep, its exchange detects it.
func (d *dispatcher) sweepBlocked(ctx context.Context, late *account.LateLog) (n int, err error) {
	if d.rules.Blacklist.Load() == nil {
		return 0, nil
	}
	var hit []*polite.Item
	for _, item := range d.polite.Snapshot() {
		if item.Robots {
			continue // its exchange checks the blacklist
		}
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return n, fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if d.rules.BlockedURL(rec.URL) || len(d.rules.Open(item.Addrs)) < len(item.Addrs) {
			hit = append(hit, item)
		}
	}
	for len(hit) > 0 && ctx.Err() == nil {
		lot := hit[:min(len(hit), sweepLot)]
		hit = hit[len(lot):]
		lines, err := d.TransactQuietly(func(tx *account.Tx) error {
			for _, item := range d.polite.EvictItems(time.Now(), lot) {
				n++
				if err := d.deferrals.dropBlocked(tx, item); err != nil {
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
