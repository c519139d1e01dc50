package strategy

// BreadthFirst is the name of the strategy that fetches URLs by their distance from the seeds.
const BreadthFirst = "breadth-first"

// breadthFirst has one lane and no budgets. So BEAST is one queue, in the order of STAR's answers, which is
// that of URLseen's emission. RobotsCache and the heaps of hosts may exchange URLs that are on their way
// together, but of one host only as docs/how-it-works/architecture.md says ("The order within a host").
func (s *Strategy) breadthFirst() { s.Budgets = false }
