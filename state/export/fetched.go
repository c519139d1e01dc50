package export

import (
	"context"

	"drumbeat/internal/health"
	"drumbeat/internal/revisit"
)

// Fetched is a URL that the crawl has an answer for, as Coverage has answers. It is valid during the call.
type Fetched struct {
	URL  []byte
	MIME []byte // of the last body that its index line names; empty: unknown
	// Visits is what the crawl knows for the next visit (weburl.Record.Visits); empty if none is planned.
	Visits []byte
}

// EachFetched calls fn with each URL that has an answer, by the keys of URLs. Of opt it takes FS, Dirs, Out, RAMBytes
// and TempDir. It reads the last checkpoint, and ends early if ctx is done.
func EachFetched(ctx context.Context, opt Options, fn func(*Fetched) error) (*Report, error) {
	opt.Kind = coverage
	opt.site = func(j *job) error {
		f := &fetchedScan{visitScan: visitScan{j: j, sorter: j.sorter(), plans: true}}
		return f.run(fn)
	}
	return Run(ctx, opt)
}

// fetchedScan sorts what the crawl knows of each URL.
type fetchedScan struct {
	visitScan
	now      Fetched // the URL so far
	answered bool
}

func (f *fetchedScan) run(fn func(*Fetched) error) error {
	if err := f.scan(); err != nil {
		return err
	}
	if err := f.waiting(); err != nil {
		return err
	}
	pass := func() error {
		if !f.answered {
			return nil
		}
		return fn(&f.now)
	}
	f.j.meter.Set("sorting URLs")
	err := f.each(0, func(v *visit, _ []byte, first bool) error {
		if first {
			if err := pass(); err != nil {
				return err
			}
			u := &f.now
			u.URL, u.MIME, u.Visits = append(u.URL[:0], v.texts[visitURL]...), u.MIME[:0], u.Visits[:0]
			f.answered = false
		}
		f.take(v)
		return nil
	})
	if err != nil {
		return err
	}
	return pass()
}

// take notes a record of the URL.
func (f *fetchedScan) take(v *visit) {
	u := &f.now
	switch v.numbers[visitKind] {
	case isResponse:
		f.answered = f.answered || !health.KindOf(int(v.numbers[visitStatus])).Failed()
		if mime := v.texts[visitMIME]; len(mime) > 0 {
			u.MIME = append(u.MIME[:0], mime...)
		}
	case isWaiting:
		if visits := v.texts[waitingPlan]; revisit.Visited(visits) { // also if its WARC files were moved away
			u.Visits, f.answered = append(u.Visits[:0], visits...), true
		}
	}
}
