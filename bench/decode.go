package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"drumbeat/bench/report"
	"drumbeat/disk"
)

// Decode is what RunDecode measures: the decoders of content codings, on real pages or made ones. Zero fields mean the
// default. A Decode is a value.
type Decode struct {
	// Corpus are directories with HTML files, looked at to the bottom. None: made pages.
	Corpus []string
	// Pages is how many files are taken, evenly from all, or made. 0: 2000.
	Pages int
	// Levels are those of gzip. None: 1, 6 and 9: servers pack with 1 to 6 as they send, and 9 beforehand.
	Levels []int
	// Repeats is how often each decoder goes through all pages. 0: 10.
	Repeats int
	// PassBytes is the least that is decoded for one figure. 0: 8 MiB, which take 8 ms at 1 GB/s.
	PassBytes int64
	// Seed is that of made pages.
	Seed uint64
	// Progress is told what goes on. May be nil.
	Progress func(what string)
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

// Validate returns all faults, joined.
func (o Decode) Validate() error { return o.complete() }

func (o *Decode) complete() error {
	if o.Pages == 0 {
		o.Pages = 2000
	}
	if o.Levels == nil {
		o.Levels = []int{1, 6, 9}
	}
	if o.Repeats == 0 {
		o.Repeats = 10
	}
	if o.PassBytes == 0 {
		o.PassBytes = 8 << 20
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	var faults []error
	if o.Pages < 1 || o.Pages > 1e6 {
		faults = append(faults, fmt.Errorf("bench: decode: %d pages: want 1 to 1,000,000", o.Pages))
	}
	if o.Repeats < 1 || o.Repeats > 100 {
		faults = append(faults, fmt.Errorf("bench: decode: %d repeats: want 1 to 100", o.Repeats))
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
	o       Decode
	source  string
	classes [][][]byte // pages by class
	bytes   int64
	room    []byte // for one page
	kinds   []decodeKind
	passes  []decodePass
	packed  map[string]int64 // bytes of all pages, by case
}

// decodePass is what one decoder took for the pages of a class, once or several times.
type decodePass struct {
	kind, decoder string // kind is coding and level
	class         int
	pages, bytes  int64
	cpu           float64 // ns
	allocs        uint64
}

// RunDecode packs pages, checks that each decoder gives them back, and measures: CPU time of the thread, the decoders of a
// coding taking turns, Repeats times.
func RunDecode(ctx context.Context, o Decode) (*report.Report, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	rep := report.New("decode", "decoding pages, CPU of one thread")
	r := &decodeRun{o: o, packed: map[string]int64{}}
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
	r.o.Progress(fmt.Sprintf("pack: %s", kind.name))
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
	for repeat := range r.o.Repeats + 1 { // the first only checks
		if repeat <= 1 {
			r.o.Progress([]string{"check: ", "measure: "}[repeat] + kind.name)
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
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := threadTime()
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
	p.cpu = float64(threadTime() - began)
	runtime.ReadMemStats(&after)
	p.allocs = after.Mallocs - before.Mallocs
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
		words := madeWords(rng)
		for range r.o.Pages {
			pages = append(pages, madePage(rng, words))
		}
		return pages, ctx.Err()
	}
	var names []string
	for _, dir := range r.o.Corpus {
		r.o.Progress("look for pages in " + dir)
		top, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, fmt.Errorf("bench: decode: corpus: %w", err)
		}
		err = filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && isPage(name) {
				names = append(names, name)
			}
			return errors.Join(err, ctx.Err())
		})
		if err != nil {
			return nil, fmt.Errorf("bench: decode: corpus %s: %w", dir, err)
		}
	}
	slices.Sort(names)
	total := int64(0)
	for i := 0; i < min(r.o.Pages, len(names)) && total < maxDecodeBytes; i++ {
		p, err := disk.ReadFile(disk.OS(), names[i*len(names)/min(r.o.Pages, len(names))])
		if err != nil {
			return nil, fmt.Errorf("bench: decode: corpus: %w", err)
		}
		if len(p) > 0 && len(p) <= maxDecodePage {
			pages = append(pages, p)
			total += int64(len(p))
		}
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("bench: decode: no file named *.html, *.htm or *.xhtml of up to %d bytes in %s", maxDecodePage,
			strings.Join(r.o.Corpus, ", "))
	}
	r.source = fmt.Sprintf("%d of %d files in %s", len(pages), len(names), strings.Join(r.o.Corpus, ", "))
	return pages, nil
}

func isPage(name string) bool {
	return slices.Contains([]string{".html", ".htm", ".xhtml"}, strings.ToLower(filepath.Ext(name)))
}

// madeWords is the vocabulary of made pages: syllables, few words frequent and most rare.
func madeWords(rng *rand.Rand) (words []string) {
	for range 1500 {
		var w strings.Builder
		for range 1 + rng.IntN(4) {
			w.WriteByte("bcdfghlmnprstvw"[rng.IntN(15)])
			w.WriteString([]string{"a", "e", "i", "o", "u", "an", "er", "in", "on", "st"}[rng.IntN(10)])
		}
		words = append(words, w.String())
	}
	return words
}

// madePage makes markup around words: 2 to 60 KB, some 5 times smaller in gzip.
func madePage(rng *rand.Rand, words []string) []byte {
	word := func() string { return words[min(int(rng.ExpFloat64()*150), len(words)-1)] }
	p := fmt.Appendf(nil, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s %s</title></head>\n<body>\n", word(), word())
	for want := 2_000 + rng.IntN(58_000); len(p) < want; {
		p = fmt.Appendf(p, "<div class=\"item\" id=\"i%d\"><h2><a class=\"reference internal\" href=\"/%s/%s.html\">%s</a></h2>\n<p>",
			rng.IntN(1000), word(), word(), word())
		for range 5 + rng.IntN(20) {
			p = append(append(p, word()...), ' ')
		}
		p = append(p, "</p></div>\n"...)
	}
	return append(p, "</body></html>\n"...)
}
