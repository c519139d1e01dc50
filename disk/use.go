package disk

import (
	"path"
	"strings"
	"sync"
	"time"
)

// Use is the work of a directory: what passed through a Meter to and from its files, and how long that
// took. The times are those that callers saw. So a write into the page cache counts as fast, and the sync
// that later waits for the disk as slow; a disk that the kernel or a hypervisor throttles is slow, too,
// though its own statistics show nothing of that.
type Use struct {
	ReadBytes, WrittenBytes int64
	// Reading and Writing are the times during which at least one read, or one write or sync, was under way.
	// Busy is the time during which any of them was.
	Reading, Writing, Busy time.Duration
}

// Bytes returns the bytes read and written.
func (u Use) Bytes() int64 { return u.ReadBytes + u.WrittenBytes }

// Add returns the sum of the work of two directories. Their times may overlap.
func (u Use) Add(other Use) Use {
	return Use{u.ReadBytes + other.ReadBytes, u.WrittenBytes + other.WrittenBytes, u.Reading + other.Reading,
		u.Writing + other.Writing, u.Busy + other.Busy}
}

// Sub returns the work since an earlier state.
func (u Use) Sub(earlier Use) Use {
	return Use{u.ReadBytes - earlier.ReadBytes, u.WrittenBytes - earlier.WrittenBytes, u.Reading - earlier.Reading,
		u.Writing - earlier.Writing, u.Busy - earlier.Busy}
}

// useMeter measures the use of one directory. A nil useMeter measures nothing.
type useMeter struct {
	below string // prefix of the names in the directory

	mu            sync.Mutex // guards the fields below
	use           Use        // up to since
	since         time.Time  // the last start or end of an operation
	reads, writes int        // under way
}

func newUseMeter(dir string) *useMeter {
	below := path.Clean(dir)
	switch below {
	case ".":
		below = ""
	case "/":
	default:
		below += "/"
	}
	return &useMeter{below: below}
}

// advance adds the time since the last call. The caller holds mu.
func (m *useMeter) advance() {
	now := time.Now()
	if m.reads+m.writes > 0 {
		d := now.Sub(m.since)
		m.use.Busy += d
		if m.reads > 0 {
			m.use.Reading += d
		}
		if m.writes > 0 {
			m.use.Writing += d
		}
	}
	m.since = now
}

// read calls do, which reads and returns the number of bytes.
func (m *useMeter) read(do func() (int, error)) (int, error) {
	if m == nil {
		return do()
	}
	m.change(1, 0, 0, 0)
	n, err := do()
	m.change(-1, 0, n, 0)
	return n, err
}

// write calls do, which writes or syncs and returns the number of bytes.
func (m *useMeter) write(do func() (int, error)) (int, error) {
	if m == nil {
		return do()
	}
	m.change(0, 1, 0, 0)
	n, err := do()
	m.change(0, -1, 0, n)
	return n, err
}

// change counts operations that start (1) or end (-1), and the bytes that they moved.
func (m *useMeter) change(reads, writes, read, written int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	m.reads += reads
	m.writes += writes
	m.use.ReadBytes += int64(read)
	m.use.WrittenBytes += int64(written)
}

// Use returns the work so far of a directory that NewMeter was given, including the part of running
// operations that has passed; zero for others.
func (m *Meter) Use(dir string) Use {
	below := newUseMeter(dir).below
	for _, u := range m.dirs {
		if u.below == below {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.advance()
			return u.use
		}
	}
	return Use{}
}

// useOf returns the meter of the innermost directory that holds name, nil without one.
func (m *Meter) useOf(name string) (of *useMeter) {
	name = path.Clean(name) + "/"
	for _, u := range m.dirs {
		if strings.HasPrefix(name, u.below) && (of == nil || len(u.below) > len(of.below)) {
			of = u
		}
	}
	return of
}
