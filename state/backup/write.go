package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/drum"
)

// absent is the size of a loose file that was not there.
const absent = -1

// isIndex reports whether a file is the index of a WARC file, which is sorted when it becomes final.
func isIndex(name string) bool { return strings.HasSuffix(name, ".cdxj") }

// writer copies the files of a job into packs.
type writer struct {
	ctx   context.Context
	b     *Backup
	j     *Job
	buf   []byte // of the pack under way
	held  []heldPiece
	began time.Time
	read  int64
	packs int
}

// heldPiece is a piece of the pack under way.
type heldPiece struct {
	at int // index in list.Files
	p  piece
}

// copyAll copies what the job lacks. It stops at the first error.
func (w *writer) copyAll(fsys disk.FS, open func(path string) (disk.File, error), done func(path string)) error {
	for i := range w.j.todo {
		t := &w.j.todo[i]
		var err error
		if t.file.Loose {
			err = w.copyLoose(fsys, t)
		} else if err = w.copyFile(open, t); err == nil {
			done(t.file.Path)
		}
		if err != nil {
			return fmt.Errorf("backup: copy %s: %w", t.file.Path, err)
		}
	}
	return nil
}

func (w *writer) copyFile(open func(path string) (disk.File, error), t *task) error {
	f, err := open(t.file.Path)
	if err != nil {
		return err
	}
	for _, r := range t.missing {
		if err = w.add(f, t.at, r); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// copyLoose copies a file that no checkpoint names, unless the last backup has the same bytes.
func (w *writer) copyLoose(fsys disk.FS, t *task) error {
	to := &w.j.list.Files[t.at]
	f, err := fsys.OpenRead(t.file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		*to = listed{Size: absent}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	sum, buf := xxhash.New(), make([]byte, min(size, readBytes))
	for off := int64(0); off < size; off += int64(len(buf)) {
		buf = buf[:min(size-off, readBytes)]
		if err := disk.ReadFull(f, buf, off); err != nil {
			return err
		}
		_, _ = sum.Write(buf) // a Digest returns no error
	}
	whole := []drum.Range{{N: size}}
	if size == 0 {
		whole = nil
	}
	_, missing := cover(to.Pieces, whole, nil)
	if to.Size == size && to.Sum == sum.Sum64() && len(missing) == 0 {
		return nil
	}
	to.Size, to.Sum, to.Pieces = size, sum.Sum64(), nil
	w.b.figures.total.Add(size)
	for _, r := range whole {
		if err := w.add(f, t.at, r); err != nil {
			return err
		}
	}
	return nil
}

// add copies a range of a file.
func (w *writer) add(f disk.File, at int, r drum.Range) error {
	if w.buf == nil {
		w.buf = make([]byte, 0, w.b.opt.PackBytes)
	}
	for r.N > 0 {
		n := min(r.N, int64(cap(w.buf)-len(w.buf)))
		off := len(w.buf)
		w.buf = w.buf[:off+int(n)]
		for done := int64(0); done < n; {
			part := w.buf[off+int(done) : off+int(min(n, done+readBytes))]
			if err := disk.ReadFull(f, part, r.Off+done); err != nil {
				w.buf = w.buf[:off]
				return err
			}
			done += int64(len(part))
			if err := w.pace(int64(len(part))); err != nil {
				return err
			}
		}
		w.held = append(w.held, heldPiece{at,
			piece{Off: int64(off), From: r.Off, N: n, Sum: xxhash.Sum64(w.buf[off:])}})
		w.b.figures.copied.Add(n)
		w.j.copied += n
		r.Off, r.N = r.Off+n, r.N-n
		if len(w.buf) == cap(w.buf) {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// pace waits until the rate allows n more bytes.
func (w *writer) pace(n int64) error {
	w.read += n
	if w.b.opt.BytesPerSecond <= 0 {
		return w.ctx.Err()
	}
	due := w.began.Add(time.Duration(float64(w.read) / float64(w.b.opt.BytesPerSecond) * float64(time.Second)))
	if wait := time.Until(due); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-w.ctx.Done():
		case <-t.C:
		}
	}
	return w.ctx.Err()
}

// flush puts the pack under way.
func (w *writer) flush() error {
	if len(w.held) == 0 {
		return nil
	}
	l := w.j.list
	p := pack{Name: packName(l.NextPack, l.Lineage), Bytes: int64(len(w.buf))}
	if err := w.b.retry(w.ctx, func() error { return w.b.opt.Place.Put(w.ctx, p.Name, w.buf) }); err != nil {
		return err
	}
	l.NextPack++
	l.Packs = append(l.Packs, p)
	for _, h := range w.held {
		to := &l.Files[h.at]
		h.p.Pack = len(l.Packs) - 1
		to.Pieces = append(slices.Clip(to.Pieces), h.p)
	}
	w.buf, w.held = w.buf[:0], w.held[:0]
	if w.packs++; w.packs%partialEvery == 0 {
		w.b.putPartial(w.ctx, l)
	}
	return nil
}
