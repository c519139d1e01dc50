package docweb

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Log has the answers of a server, 8 bytes each, in about the order in which they were sent. It may be used
// concurrently.
type Log struct {
	web   *Web
	mu    sync.Mutex
	began time.Time
	list  []answer
	seen  []uint16 // answers of each page of an ordinary host
	must  []bool   // pages that are awaited
	left  int      // of them
}

// answer is an answer's kind (2 bits) with the number of its URL among those of its kind, and the time when
// it was sent, in units of 10 µs. Of the kind other it has the host.
type answer struct{ what, when uint32 }

const (
	kindShift = 30
	whenUnit  = 10 * time.Microsecond
)

// logMost bounds the log: 400 MB.
const logMost = 50_000_000

func newLog(w *Web) *Log { return &Log{web: w, began: time.Now(), seen: make([]uint16, w.pages)} }

// Restart empties the log, sets its start to now and awaits the pages of e.
func (l *Log) Restart(e *Expected) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.list = time.Now(), l.list[:0]
	clear(l.seen)
	l.must, l.left = e.must, e.Pages
}

func (l *Log) add(n node) {
	what := uint32(n.host.id)
	switch {
	case n.host.role != ordinary:
		n.kind = other
	case n.kind == page:
		what = uint32(n.host.base + n.n)
	case n.kind == gone:
		what = uint32(n.host.baseGone + n.n)
	case n.kind == moved:
		what = uint32(n.host.baseMove + n.n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) >= logMost {
		return
	}
	l.list = append(l.list, answer{uint32(n.kind)<<kindShift | what, uint32(time.Since(l.began) / whenUnit)})
	if n.kind == page {
		if l.seen[what]++; l.seen[what] == 1 && l.must != nil && l.must[what] {
			l.left--
		}
	}
}

// Progress returns the number of answers so far, and of pages that are awaited and have not been fetched.
func (l *Log) Progress() (answers, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list), l.left
}

// Counts are the figures of a log. Times are since Restart.
type Counts struct {
	Pages    int             // different pages of ordinary hosts
	Missing  int             // awaited pages without an answer
	Extra    int             // pages that were not awaited
	Twice    int             // pages with more than one answer
	Gone     int             // answers 404 of URLs that pages link to
	Moved    int             // answers 301
	Other    int             // other answers: robots.txt, and all of bad hosts
	First    time.Duration   // first answer
	Ends     []time.Duration // first answer of each page
	MissedOf []string        // up to three missing pages
}

// Counts evaluates the log.
func (l *Log) Counts() (c Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make([]bool, len(l.seen))
	for i, a := range l.list {
		at := time.Duration(a.when) * whenUnit
		if i == 0 {
			c.First = at
		}
		c.First = min(c.First, at)
		n := int(a.what & (1<<kindShift - 1))
		switch kind(a.what >> kindShift) {
		case page:
			if !seen[n] {
				seen[n] = true
				c.Ends = append(c.Ends, at)
			}
		case gone:
			c.Gone++
		case moved:
			c.Moved++
		default:
			c.Other++
		}
	}
	slices.SortFunc(c.Ends, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	c.Pages = len(c.Ends)
	for n, times := range l.seen {
		must := l.must != nil && l.must[n]
		switch {
		case must && times == 0:
			c.Missing++
			if len(c.MissedOf) < 3 {
				c.MissedOf = append(c.MissedOf, l.web.url(l.web.page(n)))
			}
		case !must && times > 0:
			c.Extra++
		}
		if times > 1 {
			c.Twice++
		}
	}
	return c
}

// page returns page n of all ordinary hosts.
func (w *Web) page(n int) node {
	i, found := slices.BinarySearchFunc(w.ordinary, n, func(h *Host, n int) int { return cmp.Compare(h.base, n) })
	if !found {
		i--
	}
	return node{host: w.ordinary[i], n: n - w.ordinary[i].base}
}
