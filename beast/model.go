package beast

import "math"

// Model is the paper's cost model of budget enforcement, Theorems 6 and 7. Bytes are decimal.
type Model struct {
	PLDs           float64 // V, PLDs seen in one pass through QF
	MeanBudget     float64 // E[Bx], pages
	UniquePerPage  float64 // L, new URLs per page
	PagesPerSecond float64 // S
	URLBytes       float64 // b, with what travels along
}

// Alpha is αN of eq. (26): how many times the queue Q of E[Bx]·V URLs is filled in a crawl of so many pages.
func (m Model) Alpha(pages float64) float64 { return max(1, pages/(m.MeanBudget*m.PLDs)) }

// NaiveRate is λ of Theorem 6: the disk rate in bytes/s that re-reading QF after every queue needs. It grows
// with pages.
func (m Model) NaiveRate(pages float64) float64 {
	return 2 * m.PagesPerSecond * m.URLBytes * (m.UniquePerPage - 1) * m.Alpha(pages)
}

// Rate is λ of Theorem 7: the disk rate in bytes/s that scans at doubling distances need.
func (m Model) Rate(pages float64) float64 {
	a := m.Alpha(pages)
	return 2 * m.PagesPerSecond * m.URLBytes * (2*a/(1+a)*(m.UniquePerPage-1) + 1)
}

// RateBound is the bound of Theorem 7 for any number of pages, 2Sb(2L-1).
func (m Model) RateBound() float64 {
	return 2 * m.PagesPerSecond * m.URLBytes * (2*m.UniquePerPage - 1)
}

// RateBoundWithStar is the same with the hop of every placement through STAR's buckets, 2Sb(4L-3).
func (m Model) RateBoundWithStar() float64 {
	return 2 * m.PagesPerSecond * m.URLBytes * (4*m.UniquePerPage - 3)
}

// Queues is j of eq. (31): the number of queues in the last stage of a crawl of so many pages.
func (m Model) Queues(pages float64) float64 {
	return math.Exp2(math.Ceil(math.Log2(m.Alpha(pages)+1)) - 1)
}
