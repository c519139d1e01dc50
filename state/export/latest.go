package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"

	"drumbeat/internal/extsort"
)

// After --recrawl a URL has several captures. What is about pages as they are takes the last one of each:
// captures go through a sorter by URL and time, which takes their lines once more to disk if RAM does not
// hold them. A crawl without recrawl does without.

// isCapture reports whether a response is one of its own. A response with status 304 says that the one before
// still holds.
func isCapture(status int) bool { return status != http.StatusNotModified }

// captureKey begins a record of a sorter of captures: key of the URL, Unix ms.
func captureKey(dst []byte, url uint64, millis int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, url), uint64(millis))
}

const captureKeyBytes = 16

// eachCapture calls each with what follows the key in each record, by URL and time. last says that it is the
// last one of its URL. It closes the sorter.
func eachCapture(s *extsort.Sorter, each func(rec []byte, last bool) error) error {
	if err := s.Sort(); err != nil {
		return errors.Join(err, s.Close())
	}
	var held []byte
	for {
		rec, err := s.Next()
		if err == nil && len(held) > 0 {
			err = each(held[captureKeyBytes:], rec == nil || !bytes.Equal(rec[:8], held[:8]))
		}
		if err != nil || rec == nil {
			return errors.Join(err, s.Close())
		}
		held = append(held[:0], rec...)
	}
}

// eachLastPage calls fn with what the index and the log say of the last stored response of each URL; one of
// them may be nil.
func (j *job) eachLastPage(fn func(c, e *packed) error) error {
	if !j.Manifest.Accounts.Recrawled() {
		return (&pageJoin{j: j, log: j.sorterOf(8), emit: fn}).run()
	}
	captures := j.sorterOf(8)
	var rec, part []byte
	p := &pageJoin{j: j, log: j.sorterOf(8), emit: func(c, e *packed) error {
		both := c
		if c == nil {
			both = e
		}
		if !isCapture(int(both.numbers[numStatus])) {
			return nil
		}
		rec = captureKey(rec[:0], j.Hasher.URLKey(both.texts[textURL]), both.numbers[numTime])
		for _, x := range []*packed{c, e} { // length, 0 for none, and what it says
			if part = part[:0]; x != nil {
				part = x.append(part)
			}
			rec = append(binary.AppendUvarint(rec, uint64(len(part))), part...)
		}
		return captures.Add(rec)
	}}
	if err := p.run(); err != nil {
		return err
	}
	j.meter.Set("sorting captures")
	var both [2]packed
	return eachCapture(captures, func(rec []byte, last bool) error {
		if !last {
			return nil
		}
		var have [2]*packed
		for i := range both {
			n, w := binary.Uvarint(rec)
			if n > 0 {
				both[i].read(rec[w : w+int(n)])
				have[i] = &both[i]
			}
			rec = rec[w+int(n):]
		}
		return fn(have[0], have[1])
	})
}
