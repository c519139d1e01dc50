package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/objstore"
)

// Place is where backups are: a directory, or a prefix of a bucket. Names are slash-separated. Implementations are
// safe for concurrent use of different names.
type Place interface {
	// Check returns an error that waiting cannot cure, such as missing rights, or a temporary one.
	Check(ctx context.Context) error
	// Put makes data the content of an object, durably and whole, also in place of another.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns the content of an object of at most limit bytes. It fails with fs.ErrNotExist if there is none.
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
	// Delete deletes an object with all its old versions. No such object is no error.
	Delete(ctx context.Context, name string) error
	// String names the place for people.
	String() string
}

// directory is a Place in a file system.
type directory struct {
	fs   disk.FS
	path string
}

// Directory returns the place in a directory, which Put creates.
func Directory(fsys disk.FS, dir string) Place { return &directory{fsys, path.Clean(dir)} }

func (d *directory) String() string { return d.path }

// Check implements Place.
func (d *directory) Check(context.Context) error {
	if err := d.fs.MkdirAll(d.path); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if _, err := disk.ReadIdentity(d.fs, d.path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backup: %s is a directory of a crawl: give another one", d.path)
	}
	return nil
}

// Put implements Place.
func (d *directory) Put(ctx context.Context, name string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file := path.Join(d.path, name)
	if err := d.fs.MkdirAll(path.Dir(file)); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := disk.WriteFileAtomic(d.fs, file, data); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// Get implements Place.
func (d *directory) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file := path.Join(d.path, name)
	if size, err := d.fs.Size(file); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	} else if size > limit {
		return nil, tooLong(file, size, limit)
	}
	data, err := disk.ReadFile(d.fs, file)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return data, nil
}

// Delete implements Place.
func (d *directory) Delete(_ context.Context, name string) error {
	if err := d.fs.Remove(path.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

func tooLong(name string, size, limit int64) error {
	return &disk.CorruptError{Path: name, Want: fmt.Sprintf("at most %d bytes", limit), Got: fmt.Sprintf("%d", size)}
}

// bucket is a Place in an object store.
type bucket struct {
	b     objstore.Bucket
	place objstore.Place
}

// Bucket returns the place at a prefix of a bucket.
func Bucket(b objstore.Bucket, p objstore.Place) Place { return &bucket{b, p} }

func (b *bucket) String() string { return b.place.String() }

func (b *bucket) key(name string) string { return strings.TrimPrefix(b.place.Prefix+"/"+name, "/") }

// callTime bounds a call that has few bytes, and readTime one that reads an object.
const (
	callTime = time.Minute
	readTime = 10 * time.Minute
)

// Check implements Place.
func (b *bucket) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := b.b.Check(ctx, b.key(packsDir)); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// Put implements Place.
func (b *bucket) Put(ctx context.Context, name string, data []byte) error {
	u := objstore.Uploader{Bucket: b.b, Replace: true}
	r := bytes.NewReader(data)
	sums, err := u.Sum(ctx, r, int64(len(data)))
	if err == nil {
		err = u.Put(ctx, b.key(name), r, sums, objstore.Upload{}, func(objstore.Upload) {})
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// Get implements Place.
func (b *bucket) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	o, err := b.b.Head(ctx, b.key(name))
	if errors.Is(err, objstore.ErrNotExist) {
		return nil, fmt.Errorf("backup: %s: %w", b.key(name), fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	if o.Size > limit {
		return nil, tooLong(b.key(name), o.Size, limit)
	}
	if o.Size == 0 {
		return nil, nil
	}
	r, err := b.b.Get(ctx, b.key(name), 0, o.Size)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	data := make([]byte, o.Size)
	_, err = io.ReadFull(r, data)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("backup: read %s: %w", b.key(name), err)
	}
	return data, nil
}

// Delete implements Place.
func (b *bucket) Delete(ctx context.Context, name string) error {
	p, err := objstore.Purge(ctx, b.b, b.key(name), objstore.PurgeAll)
	if err == nil && !p.Whole() {
		err = fmt.Errorf("%s: the store keeps versions of it: %s", b.key(name), p.Why)
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}
