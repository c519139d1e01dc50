package disk

import (
	"errors"
	"fmt"
	"io"
)

// ReadFull fills p from f at off. A file that ends too early is a *CorruptError, since callers read only
// ranges named in a manifest or an index. Other errors are returned unchanged.
func ReadFull(f interface {
	io.ReaderAt
	Name() string
}, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return &CorruptError{
			Path: f.Name(), Offset: off,
			Want: fmt.Sprintf("%d bytes", len(p)), Got: fmt.Sprintf("%d bytes before the end", n),
		}
	}
	return err
}
