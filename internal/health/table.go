package health

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"drumbeat/internal/list"
)

// Table holds the health of hosts that failed or refused recently. At MaxTroubled hosts it drops the host
// with the oldest event; RobotsCache still has its state.
type Table struct {
	mu    sync.Mutex // guards all fields below; no other lock is taken under it
	hosts map[uint64]*troubledHost
	order list.List[troubledHost, *troubledHost] // by time of the last event, oldest first
}

type troubledLink = list.Link[troubledHost]

// troubledHost is a host that failed or refused recently, or has recovered since.
type troubledHost struct {
	troubledLink
	key      uint64
	state    State
	at       time.Time // time of the last event; state has none once the host is healthy
	doubtful bool      // the last exchange failed for a reason that may be local; not stored in checkpoints
}

// Get returns the health of a host. onDisk is the state that RobotsCache has for one of its origins, nil
// for none; the newer of both counts.
func (t *Table) Get(key uint64, onDisk *State, now time.Time) State {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, _ := t.newest(key, onDisk, now)
	return s
}

// newest is Get plus the entry of the host, nil without one. A state stored while the clock was ahead
// counts as stored now, but not as newer than a state stored since. Held: mu.
func (t *Table) newest(key uint64, onDisk *State, now time.Time) (s State, h *troubledHost) {
	h = t.hosts[key]
	switch {
	case h == nil && onDisk == nil:
		return s, nil
	case h == nil, onDisk != nil && onDisk.At.After(h.at) &&
		(!onDisk.FromTheFuture(now) || h.at.After(now.Add(ClockSlack))):
		s = *onDisk
		s.Correct(now)
		return s, h
	}
	if h.at.After(now.Add(ClockSlack)) {
		h.state.Correct(now)
		h.at = now
	}
	return h.state, h
}

// Note updates a host with an event. tell reports whether RobotsCache must store the new state.
func (t *Table) Note(p *Policy, key uint64, onDisk *State, e Event, now time.Time) (v Verdict, tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, h := t.newest(key, onDisk, now)
	if h != nil && !e.Kind.Failed() {
		h.doubtful = false
	}
	if s.Clean() && e.Kind.Good() {
		return v, false
	}
	v = s.Note(p, e, now)
	h = t.touch(key, h)
	h.state, h.at = s, now
	return v, true
}

// Doubt marks a host whose last exchange failed for a reason that may be local; see Doubted.
func (t *Table) Doubt(key uint64, onDisk *State, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, h := t.newest(key, onDisk, now)
	h = t.touch(key, h)
	h.state, h.doubtful = s, true
	if h.at.IsZero() {
		h.at = s.At
	}
}

// Doubted reports whether the last exchange with a host failed for a reason that may be local.
func (t *Table) Doubted(key uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[key]
	return h != nil && h.doubtful
}

// touch makes a host the newest one. A host without an entry (h is nil) gets one and, if the table is full,
// displaces the oldest. Held: mu.
func (t *Table) touch(key uint64, h *troubledHost) *troubledHost {
	if h != nil {
		t.order.Remove(h)
		t.order.PushBack(h)
		return h
	}
	if t.hosts == nil {
		t.hosts = map[uint64]*troubledHost{}
	}
	if len(t.hosts) >= MaxTroubled {
		old := t.order.Front()
		t.order.Remove(old)
		delete(t.hosts, old.key)
	}
	h = &troubledHost{key: key}
	t.hosts[key] = h
	t.order.PushBack(h)
	return h
}

// Entry is a host in a checkpoint.
type Entry struct {
	Key   uint64
	State State
}

// Snapshot returns the hosts that are not healthy, the oldest event first.
func (t *Table) Snapshot() []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Entry, 0, len(t.hosts))
	for h := t.order.Front(); h != nil; h = t.order.Next(h) {
		if !h.state.Clean() {
			all = append(all, Entry{h.key, h.state})
		}
	}
	return all
}

// DumpHosts encodes entries: key (8 bytes, little-endian), length byte, encoded State.
func DumpHosts(list []Entry) (b []byte) {
	for i := range list {
		b = binary.LittleEndian.AppendUint64(b, list[i].Key)
		at := len(b)
		b = list[i].State.Append(append(b, 0))
		b[at] = byte(len(b) - at - 1)
	}
	return b
}

// EachHost decodes the output of DumpHosts and calls f for each entry.
func EachHost(b []byte, f func(key uint64, s State)) error {
	for off := 0; off < len(b); {
		var s State
		if len(b)-off < 9 || len(b)-off < 9+int(b[off+8]) {
			return fmt.Errorf("crawl: health of hosts at the last checkpoint is truncated at offset %d", off)
		}
		end := off + 9 + int(b[off+8])
		if err := s.Decode(b[off+9 : end]); err != nil {
			return fmt.Errorf("crawl: health of hosts at the last checkpoint, offset %d: %w", off, err)
		}
		f(binary.LittleEndian.Uint64(b[off:]), s)
		off = end
	}
	return nil
}

// Restore reads the output of DumpHosts. A state stored while the clock was ahead counts as stored now.
func (t *Table) Restore(data []byte, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = map[uint64]*troubledHost{}
	return EachHost(data, func(key uint64, s State) {
		s.Correct(now)
		if t.hosts[key] == nil && len(t.hosts) < MaxTroubled {
			h := &troubledHost{key: key, state: s, at: s.At}
			t.hosts[key] = h
			t.order.PushBack(h)
		}
	})
}

// Add adds the output of DumpHosts of another node, whose slots move here. The state of a host that is known here
// stays.
func (t *Table) Add(data []byte, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return EachHost(data, func(key uint64, s State) {
		s.Correct(now)
		if t.hosts[key] == nil && len(t.hosts) < MaxTroubled {
			if t.hosts == nil {
				t.hosts = map[uint64]*troubledHost{}
			}
			h := &troubledHost{key: key, state: s, at: s.At}
			t.hosts[key] = h
			t.order.PushBack(h)
		}
	})
}

// MaxTroubled bounds a Table: about 200 bytes each, 13 MB in total.
const MaxTroubled = 1 << 16
