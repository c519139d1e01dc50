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
	case OpBlock:
		n.Blocked = slices.Clone(s.Blocked)
		switch {
		case c.Rule != "" && !slices.Contains(n.Blocked, c.Rule):
			n.Blocked = append(n.Blocked, c.Rule)
		case len(c.Rules) > 0:
			has := make(map[string]bool, len(n.Blocked))
			for _, rule := range n.Blocked {
				has[rule] = true
			}
			for _, rule := range c.Rules {
				if !has[rule] {
					has[rule] = true
					n.Blocked = append(n.Blocked, rule)
				}
			}
		}
		if len(n.Blocked) > MaxBlocked {
			return nil, refused("%d rules are blocked already, which is the limit: use --blacklist", MaxBlocked)
		}
	case OpUnblock:
		at := slices.Index(s.Blocked, c.Rule)
		if at < 0 {
			return nil, refused("%q is not blocked by a change: the files of --blacklist change by SIGHUP", c.Rule)
		}
		n.Blocked = slices.Delete(slices.Clone(s.Blocked), at, at+1)
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

func clone[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}
