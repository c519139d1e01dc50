package changes

import (
	"maps"
	"slices"
)

// with returns the settings after a change. It leaves s as it is.
func (s *Settings) with(c *Change) (*Settings, error) {
	n := *s
	switch c.Op {
	case OpPause, OpResume:
		n.Paused = c.Op == OpPause
	case OpDrain, OpFill:
		n.Drain = c.Op == OpDrain
	case OpLimits:
		n.Rate, n.Bandwidth, n.Connections = c.Rate, c.Bandwidth, c.Connections
	case OpHostDelay, OpHostNormal:
		n.HostDelays = clone(s.HostDelays)
		if delete(n.HostDelays, c.Host); c.Op == OpHostDelay {
			n.HostDelays[c.Host] = c.Delay
		}
		if len(n.HostDelays) > MaxHostDelays {
			return nil, refused("%d hosts already have their own delay, which is the limit", MaxHostDelays)
		}
	case OpBlock, OpUnblock:
		if err := s.block(c, &n); err != nil {
			return nil, err
		}
	case OpBudget, OpBudgetFree:
		n.Budgets = clone(s.Budgets)
		if delete(n.Budgets, c.PLD); c.Op == OpBudget {
			n.Budgets[c.PLD] = c.Budget
		}
		if len(n.Budgets) > MaxBudgets {
			return nil, refused("%d PLDs already have their own budget, which is the limit", MaxBudgets)
		}
	case OpFunction:
		n.Function, n.FunctionSeq = c.Function, c.Seq
	case OpPriority:
		n.Priority, n.PrioritySeq = c.Priority, c.Seq
	case opSettings:
		if c.Settings != nil {
			return c.Settings, nil
		}
	}
	if c.Requeue {
		n.FunctionSeq = c.Seq
	}
	return &n, nil
}

// block puts the rules of OpBlock or OpUnblock into n, which is a copy of s.
func (s *Settings) block(c *Change, n *Settings) error {
	rules := c.Rules
	if c.Rule != "" {
		rules = []string{c.Rule}
	}
	n.Blocked = slices.Clone(s.Blocked)
	var has map[string]bool // for many rules
	if len(rules) > 1 {
		has = make(map[string]bool, len(s.Blocked)+len(rules))
		for _, rule := range s.Blocked {
			has[rule] = true
		}
	}
	if c.Stamp != 0 {
		n.Orders = clone(s.Orders)
	}
	for _, rule := range rules {
		if known := s.Orders[rule]; c.Stamp != 0 {
			if known.Stamp >= c.Stamp {
				continue // a later order about the rule has come before
			}
			n.Orders[rule] = Order{Stamp: c.Stamp, Who: c.Who, Off: c.Op == OpUnblock}
		}
		at := -1
		if has == nil {
			at = slices.Index(n.Blocked, rule)
		}
		switch is := at >= 0 || has[rule]; {
		case c.Op == OpBlock && !is:
			n.Blocked = append(n.Blocked, rule)
			if has != nil {
				has[rule] = true
			}
		case c.Op == OpUnblock && is: // of a single rule
			n.Blocked = slices.Delete(n.Blocked, at, at+1)
		case c.Op == OpUnblock && c.Stamp == 0:
			return refused("%q is not blocked by a change: the files of --blacklist change by SIGHUP", rule)
		}
	}
	switch {
	case len(n.Blocked) > MaxBlocked && len(n.Blocked) > len(s.Blocked):
		return refused("%d rules are blocked already, which is the limit: use --blacklist", MaxBlocked)
	case len(n.Orders) > MaxOrders && len(n.Orders) > len(s.Orders):
		return refused("the cluster has orders about %d rules, which is the limit: use --blacklist", MaxOrders)
	}
	return nil
}

func clone[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}
