package export

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"drumbeat/disk"
	"drumbeat/internal/bug"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/extract"
	"drumbeat/warc"
)

// sign reads all pages and adds their documents.
func (t *textJoin) sign() error {
	t.j.meter.Set("pages")
	var mu sync.Mutex // guards rec and the sorters
	return t.walk(func(x *warc.Index, file uint32) error {
		var failed error
		t.names[file] = x.File()
		pages, err := t.pages(x, func(c *warc.Indexed) bool {
			if c.Kind == warc.KindPage && c.IsRevisit() && c.Status >= 200 && c.Status <= 299 {
				d := documentOf(c, file)
				d.revisit = true
				failed = errors.Join(failed, t.bodies.Add(d.append(append(append(t.rec[:0], c.Digest...), 0, 1))))
			}
			return extract.HasPage(c)
		})
		if err = errors.Join(err, failed); err != nil || len(pages) == 0 {
			return err
		}
		data, err := x.Data(t.j.WARCFiles())
		if errors.Is(err, warc.ErrMoved) {
			t.moved += int64(len(pages))
			return nil
		}
		if err != nil {
			return err
		}
		err = t.parallel(data, pages, func(p *extract.Pages, i int) error {
			x := &pages[i]
			s, ok, err := p.Sign(data, x)
			if err != nil || !ok {
				return err
			}
			d := documentOf(x, file)
			d.sign = s
			mu.Lock()
			defer mu.Unlock()
			t.rec = d.append(t.rec[:0])
			if err := t.docs.Add(t.rec); err != nil {
				return err
			}
			t.rec = appendSign(append(append(t.rec[:0], x.Digest...), 0, 0), &s)
			return t.bodies.Add(t.rec)
		})
		return errors.Join(err, data.Close())
	})
}

// documentOf returns the document of a response, without its signature.
func documentOf(x *warc.Indexed, file uint32) document {
	return document{url: []byte(x.URL), millis: x.Time.UnixMilli(), file: file, offset: x.Offset, length: x.Length}
}

// writeKept reads the wanted pages again and writes their rows, in the order of the WARC files.
func (t *textJoin) writeKept() error {
	t.j.meter.Set("kept pages")
	if err := t.advance(); err != nil {
		return err
	}
	return t.walk(func(x *warc.Index, file uint32) error {
		var offsets []int64
		for t.next != nil && binary.BigEndian.Uint32(t.next) == file {
			offsets = append(offsets, int64(binary.BigEndian.Uint64(t.next[4:])))
			if err := t.advance(); err != nil {
				return err
			}
		}
		if len(offsets) == 0 {
			return nil
		}
		pages, err := t.pages(x, func(c *warc.Indexed) bool {
			_, ok := slices.BinarySearch(offsets, c.Offset)
			return ok
		})
		if err != nil {
			return err
		}
		data, err := x.Data(t.j.WARCFiles())
		if err != nil {
			return err
		}
		// Rows wait for those before them: as many as a batch, of up to tabular.MaxRowBytes each.
		for batch := range slices.Chunk(pages, rowBatch*t.workers()) {
			rows := make([][]tabular.Value, len(batch))
			err = t.parallel(data, batch, func(p *extract.Pages, i int) (err error) {
				rows[i], err = p.Row(data, &batch[i])
				return err
			})
			for _, row := range rows {
				if err == nil && row != nil {
					err = t.j.write(row...)
				}
			}
			if err != nil {
				break
			}
		}
		return errors.Join(err, data.Close())
	})
}

// rowBatch is the number of rows that a worker makes before they are written: some 100 KB for ordinary pages.
const rowBatch = 8

// advance goes to the next record of wanted.
func (t *textJoin) advance() (err error) {
	t.next, err = t.wanted.Next()
	return err
}

// walk calls each for the index of each WARC file, with its number.
func (t *textJoin) walk(each func(x *warc.Index, file uint32) error) error {
	st, err := part[warc.State](t.j, state.NameWARC)
	if err != nil {
		return err
	}
	file := 0
	return warc.WalkIndexes(t.j.WARCFiles(), st, func(x *warc.Index) error {
		if file == len(t.names) {
			t.names = append(t.names, "")
		}
		file++
		return each(x, uint32(file-1))
	})
}

// pages returns some of the pages of a WARC file by offset. A file has some 100,000, and each takes some 200 bytes.
func (t *textJoin) pages(x *warc.Index, want func(*warc.Indexed) bool) (pages []warc.Indexed, err error) {
	err = x.Lines(func(line []byte) error {
		c, err := x.Parse(line)
		if err == nil && want(c) {
			pages = append(pages, *c)
		}
		return errors.Join(err, t.j.live())
	})
	slices.SortFunc(pages, func(a, b warc.Indexed) int { return cmp.Compare(a.Offset, b.Offset) })
	return pages, err
}

// workers returns the number of pages that are read at a time.
func (t *textJoin) workers() int {
	return max(1, min(int(t.j.opt.RAMBytes/extract.WorkerBytes), runtime.GOMAXPROCS(0)))
}

// parallel calls do for the number of each page. A damaged record is counted, another error ends it.
func (t *textJoin) parallel(data *warc.Data, pages []warc.Indexed, do func(p *extract.Pages, i int) error) error {
	for agent := ""; len(t.readers) < t.workers(); {
		if run := t.j.Manifest.Run; run != nil {
			agent = run.Agent
		}
		t.readers = append(t.readers, extract.NewPages(t.j.opt.Fields, agent))
	}
	var next atomic.Int64
	var mu sync.Mutex // guards failed and the damage
	var failed error
	var group sync.WaitGroup
	for _, p := range t.readers {
		group.Go(func() {
			defer bug.Fatal()
			for i := next.Add(1) - 1; i < int64(len(pages)) && t.j.ctx.Err() == nil; i = next.Add(1) - 1 {
				err := do(p, int(i))
				if err == nil {
					continue
				}
				mu.Lock()
				if damage := (*disk.CorruptError)(nil); !errors.As(err, &damage) {
					failed = errors.Join(failed, err)
					next.Store(int64(len(pages)))
				} else if t.j.report.Damaged++; t.damage == nil {
					t.damage = err
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if t.j.ctx.Err() != nil {
		return errors.Join(failed, context.Cause(t.j.ctx))
	}
	return failed
}
