package log

import (
	"container/heap"
	"slices"

	"drumbeat/internal/crawllog"
)

// windowBytes bounds the lines that wait to be sorted, in bytes: those of a minute at 700 pages per second.
const windowBytes = 16 << 20

// heldBytes is what a line in the window takes besides its text.
const heldBytes = 64

// held is a line in the window.
type held struct {
	millis int64 // Unix time
	number int64 // in the order of reading
	line   []byte
}

// window is a heap of lines by time.
type window []held

// Len implements heap.Interface.
func (w window) Len() int { return len(w) }

// Less implements heap.Interface.
func (w window) Less(i, j int) bool {
	a, b := &w[i], &w[j]
	return a.millis < b.millis || a.millis == b.millis && a.number < b.number
}

// Swap implements heap.Interface.
func (w window) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *window) Push(x any) { *w = append(*w, x.(held)) }

// Pop implements heap.Interface.
func (w *window) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = held{}
	*w = (*w)[:last]
	return x
}

// merge calls fn with the wanted lines of all readers, sorted by time as far as limit bytes of lines allow.
// It reads from the log that is behind, so logs of the same time are merged whatever their sizes.
func merge(readers []*crawllog.Reader, want *filter, limit int, fn func(*crawllog.Fields) error) error {
	type source struct {
		r    *crawllog.Reader
		last int64 // time of the newest line that was read
	}
	var sources []source
	for _, r := range readers {
		sources = append(sources, source{r: r})
	}
	var (
		w      window
		size   int
		number int64
		f      crawllog.Fields
	)
	release := func() error {
		x := heap.Pop(&w).(held)
		size -= len(x.line) + heldBytes
		if err := f.Parse(x.line); err != nil {
			return err
		}
		return fn(&f)
	}
	for len(sources) > 0 {
		behind := 0
		for i := range sources {
			if sources[i].last < sources[behind].last {
				behind = i
			}
		}
		next, ok := sources[behind].r.Next()
		if !ok {
			sources = slices.Delete(sources, behind, behind+1)
			continue
		}
		at := next.Time.UnixMilli()
		sources[behind].last = max(sources[behind].last, at)
		if !want.match(next) {
			continue
		}
		number++
		size += len(next.Line) + heldBytes
		heap.Push(&w, held{millis: at, number: number, line: slices.Clone(next.Line)})
		for size > limit {
			if err := release(); err != nil {
				return err
			}
		}
	}
	for len(w) > 0 {
		if err := release(); err != nil {
			return err
		}
	}
	return nil
}
