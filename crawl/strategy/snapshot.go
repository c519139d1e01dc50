package strategy

// Snapshot is the name of the strategy that fetches the seeds and the targets of their redirects, and follows no links.
const Snapshot = "snapshot"

// snapshot keeps the budgets, so that no PLD holds up the others.
func (s *Strategy) snapshot() { s.SeedsOnly = true }
