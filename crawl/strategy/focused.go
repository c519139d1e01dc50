package strategy

// Focused is the name of the strategy that looks for pages that the hook likes.
const Focused = "focused"

// focusDecay is how much of a page's score its links inherit if the hook does not like the page: pages on a subject are
// often a few links behind pages that are not. Fish-search and shark-search halve it as well.
const focusDecay = 0.5

// focused prefers links of pages with a high score, and less and less those behind other pages.
func (s *Strategy) focused() {
	s.lane, s.Scores, s.Free, s.Decay = byScore, HookScore, true, focusDecay
}
