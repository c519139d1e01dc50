package objstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
)

// Errors of a Bucket, which it wraps.
var (
	// ErrNotExist means that there is no such object.
	ErrNotExist = errors.New("objstore: no such object")
	// ErrNoUpload means that there is no such upload: it was completed, aborted, or never was.
	ErrNoUpload = errors.New("objstore: no such upload")
	// ErrExists means that Complete found an object of that key, and left it.
	ErrExists = errors.New("objstore: the object exists")
	// ErrDenied means that the store refuses access, or that the bucket does not exist. Waiting alone does not help.
	ErrDenied = errors.New("objstore: no access")
	// ErrUnsupported means that the store does not know the call.
	ErrUnsupported = errors.New("objstore: the store does not know this call")
)

// Bucket is a bucket of an object store. Implementations are safe for concurrent use. An error of a call that changes
// something leaves open whether it was changed.
type Bucket interface {
	// Check returns an error that wraps ErrDenied if objects whose keys begin with prefix cannot be put.
	// Other errors may pass with time.
	Check(ctx context.Context, prefix string) error
	// Head describes an object.
	Head(ctx context.Context, key string) (*Object, error)
	// Create begins an upload.
	Create(ctx context.Context, key string, sums *Sums) (id string, err error)
	// Uploads returns the ids of all uploads of a key.
	Uploads(ctx context.Context, key string) ([]string, error)
	// PutPart puts a part, again if need be.
	PutPart(ctx context.Context, key, id string, part Part, body io.ReadSeeker) (etag string, err error)
	// Parts returns the parts that an upload has, by number.
	Parts(ctx context.Context, key, id string) ([]Part, error)
	// Complete makes an object of the parts. If the key has one, it is ErrExists without replace.
	Complete(ctx context.Context, key, id string, parts []Part, sums *Sums, replace bool) error
	// Abort ends an upload. No such upload is no error.
	Abort(ctx context.Context, key, id string) error
	// Get reads n bytes of an object from off on.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	// Versions returns all versions of an object, the latest one first, with delete markers. A bucket that was never
	// versioned has one, which has an ID as well; if there is no object, there is none.
	Versions(ctx context.Context, key string) ([]Version, error)
	// Versioned reports whether the bucket keeps old versions, or has kept them at some time.
	Versioned(ctx context.Context) (bool, error)
	// Delete deletes a version of an object or, with "", the object. Then marker reports that the store keeps what was
	// there as an old version behind a delete marker. No such object is no error. A refusal, also because of a lock, is
	// ErrDenied.
	Delete(ctx context.Context, key, version string) (marker bool, err error)
}

// Version is a version of an object.
type Version struct {
	ID     string
	Latest bool
	Marker bool // a delete marker, which has no bytes
}

// Object is what the store says about an object.
type Object struct {
	Size   int64
	SHA256 string // hex, of the metadata; "": unknown
	CRC    string // as of Sums; "": unknown
}

// Part is a part of an upload.
type Part struct {
	Number int32 // from 1
	Size   int64
	CRC    string // as of Sums; "": unknown
	ETag   string // "" before the store has it
}

// Sums are the checksums of a file.
type Sums struct {
	Size      int64
	SHA256    string // hex
	CRC       string // CRC64NVME, big-endian, base64: the form of S3
	PartBytes int64
	Parts     []string // CRC of each part
}

// crcText returns a CRC in the form of S3.
func crcText(crc uint64) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, crc))
}

const (
	defaultPartBytes = 16 << 20
	mostParts        = 9000
)

// partBytes returns the size of the parts of a file, of at least least bytes.
func partBytes(size, least int64) int64 {
	if least <= 0 {
		least = defaultPartBytes
	}
	if size > least*mostParts {
		return (size/mostParts>>20 + 1) << 20
	}
	return least
}
