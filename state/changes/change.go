package changes

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Op is the kind of a change.
type Op string

// The kinds of changes. Each setting has an opposite that undoes it.
const (
	OpPause      Op = "pause"       // start no further requests
	OpResume     Op = "resume"      // undo OpPause
	OpDrain      Op = "drain"       // queue no new links
	OpFill       Op = "fill"        // undo OpDrain
	OpLimits     Op = "limits"      // Rate, Bandwidth, Connections; "" is the value of the flag
	OpHostDelay  Op = "host-delay"  // Delay for Host
	OpHostNormal Op = "host-normal" // undo OpHostDelay for Host
	OpBlock      Op = "block"       // Rule joins the blacklist
	OpUnblock    Op = "unblock"     // undo OpBlock for Rule
	OpBudget     Op = "budget"      // Budget for PLD
	OpBudgetFree Op = "budget-free" // undo OpBudget for PLD
	OpFunction   Op = "function"    // Function, the budget function; nil is that of the flags
	OpPriority   Op = "priority"    // Priority, the strategy of the lanes; nil is that of the flags
	OpSeeds      Op = "seeds"       // feed Seeds, once
	OpEnqueue    Op = "enqueue"     // fetch the URLs in Seeds before all others, once
	OpReload     Op = "reload"      // read the files of rules, blacklist, sites and trusted PLDs again, once
	OpCheckpoint Op = "checkpoint"  // write a checkpoint now, once
	OpStop       Op = "stop"        // stop cleanly, once
	OpErase      Op = "erase"       // a request to erase pages, once; package erase has it
	opSettings   Op = "settings"    // the journal started over with these settings
)

// undoes has the opposite of each kind that has one.
var undoes = map[Op]Op{OpPause: OpResume, OpResume: OpPause, OpDrain: OpFill, OpFill: OpDrain,
	OpLimits: OpLimits, OpHostDelay: OpHostNormal, OpBlock: OpUnblock, OpUnblock: OpBlock,
	OpBudget: OpBudgetFree, OpFunction: OpFunction, OpPriority: OpPriority}

// Undo returns the kind of change that undoes o, "" if none does.
func (o Op) Undo() Op { return undoes[o] }

// Change is one change of the operator. Each Op uses the fields that its comment names.
type Change struct {
	Seq         int64     `json:"seq"`  // from 1, without gaps
	Time        time.Time `json:"time"` // when the journal took it
	Who         string    `json:"who"`  // author, such as the name of a user or an address
	Op          Op        `json:"op"`
	Rate        string    `json:"rate,omitempty"`
	Bandwidth   string    `json:"bandwidth,omitempty"`
	Connections string    `json:"connections,omitempty"`
	Host        string    `json:"host,omitempty"`
	Delay       float64   `json:"delay,omitempty"` // seconds
	Rule        string    `json:"rule,omitempty"`
	Rules       []string  `json:"rules,omitempty"` // of OpBlock: many, in place of Rule
	PLD         string    `json:"pld,omitempty"`
	Budget      uint32    `json:"budget,omitempty"` // pages
	Function    *Function `json:"function,omitempty"`
	// Of budgets and OpReload: place the URLs of BEAST again, as OpFunction does.
	Requeue  bool      `json:"anew,omitempty"`
	Priority *Priority `json:"priority,omitempty"`
	Seeds    []string  `json:"seeds,omitempty"`
	Count    int       `json:"count,omitempty"` // number of Seeds or Rules
	// Stamp makes OpBlock and OpUnblock an order to all nodes of a cluster: cluster.Order.Stamp. 0: this node alone.
	Stamp    int64     `json:"stamp,omitempty"`
	Settings *Settings `json:"settings,omitempty"`

	Alone string `json:"-"` // why a change that nodes make together is made here alone; "": it is not
}

// Settings are the changes in force. A zero field is the value of the flag.
type Settings struct {
	Paused      bool               `json:"paused"`
	Drain       bool               `json:"drain"`
	Rate        string             `json:"rate"`
	Bandwidth   string             `json:"bandwidth"`
	Connections string             `json:"connections"`
	HostDelays  map[string]float64 `json:"hostDelays"` // seconds, by host
	Blocked     []string           `json:"blocked"`    // rules of a blacklist: "- pld example.com"
	Budgets     map[string]uint32  `json:"budgets"`    // pages, by PLD
	Function    *Function          `json:"function,omitempty"`
	// FunctionSeq is the last change after which the URLs of BEAST are placed again; 0 for none.
	FunctionSeq int64     `json:"functionSeq,omitempty"`
	Priority    *Priority `json:"priority,omitempty"`
	PrioritySeq int64     `json:"prioritySeq,omitempty"` // change that set or cleared Priority; 0 for none
	// Orders are the rules that were blocked and unblocked on all nodes of a cluster.
	Orders map[string]Order `json:"orders,omitempty"`
}

