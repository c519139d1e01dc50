package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"

	"drumbeat/disk"
	"drumbeat/internal/bug"
	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/extract"
	"drumbeat/warc"
)

// textScan finds the main texts of rows. It reads each WARC file once, from its beginning to its end, and sorts the
// texts by row.
type textScan struct {
	j        *job
	byDigest *extsort.Sorter // digest, 0, 0, place and URL of a body; or digest, 0, 1, row
	bodies   *extsort.Sorter // place of a body, row, URL of the body
	texts    *extsort.Sorter // row, length of the title, title, text
	rec      []byte
	next     []byte // the current record of bodies, then of texts; nil at the end

	mu      sync.Mutex // guards the fields below, and texts while workers run
	failed  error
	damage  error // the first of Report.Damaged
	moved   int64 // rows whose WARC file is not there
	orphans int64 // revisits whose body is in no index
}

func newTextScan(j *job) *textScan {
	return &textScan{j: j, byDigest: j.sorterOf(8), bodies: j.sorterOf(8), texts: j.sorter()}
}

// hasText tells whether the body of a record may be a page.
func hasText(v *visit) bool {
	return v.numbers[visitFlags]&flagRevisit == 0 && extract.HasPage(&warc.Indexed{
		Capture: warc.Capture{Status: int(v.numbers[visitStatus])}, MIME: string(v.texts[visitMIME])})
}

// body notes where the body of a visit is, for revisits that refer to it.
func (s *textScan) body(v *visit) error {
	if v.numbers[visitKind] != isResponse || !hasText(v) {
		return nil
	}
	s.rec = append(append(s.rec[:0], v.texts[visitDigest]...), 0, 0)
	return s.byDigest.Add(append(appendPlace(s.rec, v), v.texts[visitURL]...))
}

// appendPlace appends the place of a record, and its length (8).
func appendPlace(dst []byte, v *visit) []byte {
	dst = place(dst, uint32(v.numbers[visitFile]), v.numbers[visitOffset])
	return binary.BigEndian.AppendUint64(dst, uint64(v.numbers[visitLength]))
}

// bodyBytes is the length of what appendPlace appends.
const bodyBytes = placeBytes + 8

// want asks for the text of the row with a key.
func (s *textScan) want(v *visit, row []byte) error {
	if hasText(v) {
		s.rec = append(append(appendPlace(s.rec[:0], v), row...), v.texts[visitURL]...)
		return s.bodies.Add(s.rec)
	}
	if v.numbers[visitFlags]&flagRevisit == 0 {
		return nil // no page
	}
	s.rec = append(append(s.rec[:0], v.texts[visitDigest]...), 0, 1)
	return s.byDigest.Add(append(s.rec, row...))
}

// read reads the texts.
func (s *textScan) read(files []string) error {
	if err := s.join(); err != nil {
		return err
	}
	if err := s.advance(s.bodies); err != nil {
		return err
	}
	st, err := part[warc.State](s.j, state.NameWARC)
	if err != nil {
		return err
	}
	s.j.meter.Set("texts")
	number := uint32(0)
	if err := warc.WalkIndexes(s.j.WARCFiles(), st, func(x *warc.Index) error {
		number++
		return s.file(x, number-1)
	}); err != nil {
		return err
	}
	for _, n := range []struct {
		n               int64
		one, many, lost string
	}{
		{s.moved, "page is in a WARC file that was", "pages are in WARC files that were",
			"moved away: their texts are missing"},
		{s.orphans, "page is a revisit", "pages are revisits", "of a body that is in no index: texts are missing"},
	} {
		if n.n > 0 {
			s.j.note("%s %s", human.Counted(n.n, n.one, n.many), n.lost)
		}
	}
	if s.damage != nil {
		s.j.note("%s missing; the first: %v", human.Counted(int64(s.j.report.Damaged),
			"record is damaged: its text is", "records are damaged: their texts are"), s.damage)
	}
	if err := s.texts.Sort(); err != nil {
		return err
	}
	return s.advance(s.texts)
}

