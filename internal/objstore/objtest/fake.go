// Package objtest is a bucket in RAM, for tests. It keeps the rules of S3 that package objstore depends on:
// parts by number, checksums of parts and objects, an upload that ends with Complete, and Complete that
// leaves an existing object.
//
// Faults are made by Bucket.Before and Bucket.After, which see each call: an error of Before means that the
// request did not arrive, one of After that it was done and the answer was lost. They may also wait, or
// change the bucket by its methods.
//
// A fault may be a lost request, a lost answer, a refusal, or a wait. What S3 may do besides is in Bucket
// itself: NoSums makes it forget checksums, Keeps makes it keep versions, Set puts the object of another program,
// Remove loses one, and a second Complete finds no upload.
//
// Serve starts a real server instead, versitygw, if the machine has it; scripts/versitygw.sh installs it. The
// test that asks for it is skipped otherwise. ServeMinIO does the same with minio, if it is there.
//
// What the fake cannot tell is whether a store does as S3 documents; that is what the real server is for: it checks
// signatures, sums of bodies and of objects, and keeps parts on disk over its own restart (Server.Stop, Server.Start).
//
// A Bucket is safe for concurrent use. It holds all bytes in RAM, and has no goroutine.
package objtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"maps"
	"slices"
	"sync"

	"drumbeat/internal/objstore"
)

// Bucket is a bucket in RAM. Set its fields before use.
type Bucket struct {
	// Before and After, if set, are called for each call, with its name and key, without a lock.
	Before, After func(call, key string) error
	// NoSums makes the bucket ignore checksums, as some stores do.
	NoSums bool
	// Keeps makes the bucket keep old versions. Locked, if set, reports the versions that it does not delete.
	Keeps  bool
	Locked func(key, version string) bool

	mu      sync.Mutex
	objects map[string]object
	uploads map[string]*upload
	old     map[string][]version // with Keeps; the latest one last
	next    int
	calls   []string
}

type object struct {
	data []byte
	sha  string
}

// version is one of an object's versions; without an object, a delete marker.
type version struct {
	id string
	*object
}

type upload struct {
	key, sha string
	parts    map[int32]part
}

type part struct {
	data []byte
	crc  string
}

var nvme = crc64.MakeTable(0x9a6c9329ac4bc9b5)

func crcOf(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, crc64.Checksum(data, nvme)))
}

// Set stores an object as another program would.
func (b *Bucket) Set(key string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.init()
	b.put(key, object{data: data})
}

// put makes an object the latest version. b.mu must be held.
func (b *Bucket) put(key string, o object) {
	b.objects[key] = o
	b.keep(key, &o)
}

func (b *Bucket) keep(key string, o *object) {
	if b.Keeps {
		b.next++
		b.old[key] = append(b.old[key], version{fmt.Sprintf("version-%d", b.next), o})
	}
}

// Versioned implements objstore.Bucket.
func (b *Bucket) Versioned(ctx context.Context) (bool, error) {
	return b.Keeps, b.call(ctx, "Versioned", "", func() error { return nil })
}

// Versions implements objstore.Bucket.
func (b *Bucket) Versions(ctx context.Context, key string) (all []objstore.Version, err error) {
	err = b.call(ctx, "Versions", key, func() error {
		if _, ok := b.objects[key]; ok && !b.Keeps {
			all = append(all, objstore.Version{ID: "null", Latest: true})
		}
		for i, v := range slices.Backward(b.old[key]) {
			all = append(all,
				objstore.Version{ID: v.id, Latest: i == len(b.old[key])-1, Marker: v.object == nil})
		}
		return nil
	})
	return all, err
}

// Delete implements objstore.Bucket.
func (b *Bucket) Delete(ctx context.Context, key, id string) (marker bool, err error) {
	err = b.call(ctx, "Delete", key, func() error {
		switch {
		case !b.Keeps:
			delete(b.objects, key)
		case id == "":
			marker = true
			delete(b.objects, key)
			b.keep(key, nil)
		case b.Locked != nil && b.Locked(key, id):
			return fmt.Errorf("%w: the version is locked", objstore.ErrDenied)
		default:
			b.old[key] = slices.DeleteFunc(b.old[key], func(v version) bool { return v.id == id })
			delete(b.objects, key)
			if n := len(b.old[key]); n > 0 && b.old[key][n-1].object != nil {
				b.objects[key] = *b.old[key][n-1].object
			}
		}
		return nil
	})
	return marker, err
}

// Under returns the keys of unfinished uploads.
func (b *Bucket) Under() (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.uploads {
		keys = append(keys, u.key)
	}
	return keys
}

// All returns the bytes of all versions of all objects, by key.
func (b *Bucket) All() map[string][][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string][][]byte{}
	for key, o := range b.objects {
		if !b.Keeps { // else they are among the versions
			all[key] = append(all[key], o.data)
		}
	}
	for key, versions := range b.old {
		for _, v := range versions {
			if v.object != nil {
				all[key] = append(all[key], v.data)
			}
		}
	}
	return all
}

// Fork returns a bucket with the same objects and uploads, without faults.
func (b *Bucket) Fork() *Bucket {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &Bucket{NoSums: b.NoSums, Keeps: b.Keeps, Locked: b.Locked, next: b.next}
	f.init()
	maps.Copy(f.objects, b.objects)
	for id, u := range b.uploads {
		f.uploads[id] = &upload{key: u.key, sha: u.sha, parts: maps.Clone(u.parts)}
	}
	for key, versions := range b.old {
		f.old[key] = slices.Clone(versions)
	}
	return f
}

