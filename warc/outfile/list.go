package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"drumbeat/disk"
)

// Content is one volume on disk: a final one, or one that a state names.
type Content struct {
	Dir  int
	Name string // without suffix
	// Final says that no state is needed. Otherwise Serial is the one in the state.
	Final   bool
	Serial  uint64
	Streams []StreamContent // in the order of Options.Streams
}

// StreamContent locates the bytes of one stream: the first Size bytes of the file Path, followed by Tail.
type StreamContent struct {
	// Path is "" if there is no such file. The file of a final volume was then moved away.
	Path string
	Size int64
	Tail disk.Ref
	// Suffix is that of the file; "" if it was moved away and no state names it.
	Suffix string
	// Moved says that a state names the file and it is neither open nor final.
	Moved bool
	// Changed says that the file is final and Stream.Finish has changed it.
	Changed bool
}

// NoState returns a state that names no volume, with which List returns the final ones.
func NoState() *State { return &State{V: stateVersion} }

// List returns the final volumes, by directory and name, followed by those that st names and that are not
// final. It ignores files with other prefixes. It changes nothing.
func List(opt Options, st *State) ([]Content, error) {
	if err := st.check(&opt); err != nil {
		return nil, fmt.Errorf("outfile: list: %w", err)
	}
	var all []Content
	named := map[string]bool{}
	for _, v := range st.Volumes {
		c := Content{Dir: v.Dir, Name: v.Name, Serial: v.Serial}
		named[v.Name] = true
		for i, want := range v.Streams {
			s, err := contentOf(opt, v, i, want)
			if err != nil {
				return nil, err
			}
			c.Streams = append(c.Streams, s)
		}
		all = append(all, c)
	}
	var finals []Content
	for dir := range opt.Set.Paths {
		list, err := listFinal(opt, dir, named)
		if err != nil {
			return nil, err
		}
		finals = append(finals, list...)
	}
	return append(finals, all...), nil
}

// contentOf locates the file of a stream of a volume that a state names.
func contentOf(opt Options, v Volume, i int, want StreamState) (StreamContent, error) {
	suffix := opt.Streams[i].suffix(want.Form)
	final := opt.Set.Path(v.Dir, opt.Sub, v.Name+suffix)
	s := StreamContent{Path: final + OpenSuffix, Size: want.Size, Tail: want.Tail, Suffix: suffix}
	if want.Size == 0 {
		s.Path = ""
		return s, nil
	}
	_, err := opt.Set.FS.Size(s.Path)
	if !errors.Is(err, fs.ErrNotExist) || !v.Closed {
		return s, nil // a missing file here is damage, not a move
	}
	size, err := opt.Set.FS.Size(final)
	if errors.Is(err, fs.ErrNotExist) {
		return StreamContent{Suffix: suffix, Moved: true}, nil
	}
	if err != nil {
		return s, fmt.Errorf("outfile: list: %w", err)
	}
	return StreamContent{Path: final, Size: size, Changed: opt.Streams[i].Finish != nil, Suffix: suffix}, nil
}

// Absent returns how many files of a stream are not there, of all that st covers: they were moved away, or
// are lost. all is what List returned for st.
func Absent(all []Content, st *State, stream int) (absent, of int64) {
	there := int64(0)
	for i := range all {
		if s := &all[i].Streams[stream]; all[i].Final && s.Path != "" || !all[i].Final && !s.Moved {
			there++
		}
	}
	of = int64(st.Serial - st.Unused)
	return max(0, of-there), of
}

func listFinal(opt Options, dir int, named map[string]bool) ([]Content, error) {
	names, err := opt.Set.FS.List(opt.Set.Path(dir, opt.Sub))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("outfile: list: %w", err)
	}
	byName := map[string]*Content{}
	var order []string
	for _, file := range names {
		for i, stream := range opt.Streams {
			name, suffix := cutSuffix(file, stream.suffixes())
			if suffix == "" || !strings.HasPrefix(name, opt.Prefix+"-") || named[name] {
				continue
			}
			c := byName[name]
			if c == nil {
				c = &Content{Dir: dir, Name: name, Final: true, Streams: make([]StreamContent, len(opt.Streams))}
				byName[name] = c
				order = append(order, name)
			}
			path := opt.Set.Path(dir, opt.Sub, file)
			size, err := opt.Set.FS.Size(path)
			if err != nil {
				return nil, fmt.Errorf("outfile: list: %w", err)
			}
			c.Streams[i] = StreamContent{Path: path, Size: size, Changed: stream.Finish != nil, Suffix: suffix}
		}
	}
	slices.Sort(order)
	list := make([]Content, 0, len(order))
	for _, name := range order {
		list = append(list, *byName[name])
	}
	return list, nil
}

