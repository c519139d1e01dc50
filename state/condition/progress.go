package condition

import (
	"fmt"
	"time"

	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// Progress says how far a crawl is, and how long the rest takes.
type Progress struct {
	Pages, Ended, Queued int64         // URLs; Ended were fetched or refused
	Rate, LongRate       float64       // pages per second over ten seconds and ten minutes
	Over, LongOver       time.Duration // the time of each rate: less in a run that is younger
	// Left is what the queued URLs take at the present rates, and at least what the delay of the host with the most
	// URLs in RAM lets them take; 0 if it is unknown.
	Left time.Duration
	// Grows is the number of URLs per second by which the queue grows; 0 if it does not.
	Grows float64
}

// leastPages are the pages in ten seconds from which on their links tell how fast the queue grows now. Below, some
// pages have many links and some none, and only a longer time tells.
const leastPages = 10

// leastWindow is the length of a window that a forecast needs.
const leastWindow = 5 * time.Second

// ProgressOf returns the progress of a running crawl. New links can make the rest longer at any time.
func ProgressOf(s *snapshot.Snapshot) Progress {
	p := Progress{Pages: s.Count(state.CountPages), Ended: s.Ended(), Queued: s.Queued(),
		Rate: s.Recent.Rate(s.Recent.Pages), LongRate: s.Longer.Rate(s.Longer.Pages),
		Over: s.Recent.Over, LongOver: s.Longer.Over}
	if p.Ended == 0 { // only seeds are known
		return p
	}
	if p.Queued == 0 || s.Recent.Over < leastWindow || s.Wait.Kind == snapshot.WaitBackoff {
		return p
	}
	// New URLs come in bursts, at the start above all: those of the last seconds count. The rate at which URLs end is
	// steadier over a longer time.
	ended, found := s.Recent.Rate(s.Recent.Ended), s.Recent.Rate(s.Recent.New)
	if s.Longer.Over > s.Recent.Over {
		ended = s.Longer.Rate(s.Longer.Ended)
		if s.Recent.Pages < leastPages {
			found = s.Longer.Rate(s.Longer.New)
		}
	}
	switch net := ended - found; {
	case net < 0:
		p.Grows = -net
	case net > 0:
		const most = 100 * 365 * 24 * time.Hour
		p.Left = time.Duration(min(float64(p.Queued)/net*1e9, float64(most)))
	}
	if p.Grows == 0 {
		p.Left = max(p.Left, s.LongestHost)
	}
	return p
}

// Speed returns the rates in words.
func (p *Progress) Speed() string {
	over := func(d time.Duration) string { return human.Duration(d.Round(time.Second)) }
	text := Rate(p.Rate)
	if p.Rate == 0 && p.Over > 0 {
		text += " in " + over(p.Over)
	}
	if p.LongRate > 0 && (p.LongRate < 0.8*p.Rate || p.LongRate > 1.25*p.Rate) {
		text += ", " + Rate(p.LongRate) + " over " + over(p.LongOver)
	}
	return text
}

// Rest returns what is left in words, "" if nothing is known.
func (p *Progress) Rest() string {
	switch {
	case p.Grows > 0:
		return fmt.Sprintf("the queue grows by %s", perSecond(p.Grows))
	case p.Left > 0:
		return "about " + human.Duration(p.Left.Round(time.Second)) + " left"
	}
	return ""
}

// Share returns the percentage of URLs that have ended, of those that have and that are queued.
func (p *Progress) Share() float64 { return 100 * float64(p.Ended) / float64(max(1, p.Ended+p.Queued)) }

// String is the progress in a line.
func (p *Progress) String() string {
	text := fmt.Sprintf("%s of %s done (%.0f %%), %s", human.Counted(p.Ended, "URL", "URLs"),
		human.Count(p.Ended+p.Queued), p.Share(), p.Speed())
	if rest := p.Rest(); rest != "" {
		text += ", " + rest
	}
	return text
}

// perSecond writes a number of URLs per second.
func perSecond(n float64) string {
	if n < 0.95 {
		return "one URL in " + human.Seconds(1/n)
	}
	return human.Counted(int64(n+0.5), "URL", "URLs") + " per second"
}
