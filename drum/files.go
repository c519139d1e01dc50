package drum

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"

	"drumbeat/disk"
)

// part is one bucket's piece of the cache, a range of a cache file. The zero part is empty.
type part struct {
	gen  uint64
	dir  int
	off  int64
	size int64
	keys int64
}

// space returns the number of bytes that the part takes in its file, in whole pages.
func (p part) space() int64 { return pageUp(p.size) }

// cacheFile is a file with parts. A pass writes it.
type cacheFile struct {
	gen   uint64
	kind  string
	dir   int
	epoch uint64
	size  int64    // end of its last part
	live  int64    // bytes of installed parts, whole pages
	open  bool     // a pass still writes to it
	ram   *ramFile // nil for a file that was created on disk
}

// header returns the file's header.
func (c *cacheFile) header() []byte {
	h := disk.Header{Kind: c.kind, Version: formatVersion, Number: c.gen, Place: uint64(c.dir)}
	return h.Append(nil)
}

// files tracks the cache files and pending deletions. A file created after the last Freeze is in no
// manifest and is deleted at once. Any other file is deleted by the Commit of the next checkpoint.
type files struct {
	d *Drum
	// mu guards the fields below. No I/O is done under it.
	mu      sync.Mutex
	freezes uint64
	caches  map[uint64]*cacheFile
	doomed  []doomedFile
	bytes   int64 // of installed parts

	// The files that are in RAM, also if they are on disk, with the RAM that they take, and the disk space of
	// those that are not saved (ramfile.go).
	ram           map[uint64]*ramFile
	held, unsaved int64
}

type doomedFile struct {
	name string
	size int64
	ram  *ramFile // nil if the file was on disk when it was doomed
}

func (fs *files) init(d *Drum) {
	fs.d, fs.caches, fs.ram = d, map[uint64]*cacheFile{}, map[uint64]*ramFile{}
	fs.freezes = 1 // files found at Open have epoch 0, since the manifest names them
}

// epoch returns the number of the current epoch. Each Freeze starts a new one.
func (fs *files) epoch() uint64 {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.freezes
}

// remove deletes a file created in epoch, at once or with the next Commit.
func (fs *files) remove(name string, epoch uint64, size int64) error {
	fs.mu.Lock()
	if epoch != fs.freezes {
		fs.doomed = append(fs.doomed, doomedFile{name: name, size: size})
		fs.mu.Unlock()
		return nil
	}
	fs.mu.Unlock()
	if err := fs.d.fs().Remove(name); err != nil {
		return fmt.Errorf("drum: remove %s: %w", name, err)
	}
	return nil
}

// removeStream deletes the file of a merged stream.
func (fs *files) removeStream(s *stream) error {
	if s.gen == 0 {
		return nil
	}
	return fs.remove(fs.d.opt.path(s.dir, bucketName(s.kind, s.bucket, s.gen)), s.epoch, s.written)
}

// takeDoomed starts a new epoch and returns the files that the next Commit may delete.
func (fs *files) takeDoomed() []doomedFile {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.freezes++
	doomed := fs.doomed
	fs.doomed = nil
	return doomed
}

