package export

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"drumbeat/disk"
	"drumbeat/internal/bug"
	"drumbeat/internal/human"
	"drumbeat/state/extract"
	"drumbeat/warc"
)

// languageWorkerBytes is the RAM of a worker: see extract.Language.
const languageWorkerBytes = 64 << 20

// storedPage is a page of a WARC file and its language. A file has some 100,000, and each takes some 200 bytes.
type storedPage struct {
	at   warc.Indexed
	code string
}

// languages finds the languages of the pages of one WARC file, in parallel, and sorts the pages by offset.
func (p *pageJoin) languages(x *warc.Index, pages []storedPage) error {
	j := p.j
	slices.SortFunc(pages, func(a, b storedPage) int { return cmp.Compare(a.at.Offset, b.at.Offset) })
	if len(pages) == 0 {
		return nil
	}
	data, err := x.Data(j.WARCFiles())
	if errors.Is(err, warc.ErrMoved) {
		p.withoutPage += int64(len(pages))
		return nil
	}
	if err != nil {
		return err
	}
	var next atomic.Int64
	var mu sync.Mutex // guards failed and the damage
	var failed error
	var group sync.WaitGroup
	for range max(1, min(int(j.opt.RAMBytes/languageWorkerBytes), runtime.GOMAXPROCS(0))) {
		group.Go(func() {
			defer bug.Fatal()
			for i := next.Add(1) - 1; i < int64(len(pages)) && j.ctx.Err() == nil; i = next.Add(1) - 1 {
				code, err := extract.Language(data, &pages[i].at)
				pages[i].code = code
				if err == nil {
					continue
				}
				mu.Lock()
				if damage := (*disk.CorruptError)(nil); !errors.As(err, &damage) {
					failed = errors.Join(failed, err)
					next.Store(int64(len(pages)))
				} else if j.report.Damaged++; p.damage == nil {
					p.damage = err
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := errors.Join(failed, data.Close()); err != nil {
		return err
	}
	return context.Cause(j.ctx)
}

// languageOf returns the language of the page at an offset; "" if there is none.
func languageOf(pages []storedPage, offset int64) string {
	i, ok := slices.BinarySearchFunc(pages, offset,
		func(p storedPage, o int64) int { return cmp.Compare(p.at.Offset, o) })
	if !ok {
		return ""
	}
	return pages[i].code
}

// noteLanguages notes which languages are missing.
func (p *pageJoin) noteLanguages() {
	if p.withoutPage > 0 {
		p.j.note("%s in WARC files that were moved away: their languages are missing",
			human.Counted(p.withoutPage, "page is", "pages are"))
	}
	if p.damage != nil {
		p.j.note("%s damaged: their languages are missing; the first: %v",
			human.Counted(p.j.report.Damaged, "record is", "records are"), p.damage)
	}
}
