package crawl

import "time"

// crawlTenth holds the measurements of one tenth of a run.
type crawlTenth struct {
	Pages, Unique, DiskBytes, RSS int64
	Wall, CPU                     time.Duration
}

// crawlPoints bounds the number of points kept of a run's course; at the bound every second point is dropped.
const crawlPoints = 4096

// crawlCourse is the course of a run: sums since its start. RSS is the maximum since the previous point.
// Only the points and their distance survive the process (see saved).
type crawlCourse struct {
	Points []crawlTenth
	Every  int // samples per point
	looks  int
	rss    int64
}

func (c *crawlCourse) add(p crawlTenth) {
	c.rss = max(c.rss, p.RSS)
	if c.looks++; c.looks < c.Every {
		return
	}
	c.append(p)
}

// append adds a point at once, whatever the distance of the last one.
func (c *crawlCourse) append(p crawlTenth) {
	p.RSS = max(c.rss, p.RSS)
	c.looks, c.rss = 0, 0
	c.Points = append(c.Points, p)
	if len(c.Points) < crawlPoints {
		return
	}
	half := c.Points[:0]
	for i := 0; i < len(c.Points); i += 2 {
		q := c.Points[i+1]
		q.RSS = max(q.RSS, c.Points[i].RSS)
		half = append(half, q)
	}
	c.Points, c.Every = half, 2*max(1, c.Every)
}

// last returns the last point, zero if there is none.
func (c *crawlCourse) last() (p crawlTenth) {
	if n := len(c.Points); n > 0 {
		p = c.Points[n-1]
	}
	return p
}

// goBack returns the course to a crawl's counters of pages and unique URLs. Points beyond them are dropped: a kill
// lost their work, and the crawl does it again. The last point then has these counters. Its other sums lie between
// those of the points around it; if the course ends before the counters, they follow the pace of its last points.
// lost is the work of the dropped points.
func (c *crawlCourse) goBack(pages, unique int64) (lost crawlTenth) {
	n := len(c.Points)
	end := c.last()
	for n > 0 && (c.Points[n-1].Pages > pages || c.Points[n-1].Unique > unique) {
		n--
	}
	var next crawlTenth
	switch {
	case n < len(c.Points):
		next = c.Points[n]
	case n > 0:
		next = c.pace()
	}
	c.Points = c.Points[:n]
	at := c.last()
	if at.Pages == pages && at.Unique == unique {
		return crawlTenth{Pages: end.Pages - at.Pages, Unique: end.Unique - at.Unique,
			DiskBytes: end.DiskBytes - at.DiskBytes, Wall: end.Wall - at.Wall, CPU: end.CPU - at.CPU}
	}
	share := 0.0
	if next.Pages > at.Pages {
		share = float64(pages-at.Pages) / float64(next.Pages-at.Pages)
	}
	between := func(a, b int64) int64 { return a + int64(max(0, share*float64(b-a))) }
	base := crawlTenth{Pages: pages, Unique: unique, DiskBytes: between(at.DiskBytes, next.DiskBytes), RSS: at.RSS,
		Wall: time.Duration(between(int64(at.Wall), int64(next.Wall))),
		CPU:  time.Duration(between(int64(at.CPU), int64(next.CPU)))}
	c.append(base)
	return crawlTenth{Pages: max(0, end.Pages-pages), Unique: max(0, end.Unique-unique),
		DiskBytes: max(0, end.DiskBytes-base.DiskBytes), Wall: max(0, end.Wall-base.Wall),
		CPU: max(0, end.CPU-base.CPU)}
}

// paceReach is the number of points from which the pace of a course is taken.
const paceReach = 20

// pace returns a point after the last one at the pace of the last points.
func (c *crawlCourse) pace() crawlTenth {
	at := c.last()
	from := c.Points[max(0, len(c.Points)-1-paceReach)]
	return crawlTenth{Pages: 2*at.Pages - from.Pages, Unique: 2*at.Unique - from.Unique,
		DiskBytes: 2*at.DiskBytes - from.DiskBytes, Wall: 2*at.Wall - from.Wall, CPU: 2*at.CPU - from.CPU}
}

// tenths splits the run into ten parts with equal numbers of pages.
func (c *crawlCourse) tenths() (list []crawlTenth) {
	if len(c.Points) < 20 {
		return nil
	}
	end := c.last()
	var at crawlTenth
	rss := int64(0)
	for i, p := range c.Points {
		rss = max(rss, p.RSS)
		// A crawl may fetch its last page long before its end.
		if i < len(c.Points)-1 && (len(list) == 9 || p.Pages*10 < end.Pages*int64(len(list)+1)) {
			continue
		}
		list = append(list,
			crawlTenth{Pages: p.Pages - at.Pages, Unique: p.Unique - at.Unique, DiskBytes: p.DiskBytes - at.DiskBytes,
				RSS: rss, Wall: p.Wall - at.Wall, CPU: p.CPU - at.CPU})
		at, rss = p, 0
	}
	return list
}

func (x *crawlTenth) rate() float64 { return float64(x.Pages) / max(1e-9, x.Wall.Seconds()) }

// perPage returns a figure of the tenth per page.
func (x *crawlTenth) perPage(n float64) float64 { return n / float64(max(1, x.Pages)) }

// cpu returns µs of CPU a page, fresh the new URLs per page.
func (x *crawlTenth) cpu() float64   { return x.perPage(float64(x.CPU.Nanoseconds()) / 1e3) }
func (x *crawlTenth) fresh() float64 { return x.perPage(float64(x.Unique)) }

// urlCPU returns the µs of CPU that a new URL takes, by least squares over the tenths after the first: CPU a page as a
// linear function of the new URLs per page and of the tenth's number, so that growth does not count as URLs. It is 0
// if the tenths do not tell.
func urlCPU(tenths []crawlTenth) float64 {
	if len(tenths) < 5 {
		return 0
	}
	rest := tenths[1:]
	n := float64(len(rest))
	var mx, mt, my float64
	for i := range rest {
		mx, mt, my = mx+rest[i].fresh()/n, mt+float64(i)/n, my+rest[i].cpu()/n
	}
	var xx, tt, xt, xy, ty float64
	for i := range rest {
		x, t, y := rest[i].fresh()-mx, float64(i)-mt, rest[i].cpu()-my
		xx, tt, xt, xy, ty = xx+x*x, tt+t*t, xt+x*t, xy+x*y, ty+t*y
	}
	det := xx*tt - xt*xt
	if det <= 1e-6*xx*tt || det == 0 {
		return 0
	}
	return max(0, (xy*tt-ty*xt)/det)
}
