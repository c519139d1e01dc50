package options

import "drumbeat/state"

// BudgetPolicy names the budget function F(d) of the paper's section VI.
type BudgetPolicy string

// Budgets say how many pages of a PLD a queue of BEAST takes (paper, sections V and VI).
type Budgets struct {
	Policy  BudgetPolicy // default: paper
	Default uint32       // B0, pages; default 10
	Max     uint32       // pages; default 10,000
	Ranks   int          // K, PLDs; default 10,000
	// QueuesMax is the most queues of each lane. Default: 1024.
	QueuesMax int
	// QueueBlockBytes is the size of a block of a queue. Default: 128 KiB.
	QueueBlockBytes int
	// QueuePages scales up the budgets of small crawls until the budgets of all known PLDs add up to
	// QueuePages. Default 10,000; Unlimited means no scaling.
	QueuePages int64
	// Trusted is a file on Disk.FS of the PLDs at which trust begins, instead of at the seeds, for the budget
	// function supporters; "" for none. A line is a URL, a host or a PLD; at most star.MostSeeds PLDs. It is
	// read and read again like Admission.Rules, and the next computation uses it.
	Trusted string
	// DomainRanks is a file on Disk.FS with ranks of domains, from which PLDs have prior in-degrees (star.Prior); ""
	// for none. It is read when a run begins.
	DomainRanks string
	// TrapScore limits hosts whose pages repeat one another to a part of their PLD's budget (package
	// internal/trapscore). It costs the time of Output.Simhash, and RAM.
	TrapScore bool
	// Parts are those of PLDs among whose classes budgets are divided, by links from other PLDs (package star). They
	// are for crawls of all sites on one node, take RAM, and cannot change during a crawl.
	Parts state.BudgetParts
}

// Defaults sets the zero fields; that of QueuePages depends on the crawl.
func (o *Budgets) Defaults() {
	setDefault(&o.Policy, "paper")
	setDefault(&o.Default, 10)
	setDefault(&o.Max, 10_000)
	setDefault(&o.Ranks, 10_000)
	setDefault(&o.QueuesMax, 1024)
	setDefault(&o.QueueBlockBytes, 128<<10)
}

// Keep writes the group into what the manifest keeps of a run.
func (o *Budgets) Keep(run *state.LastRun) {
	run.Budget, run.BudgetDefault, run.BudgetMax = string(o.Policy), o.Default, o.Max
	run.BudgetRanks, run.QueuePages = o.Ranks, o.QueuePages
}
