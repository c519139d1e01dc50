package crawllog

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"time"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Disorder is how long the fetch of a line may last. A line has the time at which its fetch began, and is
// written when it ended. Reader leaves out a file, by the times in the names of its neighbours, only if
// lines with wanted times would have to be of longer fetches. --timeout is a minute by default; only bodies
// of more than 60 MiB may take longer than Disorder.
const Disorder = time.Hour

// Reader reads the lines of a log in the order of writing, also those of a running crawl: first all lines
// of a Snapshot, then with each further Snapshot those written since. It finds its place again when files
// become final or are moved away, and when lines that it has read from a checkpoint's tail file are written
// to a file.
//
// A running crawl writes whole frames beyond its last checkpoint, and Reader reads them. If the crawl is
// killed, these lines are lost, and the URLs are fetched again. Reader then calls Rewound and continues
// after the last checkpoint.
//
// A Reader needs no lock. It must not be used concurrently. Memory: a frame (256 KiB of lines), its lines
// compressed, and the snapshot. It has one file open. Close it.
type Reader struct {
	// From and To, if set, leave out files, and beginnings of files, that can have no line in this time. Other
	// lines outside of it remain: the caller looks at each.
	From, To time.Time
	// Damaged is called with damage; the Reader continues after it. It must be set.
	Damaged func(error)
	// Rewound, if set, is called when the crawl went back to its last checkpoint.
	Rewound func()

	s      scanner
	snap   *Snapshot
	i      int            // the part at
	at     place          // after the last frame that was read
	file   *outfile.Bytes // of part i; nil: not open
	begun  bool           // at is set
	lines  []byte         // rest of the last frame
	from   string         // path of lines
	off    int64          // offset of the last frame
	fields Fields
	// safe is the end of what the last checkpoint covered. A crawl that goes back never goes back further.
	safe place
}

// place is a position in a log, between two frames or in the one that begins there.
type place struct {
	part
	off    int64
	end    [8]byte // the bytes before off, if marked: the end of a frame, with its checksum
	marked bool
	// ahead are lines that were read from a tail file. The next frame begins with them.
	ahead []byte
}

// NewReader returns a Reader without lines: call Use.
func NewReader() (*Reader, error) {
	dec, err := newDecoder()
	if err != nil {
		return nil, fmt.Errorf("crawllog: reader: %w", err)
	}
	return &Reader{s: scanner{dec: dec}}, nil
}

// Close closes the file.
func (r *Reader) Close() {
	r.shut()
	r.s.dec.Close()
}

// shut closes the open part.
func (r *Reader) shut() {
	if r.file != nil {
		_ = r.file.Close() // read only
	}
	r.file = nil
}

// Use makes the lines that a snapshot has beyond the last one readable. The last one must have been read to
// its end. It passes the snapshot's damage to Damaged.
func (r *Reader) Use(s *Snapshot) {
	r.shut()
	r.snap = s
	for _, err := range s.Damage {
		r.Damaged(err)
	}
	switch {
	case r.wentBack():
		if r.Rewound != nil {
			r.Rewound()
		}
		r.seek(r.safe)
	case !r.begun || !r.find(&r.at):
		r.begun = true
		r.enter()
	}
	r.safe = s.end()
}

// wentBack reports whether the file that was read is no longer the same. A file that is gone was moved away
// if a checkpoint has named it. Otherwise the crawl has deleted it, and may have begun another one instead.
func (r *Reader) wentBack() bool {
	if r.find(&r.at) {
		return r.changed()
	}
	again := func(i int) bool {
		return i >= 0 && i < len(r.snap.parts) && r.snap.parts[i].serial == r.at.serial
	}
	return r.at.name != "" && (r.at.serial >= r.snap.next || again(r.i) || again(r.i-1))
}

// find sets i to the part of a place, or to the next one if it is gone.
func (r *Reader) find(at *place) bool {
	r.i = sort.Search(len(r.snap.parts), func(i int) bool { return comparePart(&r.snap.parts[i], &at.part) >= 0 })
	return at.name != "" && r.i < len(r.snap.parts) && r.snap.parts[r.i].name == at.name
}

// seek goes to a place of an earlier snapshot.
func (r *Reader) seek(to place) {
	r.shut()
	r.at = to
	if !r.find(&to) {
		r.enter()
	}
}

// changed reports whether the last frame that was read is no longer where it was.
func (r *Reader) changed() bool {
	p := &r.snap.parts[r.i]
	if r.at.off > p.length() {
		return r.at.marked // else it was damage
	}
	if !r.at.marked || !r.open() {
		return false
	}
	var end [8]byte
	_, err := r.file.ReadAt(end[:], r.at.off-int64(len(end)))
	return err == nil && end != r.at.end
}

// end returns the place after all lines that the checkpoint covers.
func (s *Snapshot) end() place {
	n := sort.Search(len(s.parts), func(i int) bool { return s.parts[i].serial >= s.next })
	if n == 0 {
		return place{ahead: s.lines}
	}
	return place{part: s.parts[n-1], off: s.parts[n-1].covered(), ahead: s.lines}
}

// SkipCovered skips the lines that the checkpoint of the snapshot covers, without reading them.
func (r *Reader) SkipCovered() {
	r.lines = nil
	r.seek(r.snap.end())
}

