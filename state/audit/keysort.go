package audit

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/state"
)

// TaggedKey is the key of a URL and where it was found: the number of a Place, or one of the tags below.
type TaggedKey struct {
	Key  uint64
	Tag  uint8
	Mark uint32 // of a response: hash of its position; 0 for none
}

// The tags after the places.
const (
	tagStored     = uint8(state.NumPlaces) + iota // a response record in a WARC file
	tagLogFetched                                 // a line of the crawl log with a status
	tagLogRefused                                 // a line of the crawl log with a reason
	tagOrdered                                    // the URL was enqueued at some time; the last tag
)

const (
	taggedKeyBytes = 8 + 1 + 4 // on disk
	taggedKeyRAM   = 16
	RunBufferBytes = 256 << 10
	leastRunBytes  = 4096
	leastSortBytes = 1 << 20
	runPrefix      = "keys-"
)

// keySorter sorts any number of tagged keys in bounded RAM. It spills sorted runs to its own directory,
// which Close removes. It is not safe for concurrent use.
type keySorter struct {
	fs   disk.FS
	dir  string
	max  int // entries in RAM
	buf  []TaggedKey
	runs []keyRun
	n    int64
}

// keyRun is a sorted run on disk. The file does not outlive the process, so its checksum stays in RAM.
type keyRun struct {
	Name  string
	bytes int64
	sum   uint64
}

// newKeySorter returns a sorter with a buffer of ram bytes that spills to files in dir.
func newKeySorter(fsys disk.FS, dir string, ram int64) *keySorter {
	return &keySorter{fs: fsys, dir: dir, max: int(max(ram, leastSortBytes) / taggedKeyRAM)}
}

// Add adds a key.
func (s *keySorter) Add(k TaggedKey) error {
	if len(s.buf) == cap(s.buf) { // double up to max, so that a small crawl takes little RAM
		s.buf = slices.Grow(s.buf, max(0, min(s.max-len(s.buf), len(s.buf)+1024)))
	}
	s.buf = append(s.buf, k)
	s.n++
	if len(s.buf) < s.max {
		return nil
	}
	return s.spill()
}

// compareTagged orders by key, tag and mark.
func compareTagged(a, b TaggedKey) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Mark, b.Mark))
}

// spill writes the buffer as a run.
func (s *keySorter) spill() error {
	if len(s.runs) == 0 {
		if err := removeRuns(s.fs, s.dir); err != nil {
			return err
		}
		if err := s.fs.MkdirAll(s.dir); err != nil {
			return fmt.Errorf("crawl: sort keys: %w", err)
		}
	}
	slices.SortFunc(s.buf, compareTagged)
	run := keyRun{Name: fmt.Sprintf("%s/%s%05d", s.dir, runPrefix, len(s.runs))}
	f, err := s.fs.Create(run.Name)
	if err != nil {
		return fmt.Errorf("crawl: sort keys: %w", err)
	}
	digest := xxhash.New()
	out := make([]byte, 0, RunBufferBytes+taggedKeyBytes)
	flush := func() error {
		digest.Write(out)
		_, err := f.WriteAt(out, run.bytes)
		run.bytes += int64(len(out))
		out = out[:0]
		return err
	}
	for i := range s.buf {
		out = binary.LittleEndian.AppendUint64(out, s.buf[i].Key)
		out = append(out, s.buf[i].Tag)
		out = binary.LittleEndian.AppendUint32(out, s.buf[i].Mark)
		if len(out) >= RunBufferBytes && err == nil {
			err = flush()
		}
	}
	if err == nil {
		err = flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("crawl: sort keys: write %s: %w", run.Name, err)
	}
	run.sum = digest.Sum64()
	s.runs, s.buf = append(s.runs, run), s.buf[:0]
	return nil
}

// Close removes the runs.
func (s *keySorter) Close() error {
	s.buf = nil
	if len(s.runs) == 0 {
		return nil
	}
	return removeRuns(s.fs, s.dir)
}

// sorted returns all keys in order. Add must not be called afterwards.
func (s *keySorter) sorted() (*keyStream, error) {
	slices.SortFunc(s.buf, compareTagged)
	st := &keyStream{}
	// The runs share as much RAM as the buffer; each gets at least leastRunBytes.
	share := min(RunBufferBytes, max(leastRunBytes, s.max*taggedKeyRAM/(len(s.runs)+1)))
	share -= share % taggedKeyBytes
	if len(s.buf) > 0 {
		st.heads = append(st.heads, &runReader{ram: s.buf})
	}
	for _, run := range s.runs {
		f, err := s.fs.OpenRead(run.Name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("crawl: sort keys: %w", err), st.Close())
		}
		st.heads = append(st.heads, &runReader{run: run, f: f, digest: xxhash.New(), chunk: int64(share)})
	}
	live := st.heads[:0]
	for _, h := range st.heads {
		ok, err := h.next()
		if err != nil {
			return nil, errors.Join(err, st.Close())
		}
		if ok {
			live = append(live, h)
		}
	}
	st.heads = live
	heap.Init(st)
	return st, nil
}

