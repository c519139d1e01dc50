package budget

import (
	"fmt"

	"drumbeat/beast"
	"drumbeat/bench/result"
	"drumbeat/internal/human"
)

// The targets of Beast.Measure. A disk rate is flat if it varies by at most flatRatio over the stages of
// the last two decades of N that end after flatStage or more queues (those with h of 8 and above). A stage
// falls short of its limit by about 1/h: 25 % at h = 4, 12 % at h = 8. Theorem 6 omits the URLs in Q and
// counts QF once per pass for reading and writing. Both terms are 1/αN of the whole after αN passes, so the
// comparison begins after naivePasses.
const (
	flatRatio   = 1.2
	flatStage   = 13
	naiveMargin = 0.05
	naivePasses = 6
)

// report fills in r.
func (res *beastResult) report(b *Beast, r *result.Report) {
	c := res.crawl
	mean := float64(c.in.bytes) / float64(c.in.n)
	m := b.model(res.web, mean)
	r.Set("plds", "%d, budgets %d to %d pages by the paper's F, mean %.2f (E[B]); a queue has %d pages (E[B]V)", b.PLDs,
		res.web.budgets[len(res.web.budgets)-1], res.web.budgets[0], m.MeanBudget, res.web.sum)
	r.Set("links", "%g unique URLs per page (L), records of %.1f B on average (b); a share of %g leads to "+
		"%d spammers",
		b.UniquePerPage, mean, b.Spam, res.web.spammers)
	r.Set("compression", "s2, of queues")
	r.Set("rate", "bytes/s at %g pages/s (S), in virtual time: bytes counted per page, times S", pagesPerSecond)
	res.lines(b, r)
	r.Tables = append(r.Tables, res.table(b, m))
	if res.naive != nil {
		r.Tables = append(r.Tables, res.naiveTable(b, m))
	}
	r.Checks = append(r.Checks, res.checks(b, m)...)
	r.Notes = append(r.Notes,
		"As text: each record counts at its full length when it enters a queue and when it leaves one, as "+
			"in the theorems.",
		"On disk: the bytes read and written. Blocks are compressed by s2 and have checksums; STAR adds "+
			"keys and the PLDs' records.",
		"Checkpoints are excluded: they occur at fixed times and save buffers, which are larger than the "+
			"queues of this small crawl.")
}

func (res *beastResult) lines(b *Beast, r *result.Report) {
	add := func(scheme string, urls int64, s *stage, raw, disk int64) {
		r.Add(fmt.Sprintf("BenchmarkBeast/scheme=%s/urls=%s", scheme, result.Power(float64(urls))), s.pages,
			result.Metric{Value: s.perPage(raw), Unit: "text-B/page"},
			result.Metric{Value: s.perPage(disk), Unit: "io-B/page"},
			result.Metric{Value: pagesPerSecond * s.perPage(raw) / 1e6, Unit: "text-MB/s"},
			result.Metric{Value: pagesPerSecond * s.perPage(disk) / 1e6, Unit: "io-MB/s"},
			result.Metric{Value: float64(s.endPages), Unit: "pages"},
			result.Metric{Value: float64(s.queues), Unit: "queues"})
	}
	for _, urls := range b.URLs {
		if s := last(res.crawl.stages, urls); s == nil {
			r.Notes = append(r.Notes, fmt.Sprintf("No stage ended within %s URLs: increase --urls.",
				result.Power(float64(urls))))
		} else {
			add("beast", urls, s, s.beastRaw(), s.queueDisk)
			add("beast+star", urls, s, s.wholeRaw(), s.wholeDisk())
		}
		if n := res.naive; n != nil && urls <= n.now.urls {
			if s := last(n.stages, urls); s != nil {
				add("naive", urls, s, s.beastRaw(), s.queueDisk)
			}
		}
	}
}

// mb returns bytes per page as MB/s at S.
func (b *Beast) mb(perPage float64) string { return result.Number(pagesPerSecond * perPage / 1e6) }

func (res *beastResult) table(b *Beast, m beast.Model) result.Table {
	t := result.Table{
		Title: fmt.Sprintf("BEAST: MB/s needed at %g pages/s, by stage (from one scan of QF to the next)",
			pagesPerSecond),
		Head: []string{"N pages", "URLs", "queues", "in QF", "spam pages", "BEAST text", "Theorem 7", "disk",
			"+STAR text", "bound", "disk", "text:disk", "checkpoints"},
		Notes: []string{
			fmt.Sprintf("Bounds for any N: 2Sb(2L-1) = %s, with STAR 2Sb(4L-3) = %s MB/s. A share of %g of "+
				"the links is spam.",
				result.Number(m.RateBound()/1e6), result.Number(m.RateBoundWithStar()/1e6), b.Spam)},
	}
	for i := range res.crawl.stages {
		s := &res.crawl.stages[i]
		n := float64(s.endPages)
		t.Add(result.Number(n), human.Count(s.endURLs), fmt.Sprint(s.queues),
			human.Count(s.failed), fmt.Sprintf("%.2f %%", 100*float64(s.spam)/float64(s.pages)),
			b.mb(s.perPage(s.beastRaw())), result.Number(m.Rate(n)/1e6), b.mb(s.perPage(s.queueDisk)),
			b.mb(s.perPage(s.wholeRaw())), result.Number(m.RateBoundWithStar()/1e6), b.mb(s.perPage(s.wholeDisk())),
			fmt.Sprintf("%.2f", float64(s.wholeRaw())/float64(s.wholeDisk())), b.mb(s.perPage(s.saved)))
	}
	return t
}