// cutSuffix splits a file name before the one of the suffixes that ends it; "": none does.
func cutSuffix(file string, suffixes []string) (name, suffix string) {
	for _, s := range suffixes {
		if name, ok := strings.CutSuffix(file, s); ok {
			return name, s
		}
	}
	return file, ""
}

// Bytes is the content of a stream for random access. Close it.
type Bytes struct {
	f    disk.File
	size int64
	tail []byte
}

// NewBytes returns the first size bytes of a file, which may be nil if size is 0, followed by tail. Close
// closes the file.
func NewBytes(f disk.File, size int64, tail []byte) *Bytes {
	return &Bytes{f: f, size: size, tail: tail}
}

// Open opens the content of a stream. A file shorter than the state says and a damaged tail are
// *disk.CorruptErrors; the rest remains readable.
func (s StreamContent) Open(fsys disk.FS, state disk.Set) (*Bytes, error) {
	b := &Bytes{size: s.Size}
	var errs []error
	if s.Path != "" {
		f, err := fsys.OpenRead(s.Path)
		if err != nil {
			return nil, err
		}
		size, err := f.Size()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if size < s.Size {
			errs = append(errs, &disk.CorruptError{
				Path: s.Path, Offset: size, Want: fmt.Sprintf("%d bytes", s.Size), Got: fmt.Sprintf("%d bytes", size),
			})
			b.size = size
		}
		b.f = f
	}
	tail, err := disk.ReadTail(state, s.Tail)
	if len(errs) == 0 {
		b.tail = tail
	}
	return b, errors.Join(append(errs, err)...)
}

// Size returns the length in bytes.
func (b *Bytes) Size() int64 { return b.size + int64(len(b.tail)) }

// ReadAt implements io.ReaderAt.
func (b *Bytes) ReadAt(p []byte, off int64) (n int, err error) {
	if off < b.size {
		n, err = b.f.ReadAt(p[:min(int64(len(p)), b.size-off)], off)
		if err != nil && int64(n) < min(int64(len(p)), b.size-off) {
			return n, err
		}
		off += int64(n)
	}
	if n < len(p) && off-b.size < int64(len(b.tail)) {
		n += copy(p[n:], b.tail[off-b.size:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close closes the file.
func (b *Bytes) Close() error {
	if b.f == nil {
		return nil
	}
	return b.f.Close()
}

// Whole reports whether a Store could be opened with a volume: its files have the expected lengths, and
// their tails are readable.
func Whole(opt Options, v Volume) bool {
	if v.Dir < 0 || v.Dir >= opt.Set.Len() || len(v.Streams) != len(opt.Streams) {
		return false
	}
	for i, want := range v.Streams {
		if want.Form < 0 || want.Form > len(opt.Streams[i].Forms) {
			return false
		}
		c, err := contentOf(opt, v, i, want)
		if err != nil {
			return false
		}
		if v.Closed && !strings.HasSuffix(c.Path, OpenSuffix) {
			continue // final or moved away
		}
		b, err := c.Open(opt.Set.FS, opt.State)
		if b != nil {
			err = errors.Join(err, b.Close())
		}
		if err != nil {
			return false
		}
		if size, err := opt.Set.FS.Size(c.Path); v.Closed && (err != nil || size != want.Size) {
			return false
		}
	}
	return true
}

// OpenFiles returns the paths of a volume's files while it is not final.
func OpenFiles(opt Options, v Volume) []string {
	var paths []string
	for i, s := range opt.Streams {
		form := 0
		if i < len(v.Streams) {
			form = v.Streams[i].Form
		}
		paths = append(paths, opt.Set.Path(v.Dir, opt.Sub, v.Name+s.suffix(form)+OpenSuffix))
	}
	return paths
}
