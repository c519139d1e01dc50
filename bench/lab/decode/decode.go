// Package decode measures the decoders of content codings on real pages.
//
//	go run ./bench/lab decode
//
// Pages are packed by the standard library's coders; each decoder must give every page back before it is measured: ours, klauspost's
// and the standard library's for gzip and deflate, andybalholm's for br, klauspost's for zstd. CPU is that of the thread, the decoders
// of a coding taking turns. Pages are classed by size, since tables and first buffers weigh on small ones.
//
// # Checks
//
// Ours is twice as fast as klauspost's at least, and allocates nothing.
//
// # Concurrency and memory
//
// Measure keeps its goroutine on one thread. The pages, 256 MiB at most, are held with their packed forms: 11 codings, a fifth each.
package decode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"

	"drumbeat/bench/lab/corpus"
	"drumbeat/bench/measure"
	"drumbeat/bench/report"
)

// Options are what is measured, and flags of command lab.
type Options struct {
	Corpus []string `placeholder:"DIR" help:"Directory with HTML files, looked at to the bottom. Repeatable. Default: made pages."`
	Pages  int      `placeholder:"N" help:"Files taken, evenly from all, or pages made. Default: 2000, or 200 with --quick."`
	Levels []int    `placeholder:"N" help:"Levels of gzip. Default: 1, 6 and 9: servers pack with 1 to 6 as they send, and with 9 beforehand."`
	Repeat int      `placeholder:"N" help:"How often each decoder goes through all pages, in turns. Default: 10, or 5 with --quick."`
	Seed   uint64   `placeholder:"N" default:"1" help:"Seed of made pages."`
	Quick  bool     `help:"End within 30 s: fewer pages."`
	// PassBytes is the least that is decoded for one figure. 0: 8 MiB, which take 8 ms at 1 GB/s.
	PassBytes int64 `kong:"-"`
}

const (
	// maxDecodePage leaves out files larger than a crawl's bodies are.
	maxDecodePage = 2 << 20
	// maxDecodeBytes bounds all pages together, which are held with their packed forms: 11 codings, a fifth each.
	maxDecodeBytes = 256 << 20
	// checkedDecode is how many times cheaper than klauspost's decoder ours must be on a corpus.
	checkedDecode = 2
)

// decodeClasses are upper bounds of the sizes of pages that are measured together: tables and first buffers weigh on the
// small ones.
var decodeClasses = []int{4 << 10, 16 << 10, 64 << 10, maxDecodePage}

// Validate fills in defaults and returns all faults, joined.
func (o *Options) Validate() error {
	measure.Default(&o.Pages, measure.Quick(o.Quick, 200, 2000))
	measure.Default(&o.Repeat, measure.Quick(o.Quick, 5, 10))
	measure.Default(&o.PassBytes, 8<<20)
	if o.Levels == nil {
		o.Levels = []int{1, 6, 9}
	}
	var faults []error
	if o.Pages < 1 || o.Pages > 1e6 {
		faults = append(faults, fmt.Errorf("bench: decode: %d pages: want 1 to 1,000,000", o.Pages))
	}
	if o.Repeat < 1 || o.Repeat > 100 {
		faults = append(faults, fmt.Errorf("bench: decode: %d repeats: want 1 to 100", o.Repeat))
	}
	for _, l := range o.Levels {
		if l < 1 || l > 9 {
			faults = append(faults, fmt.Errorf("bench: decode: level %d: want 1 to 9", l))
		}
	}
	return errors.Join(faults...)
}

// decodeRun is a measurement under way.
type decodeRun struct {
	o        *Options
	progress func(string)
	source   string
	classes  [][][]byte // pages by class
	bytes    int64
	room     []byte // for one page
	kinds    []decodeKind
	passes   []decodePass
	packed   map[string]int64 // bytes of all pages, by case
}

// decodePass is what one decoder took for the pages of a class, once or several times.
type decodePass struct {
	kind, decoder string // kind is coding and level
	class         int
	pages, bytes  int64
	cpu           float64 // ns
	allocs        uint64
}

// Measure packs pages, checks that each decoder gives them back, and measures: CPU time of the thread, the decoders of a
// coding taking turns, Repeat times.
func (o *Options) Measure(ctx context.Context, progress func(string)) (*report.Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rep := report.New("decode", "decoding pages, CPU of one thread")
	r := &decodeRun{o: o, progress: progress, packed: map[string]int64{}}
	pages, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	r.classes = make([][][]byte, len(decodeClasses))
	most := 0
	for _, p := range pages {
		i, _ := slices.BinarySearch(decodeClasses, len(p))
		r.classes[i] = append(r.classes[i], p)
		r.bytes += int64(len(p))
		most = max(most, len(p))
	}
	r.room = make([]byte, 0, most+decodeSlack)
	r.kinds = decodeKinds(o.Levels)
	for _, kind := range r.kinds {
		if err := r.measure(ctx, kind); err != nil {
			return nil, err
		}
	}
	r.report(rep, len(pages))
	return rep, nil
}

