package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// A body that exceeds fetch.Limits.HeldBytes goes to a file, its spool, and from there to a WARC file of its
// own. No checkpoint names a spool: its page is in RAM to the accounts, so after a crash it is fetched again,
// and the next run deletes the file.

const (
	// spillDir is the directory of the spools in each output directory.
	spillDir = "spool"
	// maxSpills limits the spools. Each takes up to 0.5 MiB of the RAM for bodies.
	maxSpills = 32
	// spillStep is the least space in bytes that a spool reserves at a time, for itself and for its copy.
	spillStep = 64 << 20
	// spillStepShare is the part of a small --disk that it reserves instead.
	spillStepShare = 64
	// spillWait is the wait of a URL whose body found no spool or no space.
	spillWait = 10 * time.Minute
)

var errSpills = fmt.Errorf("crawl: %d large bodies are under way already", maxSpills)

// spills creates the spools. It has no goroutine.
type spills struct {
	*engine
	slots  chan struct{} // one for each spool
	serial atomic.Uint64

	space *space.Keeper
}

func newSpills(e *engine) *spills { return &spills{engine: e, slots: make(chan struct{}, maxSpills)} }

// clean deletes the spools of an earlier run.
func (s *spills) clean() error {
	for i := range s.Out.Paths {
		names, err := s.Set.FS.List(s.Out.Path(i, spillDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("crawl: list spools: %w", err)
		}
		for _, name := range names {
			if _, err := strconv.ParseUint(name, 10, 64); err != nil {
				continue
			}
			if err := s.Set.FS.Remove(s.Out.Path(i, spillDir, name)); err != nil {
				return fmt.Errorf("crawl: delete spool: %w", err)
			}
		}
	}
	return nil
}

// open returns a spool for a body of the given length, -1 if it is unknown. It does not wait.
func (s *spills) open(length int64) (fetch.Spill, error) {
	if err := s.space.OutputRoom(2 * max(length, 0)); err != nil {
		return nil, &spillError{err}
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, &spillError{errSpills}
	}
	p := &spill{spills: s}
	serial := s.serial.Add(1)
	dir := int(serial) % s.Out.Len()
	err := s.Set.FS.MkdirAll(s.Out.Path(dir, spillDir))
	if err == nil {
		p.file, err = s.Set.FS.Create(s.Out.Path(dir, spillDir, strconv.FormatUint(serial, 10)))
	}
	if err != nil {
		<-s.slots
		return nil, &spillError{fmt.Errorf("crawl: create spool: %w", err)}
	}
	return p, nil
}

// spill is the file of one body.
type spill struct {
	*spills
	file     disk.File
	size     int64
	reserved int64 // for the copy
}

// Write implements fetch.Spool.
func (p *spill) Write(b []byte) (int, error) {
	if more := p.size + int64(len(b)) - p.reserved; more > 0 {
		more = max(more, min(spillStep, p.opt.Limits.DiskBytes/spillStepShare))
		if err := p.space.OutputRoom(2 * more); err != nil {
			return 0, &spillError{err}
		}
		p.reserved += more
		p.space.Claim(more)
	}
	n, err := p.file.WriteAt(b, p.size)
	if err != nil {
		return n, &spillError{fmt.Errorf("crawl: write to spool: %w", err)}
	}
	disk.WriteBehind(p.file, p.size, int64(n))
	p.size += int64(n)
	return n, nil
}

// ReadAt implements fetch.Spool.
func (p *spill) ReadAt(b []byte, off int64) (int, error) { return p.file.ReadAt(b, off) }

// Release implements fetch.Spool.
func (p *spill) Release() {
	if err := errors.Join(p.file.Close(), p.Set.FS.Remove(p.file.Name())); err != nil {
		p.opt.Observe.Log.Warn("a spool was not deleted; the next run deletes it", "error", err)
	}
	p.space.Claim(-p.reserved)
	<-p.slots
}

// spillError is an error of a spool, or of the copy of its content.
type spillError struct{ error }

// Unwrap returns the cause.
func (e *spillError) Unwrap() error { return e.error }

// passes reports whether the error passes with time. Others are those of a disk that fails.
func (e *spillError) passes() bool { return errors.Is(e, errSpills) || state.IsFull(e) }

// deferLarge defers a URL whose body found no spool or no space. Nothing counts against its host.
func (p *pageStage) deferLarge(g *polite.Grant, rec *weburl.Record, result *ending) error {
	rec.Faults++
	return p.settle(g, result, func(tx *account.Tx) error {
		due := time.Now().Add(spillWait)
		return p.deferrals.deferURL(tx, rec, state.PlaceRAM, due, state.ReasonUnconfirmed)
	})
}

// prepare encodes a response for the page store. That of a spooled body is written to its file now.
func (p *pageStage) prepare(ctx context.Context, w *pageWorker, rec *weburl.Record, resp *fetch.Response) error {
	x := p.warcExchange(w, rec, resp)
	if w.stores == state.ArchiveDrop {
		if err := w.encoder.PrepareOmitted(&w.prepared, x); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	if last, err := visitsOf(rec); err != nil {
		return err
	} else if resp.Status == http.StatusNotModified && last.Captured > 0 {
		of := warc.Original{URL: rec.URL, Date: time.Unix(last.Captured, 0)}
		if err := w.encoder.PrepareNotModified(&w.prepared, x, of); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	if done, err := w.body.PrepareRevisit(w.encoder, &w.prepared, x); err != nil || done {
		return err
	}
	if resp.Spill == nil || w.stores != state.ArchiveKeep {
		if err := w.encoder.Prepare(&w.prepared, x); err != nil {
			return fmt.Errorf("crawl: prepare record of %s: %w", rec.URL, err)
		}
		return nil
	}
	x.Body, x.Large = nil, io.NewSectionReader(resp.Spill, 0, resp.SpoolBytes)
	var err error
	if w.streamed, err = p.output.Stream(ctx, w.encoder, x); err != nil {
		return &fetch.Error{Stage: fetch.StageBody, Kind: fetch.KindResources, Addr: resp.Remote,
			Err: &spillError{fmt.Errorf("crawl: store %s: %w", rec.URL, err)}}
	}
	return nil
}

// fits reports whether the records of a page fit. If they do not, the page is deferred.
func (p *pageStage) fits(w *pageWorker) bool {
	texts := int64(0)
	for i := range w.links.Tuples {
		texts += int64(len(w.links.Tuples[i].Aux))
	}
	return p.space.Fits(int64(w.prepared.Bytes()), int64(len(w.links.Keys)), texts)
}

// deferForRoom defers a page whose records do not fit. Nothing counts against its host.
func (p *pageStage) deferForRoom(page *arrival) error {
	rec := &page.rec
	return p.settle(page.grant, &page.result, func(tx *account.Tx) error {
		return p.deferrals.deferURL(tx, rec, state.PlaceRAM, time.Now().Add(spillWait), state.ReasonUnconfirmed)
	})
}
