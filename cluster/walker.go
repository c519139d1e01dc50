package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Walker is a walker of a random walk that goes to another node (package internal/walk). It counts in Totals as a link,
// so the audit of a pair finds a walker that is lost, or that is in two places.
type Walker struct {
	URLs, Steps int64  // what it takes along of the walk's URLs and steps; 0 to maxPurse
	URL         []byte // where it goes; empty: it jumps to any host of the receiver
	Via         []byte // the page with the link
	// Depth, Redirects and Flags are those of the links of that page.
	Depth            uint16
	Redirects, Flags uint8
}

// maxPurse bounds Walker.URLs and Walker.Steps. It is far above the most of a walk.
const maxPurse = 1 << 40

// walkerKey returns the key of a walker's record in Totals.
func walkerKey(rec []byte) uint64 { return xxhash.Sum64(rec) }

// append appends the record: uvarints URLs, Steps, Depth; Redirects, Flags; uvarint length of Via; Via; URL.
func (w *Walker) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(w.URLs))
	dst = binary.AppendUvarint(dst, uint64(w.Steps))
	dst = binary.AppendUvarint(dst, uint64(w.Depth))
	dst = append(dst, w.Redirects, w.Flags)
	dst = binary.AppendUvarint(dst, uint64(len(w.Via)))
	return append(append(dst, w.Via...), w.URL...)
}

// decode decodes a record. The walker refers to it.
func (w *Walker) decode(rec []byte) error {
	bad := false
	number := func(most uint64) uint64 {
		n, size := binary.Uvarint(rec)
		if bad = bad || size <= 0 || n > most; bad {
			return 0
		}
		rec = rec[size:]
		return n
	}
	w.URLs, w.Steps, w.Depth = int64(number(maxPurse)), int64(number(maxPurse)), uint16(number(1<<16-1))
	if bad || len(rec) < 2 {
		return errWalker
	}
	w.Redirects, w.Flags, rec = rec[0], rec[1], rec[2:]
	n := number(maxRecord)
	if bad || n > uint64(len(rec)) {
		return errWalker
	}
	w.Via, w.URL = rec[:n], rec[n:]
	return nil
}

var errWalker = fmt.Errorf("cluster: %w: %w", ErrMessage, errors.New("a damaged walker"))

// AddWalker adds a walker, and counts it as a link. All nodes must read WalkerVersion. The walkers of an abandoned node
// are lost.
func (o *Outbox) AddWalker(w *Walker) error {
	rec := w.append(nil)
	return o.addLink(kindWalker, WalkerVersion, walkerKey(rec), rec)
}
