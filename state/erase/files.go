package erase

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/warc"
)

// rewriteWARC rewrites the files of the plan, one after the other: a new file, with the name of the plan, is
// durable before the old one is deleted. Files that are not final are deleted with the state that names them.
func (x *run) rewriteWARC() (err error) {
	if len(x.volumes) == 0 {
		return nil
	}
	st, err := x.warcState()
	if err != nil {
		return err
	}
	here := map[string]*warc.Volume{}
	planned := map[string]bool{}
	for i := range x.volumes {
		planned[x.volumes[i].key()] = true
	}
	if err := warc.EachVolume(x.r.WARCFiles(), st, func(v *warc.Volume) error {
		if key := volumeKey(v.Dir, v.Name); planned[key] {
			here[key] = v
		}
		return nil
	}); err != nil {
		return err
	}
	refs, err := x.openRefs()
	if err != nil {
		return err
	}
	defer refs.close()
	defer func() {
		if x.bodies != nil {
			err = errors.Join(err, x.bodies.Close())
			x.bodies = nil
		}
	}()
	for i := range x.volumes {
		n := &x.volumes[i]
		of, err := refs.of(n.number)
		if err != nil {
			return err
		}
		if err := x.rewriteVolume(n, here[n.key()], of); err != nil {
			return err
		}
	}
	return nil
}

// shiftsDir has a file for each rewritten WARC file: where its records are now.
const shiftsDir = "shifts"

func (n *volume) nextIndex() string         { return n.Next + strings.TrimPrefix(n.IndexFile, n.Name) }
func (n *volume) key() string               { return volumeKey(n.Dir, n.Name) }
func volumeKey(dir int, name string) string { return fmt.Sprintf("%d/%s", dir, name) }
func (x *run) shiftsName(n *volume) string {
	return x.work(fmt.Sprintf("%s/%08d", shiftsDir, n.number))
}
func (x *run) warcPath(dir int, file string) string { return x.r.Out.Path(dir, "warc", file) }

// rewriteVolume rewrites a file, unless that is done. The old index goes before the old file: while that is
// there, all is done again.
func (x *run) rewriteVolume(n *volume, v *warc.Volume, refs map[int64]ref) error {
	if v == nil || n.Data && !v.HasData() {
		return x.remove(n.Dir, n.IndexFile)
	}
	stored := n.Data && x.remote.listed(n.Dir, n.File)
	need := v.Size()
	if stored {
		if done, err := x.remote.swapped(n.File); done || err != nil {
			return errors.Join(err, x.removeStored(n))
		}
		need *= 2 // the old file and the new one
	}
	if err := x.room(x.r.Out.Path(n.Dir, "warc"), n.File, need); err != nil {
		return err
	}
	if stored {
		if err := x.remote.download(n); err != nil {
			return err
		}
	}
	out, err := v.Rewrite(n.Next, func(p *warc.Piece) (warc.Edit, error) { return x.edit(p, refs) }, x.t.Text)
	if err != nil {
		return err
	}
	if !n.Data {
		return nil // the index has its name still
	}
	text, err := json.Marshal(out.Shifts)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	if err := disk.WriteFileAtomic(x.r.Set.FS, x.shiftsName(n), text); err != nil {
		return err
	}
	if stored {
		if err := x.remote.volume(n); err != nil {
			return err
		}
		return x.removeStored(n)
	}
	if !n.Final {
		return nil
	}
	if err := x.remove(n.Dir, n.IndexFile); err != nil {
		return err
	}
	return x.remove(n.Dir, n.File)
}

// removeStored removes the local files of a WARC file whose new form is in the store, but for the new index.
func (x *run) removeStored(n *volume) error {
	for _, file := range []string{n.IndexFile, n.File, n.NextFile} {
		if err := x.remove(n.Dir, file); err != nil {
			return err
		}
	}
	return nil
}

// room returns a *SpaceError if a disk has too little room for the copy of a file.
func (x *run) room(dir, file string, need int64) error {
	free, _, err := x.r.Meter.Space(dir)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	if need += spareBytes; free < need {
		return &SpaceError{Dir: dir, File: file, Need: need, Free: free}
	}
	return nil
}