// enter goes to the beginning of part i, or of the next one that may have wanted lines. The lines ahead may
// be in it.
func (r *Reader) enter() {
	r.shut()
	for r.i < len(r.snap.parts) && r.unwanted(r.i) {
		r.i++
	}
	if r.i < len(r.snap.parts) {
		r.at = place{part: r.snap.parts[r.i], ahead: r.at.ahead}
		if !r.From.IsZero() && r.open() {
			r.at.off = r.search()
		}
	}
}

// searchBytes is the length of a part of a file that is read rather than searched.
const searchBytes = 1 << 20

// search returns the offset of a frame in part i before which all lines are from before From, by bisection.
// They were written before the first line of that frame, whose fetch began Disorder before From.
func (r *Reader) search() int64 {
	from, end := int64(0), r.file.Size()
	for end-from > searchBytes {
		middle := from + (end-from)/2
		at := disk.FindMagic(r.file, middle, end, frameMagic, func(at int64) bool {
			_, err := r.s.load(r.file, at)
			return err == nil
		})
		line, _, whole := bytes.Cut(r.s.text, []byte{'\n'})
		if at < 0 || !whole || r.fields.Parse(line) != nil || !r.fields.Time.Add(Disorder).Before(r.From) {
			end = middle
			continue
		}
		from = at
	}
	return from
}

// unwanted reports whether a part has no line between From and To. Its lines were written after the part
// before it was begun, and before the part after it was.
func (r *Reader) unwanted(i int) bool {
	parts := r.snap.parts
	if !r.From.IsZero() && i+1 < len(parts) && !parts[i+1].begun.IsZero() &&
		parts[i+1].begun.Add(Disorder).Before(r.From) {
		return true
	}
	return !r.To.IsZero() && i > 0 && parts[i-1].begun.Add(-Disorder).After(r.To)
}

// Next returns the fields of the next line, valid until the next call; false at the end of the snapshot.
func (r *Reader) Next() (*Fields, bool) {
	for {
		for len(r.lines) > 0 {
			line, rest, whole := bytes.Cut(r.lines, []byte{'\n'})
			r.lines = rest
			err := r.fields.Parse(line)
			if err == nil && !whole {
				err = errors.New("no end of line")
			}
			if err == nil {
				return &r.fields, true
			}
			r.Damaged(&disk.CorruptError{Path: r.from, Offset: r.off, Want: "a line of JSON", Got: err.Error()})
		}
		if !r.fill() {
			return nil, false
		}
	}
}

// fill reads the next frame with lines.
func (r *Reader) fill() bool {
	for r.i < len(r.snap.parts) {
		if !r.open() {
			r.at.off, r.at.marked = r.snap.parts[r.i].covered(), false // do not try again
		} else if r.at.off < r.file.Size() && r.frame() {
			if len(r.lines) > 0 {
				return true
			}
			continue
		}
		if r.i+1 >= len(r.snap.parts) {
			break
		}
		r.i++
		r.enter()
	}
	return r.fillTail()
}

// fillTail reads the lines of the tail file, unless a later frame has them.
func (r *Reader) fillTail() bool {
	s := r.snap
	if n := len(s.parts); n > 0 {
		if last := &s.parts[n-1]; r.i == n-1 && r.at.off > last.covered() || r.i < n-1 {
			return false
		}
	}
	if len(s.lines) == 0 || bytes.HasPrefix(r.at.ahead, s.lines) {
		return false
	}
	r.lines, r.from, r.off = s.lines, s.tails, s.off
	if bytes.HasPrefix(s.lines, r.at.ahead) {
		r.lines = s.lines[len(r.at.ahead):]
	}
	r.at.ahead = s.lines
	return true
}

// open opens part i unless it is open.
func (r *Reader) open() bool {
	if r.file != nil {
		return true
	}
	p := &r.snap.parts[r.i]
	size, tail := p.length(), []byte(nil)
	if p.size < p.covered() && p.size >= p.known {
		size, tail = p.known, p.tail
	}
	var f disk.File
	if size > 0 {
		var err error
		if f, err = r.snap.openPart(p); err != nil {
			r.Damaged(fmt.Errorf("crawllog: read: %w", err))
			return false
		}
	}
	r.file = outfile.NewBytes(f, size, tail)
	return true
}

// frame reads the frame at the reader's place, or the next sound one after damage; false if there is none.
func (r *Reader) frame() bool {
	p := &r.snap.parts[r.i]
	n, err := r.s.load(r.file, r.at.off)
	if err != nil {
		// A frame that no state covers may be incomplete in the last file: the crawl is writing it.
		covered := r.at.off < p.covered() || !p.open || r.i+1 < len(r.snap.parts)
		wrong := &disk.CorruptError{Path: p.file(), Offset: r.at.off, Want: "a zstd frame", Got: err.Error()}
		next := disk.FindMagic(r.file, r.at.off+1, r.file.Size(), frameMagic, func(at int64) bool {
			n, err = r.s.load(r.file, at)
			return err == nil
		})
		if covered || next >= 0 {
			r.Damaged(wrong)
		}
		if next < 0 {
			if covered {
				r.at.off, r.at.marked = max(p.covered(), r.file.Size()), false
			}
			return false
		}
		r.at.off = next
	}
	r.from, r.off = p.file(), r.at.off
	r.at.off += n
	r.at.marked = copy(r.at.end[:], r.s.frame[max(0, len(r.s.frame)-len(r.at.end)):]) == len(r.at.end)
	r.lines = bytes.TrimPrefix(r.s.text, r.at.ahead)
	r.at.ahead = nil
	return true
}