// keyStream merges the runs.
type keyStream struct{ heads []*runReader }

// runReader reads one run. cur is its current entry.
type runReader struct {
	cur    TaggedKey
	ram    []TaggedKey
	run    keyRun
	f      disk.File
	digest *xxhash.Digest
	chunk  int64 // bytes per read
	off    int64
	buf    []byte
	rest   []byte // the unread part of buf
}

// next reads the next entry into cur; false at the end of the run.
func (r *runReader) next() (bool, error) {
	if r.f == nil {
		if len(r.ram) == 0 {
			return false, nil
		}
		r.cur, r.ram = r.ram[0], r.ram[1:]
		return true, nil
	}
	if len(r.rest) == 0 {
		n := min(r.chunk, r.run.bytes-r.off)
		if n == 0 {
			if sum := r.digest.Sum64(); sum != r.run.sum {
				return false, &disk.CorruptError{Path: r.run.Name, Want: fmt.Sprintf("xxhash64 %016x", r.run.sum),
					Got: fmt.Sprintf("%016x", sum)}
			}
			return false, nil
		}
		if r.buf == nil {
			r.buf = make([]byte, n)
		}
		r.rest = r.buf[:n]
		if err := disk.ReadFull(r.f, r.rest, r.off); err != nil {
			return false, fmt.Errorf("crawl: sort keys: read %s: %w", r.run.Name, err)
		}
		r.digest.Write(r.rest)
		r.off += n
	}
	r.cur = TaggedKey{Key: binary.LittleEndian.Uint64(r.rest), Tag: r.rest[8],
		Mark: binary.LittleEndian.Uint32(r.rest[9:])}
	r.rest = r.rest[taggedKeyBytes:]
	return true, nil
}

// keyStream implements heap.Interface over the current entries of the runs.

func (s *keyStream) Len() int           { return len(s.heads) }
func (s *keyStream) Less(i, j int) bool { return compareTagged(s.heads[i].cur, s.heads[j].cur) < 0 }
func (s *keyStream) Swap(i, j int)      { s.heads[i], s.heads[j] = s.heads[j], s.heads[i] }
func (s *keyStream) Push(any)           { panic("BUG: crawl: nothing is pushed") }
func (s *keyStream) Pop() any {
	last := s.heads[len(s.heads)-1]
	s.heads = s.heads[:len(s.heads)-1]
	return last
}

// group returns the next key with all its entries, which are valid until the next call; ok is false at the
// end.
func (s *keyStream) group(dst []TaggedKey) (entries []TaggedKey, ok bool, err error) {
	dst = dst[:0]
	for len(s.heads) > 0 && (len(dst) == 0 || s.heads[0].cur.Key == dst[0].Key) {
		h := s.heads[0]
		dst = append(dst, h.cur)
		more, err := h.next()
		if err != nil {
			return nil, false, err
		}
		if more {
			heap.Fix(s, 0)
			continue
		}
		heap.Pop(s)
		if h.f != nil {
			if err := h.f.Close(); err != nil {
				return nil, false, fmt.Errorf("crawl: sort keys: %w", err)
			}
		}
	}
	return dst, len(dst) > 0, nil
}

// Close closes the runs.
func (s *keyStream) Close() error {
	var errs []error
	for _, h := range s.heads {
		if h.f != nil {
			errs = append(errs, h.f.Close())
		}
	}
	s.heads = nil
	return errors.Join(errs...)
}

// removeRuns deletes a keySorter's runs and directory. It refuses a directory with other files.
func removeRuns(fsys disk.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("crawl: sort keys: %w", err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, runPrefix) {
			return fmt.Errorf("crawl: sort keys: %s holds a foreign file %s", dir, name)
		}
		if err := fsys.Remove(dir + "/" + name); err != nil {
			return fmt.Errorf("crawl: sort keys: %w", err)
		}
	}
	if err := fsys.Remove(dir); err != nil {
		return fmt.Errorf("crawl: sort keys: %w", err)
	}
	return nil
}