// measure measures all decoders of one kind.
func (r *decodeRun) measure(ctx context.Context, kind decodeKind) error {
	r.progress(fmt.Sprintf("pack: %s", kind.name))
	packed := make([][][]byte, len(r.classes))
	for i, pages := range r.classes {
		for _, p := range pages {
			if err := ctx.Err(); err != nil {
				return err
			}
			z, err := kind.pack(p)
			if err != nil {
				return fmt.Errorf("bench: decode: pack %s: %w", kind.name, err)
			}
			packed[i] = append(packed[i], z)
			r.packed[kind.name] += int64(len(z))
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for repeat := range r.o.Repeat + 1 { // the first only checks
		if repeat <= 1 {
			r.progress([]string{"check: ", "measure: "}[repeat] + kind.name)
		}
		for class, pages := range r.classes {
			for j := range kind.decoders {
				d := kind.decoders[(j+repeat)%len(kind.decoders)]
				if err := ctx.Err(); err != nil {
					return err
				}
				if repeat == 0 {
					if err := r.check(d, pages, packed[class]); err != nil {
						return fmt.Errorf("bench: decode: %s by %s: %w", kind.name, d.name, err)
					}
				} else if len(pages) > 0 {
					if err := r.pass(kind, d, class, packed[class]); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// check compares all that a decoder gives with the pages.
func (r *decodeRun) check(d decoder, pages, packed [][]byte) error {
	for i, z := range packed {
		got, err := d.decode(r.room[:0], z, len(pages[i]))
		if err == nil && !bytes.Equal(got, pages[i]) {
			err = fmt.Errorf("other bytes than were packed")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pass decodes the pages of a class until there are enough bytes.
func (r *decodeRun) pass(kind decodeKind, d decoder, class int, packed [][]byte) error {
	pages := r.classes[class]
	p := decodePass{kind: kind.name, decoder: d.name, class: class}
	heap := measure.Heap()
	began := measure.ThreadTime()
	for share := r.share(class); p.bytes < share; {
		for i, z := range packed {
			got, err := d.decode(r.room[:0], z, len(pages[i]))
			if err != nil {
				return fmt.Errorf("bench: decode: %s by %s: %w", kind.name, d.name, err)
			}
			p.bytes += int64(len(got))
		}
		p.pages += int64(len(packed))
	}
	p.cpu = float64(measure.ThreadTime() - began)
	p.allocs, _ = heap()
	r.passes = append(r.passes, p)
	return nil
}

// share is how many bytes of a class are decoded in a pass at least.
func (r *decodeRun) share(class int) int64 {
	n := int64(0)
	for _, p := range r.classes[class] {
		n += int64(len(p))
	}
	return max(1, n, r.o.PassBytes*n/r.bytes)
}

// read returns the pages: of the corpus, or made ones.
func (r *decodeRun) read(ctx context.Context) (pages [][]byte, err error) {
	if len(r.o.Corpus) == 0 {
		r.source = fmt.Sprintf("%d made pages (--corpus measures real ones)", r.o.Pages)
		rng := rand.New(rand.NewPCG(r.o.Seed, 1))
		for range r.o.Pages {
			pages = append(pages, corpus.Made(rng, 2_000+rng.IntN(58_000)))
		}
		return pages, ctx.Err()
	}
	files, _, err := corpus.Files(ctx, r.o.Corpus)
	if err != nil {
		return nil, fmt.Errorf("bench: decode: %w", err)
	}
	total := int64(0)
	for _, f := range corpus.Spread(files, r.o.Pages) {
		if f.Size == 0 || f.Size > maxDecodePage || total+f.Size > maxDecodeBytes {
			continue
		}
		p, err := os.ReadFile(f.Path)
		if err != nil {
			return nil, fmt.Errorf("bench: decode: corpus: %w", err)
		}
		pages = append(pages, p)
		total += int64(len(p))
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("bench: decode: no HTML file of up to %d bytes in %s", maxDecodePage,
			strings.Join(r.o.Corpus, ", "))
	}
	r.source = fmt.Sprintf("%d of %d files in %s", len(pages), len(files), strings.Join(r.o.Corpus, ", "))
	return pages, nil
}
