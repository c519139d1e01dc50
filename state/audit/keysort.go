package audit

import (
	"encoding/binary"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/state"
)

// TaggedKey is the key of a URL and where it was found: the number of a Place, or one of the tags below.
type TaggedKey struct {
	Key  uint64
	Tag  uint8
	Mark uint32 // of a response: hash of its position; 0 for none
}

// The tags after the places.
const (
	tagStored     = uint8(state.NumPlaces) + iota // a response record in a WARC file
	tagLogFetched                                 // a line of the crawl log with a status
	tagLogRefused                                 // a line of the crawl log with a reason
	tagOrdered                                    // the URL was enqueued at some time
	tagKnown                                      // the key has moved here and waits in URLseen; the last tag
)

const taggedKeyBytes = 8 + 1 + 4 // in the sorter

// keySorter sorts any number of tagged keys in bounded RAM, by key, tag and mark. It is not safe for concurrent use.
type keySorter struct {
	*extsort.Sorter
	ended bool
	last  []byte // the first record of the next group; nil at the end
}

// newKeySorter returns a sorter with ram bytes that spills to files in dir, which Close removes.
func newKeySorter(fsys disk.FS, dir string, ram int64) *keySorter {
	return &keySorter{Sorter: extsort.New(extsort.Options{FS: fsys, Dir: dir, RAMBytes: ram})}
}

// add adds a key.
func (s *keySorter) add(k TaggedKey) error {
	var rec [taggedKeyBytes]byte
	binary.BigEndian.PutUint64(rec[:], k.Key)
	rec[8] = k.Tag
	binary.BigEndian.PutUint32(rec[9:], k.Mark)
	return s.Add(rec[:])
}

// begin makes group return the first key. It ends the input.
func (s *keySorter) begin() (err error) {
	if s.ended {
		err = s.Rewind()
	} else {
		err, s.ended = s.Sort(), true
	}
	if err == nil {
		s.last, err = s.Next()
	}
	return err
}

// group returns the next key with all its entries, which are valid until the next call; none at the end.
func (s *keySorter) group(dst []TaggedKey) (entries []TaggedKey, err error) {
	for dst = dst[:0]; s.last != nil; {
		k := TaggedKey{binary.BigEndian.Uint64(s.last), s.last[8], binary.BigEndian.Uint32(s.last[9:])}
		if len(dst) > 0 && k.Key != dst[0].Key {
			break
		}
		dst = append(dst, k)
		if s.last, err = s.Next(); err != nil {
			return nil, err
		}
	}
	return dst, nil
}
