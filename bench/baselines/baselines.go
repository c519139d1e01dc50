package baselines

import (
	"context"
	"errors"

	"drumbeat/disk"
)

// The methods.
const (
	MercatorB = "mercator-b"
	Polybot   = "polybot"
	Bloom     = "bloom"
)

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("baselines: closed")

// Link is a URL as it was found on a page. Whoever gets a Link may use Text during the call only.
type Link struct {
	// Key is the hash of Text: two links have the same Key if and only if they have the same Text.
	Key uint64
	// Text has 1 to MaxTextBytes bytes.
	Text []byte
}

// MaxTextBytes bounds the text of a link: buffers have that much in front, for a text that lies across two
// chunks.
const MaxTextBytes = 1<<13 - 1

// MinRAMBytes is the least RAM that every method can work with.
const MinRAMBytes = 4 << 20

// MaxRAMBytes is the most RAM that a method can use, since places in a batch are 31 bits.
const MaxRAMBytes = 64 << 30

// Options are those of Open. All fields are required.
type Options struct {
	// FS and Dir say where the files are. Dir is made, must be empty or absent, and is removed by Close. A
	// disk.Meter sees all the I/O of every store.
	FS  disk.FS
	Dir string
	// RAMBytes is R, all that the method may hold: buffers, tables, pairs for sorting, caches.
	RAMBytes int64
	// Emit gets the verdicts, each link exactly once; fresh[i] says that links[i] had not been seen before.
	// first is the arrival number, from 0, of links[0], and the others follow it without a gap. Emit is
	// called by the goroutine that called Add or Flush. Writing fresh links to the crawler's queue, the
	// term p of Theorem 1, is its task: no store does that. An error of Emit ends the store.
	Emit func(first int64, links []Link, fresh []bool) error
}

// Store answers which links are new. It is for one goroutine. After an error all calls but Stats and Close
// fail with it.
type Store interface {
	// Load makes keys known before the first link, in one or more calls with strictly ascending keys.
	Load(keys []uint64) error
	// Add accepts links. Their verdicts may come at once or by any later Add or Flush.
	Add(links []Link) error
	// Flush answers all links that wait. When ctx ends Flush returns its error, the store having failed.
	Flush(ctx context.Context) error
	// Stats may be called at any time between other calls.
	Stats() Stats
	// Close gives up what waits, and removes all files.
	Close() error
}

// TextLoader is what a store is in addition that finds a link by its text, as Polybot does. Load gives it
// texts made up from the keys, right in number and size; a link of the stream can only meet what was loaded
// by LoadLinks.
type TextLoader interface {
	// LoadLinks makes links known before the first one is added, in any order, in one or more calls. A
	// store takes either Load or LoadLinks. A link that is loaded twice is known once.
	LoadLinks(links []Link) error
}

// Stats is what a store did since it was opened. A disk.Meter has the bytes of all I/O.
type Stats struct {
	// Links were added, Answered of them emitted, Fresh of those as new ones. Known is what is in the
	// store: keys loaded, and fresh ones; of a Bloom filter, those that it took for new.
	Links, Answered, Fresh, Known int64
	// Batches is how often a batch of links was checked with the disk, BatchLinks is how many links those
	// had.
	Batches, BatchLinks int64
	// Merges is how often the file of known keys was written anew.
	Merges int64
	// MergeBytes and MergeKeys are the sizes of the versions of that file that merges read and wrote,
	// together: their quotient is H of Mercator-B, bq of Polybot.
	MergeBytes, MergeKeys int64
	// FileBytes is the size of the file of known keys at present, of all the files of an Index; 0 where
	// there is none.
	FileBytes int64
	// RAMBytes is the sum of all buffers, tables and caches.
	RAMBytes int64
}

// Method is a way of finding out whether a URL has been seen.
type Method struct {
	Name string
	// Open returns an empty store.
	Open func(Options) (Store, error)
	// PastCache says that the method gains from disk.Direct: it reads and writes in sequence and in whole
	// chunks alone, so the page cache, which takes memory of the same limit, and two copies of each byte,
	// would be of no use to it.
	PastCache bool
	// Target is how many times as fast DRUM is to be, 0 if nobody says so.
	Target float64
}

// Methods are those of this package, in the paper's order.
func Methods() []Method {
	method := func(name string, past bool, open func(base) (Store, error)) Method {
		return Method{Name: name, PastCache: past, Open: func(o Options) (Store, error) { return openAs(name, o, open) }}
	}
	return []Method{
		method(MercatorB, true, openMercatorB), method(Polybot, true, openPolybot), method(Bloom, false, openBloom),
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
