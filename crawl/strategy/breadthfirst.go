package strategy

// BreadthFirst is the name of the strategy that fetches URLs in the order in which they are found.
const BreadthFirst = "breadth-first"

// breadthFirst has one lane and no budgets. So BEAST is one queue, in the order of STAR's answers, which is that of
// URLseen's emission: the order in which links were found, up to the links that one pass of a drum takes together.
func (s *Strategy) breadthFirst() { s.Budgets = false }
