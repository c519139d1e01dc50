package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"drumbeat/disk"
)

// Detached is a volume that is written beside the lanes, for records that take too long to write under a
// lane's lock. No state names it before Attach, so after a crash Open deletes its files. It belongs to one
// goroutine.
type Detached struct {
	store *Store
	v     Volume
	files []disk.File // nil until the first write
}

// Detach begins a volume in the next directory. The caller ends it with Attach or Discard.
func (s *Store) Detach(now time.Time) (*Detached, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.detached++
	v := Volume{Dir: int(s.turn.Add(1)-1) % len(s.shards), Serial: s.serial.Add(1) - 1, Begun: now.Unix(), Closed: true,
		Streams: make([]StreamState, len(s.opt.Streams))}
	for i := range v.Streams {
		v.Streams[i].Form = s.opt.Streams[i].Form
	}
	v.Name = s.opt.Name(v.Serial, now)
	return &Detached{store: s, v: v, files: make([]disk.File, len(v.Streams))}, nil
}

// Dir returns the number of the volume's directory.
func (d *Detached) Dir() int { return d.v.Dir }

// File returns the final name of a stream's file.
func (d *Detached) File(i int) string {
	return d.v.Name + d.store.opt.Streams[i].suffix(d.v.Streams[i].Form)
}

// Size returns the length of a stream in bytes.
func (d *Detached) Size(i int) int64 { return d.v.Streams[i].Size }

// Write appends p to a stream, without a buffer. After an error only Discard may follow. Unlike a failed
// write to a lane, it leaves the store usable.
func (d *Detached) Write(i int, p []byte) error {
	if d.files[i] == nil {
		f, err := d.store.opt.Set.FS.Create(d.path(i))
		if err != nil {
			return fmt.Errorf("outfile: create %s: %w", d.path(i), err)
		}
		d.files[i] = f
	}
	st := &d.v.Streams[i]
	if _, err := d.files[i].WriteAt(p, st.Size); err != nil {
		return fmt.Errorf("outfile: write %d bytes to %s at %d: %w", len(p), d.path(i), st.Size, err)
	}
	begin := st.Size / behindBytes * behindBytes
	st.Size += int64(len(p))
	disk.WriteBehind(d.files[i], begin, st.Size/behindBytes*behindBytes-begin)
	return nil
}

func (d *Detached) path(i int) string { return d.store.path(d.v.Dir, d.File(i)+OpenSuffix) }

// Attach adds the volume to the store. It becomes final with the Commit of a state that is frozen later.
// Like Lane.Write it must not run during Freeze.
func (d *Detached) Attach() error {
	s := d.store
	if err := d.close(); err != nil {
		return s.fail(fmt.Errorf("outfile: close %s: %w", d.v.Name, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached--
	s.closed = append(s.closed, d.v)
	return s.err
}

// Discard deletes the files.
func (d *Detached) Discard() error {
	s := d.store
	s.mu.Lock()
	s.detached--
	s.unused++
	s.mu.Unlock()
	errs := []error{d.close()}
	for i := range d.files {
		if err := s.opt.Set.FS.Remove(d.path(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("outfile: discard %s: %w", d.path(i), err))
		}
	}
	return errors.Join(errs...)
}

func (d *Detached) close() error {
	var errs []error
	for _, f := range d.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
