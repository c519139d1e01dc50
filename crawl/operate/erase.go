package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/internal/scope"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
	"drumbeat/state/snapshot"
)

// openRequests reads the requests to erase pages that wait.
func (o *Operator) openRequests() error {
	all, err := erase.Requests(o.saved.Set)
	if err != nil {
		return err
	}
	o.noteRequests(all)
	return nil
}

// noteRequests notes the requests that wait.
func (o *Operator) noteRequests(all []erase.Request) {
	note := erasures{Erasures: snapshot.Erasures{Waiting: len(all)}}
	for i := range all {
		note.rules = append(note.rules, all[i].Rules...)
		if all[i].Error != "" {
			note.Refused++
			note.Why = all[i].Error
		}
	}
	o.erasures.Store(&note)
}

// erasures are the requests to erase pages that wait, and the rules for their hosts and PLDs.
type erasures struct {
	snapshot.Erasures
	rules []string
}

// erased returns the hosts and PLDs of requests as a source of blacklist rules.
func (o *Operator) erased(rules []string) []scope.Source {
	return admit.Blocked(o.saved.Set.Path(0, state.ErasedDir), rules)
}

// ShowErasures adds the requests that wait to a snapshot.
func (o *Operator) ShowErasures(s *snapshot.Snapshot) {
	if note := o.erasures.Load(); note != nil {
		s.Erasures = note.Erasures
	}
}

// Erase takes a request to erase pages. When it returns, the request is durable, and no request to its hosts and PLDs
// begins. The crawl ends its run to erase, unless the request may wait. The errors are those of Make.
func (o *Operator) Erase(ctx context.Context, ask *erase.Ask, late *account.LateLog) (*erase.Request, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ask.Order != "" {
		if err := cluster.CheckOrderID(ask.Order); err != nil {
			return nil, &changes.RefusedError{Why: err.Error()}
		}
	}
	known := o.ordered[ask.Order] != nil // from another node, or from before
	r, err := o.fileErasure(ask)
	if erase.IsRefused(err) {
		var why *erase.RequestError
		errors.As(err, &why)
		err = &changes.RefusedError{Why: why.Why}
	}
	if err != nil || known {
		return r, err
	}
	o.run.Hook("erase")
	if r.Order != "" {
		o.noteOrder(r)
	}
	if len(r.Rules) > 0 {
		_, _, err = o.others.Reloader.Reload(ctx, late)
	}
	c, err2 := o.journal.Append(changes.Change{Op: changes.OpErase, Who: ask.Who}, time.Now())
	late.Add(o.opt.Log.Info, "change by the operator", "what", c.Op, "who", c.Who, "number", c.Seq, "request", r.Number)
	o.others.Made(&c)
	if r.Order != "" {
		o.others.Ordered()
	}
	if !r.Later {
		o.others.Rest()
	}
	return r, errors.Join(err, err2)
}

// fileErasure checks a request and makes it durable.
func (o *Operator) fileErasure(ask *erase.Ask) (*erase.Request, error) {
	if err := o.others.MayErase(); err != nil {
		return nil, err
	}
	r, err := erase.NewRequest(ask, o.saved.Suffixes, !o.opt.Links.KeepEscapes, o.saved.Set.FS)
	if err != nil {
		return nil, err
	}
	if t := o.ordered[ask.Order]; t != nil {
		if t.request.Digest != r.Digest {
			return nil, &changes.RefusedError{Why: "an order " + ask.Order + " with other targets was given before"}
		}
		return &t.request, nil
	}
	o.orderErasure(r, ask)
	waiting, err := erase.Requests(o.saved.Set)
	if err != nil {
		return nil, err
	}
	s := o.journal.Settings()
	if len(r.Rules) > 0 { // they must fit into RAM
		rules := slices.Concat(o.erasures.Load().rules, r.Rules)
		if err := o.others.Reloader.CheckBlocked(append(o.blacklist(s), o.erased(rules)...)); err != nil {
			return nil, &changes.RefusedError{Why: err.Error()}
		}
	}
	if _, err := o.journal.Try(changes.Change{Op: changes.OpErase, Who: ask.Who}); err != nil {
		return nil, err
	}
	if err := erase.File(o.saved.Set, r, waiting, len(s.Blocked)); err != nil {
		return nil, fmt.Errorf("crawl: %w", err)
	}
	o.noteRequests(append(waiting, *r))
	return r, nil
}
