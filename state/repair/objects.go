package repair

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"drumbeat/disk"
	"drumbeat/internal/objstore"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// storedFiles are output files with one damaged or missing copy, here or in the object store, and one intact
// copy.
type storedFiles struct{ fetch, put []*audit.StoredFile }

// decideStore adds the actions for such files. A WARC file or log that is only in the store needs no action.
func (w *repair) decideStore(do func(string, ...any)) {
	words := map[audit.FileState]string{audit.FileDamaged: "damaged", audit.FileMissing: "missing"}
	fixed := int64(0)
	for i := range w.Stored {
		f := &w.Stored[i]
		switch here, there := words[f.Here], words[f.There]; {
		case f.There == audit.FileWhole && (f.Here == audit.FileDamaged || f.Here == audit.FileMissing && f.Index()):
			w.stored.fetch = append(w.stored.fetch, f)
			do("fetch %s from the object store: it is %s here", f.Path, here)
			if f.Here == audit.FileDamaged {
				fixed++
			}
		case f.Here == audit.FileWhole && there != "":
			w.stored.put = append(w.stored.put, f)
			do("put %s into the object store again: it is %s there", f.Path, there)
			fixed++
		}
	}
	for _, row := range w.Report.Structures {
		if left := row.Damages - fixed; row.Name == audit.NameStore && left > 0 {
			w.out.Left = append(w.out.Left,
				fmt.Sprintf("%s: %d damaged or missing files have no whole copy, here or there; "+
					"if you have copies, put them into the directory warc or log, and repair again", row.Name, left))
		}
	}
}

// mendStored carries these actions out. Each may be repeated, so a killed repair starts over.
func (w *repair) mendStored() error {
	if len(w.stored.fetch)+len(w.stored.put) == 0 {
		return nil
	}
	b, err := w.Saved.OpenBucket()
	if err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	for _, f := range w.stored.put {
		if err := w.putAgain(b, f); err != nil {
			return fmt.Errorf("crawl: repair: %w", err)
		}
		w.hook("repair")
	}
	for _, f := range w.stored.fetch {
		if err := w.fetch(b, f); err != nil {
			return fmt.Errorf("crawl: repair: fetch %s: %w", f.Path, err)
		}
		w.hook("repair")
	}
	return nil
}

// putAgain uploads an intact local file.
func (w *repair) putAgain(b objstore.Bucket, f *audit.StoredFile) error {
	file, err := w.Saved.Meter.OpenRead(f.Path)
	if err != nil {
		return err
	}
	defer file.Close() // read only
	u := objstore.Uploader{Bucket: b, Replace: f.There == audit.FileDamaged}
	ctx := context.Background()
	sums, err := u.Sum(ctx, file, f.Size)
	if err != nil {
		return err
	}
	if sums.SHA256 != f.SHA256 {
		return &disk.CorruptError{Path: f.Path, Want: f.SHA256, Got: sums.SHA256}
	}
	return u.Put(ctx, w.Manifest.Store.Key(w.Manifest.Crawl, f.File), file, sums, objstore.Upload{},
		func(objstore.Upload) {})
}

// fetchChunk is the size of the pieces in which a file is copied from the store.
const fetchChunk = 1 << 20

// fetch copies a file from the store, moves a damaged local file aside, and installs the copy. Nothing else
// changes until the copy is complete and durable.
func (w *repair) fetch(b objstore.Bucket, f *audit.StoredFile) (err error) {
	fsys, dir := w.Saved.Meter, path.Dir(f.Path)
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	tmp := f.Path + ".tmp"
	if err := Download(fsys, b, w.Manifest.Store.Key(w.Manifest.Crawl, f.File), tmp, f.Object); err != nil {
		return err
	}
	if f.Here == audit.FileDamaged {
		root := strings.TrimSuffix(dir, "/"+path.Base(dir))
		to := path.Join(root, asideDir(w.gen), path.Base(dir), f.File)
		if err := fsys.MkdirAll(path.Dir(to)); err != nil {
			return err
		}
		if err := fsys.Rename(f.Path, to); err != nil {
			return err
		}
		w.out.Aside = asideDir(w.gen)
	}
	if err := fsys.Rename(tmp, f.Path); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// Download copies an object to a file of the given name and makes it durable, if its checksum is that of the list of
// objects. It replaces a file of that name, and leaves none after an error.
func Download(fsys disk.FS, b objstore.Bucket, key, name string, o *state.Object) error {
	remote := objstore.Remote{Path: name, Key: key, Size: o.Size}
	from := objstore.NewOverlay(fsys, []objstore.Remote{remote}, func() (objstore.Bucket, error) { return b, nil })
	from.Ignore(name)
	src, err := from.OpenRead(name)
	if err != nil {
		return err
	}
	defer src.Close()                              // read only
	if err := removeFile(fsys, name); err != nil { // of a run that was killed
		return err
	}
	if err := copyWhole(fsys, name, src, o); err != nil {
		return errors.Join(err, removeFile(fsys, name))
	}
	return nil
}

func removeFile(fsys disk.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// copyWhole writes a file and makes it durable, if its checksum is that of the list of objects.
func copyWhole(fsys disk.FS, name string, src disk.File, o *state.Object) (err error) {
	dst, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	sha, buf := sha256.New(), make([]byte, fetchChunk)
	for off := int64(0); off < o.Size; {
		n, err := src.ReadAt(buf[:min(fetchChunk, o.Size-off)], off)
		if err != nil && err != io.EOF {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		sha.Write(buf[:n]) // never fails
		if _, err := dst.WriteAt(buf[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
	if got := hex.EncodeToString(sha.Sum(nil)); got != o.SHA256 {
		return &disk.CorruptError{Path: name, Want: "SHA-256 " + o.SHA256, Got: got}
	}
	return dst.Sync()
}
