package outfile

import (
	"errors"
	"fmt"
	"io/fs"

	"drumbeat/disk"
)

const stateVersion = 2

// State is the state of a Store in a manifest.
type State struct {
	V int
	// Serial is the serial of the next volume.
	Serial uint64
	// Unused is the number of serials below Serial whose volume was discarded or not yet attached. Open
	// deletes the files of the latter.
	Unused uint64 `json:",omitempty"`
	// Volumes are those that are not final, by serial.
	Volumes []Volume
}

// maxStreamBytes bounds the length of a stream in a state, so that sums do not overflow.
const maxStreamBytes = 1 << 50

// check verifies what Open, Walk and List depend on.
func (st *State) check(opt *Options) error {
	if st.V != stateVersion {
		return fmt.Errorf("state of version %d, want %d", st.V, stateVersion)
	}
	if st.Unused > st.Serial {
		return fmt.Errorf("state has %d unused serials of %d", st.Unused, st.Serial)
	}
	names, serials := map[string]bool{}, map[uint64]bool{}
	for i := range st.Volumes {
		v := &st.Volumes[i]
		ok := v.Dir >= 0 && v.Dir < opt.Set.Len() && len(v.Streams) == len(opt.Streams) && opt.owns(v.Name) &&
			!names[v.Name] && !serials[v.Serial] && v.Serial < st.Serial
		for i, s := range v.Streams {
			ok = ok && s.Form >= 0 && s.Form <= len(opt.Streams[i].Forms) && s.Size >= 0 && s.Size < maxStreamBytes &&
				(!v.Closed || s.Tail.Len == 0)
		}
		if !ok {
			return fmt.Errorf("state has an invalid volume %+v", *v)
		}
		names[v.Name], serials[v.Serial] = true, true
	}
	return nil
}

// Volume is a set of files that is not final.
type Volume struct {
	// Dir is the number of the output directory.
	Dir int
	// Serial is the volume's number in order of creation.
	Serial uint64
	// Name is the name of the files without suffix.
	Name string
	// Begun is the time of creation in Unix seconds.
	Begun int64
	// Closed says that nothing more will be appended.
	Closed bool
	// Streams are in the order of Options.Streams.
	Streams []StreamState
}

// StreamState is the content of one stream: the first bytes of the file, followed by a tail.
type StreamState struct {
	// Size is in bytes, without the tail.
	Size int64
	// Form is the number of the file's suffix.
	Form int `json:",omitempty"`
	// Tail is empty for closed volumes.
	Tail disk.Ref
}

// Frozen is the content of a Store at one moment. Only the newest one is valid.
type Frozen struct {
	store   *Store
	state   State
	buffers []frozenBuffer
}

// frozenBuffer is the part of a stream that was in RAM.
type frozenBuffer struct {
	volume, stream int
	lane           *Shard
	bytes          []byte
}

// Freeze records the content of all volumes without copying data.
func (s *Store) Freeze() *Frozen {
	f := &Frozen{store: s, state: State{V: stateVersion}}
	for _, l := range s.shards {
		l.mu.Lock()
		f.freezeLane(l)
		l.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.state.Volumes = append(f.state.Volumes, s.closed...)
	f.state.Serial, f.state.Unused = s.serial.Load(), s.unused+s.detached
	return f
}

func (f *Frozen) freezeLane(l *Shard) {
	if l.name == "" {
		return
	}
	v := Volume{Dir: l.dir, Serial: l.serial, Name: l.name, Begun: l.begun}
	for i := range l.streams {
		st := &l.streams[i]
		v.Streams = append(v.Streams, StreamState{Size: st.size, Form: st.form})
		st.pinned = nil // from an abandoned Frozen
		if len(st.buf) > 0 {
			st.pinned = f
			f.buffers = append(f.buffers, frozenBuffer{
				volume: len(f.state.Volumes), stream: i, lane: l, bytes: st.buf[:len(st.buf):len(st.buf)],
			})
		}
	}
	f.state.Volumes = append(f.state.Volumes, v)
}

// flushBytes is the least amount of buffered data that a checkpoint writes to the file. Less goes to the
// tail file.
const flushBytes = 32 << 10

// Save writes the buffered data to the files if there is much of it, and otherwise to the tail file in
// directory 0. It returns the state for the manifest.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	for _, b := range f.buffers {
		if err := f.flush(&b); err != nil {
			return nil, err
		}
		ref, err := tails.Write(0, b.bytes)
		if err != nil {
			return nil, f.store.fail(fmt.Errorf("outfile: save %s: %w", f.state.Volumes[b.volume].Name, err))
		}
		f.state.Volumes[b.volume].Streams[b.stream].Tail = ref
		b.lane.mu.Lock()
		if st := &b.lane.streams[b.stream]; st.pinned == f {
			st.pinned = nil
		}
		b.lane.mu.Unlock()
	}
	f.buffers = nil
	st := f.state
	st.Volumes = append([]Volume(nil), st.Volumes...)
	sortVolumes(st.Volumes)
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	return &st, f.store.err
}

