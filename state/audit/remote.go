package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/bug"
	"drumbeat/internal/objstore"
	"drumbeat/state"
)

// Remote is the mode of Deep for files that are only in an object store.
type Remote string

// These are the values of Options.Remote.
const (
	// Ask the store for size and checksums of each object, and read logs and indexes; the default.
	RemoteHead Remote = "head"
	RemoteRead Remote = "read" // also read every record of WARC files there
	RemoteOff  Remote = "off"  // do not use the store
)

// RemoteReport is the part of a deep audit about the object store.
type RemoteReport struct {
	Store   string // "" if the crawl has none
	Mode    Remote
	Objects int64 // expected in the store
	Checked int64 // requested from the store
	Unread  int64 // WARC files that are only there, and were not read
}

// hide returns the objects that are not read when the local file is gone.
func (m Remote) hide() func(*state.Object) bool {
	switch m {
	case RemoteRead:
		return nil
	case RemoteOff:
		return func(*state.Object) bool { return true }
	}
	return (*state.Object).Data
}

// NameStore is the structure of the object store: its damage is that of files there, and of their copies
// here. state.NameObjects is the list of these files.
const NameStore = "object-store"

// FileState is the state of one of the two copies of a file.
type FileState uint8

// The values of FileState.
const (
	FileUnknown FileState = iota // not looked for
	FileWhole
	FileMissing
	FileDamaged // another size or checksum
)

// StoredFile is a file in the list of objects.
type StoredFile struct {
	*state.Object
	Path        string // here; "" if its directory was not given
	Here, There FileState
	here, there error // the damage
}

// headsAtOnce is the number of requests at once; headTime limits one.
const (
	headsAtOnce = 16
	headTime    = time.Minute
)

// objects compares the local and the stored copy of each file with the list of objects. A missing or
// different object is damage, and so is a different local file: if the store has it, the rest of the audit
// reads it there. A store that does not answer is an error.
func (x *Scanner) objects() error {
	store := x.Manifest.Store
	if store == nil {
		return nil
	}
	out := &x.Report.Output.Remote
	out.Store, out.Mode, out.Objects = store.String(), x.opt.remote(), int64(len(x.Saved.Objects))
	x.Begin(NameStore)
	x.Stored = make([]StoredFile, len(x.Saved.Objects))
	for i := range x.Saved.Objects {
		f := &x.Stored[i]
		f.Object, f.Path = &x.Saved.Objects[i], x.Saved.Objects[i].Path(x.Saved.Set, x.Saved.Out)
		if f.Path != "" {
			f.Here, f.here = x.lookHere(f)
		}
	}
	if err := x.lookThere(); err != nil {
		return fmt.Errorf("crawl: audit of %s: %w (--remote off leaves it out)", store, err)
	}
	for i := range x.Stored {
		f := &x.Stored[i]
		if f.Here == FileDamaged && f.There == FileWhole {
			x.Saved.Ignore(f.Path)
		}
		if f.There != FileUnknown {
			out.Checked++
		}
		if f.Data() && out.Mode != RemoteRead &&
			(f.Here == FileMissing || f.Here == FileDamaged && f.There == FileWhole) {
			out.Unread++
		}
		for _, err := range []error{f.here, f.there} {
			if err == nil {
				continue
			}
			if err := x.damage(err); err != nil {
				return err
			}
		}
	}
	x.row.Records = out.Objects
	return nil
}

// lookHere compares a file here with the list.
func (x *Scanner) lookHere(o *StoredFile) (FileState, error) {
	f, err := x.Saved.Meter.OpenRead(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return FileMissing, nil
	}
	if err != nil {
		return FileDamaged, err
	}
	defer f.Close() // read only
	size, err := f.Size()
	if err == nil && size != o.Size {
		err = &disk.CorruptError{Path: o.Path, Offset: min(size, o.Size), Got: fmt.Sprint(size),
			Want: fmt.Sprintf("%d bytes, as in the object store", o.Size)}
	}
	sha := sha256.New()
	if err == nil {
		_, err = io.Copy(sha, io.NewSectionReader(f, 0, size))
	}
	if got := hex.EncodeToString(sha.Sum(nil)); err == nil && got != o.SHA256 {
		err = &disk.CorruptError{Path: o.Path, Want: "SHA-256 " + o.SHA256 + ", as in the object store", Got: got}
	}
	if err != nil {
		return FileDamaged, err
	}
	return FileWhole, nil
}

// lookThere asks the store for all files.
func (x *Scanner) lookThere() error {
	if x.opt.remote() == RemoteOff || len(x.Stored) == 0 {
		return nil
	}
	b, err := x.Saved.OpenBucket()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	next := make(chan *StoredFile)
	var workers sync.WaitGroup
	for range headsAtOnce {
		workers.Go(func() {
			defer bug.Fatal()
			for f := range next {
				if err := x.ask(ctx, b, f); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range x.Stored {
		if ctx.Err() == nil {
			next <- &x.Stored[i]
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// ask asks the store for a file.
func (x *Scanner) ask(ctx context.Context, b objstore.Bucket, f *StoredFile) error {
	ctx, cancel := context.WithTimeout(ctx, headTime)
	defer cancel()
	key := x.Manifest.Store.Key(x.Manifest.Crawl, f.File)
	at := objstore.Scheme + x.Manifest.Store.Bucket + "/" + key
	found, err := b.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotExist) {
		f.There, f.there = FileMissing,
			&disk.CorruptError{Path: at, Want: fmt.Sprintf("an object of %d bytes", f.Size), Got: "none"}
		return nil
	}
	if err != nil {
		return err
	}
	f.There = FileWhole
	if diff := f.Sums().Same(found); diff != nil {
		f.There, f.there = FileDamaged, &disk.CorruptError{Path: at, Want: "the object that was put", Got: diff.Error()}
	}
	return nil
}

// remote returns the mode.
func (o *Options) remote() Remote {
	if o.Remote == "" {
		return RemoteHead
	}
	return o.Remote
}
