package objstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/smithy-go"
)

// Purged is the result of Purge.
type Purged struct {
	Deleted int64 // objects and versions
	// Left are versions that are still there and have bytes. Unknown says that the store may have some and does not
	// name them. Why is the reason of both.
	Left    int64
	Unknown bool
	Why     string
}

// Whole reports whether nothing is left.
func (p *Purged) Whole() bool { return p.Left == 0 && !p.Unknown }

// Scope says what Purge deletes.
type Scope int

// The values of Scope.
const (
	PurgeAll   Scope = iota // the object with all its versions
	PurgeOld                // all but the latest version
	PurgeStray              // as PurgeAll, if there is an object: nothing has named one
)

// Purge deletes versions of an object and its unfinished uploads. What the store refuses to delete or to name is left,
// and no error. A bucket that keeps versions gets a delete marker for an object if something of it is left. After an
// error Purge may be repeated. Each call has its limit of time.
func Purge(ctx context.Context, b Bucket, key string, scope Scope) (p Purged, err error) {
	x := &purge{ctx: ctx, b: b, key: key, keep: scope == PurgeOld}
	if err := x.uploads(); err != nil {
		return p, fmt.Errorf("objstore: unfinished uploads of %s: %w", key, err)
	}
	there := true
	if scope == PurgeStray {
		there, err = x.there()
	}
	if err == nil && there {
		err = x.versions()
	}
	switch {
	case errors.Is(err, ErrUnsupported):
		err = x.plain(nil)
	case errors.Is(err, ErrDenied) && !x.listed:
		err = x.plain(err)
	}
	if err != nil {
		return p, fmt.Errorf("objstore: delete %s: %w", key, err)
	}
	return x.out, nil
}

// purge is the state of a Purge.
type purge struct {
	ctx    context.Context
	b      Bucket
	key    string
	keep   bool // the latest version
	listed bool // the store has named the versions
	out    Purged
}

// call makes a call with its limit.
func call[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return f(ctx)
}

// uploads aborts the uploads of the key: their parts have bytes of a file. Without the right to list them, the crawl
// could not have made one.
func (x *purge) uploads() error {
	ids, err := call(x.ctx, func(ctx context.Context) ([]string, error) { return x.b.Uploads(ctx, x.key) })
	if err != nil && !errors.Is(err, ErrDenied) && !errors.Is(err, ErrUnsupported) {
		return err
	}
	for _, id := range ids {
		if _, err := call(x.ctx, func(ctx context.Context) (int, error) {
			return 0, x.b.Abort(ctx, x.key, id)
		}); err != nil {
			return err
		}
	}
	return nil
}

// list returns the versions.
func (x *purge) list() ([]Version, error) {
	return call(x.ctx, func(ctx context.Context) ([]Version, error) { return x.b.Versions(ctx, x.key) })
}

// delete deletes a version. What the store refuses is left.
func (x *purge) delete(id string) (marker, refused bool, err error) {
	marker, err = call(x.ctx, func(ctx context.Context) (bool, error) { return x.b.Delete(ctx, x.key, id) })
	if errors.Is(err, ErrDenied) {
		x.out.Why = Reason(err)
		return false, true, nil
	}
	return marker, false, err
}

// versions deletes all versions: those with bytes first, so that a delete marker hides what is left.
func (x *purge) versions() error {
	all, err := x.list()
	if err != nil {
		return err
	}
	x.listed = true
	for _, v := range all {
		if v.Marker || x.keep && v.Latest {
			continue
		}
		_, refused, err := x.delete(v.ID)
		if err != nil {
			return err
		}
		if refused {
			x.out.Left++
		} else {
			x.out.Deleted++
		}
	}
	if x.keep {
		return nil
	}
	if x.out.Left > 0 {
		if hidden := all[0].Latest && all[0].Marker; !hidden {
			_, _, err = x.delete("")
		}
		return err
	}
	for _, v := range all {
		if !v.Marker {
			continue
		}
		if _, _, err := x.delete(v.ID); err != nil {
			return err
		}
	}
	if x.out.Deleted == 0 {
		return nil
	}
	left, err := x.list()
	for _, v := range left {
		if !v.Marker {
			return errors.New("the store still lists a version of it")
		}
	}
	return err
}

// plain deletes the object of a store that does not name its versions, for the reason why; nil: it has none.
func (x *purge) plain(why error) error {
	if x.keep {
		if why == nil {
			return nil
		}
		versioned, err := call(x.ctx, x.b.Versioned)
		if errors.Is(err, ErrUnsupported) || err == nil && !versioned {
			return nil
		}
		if err != nil && !errors.Is(err, ErrDenied) {
			return err
		}
		x.out.Unknown, x.out.Why = true, "cannot list versions: "+Reason(why)
		return nil
	}
	there, err := x.there()
	if err != nil || !there && why == nil {
		return err
	}
	marker, refused, err := x.delete("")
	switch {
	case err != nil:
		return err
	case refused:
		x.out.Left = 1
	case marker:
		x.out.Unknown, x.out.Why = true, "cannot list versions: "+Reason(why)
	case there:
		x.out.Deleted++
	}
	return nil
}

// there reports whether there is an object.
func (x *purge) there() (bool, error) {
	_, err := call(x.ctx, func(ctx context.Context) (*Object, error) { return x.b.Head(ctx, x.key) })
	if errors.Is(err, ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Reason returns what a store says about a call that it refuses.
func Reason(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return fmt.Sprintf("%s: %s", api.ErrorCode(), api.ErrorMessage())
	}
	return err.Error()
}
