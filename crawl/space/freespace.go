package space

import (
	"sync"
	"time"
)

// freeFor is how long an answer of statfs is used. A pass reserves space for each bucket: 4,096 buckets and 12
// directories would be 49,000 calls, and a call takes 1 ms on a network file system. In that time output can take 10
// MB of a disk of 100 MB/s unnoticed, less than diskReserve.
const freeFor = 100 * time.Millisecond

// freeSpace remembers the free space of directories. Work that gives back its reservation may have written as much, so
// that counts as used until the next call of statfs.
type freeSpace struct {
	mu       sync.Mutex // guards the fields below; a leaf
	known    map[string]knownFree
	returned int64 // bytes of all reservations that were given back
}

type knownFree struct {
	at       time.Time
	bytes    int64
	returned int64 // freeSpace.returned before statfs was called
}

// giveBack notes that work with a reservation of n bytes has ended.
func (f *freeSpace) giveBack(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.returned += n
}

// in returns the free bytes of a directory. The answer may be as old as freeFor if it is at least want.
func (f *freeSpace) in(dir string, want int64, statfs func(dir string) (int64, error)) (int64, error) {
	f.mu.Lock()
	k, ok := f.known[dir]
	returned := f.returned
	f.mu.Unlock()
	if free := k.bytes - (returned - k.returned); ok && free >= want && time.Since(k.at) < freeFor {
		return free, nil
	}
	k = knownFree{at: time.Now(), returned: returned}
	var err error
	if k.bytes, err = statfs(dir); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[string]knownFree{}
	}
	f.known[dir] = k
	return k.bytes, nil
}
