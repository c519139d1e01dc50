package strategy

// RandomWalk is the name of the strategy that fetches only what the walkers of a random walk need, and gives
// a sample of the web (package walk).
const RandomWalk = "random-walk"

// randomWalk has one lane and no budgets: BEAST has no more URLs than seeds and URLs for which walkers wait.
// The links of pages go to the walk, so STAR gets no edges, and all in-degrees stay 0.
func (s *Strategy) randomWalk() { s.Budgets, s.Walk = false, true }
