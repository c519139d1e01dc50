package baselines

import (
	"context"
	"errors"

	"drumbeat/disk"
)

// The methods.
const (
	MercatorA = "mercator-a"
	MercatorB = "mercator-b"
	Polybot   = "polybot"
)

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("baselines: closed")

// Link is a URL found on a page. The receiver of a Link may use Text only during the call.
type Link struct {
	// Key is the hash of Text: two links have the same Key if and only if they have the same Text.
	Key uint64
	// Text has 1 to MaxTextBytes bytes.
	Text []byte
}

// MaxTextBytes bounds the text of a link. Buffers have that much room in front of a chunk, for a text that
// spans two chunks.
const MaxTextBytes = 1<<13 - 1

// MinRAMBytes is the minimum RAM of every method.
const MinRAMBytes = 4 << 20

// MaxRAMBytes is the most RAM that a method can use: positions in a batch have 31 bits.
const MaxRAMBytes = 64 << 30

// Options are the options of Open. All fields are required.
type Options struct {
	// FS and Dir are the place of the files. Open creates Dir, which must be empty or absent; Close removes
	// it. A disk.Meter as FS sees all I/O of every store.
	FS  disk.FS
	Dir string
	// RAMBytes is R, the total size of buffers, tables, pairs for sorting and caches.
	RAMBytes int64
	// Emit receives the verdicts, each link exactly once; fresh[i] means that links[i] was not seen before.
	// first is the arrival number of links[0], from 0; the other links follow without a gap. The goroutine
	// that calls Add or Flush calls Emit. Emit has the task to write fresh links to the crawler's queue,
	// the term p of Theorem 1; no store does that. An error of Emit ends the store.
	Emit func(first int64, links []Link, fresh []bool) error
}

// Store decides which links are new. It is for one goroutine. After an error all calls except Stats and
// Close return that error.
type Store interface {
	// Load adds known keys before the first link, in one or more calls with strictly ascending keys.
	Load(keys []uint64) error
	// Add accepts links. It, or any later Add or Flush, may emit their verdicts.
	Add(links []Link) error
	// Flush answers all waiting links. If ctx ends, the store fails and Flush returns ctx's error.
	Flush(ctx context.Context) error
	// Stats may be called at any time between other calls.
	Stats() Stats
	// Close discards waiting links and removes all files.
	Close() error
}

// TextLoader is the additional interface of a store that compares texts, like Polybot. Load gives such a
// store made-up texts of the right number and size; a link of the stream can equal only a link that
// LoadLinks loaded.
type TextLoader interface {
	// LoadLinks adds known links before the first Add, in any order, in one or more calls. A store accepts
	// either Load or LoadLinks. A link that is loaded twice counts once.
	LoadLinks(links []Link) error
}

// Stats are the counts of a store since Open. A disk.Meter has the bytes of all I/O.
type Stats struct {
	// Links is the number of links added, Answered the number emitted, Fresh the number emitted as new.
	// Known is the number of keys in the store: loaded keys and fresh keys, as judged by the method.
	Links, Answered, Fresh, Known int64
	// Batches is the number of batches checked against the disk, BatchLinks the number of links in them.
	Batches, BatchLinks int64
	// Merges is the number of times that the file of known keys was rewritten.
	Merges int64
	// MergeBytes and MergeKeys are the total sizes of all versions of that file that merges read and wrote.
	// Their quotient is H for Mercator-B and bq for Polybot.
	MergeBytes, MergeKeys int64
	// FileBytes is the current size of the file of known keys; 0 if there is none.
	FileBytes int64
	// RAMBytes is the total size of all buffers, tables and caches.
	RAMBytes int64
}

// Method is a way to decide whether a URL was seen before.
type Method struct {
	Name string
	// Open returns an empty store.
	Open func(Options) (Store, error)
	// PastCache means that the method gains from disk.Direct. Such a method only reads and writes whole
	// chunks in sequence, so the page cache would cost RAM within the same limit and a second copy of each
	// byte, without benefit.
	PastCache bool
}

// Methods returns the methods of this package, in the paper's order.
func Methods() []Method {
	method := func(name string, past bool, open func(base) (Store, error)) Method {
		return Method{Name: name, PastCache: past,
			Open: func(o Options) (Store, error) { return openAs(name, o, open) }}
	}
	return []Method{
		method(MercatorA, false, openMercatorA), method(MercatorB, true, openMercatorB),
		method(Polybot, true, openPolybot),
	}
}

// openAs opens a store of this package.
func openAs(name string, o Options, open func(base) (Store, error)) (Store, error) {
	b, err := newBase(name, o)
	if err != nil {
		return nil, err
	}
	s, err := open(b)
	if err != nil {
		return nil, errors.Join(err, b.removeDir())
	}
	return s, nil
}
