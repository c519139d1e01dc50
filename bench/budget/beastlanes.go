package budget

import (
	"fmt"

	"drumbeat/bench/result"
)

// lanesMargin is by how much a URL may cost more with several lanes than with one, in bytes of text. A scan reads the QF
// of one lane, at distances that double, as with one lane; but the weights make the lanes' QF differ in size.
const lanesMargin = 0.1

// perURL returns the given bytes per URL found.
func (m *moved) perURL(bytes int64) float64 { return float64(bytes) / float64(m.urls) }

// bound returns Theorem 7's bound per URL found. Of U URLs found, N pages were crawled, so L is U/N, and the bound of
// 2b(2L-1) per page is 2b(2U-N) in all. withStar returns 2b(4L-3) per page in the same way.
func (m *moved) bound(urlBytes float64) float64 {
	return 2 * urlBytes * (2 - float64(m.pages)/float64(m.urls))
}

func (m *moved) withStar(urlBytes float64) float64 {
	return 2 * urlBytes * (4 - 3*float64(m.pages)/float64(m.urls))
}

// reportLanes compares one lane with several in the last stages that end before the numbers of URLs.
func (res *beastResult) reportLanes(b *Beast, r *result.Report) {
	t := result.Table{
		Title: fmt.Sprintf("Lanes: bytes a URL found, in the same stages with 1 lane and with %d", b.Lanes),
		Head: []string{"URLs", "queues", "lanes", "pages", "BEAST text", "2b(2-1/L)", "ratio", "+STAR text", "2b(4-3/L)", "ratio",
			"disk", "disk:1 lane"},
		Notes: []string{"The weights of lanes halve from one to the next. The bounds are those of Theorem 7, divided by L, the URLs found a page."},
	}
	worst, more := [2]float64{}, 0.0
	for _, urls := range b.URLs {
		one, several := last(res.crawl.stages, urls), last(res.lanes.stages, urls)
		if one == nil || several == nil {
			continue
		}
		for _, c := range []struct {
			*beastCrawl
			*stage
		}{{res.crawl, one}, {res.lanes, several}} {
			mean := float64(c.in.bytes) / float64(c.in.n)
			text, whole, disk := c.perURL(c.beastRaw()), c.perURL(c.wholeRaw()), c.perURL(c.wholeDisk())
			ratio, wholeRatio := text/c.bound(mean), whole/c.withStar(mean)
			if c.stage == several {
				worst[0], worst[1] = max(worst[0], ratio), max(worst[1], wholeRatio)
			}
			t.Add(result.Number(float64(c.endURLs)), fmt.Sprint(c.queues), fmt.Sprint(c.beast.Len()), result.Number(float64(c.endPages)),
				result.Number(text), result.Number(c.bound(mean)), fmt.Sprintf("%.3f", ratio), result.Number(whole),
				result.Number(c.withStar(mean)), fmt.Sprintf("%.3f", wholeRatio), result.Number(disk),
				fmt.Sprintf("%.3f", disk/one.perURL(one.wholeDisk())))
		}
		more = several.perURL(several.beastRaw()) / one.perURL(one.beastRaw())
	}
	last := b.URLs[len(b.URLs)-1]
	r.Tables = append(r.Tables, t)
	costs := result.Table{Title: fmt.Sprintf("Lanes: cost of the whole crawl to %s URLs", result.Power(float64(last))),
		Head:  []string{"lanes", "CPU", "a URL", "live heap", "scans of QF"},
		Notes: []string{"CPU time is that of the process, so it has that of the generator of URLs."}}
	for _, c := range []*beastCrawl{res.crawl, res.lanes} {
		costs.Add(fmt.Sprint(c.beast.Len()), fmt.Sprintf("%.1f s", c.cpu.Seconds()),
			fmt.Sprintf("%.2f µs", float64(c.cpu.Microseconds())/float64(c.now.urls)), fmt.Sprintf("%.1f MiB", float64(c.heap)/(1<<20)),
			fmt.Sprint(c.beast.Stats().Scans))
	}
	r.Tables = append(r.Tables, costs)
	k := res.lanes
	name := func(format string) string { return fmt.Sprintf(format, b.Lanes) }
	r.Checks = append(r.Checks,
		result.AtMost(name("%d lanes: records lost or doubled"), float64(k.in.wrong(k.out, k.left)), 0, "records"),
		result.AtMost(name("%d lanes: pages beyond a PLD's budget in a round"), float64(k.exceeded), 0, "pages"),
		result.AtMost(name("%d lanes: BEAST as text, share of Theorem 7's bound"), worst[0], 1, "x"),
		result.AtMost(name("%d lanes: BEAST and STAR as text, share of the bound"), worst[1], 1, "x"),
		result.AtMost(name("%d lanes: bytes a URL as text, compared with one lane"),
			more, 1+lanesMargin, "x"))
}