// flush writes the whole blocks of a long buffer to its file, unless they were written since the Freeze.
func (f *Frozen) flush(b *frozenBuffer) error {
	n := len(b.bytes) / blockBytes * blockBytes
	if n < flushBytes {
		return nil
	}
	b.lane.mu.Lock()
	defer b.lane.mu.Unlock()
	st := &b.lane.streams[b.stream]
	if st.pinned != f {
		return nil
	}
	if err := b.lane.writeFile(b.stream, b.bytes[:n]); err != nil {
		return err
	}
	b.bytes = append([]byte(nil), b.bytes[n:]...) // copy, because the next lines overwrite it
	st.buf = st.buf[:copy(st.buf, st.buf[n:])]
	st.pinned = nil
	f.state.Volumes[b.volume].Streams[b.stream].Size += int64(n)
	return nil
}

// Commit gives the closed volumes of the state their final names. The state must be durable.
func (f *Frozen) Commit() error {
	s := f.store
	done := make(map[string]bool)
	for i := range f.state.Volumes {
		v := &f.state.Volumes[i]
		if !v.Closed {
			continue
		}
		if err := s.finish(v); err != nil {
			return s.fail(err)
		}
		done[v.Name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.closed[:0]
	for _, v := range s.closed {
		if !done[v.Name] {
			kept = append(kept, v)
		}
	}
	s.closed = kept
	return s.err
}

// finish gives the files of a closed volume their final names. It is idempotent: a file may already be
// final, moved or deleted.
func (s *Store) finish(v *Volume) error {
	fsys, changed := s.opt.Set.FS, false
	for i, stream := range s.opt.Streams {
		final := s.path(v.Dir, v.Name+stream.suffix(v.Streams[i].Form))
		open := final + OpenSuffix
		size, err := fsys.Size(open)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && size != v.Streams[i].Size {
			err = &disk.CorruptError{
				Path: open, Offset: size,
				Want: fmt.Sprintf("%d bytes", v.Streams[i].Size), Got: fmt.Sprintf("%d bytes", size),
			}
		}
		if err == nil && stream.Finish == nil {
			if err = s.setMode(open); err == nil {
				err = fsys.Rename(open, final)
			}
		} else if err == nil {
			err = s.rewrite(open, final, stream.Finish)
		}
		if err != nil {
			return fmt.Errorf("outfile: finish: %w", err)
		}
		changed = true
		s.finished.add(final, size)
	}
	if changed {
		if err := fsys.SyncDir(s.path(v.Dir, "")); err != nil {
			return fmt.Errorf("outfile: finish %s: %w", v.Name, err)
		}
	}
	return nil
}

// setMode sets the mode of a final file.
func (s *Store) setMode(path string) error {
	if s.opt.Mode == 0 {
		return nil
	}
	return disk.Chmod(s.opt.Set.FS, path, s.opt.Mode)
}

// rewrite writes the changed content of open to final, synced, and removes open.
func (s *Store) rewrite(open, final string, change func([]byte) []byte) error {
	fsys := s.opt.Set.FS
	if _, err := fsys.Size(final); errors.Is(err, fs.ErrNotExist) {
		data, err := disk.ReadFile(fsys, open)
		if err != nil {
			return err
		}
		if err := disk.WriteFileAtomic(fsys, final, change(data)); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := s.setMode(final); err != nil {
		return err
	}
	return fsys.Remove(open)
}