func (res *beastResult) naiveTable(b *Beast, m beast.Model) result.Table {
	t := result.Table{
		Title: fmt.Sprintf("Naive scheme (two queues, §VII.B): MB/s needed at %g pages/s, by pass",
			pagesPerSecond),
		Head: []string{"N pages", "URLs", "in QF", "spam pages", "text", "Theorem 6", "disk"},
	}
	stages := res.naive.stages
	for i := range stages {
		if s := &stages[i]; i&(i+1) == 0 || i == len(stages)-1 { // passes 1, 2, 4, 8 …
			t.Add(human.Count(s.endPages), human.Count(s.endURLs),
				human.Count(s.failed), fmt.Sprintf("%.2f %%", 100*float64(s.spam)/float64(s.pages)),
				b.mb(s.perPage(s.beastRaw())),
				result.Number(m.NaiveRate(float64(s.endPages))/1e6), b.mb(s.perPage(s.queueDisk)))
		}
	}
	return t
}

func (res *beastResult) checks(b *Beast, m beast.Model) []result.Check {
	c := res.crawl
	list := []result.Check{
		result.AtMost("BEAST: records lost or duplicated", float64(c.in.wrong(c.out, c.left)), 0, "records"),
		result.AtMost("BEAST: pages beyond a PLD's budget in a queue", float64(c.exceeded), 0, "pages"),
	}
	var beastMost, wholeMost, diskMost float64
	var flat, flatDisk []float64
	end := 0.0
	for i := range c.stages {
		s := &c.stages[i]
		beastMost = max(beastMost, s.perPage(s.beastRaw()))
		wholeMost, diskMost = max(wholeMost, s.perPage(s.wholeRaw())), max(diskMost, s.perPage(s.wholeDisk()))
		end = float64(s.endPages)
	}
	for i := range c.stages {
		if s := &c.stages[i]; float64(s.endPages) >= max(end/100, flatStage*float64(res.web.sum)) {
			flat = append(flat, s.perPage(s.wholeRaw()))
			flatDisk = append(flatDisk, s.perPage(s.wholeDisk()))
		}
	}
	mb := pagesPerSecond / 1e6
	list = append(list,
		result.AtMost("BEAST: largest rate as text, 2Sb(2L-1)", beastMost*mb, m.RateBound()/1e6, "MB/s"),
		result.AtMost("BEAST and STAR: largest rate as text, 2Sb(4L-3)", wholeMost*mb,
			m.RateBoundWithStar()/1e6, "MB/s"),
		result.AtMost("BEAST and STAR: largest rate on disk, 2Sb(4L-3)", diskMost*mb,
			m.RateBoundWithStar()/1e6, "MB/s"),
		result.AtLeast("stages in the test whether the rate is flat", float64(len(flat)), 2, "stages"),
		result.AtMost("flat in N: ratio of the largest to the smallest rate, as text", spread(flat), flatRatio, "x"),
		result.AtMost("flat in N: ratio of the largest to the smallest rate, on disk", spread(flatDisk),
			flatRatio, "x"))
	if res.naive != nil {
		list = append(list, res.naiveChecks(b, m)...)
	}
	return list
}

func (res *beastResult) naiveChecks(b *Beast, m beast.Model) []result.Check {
	n := res.naive
	list := []result.Check{
		result.AtMost("naive: records lost or duplicated", float64(n.in.wrong(n.out, n.left)), 0, "records"),
		result.AtMost("naive: pages beyond a PLD's budget in a pass", float64(n.exceeded), 0, "pages"),
	}
	if len(n.stages) < naivePasses {
		return list
	}
	end := &n.stages[len(n.stages)-1]
	half := &n.stages[len(n.stages)/2-1]
	rate := func(s *stage) float64 { return pagesPerSecond * s.perPage(s.beastRaw()) / 1e6 }
	slope := (rate(end) - rate(half)) / float64(end.endPages-half.endPages) * 1e6
	return append(list,
		result.Within("naive: last rate as text, Theorem 6", rate(end), m.NaiveRate(float64(end.endPages))/1e6,
			naiveMargin, "MB/s"), result.Within("naive: growth per million pages, Theorem 6", slope,
			2*pagesPerSecond*m.URLBytes*(m.UniquePerPage-1)/
				float64(res.web.sum), naiveMargin, "MB/s"))
}