// Order is the last order about a rule to all nodes of a cluster.
type Order struct {
	Stamp int64  `json:"stamp"` // as in Change
	Who   string `json:"who,omitempty"`
	Off   bool   `json:"off,omitempty"` // OpUnblock
}

// Priority is a strategy that spreads URLs over BEAST's lanes.
type Priority struct {
	Name    string   `json:"name"`              // as in --priority
	Weights []uint32 `json:"weights,omitempty"` // of each lane; none: those of the flags
}

// Function is a budget function F(d) with its bounds.
type Function struct {
	Name    string `json:"name"`    // as in --budget
	Default uint32 `json:"default"` // pages, as in --budget default
	Max     uint32 `json:"max"`     // pages, as in --budget max
}

// These bound the settings, because they are in RAM and the host delays are looked up for each request.
const (
	MaxHostDelays = 10_000
	MaxBlocked    = 100_000
	MaxBudgets    = 100_000
	// MaxOrders is twice cluster.MaxOrders: several nodes may take the last ones at once.
	MaxOrders    = 20_000
	MaxSeeds     = 10_000 // lines of one change
	MaxEnqueued  = 256    // URLs of one change: it is one transaction
	MaxSeedBytes = 1 << 20
	maxText      = 4096 // bytes of any other field
)

// A RefusedError says why a change cannot be made. The journal is unchanged.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

func refused(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// IsRefused reports whether err is a *RefusedError.
func IsRefused(err error) bool {
	var r *RefusedError
	return errors.As(err, &r)
}

// check returns the first fault of a change that can be seen without the crawl.
func (c *Change) check() error {
	for _, text := range []string{c.Who, c.Rate, c.Bandwidth, c.Connections, c.Host, c.Rule, c.PLD} {
		if len(text) > maxText || strings.ContainsAny(text, "\r\n\x00") {
			return refused("a field has more than %d bytes or a line break", maxText)
		}
	}
	switch c.Op {
	case OpPause, OpResume, OpDrain, OpFill, OpLimits, OpFunction, OpPriority, OpReload, OpCheckpoint, OpStop,
		OpErase:
	case OpHostDelay:
		if c.Host == "" || !(c.Delay >= 0 && c.Delay <= 24*3600) {
			return refused("delay of host %q: want a host, and 0 to 86400 seconds", c.Host)
		}
	case OpHostNormal:
		if c.Host == "" {
			return refused("no host is given")
		}
	case OpBlock, OpUnblock:
		if (c.Rule == "") == (len(c.Rules) == 0) || c.Op == OpUnblock && c.Rule == "" {
			return refused("no rule is given")
		}
		for _, rule := range c.Rules {
			if rule == "" || len(rule) > maxText || strings.ContainsAny(rule, "\r\n\x00") {
				return refused("a rule is empty, has more than %d bytes or a line break", maxText)
			}
		}
	case OpBudget, OpBudgetFree:
		if c.PLD == "" || c.Op == OpBudget && c.Budget == 0 {
			return refused("budget of PLD %q: want a PLD, and at least 1 page", c.PLD)
		}
	case OpSeeds:
		n := 0
		for _, s := range c.Seeds {
			n += len(s) + 1
		}
		if len(c.Seeds) == 0 || len(c.Seeds) > MaxSeeds || n > MaxSeedBytes {
			return refused("%d seeds of %d bytes: want 1 to %d seeds of at most %d bytes in one change",
				len(c.Seeds), n, MaxSeeds, MaxSeedBytes)
		}
	case OpEnqueue:
		n := 0
		for _, s := range c.Seeds {
			n += len(s) + 1
		}
		if len(c.Seeds) == 0 || len(c.Seeds) > MaxEnqueued || n > MaxSeedBytes {
			return refused("%d URLs of %d bytes: want 1 to %d URLs of at most %d bytes in one change",
				len(c.Seeds), n, MaxEnqueued, MaxSeedBytes)
		}
	default:
		return refused("no change is called %q", c.Op)
	}
	return nil
}
