package drum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"drumbeat/disk"
)

// Files of parts in RAM. A small crawl makes passes all the time, and each replaces the parts of the one
// before. So while a store is small, the files that its passes write stay in RAM until a Freeze names them.
// Save then writes them as they would have been written, with the same names, offsets and checksums. A file
// that loses its last live part earlier never reaches the disk.
//
// Such files take at most Options.cacheRAM of RAM, which counts what their parts hold, and at most
// Options.unsavedBytes of disk once saved, where each part takes whole pages. A pass that needs more writes
// its file to disk and continues there. A copy of a saved file stays in RAM, for reading, until others need
// the room.

const (
	// maxCacheRAM bounds the RAM for files of parts: some 100,000 keys with small values.
	maxCacheRAM = 2 << 20
	// cacheRAMShare is their share of BucketBytes: small beside a round.
	cacheRAMShare = 8
	// unsavedPages is the number of pages for each bucket, beyond the RAM, that unsaved files may take on
	// disk: parts of a page, those that replace them, and as many that were replaced.
	unsavedPages = 4
	// extentBytes is the RAM of an extent besides its bytes.
	extentBytes = 64
	// saveBytes is the size of the writes that save a file.
	saveBytes = 128 << 10
)

// cacheRAM returns the RAM for files of parts, in bytes. 0: passes write to disk.
func (o *Options) cacheRAM() int64 {
	if o.cacheRAMBytes != 0 {
		return max(0, o.cacheRAMBytes)
	}
	return min(maxCacheRAM, o.BucketBytes/cacheRAMShare)
}

// unsavedBytes returns the maximum of Drum.UnsavedBytes.
func (o *Options) unsavedBytes() int64 {
	ram := o.cacheRAM()
	if ram == 0 {
		return 0
	}
	return ram + unsavedPages*pageBytes*int64(o.Buckets)
}

// UnsavedBytes returns the disk space, in bytes, of the files in RAM that the next checkpoint may have to
// write; 0 of a nil Drum, which is not open yet.
func (d *Drum) UnsavedBytes() int64 {
	if d == nil {
		return 0
	}
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	return d.files.unsaved
}

// ramFile is a file of parts in RAM. A pass writes it, in ascending order of offsets.
type ramFile struct {
	d    *Drum
	c    *cacheFile
	name string // on disk

	// io is held while the file is written to, in RAM or on disk, and while it is saved. It guards f and
	// ended. Locks are taken in the order io, files.mu, mu.
	io    sync.Mutex
	f     disk.File // once saved: the file on disk, as long as the pass writes to it
	ended bool      // the pass has written all

	mu      sync.RWMutex
	extents []extent // ascending; nil once forgotten

	// files.mu guards these fields. saved changes only while io is also held.
	held    int64  // bytes of RAM
	space   int64  // bytes on disk of what was written in RAM
	saved   bool   // the file is on disk
	named   uint64 // epoch of the last Freeze that named it before it was saved; 0 = none
	dropped bool   // it has no live part any more
}

// extent holds the bytes from an offset on, without the zeros up to the next page.
type extent struct {
	off   int64
	bytes []byte
}

// addRAM makes c a file in RAM, if the store is small enough.
func (fs *files) addRAM(c *cacheFile) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	ram := fs.d.opt.cacheRAM()
	if ram == 0 || fs.bytes > ram/2 || fs.unsaved+pageBytes > fs.d.opt.unsavedBytes() {
		return false // the parts and those that replace them would not fit
	}
	c.ram = &ramFile{d: fs.d, c: c, name: fs.d.opt.partPath(c.kind, c.dir, c.gen), space: pageBytes}
	fs.ram[c.gen] = c.ram
	fs.unsaved += pageBytes
	return true
}

// room reserves RAM for n bytes of a file whose end becomes end. It forgets saved files if that helps.
func (fs *files) room(rf *ramFile, n int, end int64) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	ram, held, space := fs.d.opt.cacheRAM(), int64(n)+extentBytes, end-rf.space
	if fs.unsaved+space > fs.d.opt.unsavedBytes() {
		return false
	}
	if fs.held+held > ram {
		for _, other := range fs.ram {
			if other.saved {
				fs.forget(other)
			}
		}
	}
	if fs.held+held > ram {
		return false
	}
	fs.held += held
	rf.held += held
	fs.unsaved += space
	rf.space = end
	return true
}

// forget frees the RAM of a file. mu is held.
func (fs *files) forget(rf *ramFile) {
	delete(fs.ram, rf.c.gen)
	fs.held -= rf.held
	rf.held = 0
	rf.mu.Lock()
	rf.extents = nil
	rf.mu.Unlock()
}

// inRAM returns the file of a generation if it is in RAM, or nil.
func (fs *files) inRAM(gen uint64) *ramFile {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.ram[gen]
}

// resident reports whether all parts of the cache are in RAM.
func (fs *files) resident() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for gen, c := range fs.caches {
		if c.live > 0 && fs.ram[gen] == nil {
			return false
		}
	}
	return true
}

// name returns the unsaved files in RAM that a frozen state names. The gate is held.
func (fs *files) name(st *State) (named []*ramFile) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.ram) == 0 {
		return nil
	}
	add := func(gen uint64) {
		if rf := fs.ram[gen]; rf != nil && !rf.saved && rf.named != fs.freezes {
			rf.named = fs.freezes
			named = append(named, rf)
		}
	}
	for i := range st.Parts {
		add(st.Parts[i].Gen)
	}
	for i := range st.Uniques {
		add(st.Uniques[i].Gen)
	}
	return named
}

