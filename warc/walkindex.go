package warc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

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
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return fmt.Errorf("warc: walk indexes: %w", err)
	}
	slices.SortStableFunc(all, func(a, b outfile.Content) int { return cmp.Compare(a.Name, b.Name) })
	for i := range all {
		s := all[i].Streams[indexStream]
		if s.Path == "" && s.Tail.Len == 0 {
			continue
		}
		b, err := s.Open(opt.Set.FS, opt.State)
		if err == nil {
			err = fn(&Index{Name: all[i].Name, x: &indexFile{b: b, path: s.Path}})
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

// Lines calls fn with each line, in the order of the file, valid during the call.
func (i *Index) Lines(fn func(line []byte) error) error {
	return i.x.lines(0, fn)
}

// Parse parses a line, and also returns the SURT key at its beginning.
func (i *Index) Parse(line []byte) (surt []byte, x *Indexed, err error) {
	x, err = i.x.parse(line)
	if err != nil {
		return nil, nil, &disk.CorruptError{Path: i.x.path, Want: "a line of the index", Got: err.Error()}
	}
	surt, _, _ = bytes.Cut(line, []byte{' '})
	return surt, x, nil
}