// roomForAll checks, before anything changes, that there is room for the copy of each file.
func (x *run) roomForAll() error {
	for i := range x.volumes {
		n := &x.volumes[i]
		need := n.Bytes
		if n.Data && x.remote.listed(n.Dir, n.File) {
			need *= 2 // the old file and the new one
		}
		if err := x.room(x.r.Out.Path(n.Dir, "warc"), n.File, need); err != nil {
			return err
		}
	}
	return nil
}

// edit says what becomes of a record. refs are those of its file.
func (x *run) edit(p *warc.Piece, refs map[int64]ref) (e warc.Edit, _ error) {
	j := x.judge(p)
	switch e.Drop = j.drop; {
	case j.refers:
		r, ok := refs[p.Offset]
		switch {
		case !ok:
			return e, fmt.Errorf("BUG: erase: no plan for the revisit record at %d", p.Offset)
		case !r.Whole:
			e.Refers = &warc.Original{URL: []byte(r.URL), Date: time.Unix(r.Time, 0)}
			return e, nil
		}
		if x.bodies == nil {
			var err error
			if x.bodies, err = x.openWork("bodies"); err != nil {
				return e, err
			}
		}
		e.Whole, e.Payload = true, io.NewSectionReader(x.bodies.File, r.Offset, r.Bytes)
		got, err := warc.PayloadDigestOf(io.NewSectionReader(x.bodies.File, r.Offset, r.Bytes))
		if err != nil {
			return e, err
		}
		if got != r.Digest {
			return e, &disk.CorruptError{Path: x.work("bodies"), Offset: r.Offset, Want: r.Digest, Got: got}
		}
	case j.changes:
		e.Fields = j.fields
	}
	return e, nil
}

// remove removes an output file durably. If it is not there, a run that was killed may have removed it, but not
// durably.
func (x *run) remove(dir int, file string) error {
	return removeDurably(x.r.Meter, x.warcPath(dir, file))
}

func removeDurably(fsys disk.FS, name string) error {
	err := fsys.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = fsys.SyncDir(path.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return nil
}

// SpaceError says that a disk has no room for the copy of a file.
type SpaceError struct {
	Dir, File  string
	Need, Free int64 // bytes
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("erase: the copy of %s in %s needs %s, and %s are free: make room, and run the command again: "+
		"it continues", e.File, e.Dir, human.Bytes(e.Need), human.Bytes(e.Free))
}

// Unwrap returns syscall.ENOSPC.
func (e *SpaceError) Unwrap() error { return syscall.ENOSPC }

// refReader reads the work file "refs", which is in the order of the plan.
type refReader struct {
	in   *workFile // nil: there is none
	next []byte
}

func (x *run) openRefs() (*refReader, error) {
	in, err := x.openWork("refs")
	if errors.Is(err, fs.ErrNotExist) {
		return &refReader{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &refReader{in: in}
	return r, r.advance()
}

func (r *refReader) close() {
	if r.in != nil {
		r.in.Close()
	}
}

// advance reads the next row; nil after the last.
func (r *refReader) advance() error {
	r.next = nil
	n, err := binary.ReadUvarint(r.in.Reader)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && (n < 12 || n > 1<<20) {
		err = errors.New("a row of another length")
	}
	if err == nil {
		r.next = make([]byte, n)
		_, err = io.ReadFull(r.in.Reader, r.next)
	}
	if err != nil {
		return fmt.Errorf("erase: read %s: %w", r.in.Name(), err)
	}
	return nil
}

// of returns the rows of a file, by offset. Files are asked in the order of the plan.
func (r *refReader) of(number uint32) (map[int64]ref, error) {
	rows := map[int64]ref{}
	for r.in != nil && r.next != nil && binary.BigEndian.Uint32(r.next) == number {
		var one ref
		if err := json.Unmarshal(r.next[12:], &one); err != nil {
			return nil, fmt.Errorf("erase: read %s: %w", r.in.Name(), err)
		}
		rows[int64(binary.BigEndian.Uint64(r.next[4:]))] = one
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