// Remove removes an object.
func (b *Bucket) Remove(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
}

// Objects returns all objects.
func (b *Bucket) Objects() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string][]byte{}
	for key, o := range b.objects {
		all[key] = o.data
	}
	return all
}

// Pending returns the number of uploads that are neither complete nor aborted.
func (b *Bucket) Pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.uploads)
}

// Calls returns the calls so far, as "name key".
func (b *Bucket) Calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

func (b *Bucket) init() {
	if b.objects == nil {
		b.objects, b.uploads, b.old = map[string]object{}, map[string]*upload{}, map[string][]version{}
	}
}

// call runs f between the faults.
func (b *Bucket) call(ctx context.Context, name, key string, f func() error) error {
	b.mu.Lock()
	b.init()
	b.calls = append(b.calls, name+" "+key)
	b.mu.Unlock()
	if b.Before != nil {
		if err := b.Before(name, key); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	err := f()
	b.mu.Unlock()
	if b.After != nil {
		if lost := b.After(name, key); lost != nil {
			return lost
		}
	}
	return err
}

// Check implements objstore.Bucket.
func (b *Bucket) Check(ctx context.Context, prefix string) error {
	return b.call(ctx, "Check", prefix, func() error { return nil })
}

// Head implements objstore.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (o *objstore.Object, err error) {
	err = b.call(ctx, "Head", key, func() error {
		have, ok := b.objects[key]
		if !ok {
			return objstore.ErrNotExist
		}
		o = &objstore.Object{Size: int64(len(have.data)), SHA256: have.sha}
		if !b.NoSums {
			o.CRC = crcOf(have.data)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Create implements objstore.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, sums *objstore.Sums) (id string, err error) {
	err = b.call(ctx, "Create", key, func() error {
		b.next++
		id = fmt.Sprintf("upload-%d", b.next)
		b.uploads[id] = &upload{key: key, sha: sums.SHA256, parts: map[int32]part{}}
		return nil
	})
	return id, err
}

// Uploads implements objstore.Bucket.
func (b *Bucket) Uploads(ctx context.Context, key string) (ids []string, err error) {
	err = b.call(ctx, "Uploads", key, func() error {
		for _, id := range slices.Sorted(maps.Keys(b.uploads)) {
			if b.uploads[id].key == key {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

// upload returns an upload.
func (b *Bucket) upload(key, id string) (*upload, error) {
	if u := b.uploads[id]; u != nil && u.key == key {
		return u, nil
	}
	return nil, objstore.ErrNoUpload
}

// PutPart implements objstore.Bucket.
func (b *Bucket) PutPart(ctx context.Context, key, id string, p objstore.Part,
	body io.ReadSeeker) (etag string, err error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	err = b.call(ctx, "PutPart", key, func() error {
		u, err := b.upload(key, id)
		if err != nil {
			return err
		}
		if int64(len(data)) != p.Size || !b.NoSums && crcOf(data) != p.CRC {
			return errors.New("objtest: BadDigest")
		}
		u.parts[p.Number] = part{data: data, crc: p.CRC}
		etag = "etag-" + crcOf(data)
		return nil
	})
	return etag, err
}

// Parts implements objstore.Bucket.
func (b *Bucket) Parts(ctx context.Context, key, id string) (parts []objstore.Part, err error) {
	err = b.call(ctx, "Parts", key, func() error {
		u, err := b.upload(key, id)
		if err != nil {
			return err
		}
		for _, n := range slices.Sorted(maps.Keys(u.parts)) {
			p := u.parts[n]
			have := objstore.Part{Number: n, Size: int64(len(p.data)), ETag: "etag-" + crcOf(p.data)}
			if !b.NoSums {
				have.CRC = crcOf(p.data)
			}
			parts = append(parts, have)
		}
		return nil
	})
	return parts, err
}

// Complete implements objstore.Bucket.
func (b *Bucket) Complete(ctx context.Context, key, id string, parts []objstore.Part, sums *objstore.Sums,
	replace bool) error {
	return b.call(ctx, "Complete", key, func() error {
		u, err := b.upload(key, id)
		if err != nil {
			return err
		}
		if _, ok := b.objects[key]; ok && !replace {
			return objstore.ErrExists
		}
		var data []byte
		for i, p := range parts {
			have, ok := u.parts[p.Number]
			if !ok || p.ETag != "etag-"+crcOf(have.data) || int(p.Number) != i+1 {
				return errors.New("objtest: InvalidPart")
			}
			data = append(data, have.data...)
		}
		if !b.NoSums && crcOf(data) != sums.CRC || int64(len(data)) != sums.Size {
			return errors.New("objtest: BadDigest")
		}
		b.put(key, object{data: data, sha: u.sha})
		delete(b.uploads, id)
		return nil
	})
}

// Abort implements objstore.Bucket.
func (b *Bucket) Abort(ctx context.Context, key, id string) error {
	return b.call(ctx, "Abort", key, func() error {
		delete(b.uploads, id)
		return nil
	})
}

// Get implements objstore.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (r io.ReadCloser, err error) {
	err = b.call(ctx, "Get", key, func() error {
		o, ok := b.objects[key]
		if !ok {
			return objstore.ErrNotExist
		}
		size := int64(len(o.data))
		r = io.NopCloser(bytes.NewReader(o.data[min(off, size):min(off+n, size)]))
		return nil
	})
	return r, err
}
