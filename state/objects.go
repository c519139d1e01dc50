package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"drumbeat/disk"
	"drumbeat/internal/objstore"
	"drumbeat/queue"
)

// Store is the object store of a crawl's finished output, in the manifest. Only the place and the node decide
// the keys; the rest is how the last run reached it.
type Store struct {
	objstore.Place
	// Node is part of the keys: the node's number when the crawl got its store; 0 without a cluster, and in
	// earlier versions.
	Node int `json:"node"`
}

// Key returns the key of a file of the crawl.
func (s *Store) Key(crawl, file string) string { return s.Place.Key(crawl, s.Node, file) }

// Object is an output file that is in the object store: a record of the queue NameObjects, which only grows, but for
// erasures. Once a durable manifest covers the record, the local file may be removed.
type Object struct {
	V   int `json:"v"`   // 1
	Dir int `json:"dir"` // number of its directory
	// In the log directory of a state directory, else in warc of an output directory.
	Log    bool   `json:"log,omitempty"`
	File   string `json:"file"` // name without directory
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	CRC    string `json:"crc64nvme"` // base64 of the big-endian sum, as in S3
	Time   int64  `json:"time"`      // when it was there, Unix seconds
}

const objectVersion = 1

// Append appends the record.
func (o *Object) Append(dst []byte) ([]byte, error) {
	o.V = objectVersion
	text, err := json.Marshal(o)
	if err != nil {
		return dst, fmt.Errorf("crawl: record of object %s: %w", o.File, err)
	}
	return append(dst, text...), nil
}

// Decode decodes and checks a record.
func (o *Object) Decode(rec []byte) error {
	*o = Object{}
	if err := json.Unmarshal(rec, o); err != nil {
		return fmt.Errorf("crawl: record of an object: %w", err)
	}
	if o.V != objectVersion {
		return Incompatible("crawl: record of an object has version %d, want %d", o.V, objectVersion)
	}
	if o.Dir < 0 || o.Size < 0 || !disk.PlainName(o.File) {
		return fmt.Errorf("crawl: record of an object is invalid: %.200q", rec)
	}
	return nil
}

// Sums returns what is known of the bytes, to compare with an object.
func (o *Object) Sums() *objstore.Sums {
	return &objstore.Sums{Size: o.Size, SHA256: o.SHA256, CRC: o.CRC}
}

// Data reports whether the file is a WARC file. Indexes and logs are small beside it.
func (o *Object) Data() bool { return !o.Log && !o.Index() }

// Index reports whether the file is the index of a WARC file, which stays here.
func (o *Object) Index() bool { return !o.Log && strings.HasSuffix(o.File, ".cdxj") }

// Path returns the local path of the file; "" if its directory is not given.
func (o *Object) Path(state, out disk.Set) string {
	set, sub := out, "warc"
	if o.Log {
		set, sub = state, "log"
	}
	if o.Dir >= set.Len() {
		return ""
	}
	return set.Path(o.Dir, sub, o.File)
}

// remote opens the crawl's files in the object store: the local files that are no longer here are read there.
// Damaged records of the queue of objects are left out; an audit reports them.
func (s *Saved) remote(m *Manifest) error {
	if m.Store == nil {
		return nil
	}
	st, err := Part[queue.State](m, NameObjects)
	if err != nil || st == nil {
		return err
	}
	s.Objects = nil
	var files []objstore.Remote
	_, err = queue.Scan(s.Set, NameObjects, st, func(rec []byte) error {
		var o Object
		if err := o.Decode(rec); err != nil {
			if errors.Is(err, ErrIncompatible) {
				return err
			}
			return nil
		}
		s.Objects = append(s.Objects, o)
		if path := o.Path(s.Set, s.Out); path != "" && (s.HideRemote == nil || !s.HideRemote(&o)) {
			files = append(files, objstore.Remote{Path: path, Key: m.Store.Key(m.Crawl, o.File), Size: o.Size})
		}
		return nil
	}, func(error) error { return nil })
	if err != nil || len(s.Objects) == 0 {
		return err
	}
	s.overlay = objstore.NewOverlay(s.Set.FS, files, s.OpenBucket)
	s.Set.FS, s.Out.FS = s.overlay, s.overlay
	return nil
}

// Renew takes the next manifest of the crawl and the objects that it names.
func (s *Saved) Renew(m *Manifest) error {
	s.Manifest, s.Objects, s.overlay = m, nil, nil
	s.Set.FS, s.Out.FS = s.Meter, s.Meter
	return s.remote(m)
}

// RemoteFailed returns the error for which files in the object store could not be read; nil if there was
// none. What was read before may look damaged.
func (s *Saved) RemoteFailed() error {
	if s.overlay == nil {
		return nil
	}
	return s.overlay.Failed()
}

// OpenBucket opens the object store that the manifest names.
func (s *Saved) OpenBucket() (objstore.Bucket, error) {
	if s.Manifest == nil || s.Manifest.Store == nil {
		return nil, errors.New("crawl: the crawl has no object store")
	}
	if s.OpenStore != nil {
		return s.OpenStore(s.Manifest.Store.Place)
	}
	return objstore.OpenS3(context.Background(), s.Manifest.Store.Place)
}

// Ignore has readers take a local file that is in the object store for gone, because it is damaged.
func (s *Saved) Ignore(path string) {
	if s.overlay != nil {
		s.overlay.Ignore(path)
	}
}

// ReadRemote returns directories of state of a crawl in which the logs that are in its object store are read
// there. all are its directories by number.
func ReadRemote(all disk.Set, m *Manifest) (disk.FS, error) {
	s := &Saved{Set: all, Manifest: m}
	err := s.remote(m)
	return s.Set.FS, err
}