// join finds the body of each revisit.
func (s *textScan) join() error {
	if err := s.byDigest.Sort(); err != nil {
		return err
	}
	var digest, body []byte // body: place, length and URL of the first one with the digest
	for {
		r, err := s.byDigest.Next()
		if err != nil {
			return err
		}
		if r == nil {
			return errors.Join(s.byDigest.Close(), s.bodies.Sort())
		}
		end := bytes.IndexByte(r, 0)
		if !bytes.Equal(digest, r[:end]) {
			digest, body = append(digest[:0], r[:end]...), body[:0]
		}
		switch row := r[end+2:]; {
		case r[end+1] == 0 && len(body) == 0:
			body = append(body, row...)
		case r[end+1] == 0:
		case len(body) == 0:
			s.orphans++
		default:
			s.rec = append(append(append(s.rec[:0], body[:bodyBytes]...), row...), body[bodyBytes:]...)
			if err := s.bodies.Add(s.rec); err != nil {
				return err
			}
		}
	}
}

func (s *textScan) advance(in *extsort.Sorter) (err error) {
	s.next, err = in.Next()
	return err
}

// file reads the texts of one WARC file, on all cores that the RAM allows.
func (s *textScan) file(x *warc.Index, number uint32) error {
	if s.next == nil || binary.BigEndian.Uint32(s.next) != number {
		return nil
	}
	data, err := x.Data(s.j.WARCFiles())
	if errors.Is(err, warc.ErrMoved) {
		return s.each(s.j.ctx, number, func([]byte) { s.moved++ })
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.j.ctx)
	defer cancel()
	work := make(chan []byte)
	var group sync.WaitGroup
	for range max(1, min(int(s.j.opt.RAMBytes/languageWorkerBytes), runtime.GOMAXPROCS(0))) {
		group.Go(func() {
			defer bug.Fatal()
			for rec := range work {
				if err := s.text(data, rec); err != nil {
					s.mu.Lock()
					s.failed = errors.Join(s.failed, err)
					s.mu.Unlock()
					cancel()
				}
			}
		})
	}
	err = s.each(ctx, number, func(rec []byte) { work <- bytes.Clone(rec) })
	close(work)
	group.Wait()
	if s.failed != nil {
		err = s.failed // and not that ctx was cancelled
	}
	return errors.Join(err, data.Close())
}

// each calls fn with the records of bodies in one file.
func (s *textScan) each(ctx context.Context, number uint32, fn func(rec []byte)) error {
	for s.next != nil && binary.BigEndian.Uint32(s.next) == number {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fn(s.next)
		if err := s.advance(s.bodies); err != nil {
			return err
		}
	}
	return nil
}

// text reads the text of a record of bodies.
func (s *textScan) text(data *warc.Data, rec []byte) error {
	x := warc.Indexed{MIME: "text/html"}
	x.Status, x.Offset = 200, int64(binary.BigEndian.Uint64(rec[4:]))
	x.Length = int64(binary.BigEndian.Uint64(rec[placeBytes:]))
	row := rec[bodyBytes : bodyBytes+1+rowKeyBytes]
	x.URL = string(rec[bodyBytes+len(row):])
	title, text, err := extract.MainText(data, &x)
	s.mu.Lock()
	defer s.mu.Unlock()
	if damage := (*disk.CorruptError)(nil); errors.As(err, &damage) {
		if s.j.report.Damaged++; s.damage == nil {
			s.damage = err
		}
		return nil
	}
	if err != nil || len(title)+len(text) == 0 {
		return err
	}
	r := binary.AppendUvarint(bytes.Clone(row), uint64(len(title)))
	return s.texts.Add(append(append(r, title...), text...))
}

// of returns the title and the text of a row. Its calls are in the order of rows.
func (s *textScan) of(row []byte) (title, text []byte, err error) {
	for s.next != nil {
		switch bytes.Compare(s.next[:len(row)], row) {
		case 0:
			n, w := binary.Uvarint(s.next[len(row):])
			rest := s.next[len(row)+w:]
			return rest[:n], rest[n:], nil
		case 1:
			return nil, nil, nil
		}
		if err := s.advance(s.texts); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, s.texts.Close()
}
