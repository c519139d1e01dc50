package crawl

import (
	"context"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/state/changes"
)

// Reload reads the files of rules, blacklist, sites and trusted PLDs again and puts them in force, as
// Options.Admission.Reload does, and counts what that changed. If a file has errors, nothing changes, and the
// error is a *changes.RefusedError. With replace the URLs that BEAST holds are placed again, by the budgets
// that the sites have now.
func (k *Control) Reload(ctx context.Context, who string, replace bool) (r inforce.Reloaded, made changes.Change,
	err error) {
	err = k.changing(func(c *crawler, late *account.LateLog) error {
		r, made, err = c.operator.reload(ctx, who, replace, late)
		return err
	})
	return r, made, err
}

// reload is Control.Reload.
func (o *operator) reload(ctx context.Context, who string, replace bool, late *account.LateLog) (r inforce.Reloaded,
	c changes.Change, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c = changes.Change{Op: changes.OpReload, Who: who, Anew: replace}
	if err := o.reloader.CheckFiles(); err != nil {
		return r, c, &changes.RefusedError{Why: err.Error()}
	}
	if replace {
		if err := o.stars.checkFunction(nil); err != nil {
			return r, c, &changes.RefusedError{Why: err.Error()}
		}
	}
	// The files first: what is placed again is placed by the new budgets.
	if r, err = o.reloader.ReloadFiles(ctx, late); err != nil {
		return r, c, err
	}
	r.Replaced = o.stars.placed()
	if c, err = o.journal.Append(c, time.Now()); err != nil {
		return r, c, err
	}
	o.Hook("change")
	late.Add(o.opt.Observe.Log.Info, "the operator changed something", "what", c.Op, "who", c.Who, "number", c.Seq)
	o.history.Made(&c)
	if replace {
		o.stars.replace()
	} else {
		r.Replaced = 0
	}
	return r, c, nil
}
