package polite

import "time"

// Use describes how full RAM is, and with how many hosts.
type Use struct {
	Items int // queued and in flight
	// Most estimates how many items would fit with as many items for each host as now; MaxItems while there
	// are few.
	Most int
	// Resting is the number of hosts in the delay after a visit or in flight: by Little's law the rate of
	// visits times the mean delay in force. Hosts in longer delays than HostDelay and maxAnswerDelay do not
	// count.
	Resting int
	// Peak is the maximum of Resting over the last peakDelays to twice peakDelays HostDelays. When URLs of
	// other hosts arrive too late, Resting drops below what the delays would admit; Peak does not.
	Peak int
	// Hosts have queued items. Bare ones are in the delay after a visit or in flight, without queued items.
	Hosts, Bare int
	// Filled counts hosts that had no queued item and got one, since New.
	Filled int64
}

// Gaps are the smallest times between two visits; Forever before the second.
type Gaps struct {
	Host   time.Duration // from the end of one exchange with a host to the start of the next request
	Server time.Duration // from the start of one request to a server to the start of the next
}

// Gaps returns the smallest gaps since New.
func (s *Scheduler) Gaps() Gaps {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gaps
}

// peakDelays is the least number of HostDelays that Peak covers: longer than URLs without room take to
// return from disk.
const peakDelays = 4

// peak is the maximum in the current and the previous window.
type peak struct {
	now, last int
	since     int64 // start of the current window
}

func (p *peak) note(n int, at, window int64) {
	if at-p.since >= window {
		p.last, p.now, p.since = p.now, 0, at
	}
	p.now = max(p.now, n)
}

// fewItems are too few to estimate Use.Most.
const fewItems = 1000

// Use returns how full RAM is.
func (s *Scheduler) Use() Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Use{Items: s.items, Most: s.opt.MaxItems, Resting: s.hosts.resting + len(s.flights),
		Hosts: len(s.hosts.queued), Bare: s.hosts.bare, Filled: s.hosts.filled}
	u.Peak = max(u.Resting, s.peak.now, s.peak.last)
	if s.items >= fewItems {
		used := s.bytes + min(s.tableBytes(), s.opt.MaxBytes/2)
		u.Most = min(u.Most, int(float64(s.items)*float64(s.opt.MaxBytes)/float64(used)))
	}
	return u
}

// bytesFull reports whether an item would exceed MaxBytes. Tables count for at most half, so entries of
// hosts in long delays cannot keep out all others. MaxHosts bounds the tables.
func (s *Scheduler) bytesFull(it *Item) bool {
	return s.bytes+it.bytes()+min(s.tableBytes(), s.opt.MaxBytes/2) > s.opt.MaxBytes
}
