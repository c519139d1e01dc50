package baselines

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"drumbeat/disk"
)

// files holds the open files of a store.
type files struct {
	fs   disk.FS
	dir  string
	open []disk.File
}

// create creates a file.
func (fl *files) create(name string) (disk.File, error) {
	f, err := fl.fs.Create(path.Join(fl.dir, name))
	if err == nil {
		fl.open = append(fl.open, f)
	}
	return f, err
}

// remove closes and deletes a file.
func (fl *files) remove(f disk.File) error {
	fl.open = slices.DeleteFunc(fl.open, func(g disk.File) bool { return g == f })
	return errors.Join(f.Close(), fl.fs.Remove(f.Name()))
}

// close closes all files.
func (fl *files) close() error {
	var errs []error
	for _, f := range fl.open {
		errs = append(errs, f.Close())
	}
	fl.open = nil
	return errors.Join(errs...)
}

// seenFile is the sorted file of all known keys or texts. Every merge writes a new version.
type seenFile struct {
	files    *files
	f        disk.File // nil: nothing is known yet
	bytes    int64
	versions int
	keys     int64
}

// create creates the next version.
func (s *seenFile) create() (disk.File, error) {
	s.versions++
	return s.files.create(fmt.Sprintf("seen-%d", s.versions))
}

// replace makes f the current version, with the given bytes and number of keys.
func (s *seenFile) replace(f disk.File, bytes, keys int64) error {
	old := s.f
	s.f, s.bytes, s.keys = f, bytes, keys
	if old == nil {
		return nil
	}
	return s.files.remove(old)
}

// merge writes a new version. write gets a reader of the current version and a writer of the next, and
// returns the number of keys added. The buffers are two for the reader, with room bytes in front of each
// chunk, and two for the writer.
func (s *seenFile) merge(
	st *Stats, room int, bufs [][]byte, write func(r *reader, w *writer) (added int64, err error),
) error {
	f, err := s.create()
	if err != nil {
		return err
	}
	r, w := newReader(s.f, s.bytes, room, bufs[0], bufs[1]), newWriter(f, bufs[2], bufs[3])
	added, err := write(r, w)
	r.stop()
	if err == nil {
		err = w.finish()
	}
	if err := errors.Join(err, w.stop()); err != nil {
		return err
	}
	st.Merges++
	st.MergeBytes += s.bytes + w.size()
	st.MergeKeys += 2*s.keys + added
	st.FileBytes = w.size()
	return s.replace(f, w.size(), s.keys+added)
}
