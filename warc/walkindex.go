package warc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Index is the index of one WARC file.
type Index struct {
	Name string // of the WARC file, without ".warc" and what follows
	x    *indexFile
}

// WalkIndexes calls fn for the index of each WARC file that st covers, in the order of their names. It leaves
// out indexes that were moved away. It changes nothing.
func WalkIndexes(opt Options, st *State, fn func(x *Index) error) error {
	opt.defaults()
	return walkIndexes(&opt, &st.Files, func(string) bool { return false }, fn)
}

// WalkFinal is WalkIndexes for the WARC files that have their final names, which needs no state and may be
// called while a Writer adds others. It leaves out the files whose names skip reports.
func WalkFinal(opt Options, skip func(name string) bool, fn func(x *Index) error) error {
	opt.defaults()
	return walkIndexes(&opt, outfile.NoState(), skip, fn)
}

func walkIndexes(opt *Options, st *outfile.State, skip func(name string) bool, fn func(x *Index) error) error {
	all, err := outfile.List(opt.outfile(), st)
	if err != nil {
		return fmt.Errorf("warc: walk indexes: %w", err)
	}
	slices.SortStableFunc(all, func(a, b outfile.Content) int { return cmp.Compare(a.Name, b.Name) })
	for i := range all {
		s := all[i].Streams[indexStream]
		if s.Path == "" && s.Tail.Len == 0 || skip(all[i].Name) {
			continue
		}
		b, err := s.Open(opt.Set.FS, opt.State)
		if err == nil {
			err = fn(&Index{Name: all[i].Name, x: &indexFile{b: b, path: s.Path, data: all[i].Streams[dataStream]}})
		}
		if b != nil {
			err = errors.Join(err, b.Close())
		}
		if err != nil {
			return fmt.Errorf("warc: walk index of %s: %w", all[i].Name, err)
		}
	}
	return nil
}

// WithoutIndex returns the names of the WARC files that are there although their indexes were moved away.
func WithoutIndex(opt Options, st *State) (files []string, err error) {
	opt.defaults()
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return nil, fmt.Errorf("warc: list files: %w", err)
	}
	for i := range all {
		index, data := &all[i].Streams[indexStream], &all[i].Streams[dataStream]
		if index.Path == "" && index.Tail.Len == 0 && data.Path != "" {
			files = append(files, all[i].Name+data.Suffix)
		}
	}
	return files, nil
}

// AbsentIndexes returns how many indexes are not there, of all that st covers: they were moved away, or are lost.
func AbsentIndexes(opt Options, st *State) (absent, of int64, err error) {
	opt.defaults()
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return 0, 0, fmt.Errorf("warc: list files: %w", err)
	}
	absent, of = outfile.Absent(all, &st.Files, indexStream)
	return absent, of, nil
}

// File returns the name of the WARC file; without a suffix if it was moved away.
func (i *Index) File() string { return i.Name + i.x.data.Suffix }

// Lines calls fn with each line, in the order of the file, valid during the call.
func (i *Index) Lines(fn func(line []byte) error) error { return i.x.lines(0, fn) }

// Parse parses a line.
func (i *Index) Parse(line []byte) (*Indexed, error) {
	x, err := i.x.parse(line)
	if err != nil {
		return nil, &disk.CorruptError{Path: i.x.path, Want: "a line of the index", Got: err.Error()}
	}
	return x, nil
}

// Data is a WARC file, open for reading the records that its index lists. Records may be opened by several
// goroutines. Close it after the last of them.
type Data struct {
	File string // name
	path string
	size int64
	b    *outfile.Bytes
	head decoder // with the dictionary of the file

	mu   sync.Mutex // guards idle
	idle []*opener
}

// maxIdle bounds the openers that a Data keeps, 140 KiB each; for zst files up to 8 MiB.
const maxIdle = 2

// Data opens the WARC file of the index. It returns ErrMoved if it was moved away.
func (i *Index) Data(opt Options) (*Data, error) { return openData(&opt, i.Name, i.x.data) }

// Open opens the WARC file for reading single records. It returns ErrMoved if it was moved away.
func (v *Volume) Open() (*Data, error) { return openData(v.opt, v.Name, v.c.Streams[dataStream]) }

func openData(opt *Options, name string, s outfile.StreamContent) (*Data, error) {
	if !there(&s) {
		return nil, fmt.Errorf("warc: open %s: %w", name, ErrMoved)
	}
	b, err := s.Open(opt.Set.FS, opt.State)
	if b == nil {
		return nil, fmt.Errorf("warc: open %s: %w", name, err)
	}
	// A file that is shorter than the manifest says still has its first records.
	return &Data{File: name + s.Suffix, path: s.Path, size: s.Size + s.Tail.Len, b: b, head: *fileDecoder(b)}, nil
}

// Size returns the length of the file in bytes, as the state says.
func (d *Data) Size() int64 { return d.size }

// Reader reads the file from its beginning to its end.
func (d *Data) Reader() *io.SectionReader { return io.NewSectionReader(d.b, 0, d.b.Size()) }

// Record opens a record, as OpenStored does.
func (d *Data) Record(x *Indexed) (*StoredRecord, error) {
	r := &StoredRecord{file: d.b, path: d.path, data: d, opener: d.take()}
	if err := r.open(x); err != nil {
		return nil, errors.Join(r.damage(x.Offset, err), r.Close())
	}
	return r, nil
}

// take returns an opener for the file.
func (d *Data) take() *opener {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.idle); n > 0 {
		o := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return o
	}
	dec := d.head // the dictionary is shared, and only read
	return newOpener(&dec)
}

// give takes an opener back.
func (d *Data) give(o *opener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o != nil && len(d.idle) < maxIdle {
		d.idle = append(d.idle, o)
	} else if o != nil {
		o.close()
	}
}

// Close closes the file. All records of it are closed.
func (d *Data) Close() error {
	for _, o := range d.idle {
		o.close()
	}
	return d.b.Close()
}
