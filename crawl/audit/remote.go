package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/internal/bug"
	"drumbeat/internal/objstore"
)

// Remote says what Deep does about files that are in an object store, and no longer here.
type Remote string

// These are the values of Options.Remote.
const (
	RemoteHead Remote = "head" // ask the store for size and checksums of each object, and read the logs; the default
	RemoteRead Remote = "read" // also read every record of WARC files there
	RemoteOff  Remote = "off"  // do not use the store
)

// RemoteReport is the part of a deep audit about the object store.
type RemoteReport struct {
	Store   string // "" if the crawl has none
	Mode    Remote
	Objects int64 // that the store should have
	Checked int64 // that it was asked for
	Unread  int64 // WARC files that are only there, and were not read
}

// hide returns which objects are not read when the local file is gone.
func (m Remote) hide() func(*state.Object) bool {
	switch m {
	case RemoteRead:
		return nil
	case RemoteOff:
		return func(*state.Object) bool { return true }
	}
	return func(o *state.Object) bool { return !o.Log }
}

// headsAtOnce is the number of requests at once; headTime limits one.
const (
	headsAtOnce = 16
	headTime    = time.Minute
)

// objects asks the store for each object. Objects that are missing or differ are damage; a store that does not answer is an
// error.
func (x *Scanner) objects() error {
	store := x.Manifest.Store
	if store == nil {
		return nil
	}
	out := &x.Report.Output.Remote
	out.Store, out.Mode, out.Objects = store.String(), x.opt.remote(), int64(len(x.Saved.Objects))
	for i := range x.Saved.Objects {
		o := &x.Saved.Objects[i]
		path := o.Path(x.Saved.Set, x.Saved.Out)
		if o.Log || strings.HasSuffix(o.File, ".cdxj") || path == "" || out.Mode == RemoteRead {
			continue
		}
		if _, err := x.Saved.Meter.Size(path); errors.Is(err, fs.ErrNotExist) {
			out.Unread++
		}
	}
	if out.Mode == RemoteOff || len(x.Saved.Objects) == 0 {
		return nil
	}
	x.Begin(state.NameObjects)
	b, err := x.Saved.OpenBucket()
	if err != nil {
		return err
	}
	found := make([]error, len(x.Saved.Objects))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range headsAtOnce {
		workers.Go(func() {
			defer bug.Fatal()
			for i := range next {
				var failed error
				if found[i], failed = x.look(ctx, b, &x.Saved.Objects[i]); failed != nil {
					cancel(failed)
				}
			}
		})
	}
	for i := range x.Saved.Objects {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("crawl: audit of %s: %w (--remote off leaves it out)", store, err)
	}
	for _, err := range found {
		out.Checked++
		if err != nil {
			if err := x.damage(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// look asks the store for an object. damage says how it differs.
func (x *Scanner) look(ctx context.Context, b objstore.Bucket, o *state.Object) (damage, err error) {
	ctx, cancel := context.WithTimeout(ctx, headTime)
	defer cancel()
	key := x.Manifest.Store.Key(x.Manifest.Crawl, o.File)
	at := objstore.Scheme + x.Manifest.Store.Bucket + "/" + key
	found, err := b.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotExist) {
		return &disk.CorruptError{Path: at, Want: fmt.Sprintf("an object of %d bytes", o.Size), Got: "none"}, nil
	}
	if err != nil {
		return nil, err
	}
	if diff := o.Sums().Same(found); diff != nil {
		return &disk.CorruptError{Path: at, Want: "the object that was put", Got: diff.Error()}, nil
	}
	return nil, nil
}

// remote returns the mode.
func (o *Options) remote() Remote {
	if o.Remote == "" {
		return RemoteHead
	}
	return o.Remote
}