// dropRAM drops a file without live parts that may be in RAM. It reports whether nothing is left to do: the
// file is not on disk. If a Frozen is about to save it, the Commit after that one deletes it.
func (fs *files) dropRAM(c *cacheFile) bool {
	rf := c.ram
	if rf == nil {
		return false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	switch {
	case rf.saved:
		fs.forget(rf)
		return false
	case rf.named == 0:
		fs.unsaved -= rf.space
		fs.forget(rf)
	default:
		rf.dropped = true
		delete(fs.ram, c.gen)
		fs.doomed = append(fs.doomed, doomedFile{rf.name, c.size, rf})
	}
	return true
}

// abandon drops a file that a Frozen named but never saved. It returns false for a file on disk.
func (fs *files) abandon(rf *ramFile) bool {
	if rf == nil {
		return false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !rf.saved {
		fs.unsaved -= rf.space
		fs.forget(rf)
	}
	return !rf.saved
}

// write writes the whole pages b at off. Their first used bytes matter. If RAM does not suffice, the file moves to
// disk.
func (rf *ramFile) write(b []byte, used int, off int64) error {
	rf.io.Lock()
	defer rf.io.Unlock()
	counts := &rf.d.counts
	if rf.f == nil {
		if rf.d.files.room(rf, used, off+int64(len(b))) {
			rf.mu.Lock()
			rf.extents = append(rf.extents, extent{off, bytes.Clone(b[:used])})
			rf.mu.Unlock()
			counts.ramMoved.add(len(b))
			return nil
		}
		n, err := rf.save()
		if err != nil {
			return err
		}
		counts.cacheWritten.add(n)
		counts.ramMoved.add(pageBytes - n)
	}
	if _, err := rf.f.WriteAt(b, off); err != nil {
		return fmt.Errorf("drum: write %s: %w", rf.f.Name(), err)
	}
	counts.cacheWritten.add(len(b))
	return nil
}

// end ends the writing.
func (rf *ramFile) end() error {
	rf.io.Lock()
	defer rf.io.Unlock()
	f := rf.f
	rf.f, rf.ended = nil, true
	if f == nil {
		return nil
	}
	return f.Close()
}

// saveOnce writes the file to disk unless it is there. It returns the bytes written.
func (rf *ramFile) saveOnce() (int, error) {
	rf.io.Lock()
	defer rf.io.Unlock()
	if rf.saved {
		return 0, nil
	}
	return rf.save()
}

// save writes the file to disk and returns the bytes written. io is held.
func (rf *ramFile) save() (written int, err error) {
	f, err := rf.d.fs().Create(rf.name)
	if err != nil {
		return 0, fmt.Errorf("drum: create %s: %w", rf.name, err)
	}
	if written, err = rf.copyTo(f); err != nil {
		return 0, errors.Join(fmt.Errorf("drum: write %s: %w", rf.name, err), f.Close())
	}
	if rf.ended {
		err = f.Close()
	} else {
		rf.f = f
	}
	fs := &rf.d.files
	fs.mu.Lock()
	defer fs.mu.Unlock()
	rf.saved = true
	if rf.dropped || !rf.ended {
		fs.forget(rf) // what the pass writes next is only on disk
	}
	return written, err
}

// copyTo writes the header and the extents, with zeros up to the ends of pages. What is written no longer
// counts as unsaved, so that nothing counts twice for long.
func (rf *ramFile) copyTo(f disk.File) (written int, err error) {
	b := append(make([]byte, 0, min(rf.space, saveBytes)), rf.c.header()...)
	flush := func(to int64) error { // writes the bytes before offset to
		b = append(b, make([]byte, int(to)-written-len(b))...)
		_, err := f.WriteAt(b, int64(written))
		if err != nil {
			return err
		}
		rf.d.files.mu.Lock()
		rf.d.files.unsaved -= int64(len(b))
		rf.d.files.mu.Unlock()
		written, b = written+len(b), b[:0]
		return nil
	}
	rf.mu.RLock()
	extents := slices.Clone(rf.extents) // their bytes do not change
	rf.mu.RUnlock()
	for _, e := range extents {
		if len(b) > 0 && len(b)+len(e.bytes) > saveBytes {
			if err := flush(e.off); err != nil {
				return 0, err
			}
		}
		b = append(append(b, make([]byte, int(e.off)-written-len(b))...), e.bytes...)
	}
	err = flush(rf.space)
	return written, err
}

// Name returns the name of the file on disk.
func (rf *ramFile) Name() string { return rf.name }

// Close ends the reading.
func (rf *ramFile) Close() error { return nil }

// ReadAt reads a range of a part. A file that was forgotten meanwhile is on disk.
func (rf *ramFile) ReadAt(p []byte, off int64) (n int, err error) {
	rf.mu.RLock()
	defer rf.mu.RUnlock()
	if rf.extents == nil {
		f, err := rf.d.fs().OpenRead(rf.name)
		if err != nil {
			return 0, fmt.Errorf("drum: open %s: %w", rf.name, err)
		}
		defer f.Close() // read only
		return f.ReadAt(p, off)
	}
	i, found := slices.BinarySearchFunc(rf.extents, off, func(e extent, off int64) int {
		return int(max(-1, min(1, e.off-off)))
	})
	if !found {
		i--
	}
	for ; n < len(p); i++ {
		at := off + int64(n)
		if i < 0 || i >= len(rf.extents) || at < rf.extents[i].off ||
			at >= rf.extents[i].off+int64(len(rf.extents[i].bytes)) {
			return n, io.EOF
		}
		n += copy(p[n:], rf.extents[i].bytes[at-rf.extents[i].off:])
	}
	return n, nil
}
