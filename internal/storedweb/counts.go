package storedweb

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// maxNamed bounds the names that a summary lists for each kind of event.
const maxNamed = 20

// names counts events and keeps the first names. It is safe for concurrent use.
type names struct {
	n atomic.Int64

	mu   sync.Mutex // guards list
	list []string
}

// add counts an event. It keeps what if it is new and one of the first.
func (c *names) add(what, why string) {
	c.n.Add(1)
	what = fmt.Sprintf("%.200s", what)
	if why != "" {
		what += ": " + fmt.Sprintf("%.300s", why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) < maxNamed && !slices.Contains(c.list, what) {
		c.list = append(c.list, what)
	}
}

// get returns the count and the first names.
func (c *names) get() (int64, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n.Load(), slices.Clone(c.list)
}

// Counts are what a Web has served. Lists have the first names only, at most 20.
type Counts struct {
	// Served counts answers with a stored capture, Revisits those among them with the body of another one,
	// Robots those to requests for /robots.txt. Bytes are those of all of them.
	Served, Revisits, Robots, Bytes int64
	// NotStored counts requests for URLs that are not stored, without NoRobots, those for a /robots.txt that
	// is not stored.
	NotStored, NoRobots int64
	NotStoredList       []string
	Damaged             int64
	DamagedList         []string
	// NoName counts questions for hosts that are not stored.
	Lookups, NoName int64
	NoNameList      []string
	// Unused counts stored page URLs that were never requested.
	Unused     int64
	UnusedList []string
}

// counters are the counters of a Web.
type counters struct {
	served, revisits, robots, bytes, noRobots, lookups atomic.Int64
	notStored, damaged, noName                         names
}

// Counts returns the counts so far. It reads the table, and a record for each named unused URL.
func (w *Web) Counts() (*Counts, error) {
	c := &w.counts
	out := &Counts{Served: c.served.Load(), Revisits: c.revisits.Load(), Robots: c.robots.Load(), Bytes: c.bytes.Load(),
		NoRobots: c.noRobots.Load(), Lookups: c.lookups.Load()}
	out.NotStored, out.NotStoredList = c.notStored.get()
	out.Damaged, out.DamagedList = c.damaged.get()
	out.NoName, out.NoNameList = c.noName.get()
	s := w.slots.take()
	defer w.slots.give(s)
	err := w.table.unmarked(func(e *entry) error {
		out.Unused++
		if len(out.UnusedList) < maxNamed {
			url := "a damaged record"
			if rec, err := s.open(e); err == nil {
				url = rec.Get("WARC-Target-URI")
			}
			out.UnusedList = append(out.UnusedList, url)
		}
		return nil
	})
	return out, err
}
