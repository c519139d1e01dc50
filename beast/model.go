package beast

import "math"

// Model is the paper's cost model of budget enforcement, Theorems 6 and 7. Sizes are in bytes.
type Model struct {
	PLDs           float64 // V, PLDs found in one pass over QF
	MeanBudget     float64 // E[Bx], pages
	UniquePerPage  float64 // L, new URLs per page
	PagesPerSecond float64 // S
	URLBytes       float64 // b, including the data stored with a URL
}

// Alpha returns αN of equation (26): how often the queue Q of E[Bx]·V URLs is filled in a crawl of the
// given number of pages.
func (m Model) Alpha(pages float64) float64 { return max(1, pages/(m.MeanBudget*m.PLDs)) }

// NaiveRate returns λ of Theorem 6: the disk rate, in bytes/s, needed to re-read QF after every queue. It
// grows with pages.
func (m Model) NaiveRate(pages float64) float64 {
	return 2 * m.PagesPerSecond * m.URLBytes * (m.UniquePerPage - 1) * m.Alpha(pages)
}

// Rate returns λ of Theorem 7: the disk rate, in bytes/s, needed for scans at doubling intervals.
func (m Model) Rate(pages float64) float64 {
	a := m.Alpha(pages)
	return 2 * m.PagesPerSecond * m.URLBytes * (2*a/(1+a)*(m.UniquePerPage-1) + 1)
}

// RateBound returns the bound of Theorem 7 for any number of pages, 2Sb(2L-1), in bytes/s. It is also that of several
// lanes: if lane l fetches S_l pages/s and takes in S_l·L_l new URLs, ΣS_l = S and ΣS_l·L_l = SL, then
// Σ2S_l·b(2L_l-1) = 2Sb(2L-1).
func (m Model) RateBound() float64 {
	return 2 * m.PagesPerSecond * m.URLBytes * (2*m.UniquePerPage - 1)
}

// RateBoundWithStar is RateBound plus the pass of every placement through STAR's buckets: 2Sb(4L-3).
func (m Model) RateBoundWithStar() float64 {
	return 2 * m.PagesPerSecond * m.URLBytes * (4*m.UniquePerPage - 3)
}

// Queues returns j of equation (31): the number of queues in the last stage of a crawl of the given number
// of pages.
func (m Model) Queues(pages float64) float64 {
	return math.Exp2(math.Ceil(math.Log2(m.Alpha(pages)+1)) - 1)
}
