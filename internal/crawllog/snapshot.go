package crawllog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Snapshot is what a log has on disk at one moment: the files that a state names, those that were begun
// since, and the lines that are in no file yet. It stays valid while the crawl continues: files only grow, or
// get their final names, and the bytes of the checkpoint's tail file are in RAM, at most 320 KiB.
type Snapshot struct {
	// Damage is what the state names and the disk lacks. A crawl that made a checkpoint meanwhile has deleted
	// the tail file: take the snapshot again with the new state.
	Damage []error
	// Absent is the number of files that are not there, of all Of that the state covers: they were moved
	// away, or are lost.
	Absent, Of int64

	opt   Options
	next  int64 // serial of the next file as of the state
	parts []part
	lines []byte // they follow the last frame that the state covers
	tails string // path of the tail file with lines
	off   int64  // of lines in the tail file
}

// part is a file of a log.
type part struct {
	serial int64
	name   string // without suffix
	path   string // final path
	begun  time.Time
	size   int64  // bytes on disk
	known  int64  // of these, those that the state covers
	tail   []byte // they follow the known ones
	open   bool   // it had no final name
}

// covered returns the number of bytes that the state covers. At this offset a frame ends.
func (p *part) covered() int64 { return p.known + int64(len(p.tail)) }

// length returns the number of bytes that can be read.
func (p *part) length() int64 {
	if p.size < p.known { // damage: the tail does not follow
		return p.size
	}
	return max(p.size, p.covered())
}

// file returns the path of the file.
func (p *part) file() string {
	if p.open {
		return p.path + outfile.OpenSuffix
	}
	return p.path
}

// comparePart sorts parts in the order of writing.
func comparePart(a, b *part) int {
	return cmp.Or(cmp.Compare(a.serial, b.serial), cmp.Compare(a.name, b.name))
}

// TakeSnapshot lists what a log has on disk; st is its state in the manifest, nil if there is none. The
// crawl may be running. An error that wraps fs.ErrNotExist means that a file was moved meanwhile: try again.
func TakeSnapshot(opt Options, st *State) (*Snapshot, error) {
	if err := opt.defaults(); err != nil {
		return nil, err
	}
	s := &Snapshot{opt: opt}
	if st == nil {
		return s, nil
	}
	if st.V != stateVersion {
		return nil, fmt.Errorf("crawllog: snapshot: state of version %d, want %d", st.V, stateVersion)
	}
	s.next = int64(st.Files.Serial)
	var err error
	if s.lines, err = disk.ReadTail(opt.State, st.Lines); err != nil {
		s.Damage = append(s.Damage, err)
	}
	if len(s.lines) > 0 {
		s.tails, s.off = disk.TailPath(opt.State, st.Lines.Dir, st.Lines.Gen), st.Lines.Off
	}
	// Open files are listed before final ones, so a file that becomes final meanwhile is in one of the lists.
	files, err := opt.Set.FS.List(opt.Set.Path(0, subdir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("crawllog: snapshot: %w", err)
	}
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return nil, fmt.Errorf("crawllog: snapshot: %w", err)
	}
	s.Absent, s.Of = outfile.Absent(all, &st.Files, 0)
	named := map[string]bool{}
	for i := range all {
		named[all[i].Name] = true
		s.add(&all[i])
	}
	for _, file := range files {
		name, isOpen := strings.CutSuffix(file, suffix+outfile.OpenSuffix)
		if p, ok := s.newPart(name); isOpen && ok && !named[name] { // begun since the state
			if err := s.measure(&p); err != nil {
				return nil, fmt.Errorf("crawllog: snapshot: %w", err)
			}
			s.parts = append(s.parts, p)
		}
	}
	slices.SortFunc(s.parts, func(a, b part) int { return comparePart(&a, &b) })
	return s, nil
}

// newPart returns a part by its name without suffix; ok is false for a name that no log gives.
func (s *Snapshot) newPart(name string) (p part, ok bool) {
	p = part{serial: serial(name+suffix, s.opt.Prefix), name: name, path: s.opt.Set.Path(0, subdir, name+suffix)}
	stamp := strings.TrimPrefix(name, s.opt.Prefix+"-")
	if n := len(stamp14); len(stamp) > n {
		p.begun, _ = time.Parse(stamp14, stamp[:n]) // zero, if it is no time: the file is then always read
	}
	return p, p.serial >= 0
}

// add adds a volume that is final or that the state names.
func (s *Snapshot) add(c *outfile.Content) {
	p, ok := s.newPart(c.Name)
	in := c.Streams[0]
	switch {
	case !ok || in.Path == "" && in.Tail.Len == 0: // a foreign file, or one that was moved away
		return
	case c.Final:
		p.size = in.Size
		if p.serial < s.next {
			p.known = in.Size
		}
		s.parts = append(s.parts, p)
		return
	}
	var err error
	if p.tail, err = disk.ReadTail(s.opt.State, in.Tail); err != nil {
		s.Damage = append(s.Damage, err)
	}
	p.known = in.Size
	if err = s.measure(&p); errors.Is(err, fs.ErrNotExist) && p.known == 0 {
		err = nil // all is in the tail
	}
	if err == nil && p.size < p.known {
		err = &disk.CorruptError{Path: p.file(), Offset: p.size,
			Want: fmt.Sprintf("%d bytes", p.known), Got: fmt.Sprintf("%d bytes", p.size)}
	}
	if err != nil {
		s.Damage = append(s.Damage, err)
	}
	s.parts = append(s.parts, p)
}

// measure sets size and open of a part that is or was open.
func (s *Snapshot) measure(p *part) (err error) {
	p.open = true
	p.size, err = s.opt.Set.FS.Size(p.path + outfile.OpenSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		var size int64
		if size, err = s.opt.Set.FS.Size(p.path); err == nil {
			p.size, p.open = size, false // final since
		}
	}
	return err
}

// openPart opens a file under its present name; the name becomes final at a checkpoint.
func (s *Snapshot) openPart(p *part) (disk.File, error) {
	f, err := s.opt.Set.FS.OpenRead(p.file())
	if errors.Is(err, fs.ErrNotExist) && p.open {
		f, err = s.opt.Set.FS.OpenRead(p.path)
	}
	return f, err
}
