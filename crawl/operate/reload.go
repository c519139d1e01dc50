package operate

import (
	"context"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/state/changes"
)

// Reload is Control.Reload.
func (o *Operator) Reload(ctx context.Context, who string, replace bool, late *account.LateLog) (r inforce.Reloaded,
	c changes.Change, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c = changes.Change{Op: changes.OpReload, Who: who, Requeue: replace}
	if err := o.others.Reloader.CheckFiles(); err != nil {
		return r, c, &changes.RefusedError{Why: err.Error()}
	}
	if replace {
		if err := o.others.Budgets.CheckFunction(nil); err != nil {
			return r, c, &changes.RefusedError{Why: err.Error()}
		}
	}
	// The files first: what is placed again is placed by the new budgets.
	if r, err = o.others.Reloader.ReloadFiles(ctx, late); err != nil {
		return r, c, err
	}
	r.Replaced = o.others.Budgets.Placed()
	if c, err = o.journal.Append(c, time.Now()); err != nil {
		return r, c, err
	}
	o.run.Hook("change")
	late.Add(o.opt.Log.Info, "change by the operator", "what", c.Op, "who", c.Who, "number", c.Seq)
	o.others.Made(&c)
	if replace {
		o.others.Budgets.Replace()
	} else {
		r.Replaced = 0
	}
	return r, c, nil
}