// create creates a file for parts in directory dir: parts of the cache, or lists of numbers, which files
// tracks only in RAM.
func (fs *files) create(dir int, kind string) (*passFile, error) {
	d := fs.d
	c := &cacheFile{gen: d.gen.Add(1), kind: kind, dir: dir, epoch: fs.epoch(), size: pageBytes, open: true}
	pf := &passFile{cache: c, end: c.size}
	if !fs.addRAM(c) {
		name := d.opt.partPath(kind, dir, c.gen)
		f, err := d.fs().Create(name)
		if err != nil {
			return nil, fmt.Errorf("drum: create %s: %w", name, err)
		}
		if _, err := f.WriteAt(c.header(), 0); err != nil {
			f.Close()
			return nil, fmt.Errorf("drum: write %s: %w", name, err)
		}
		pf.f = f
	}
	if kind != cacheKind {
		return pf, nil
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.caches[c.gen] = c
	return pf, nil
}

// replace records that part new replaces old, and deletes old's file if it has no live part left.
func (fs *files) replace(old, new part) error {
	fs.mu.Lock()
	if c := fs.caches[new.gen]; c != nil {
		c.live += new.space()
		c.size = max(c.size, new.off+new.space())
	}
	c := fs.caches[old.gen]
	if c != nil {
		c.live -= old.space()
	}
	fs.bytes += new.size - old.size
	fs.mu.Unlock()
	return fs.drop(c)
}

// endPass ends the writing of a file, so that it may be deleted.
func (fs *files) endPass(c *cacheFile) error {
	fs.mu.Lock()
	c.open = false
	fs.mu.Unlock()
	return fs.drop(c)
}

func (fs *files) drop(c *cacheFile) error {
	fs.mu.Lock()
	if c == nil || c.live > 0 || c.open {
		fs.mu.Unlock()
		return nil
	}
	delete(fs.caches, c.gen)
	fs.mu.Unlock()
	return fs.discard(c)
}

// discard deletes a file whose parts nobody needs any more.
func (fs *files) discard(c *cacheFile) error {
	if fs.dropRAM(c) {
		return nil
	}
	return fs.remove(fs.d.opt.partPath(c.kind, c.dir, c.gen), c.epoch, c.size)
}

// space returns the bytes of live parts, of replaced parts in the same files, and of files to be deleted. Files in RAM
// count with the space that they would take.
func (fs *files) space() (live, dead, doomed int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, c := range fs.caches {
		live += c.live
		dead += c.size - c.live
	}
	for _, f := range fs.doomed {
		doomed += f.size
	}
	return live, dead, doomed
}

// maxCacheFiles is the number of cache files per directory and worker above which passes combine small ones.
const maxCacheFiles = 32

// sparse returns the generations of the cache files whose parts should be copied to a new file. If replaced
// parts take more space than live ones, these are the files with the lowest live share, until the dead
// space is half of the live space. If there are too many files, they include the smallest ones.
func (fs *files) sparse() map[uint64]bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var all []*cacheFile
	var live, dead int64
	for _, c := range fs.caches {
		if !c.open {
			all = append(all, c)
		}
		live += c.live
		dead += c.size - pageBytes - c.live
	}
	gens := map[uint64]bool{}
	if dead > live {
		slices.SortFunc(all, compareShare)
		for _, c := range all {
			if dead <= live/2 {
				break
			}
			gens[c.gen] = true
			dead -= c.size - pageBytes - c.live
		}
	}
	if limit := maxCacheFiles * fs.d.dirs() * fs.d.opt.Workers; len(all)-len(gens) > limit {
		slices.SortFunc(all, func(a, b *cacheFile) int { return int(max(-1, min(1, a.live-b.live))) })
		for _, c := range all[:len(all)-limit/2] {
			gens[c.gen] = true
		}
	}
	return gens
}

// compareShare orders files by the live share of their bytes.
func compareShare(a, b *cacheFile) int {
	share := func(c *cacheFile) float64 { return float64(c.live) / float64(max(1, c.size)) }
	switch d := share(a) - share(b); {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return int(max(-1, min(1, int64(a.gen-b.gen))))
}

// clean creates the directories, deletes the files that want does not name, and cuts the others to the
// length in want.
func (fs *files) clean(want map[string]int64) error {
	d := fs.d
	for dir := range d.dirs() {
		path := d.opt.path(dir, "")
		if err := d.fs().MkdirAll(path); err != nil {
			return err
		}
		names, err := d.fs().List(path)
		if err != nil {
			return err
		}
		for _, name := range names {
			name = d.opt.path(dir, name)
			if _, ok := want[name]; !ok {
				if err := d.fs().Remove(name); err != nil {
					return err
				}
			}
		}
	}
	for name, size := range want {
		if err := cut(d.fs(), name, size); err != nil {
			return err
		}
	}
	return nil
}

// cut cuts a file to size. A shorter or missing file is reported as damaged.
func cut(fsys disk.FS, name string, size int64) error {
	have, err := fsys.Size(name)
	if errors.Is(err, fs.ErrNotExist) {
		return corrupt(name, 0, fmt.Sprintf("%d bytes", size), "no file")
	}
	if err != nil || have == size {
		return err
	}
	if have < size {
		return corrupt(name, have, fmt.Sprintf("%d bytes", size), fmt.Sprintf("%d bytes", have))
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// checkPart verifies that a part has a possible range and directory.
func checkPart(p part, dirs int) error {
	if p.dir < 0 || p.dir >= dirs || p.off < pageBytes || p.size <= 0 || p.keys <= 0 || p.off > math.MaxInt64-p.size {
		return fmt.Errorf("invalid part %+v with %d directories", p, dirs)
	}
	return nil
}
