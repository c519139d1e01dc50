package drum

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"

	"drumbeat/bench/baselines"
	"drumbeat/bench/links"
	"drumbeat/disk"
	"drumbeat/drum"
)

// drumForm is a form of DRUM.
type drumForm struct {
	name, help string
	// ours has coded keys, one log of coded text, several buckets merged at once, and bypasses the page cache. The
	// paper's form has raw keys and text in buckets.
	ours  bool
	cache bool // RAM cache in front
	packs drum.PackMode
}

// The forms that other code refers to.
const (
	formPlain  = "plain"
	formHybrid = "hybrid"
	formOurs   = "ours"
	formCached = "cached"
)

// drumForms returns the forms, the paper's first.
func drumForms() []drumForm {
	return []drumForm{
		{name: formPlain, help: "the paper's form: raw keys, text in buckets"},
		{name: formHybrid, help: "plain with a RAM cache of keys, as in section V.C", cache: true},
		{name: formOurs, help: "coded keys, one log of coded text, compressed if disks limit the rate, one " +
			"merge worker per processor, no page cache", ours: true},
		{name: "packed", help: "ours with all text compressed, as on slow disks", ours: true, packs: drum.PackAlways},
		{name: formCached, help: "ours with a RAM cache of keys", ours: true, cache: true},
	}
}

func findForm(name string) (drumForm, bool) {
	for _, f := range drumForms() {
		if f.name == name {
			return f, true
		}
	}
	return drumForm{}, false
}

// checker is an open method.
type checker interface {
	// load adds the known URLs of the stream.
	load(ctx context.Context, s *drumSource) error
	// add may be called by several goroutines at once, each with its own number.
	add(adder int, b *links.Batch) error
	// due reports whether the caller must call pass; pass answers waiting links.
	due() bool
	pass(ctx context.Context) error
	// flush answers all waiting links.
	flush(ctx context.Context) error
	// report fills in the method's figures.
	report(r *Result)
	close() error
}

// drumStore is DRUM in one of its forms.
type drumStore struct {
	job     *drumJob
	form    drumForm
	opt     drum.Options
	d       *drum.Drum
	queue   *drumQueue
	cache   *drum.RAMCache
	adders  []drumAdder
	loaded  drum.Stats
	planned int64
}

// drumAdder is the state of one goroutine that adds.
type drumAdder struct {
	tuples []drum.Tuple
	keys   []drum.Key
	seen   []bool
	// misses and missBytes count the links sent to the store. next is the number of the next link if links
	// are numbered.
	misses, missBytes int64
	next              uint64
	numbers           []byte
	_                 [64]byte // keeps adders on different cache lines
}

// cachedRound bounds the RAM for the tuples of a round in our own forms to a few times a core's L2 cache,
// where sorting is still fast. The paper takes the fewest buckets, and so the largest rounds, that fill the
// disk.
const cachedRound = 16 << 20

// meanURL is the assumed mean length of a text before the true one is known.
const meanURL = 113

// options returns the geometry of a form: the largest r that RAM and disk allow.
func (job *drumJob) options(form drumForm, set disk.Set) (drum.Options, drum.Plan, error) {
	o := drum.Options{
		Set: set, Name: "urlSeen", Op: drum.CheckUpdate, BufferBytes: job.BufferBytes, PackTexts: form.packs,
		DiskBytes: job.DiskBytes, Wanted: func(r *drum.Result) bool { return r.New },
	}
	ram := job.RAMBytes
	if form.cache {
		ram -= job.CacheBytes
	}
	textShare := 1.0 // of a waiting URL on disk
	if form.ours {
		textShare = 0.3
		o.Codec, o.Aux, o.BucketBytes, o.Workers = drum.Rice, drum.AuxLog, cachedRound, job.Workers
		// Larger blocks compress better. There are one or two dozen of them.
		o.LogBytes = int(min(1<<20, ram/128)) &^ 4095
	}
	// A bitmap of an eighth of R has one bit for each of as many links as R has bytes.
	o.SpanBytes = int(min(32<<20, max(4096, ram/8)))
	if o.LogBytes > 0 { // at least M, which Fit would choose too late
		if o.BufferBytes == 0 {
			o.BufferBytes = drum.BufferFor(float64(ram))
		}
		o.LogBytes = max(o.LogBytes, o.BufferBytes)
	}
	o, plan, err := o.Fit(drum.PlanInput{
		Load: drum.Load{
			Known: float64(job.Stream.Known), Links: float64(max(1, job.Links)), UniqueFraction: job.Stream.UniqueShare,
			URLBytes: meanURL*textShare + 1, KeyBytes: 8,
		},
		RAMBytes: float64(ram), DiskBytes: float64(job.DiskBytes),
	})
	return o, plan, err
}

func openDrumStore(job *drumJob, form drumForm, fs disk.FS, queue *drumQueue) (*drumStore, error) {
	set := disk.Set{FS: fs}
	for _, dir := range job.Dirs {
		set.Paths = append(set.Paths, path.Join(dir, "store"))
	}
	o, _, err := job.options(form, set)
	if err != nil {
		return nil, err
	}
	s := &drumStore{job: job, form: form, queue: queue, planned: o.RAMBytes()}
	o.Emit = s.emit
	s.opt = o
	if form.cache {
		s.cache = drum.NewRAMCache(job.CacheBytes)
		s.planned += job.CacheBytes
	}
	s.adders = make([]drumAdder, job.Adders)
	for i := range s.adders {
		a := &s.adders[i]
		a.tuples, a.keys, a.seen = make([]drum.Tuple, linkBatch), make([]drum.Key, linkBatch), make([]bool, linkBatch)
		if job.Numbered {
			a.numbers = make([]byte, 8*linkBatch)
		}
	}
	if s.d, err = drum.Open(o, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// emit appends the new URLs to the queue.
func (s *drumStore) emit(rs []drum.Result) error {
	for i := range rs {
		number := uint64(0)
		if s.job.Numbered {
			number = numberOf(rs[i].Aux)
		}
		if err := s.queue.append(rs[i].Aux, number); err != nil {
			return err
		}
	}
	return nil
}

func numberOf(b []byte) (n uint64) {
	for i := range 8 {
		n |= uint64(b[i]) << (8 * i)
	}
	return n
}

// loadChunk returns the number of keys that are sorted at a time, in two slices. DRUM's buffers are unused
// while its cache is filled, so the slices may take R. For baselines they take an eighth, because their
// tables are already allocated.
func (job *drumJob) loadChunk(baseline bool) int {
	chunk := job.RAMBytes / 16
	if baseline {
		chunk /= 8
	}
	return int(min(32<<20, max(1<<16, chunk)))
}

func (s *drumStore) load(ctx context.Context, src *drumSource) error {
	if s.job.Stream.Known == 0 {
		return nil
	}
	err := s.d.Fill(func(add func(drum.Key, []byte) error) error {
		return s.job.Stream.KnownKeys(s.job.loadChunk(false), func(keys []uint64) error {
			for _, key := range keys {
				if err := add(drum.Key(key), nil); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	})
	s.loaded = s.d.Stats()
	return err
}

func (s *drumStore) add(adder int, b *links.Batch) error {
	a := &s.adders[adder]
	n := 0
	if s.cache != nil {
		for i, key := range b.Keys {
			a.keys[i] = drum.Key(key)
		}
		s.cache.TestAndSetBatch(a.keys[:len(b.Keys)], a.seen)
	}
	for i, key := range b.Keys {
		if a.seen[i] {
			continue
		}
		text := b.Texts[i]
		if s.job.Numbered {
			text = a.numbers[8*i : 8*i+8]
			for j := range text {
				text[j] = byte((a.next + uint64(i)) >> (8 * j))
			}
		}
		a.tuples[n] = drum.Tuple{Key: drum.Key(key), Op: drum.CheckUpdate, Aux: text}
		a.missBytes += int64(len(text))
		n++
	}
	a.misses += int64(n)
	a.next += uint64(len(b.Keys))
	return s.d.Add(a.tuples[:n])
}

func (s *drumStore) due() bool { return s.d.Full() }

func (s *drumStore) pass(ctx context.Context) error {
	_, err := s.d.Pass(ctx, false)
	return err
}

func (s *drumStore) flush(ctx context.Context) error {
	if tuples, _ := s.d.Pending(); tuples == 0 {
		return nil
	}
	_, err := s.d.Pass(ctx, true)
	return err
}

func (s *drumStore) report(r *Result) {
	st := s.d.Stats()
	r.Keys, r.CacheBytes, r.Passes, r.Merged = st.Keys, st.LiveBytes, st.Passes-s.loaded.Passes,
		st.Merged-s.loaded.Merged
	r.TextWritten = st.AuxWritten
	r.Buckets, r.RoundBytes, r.BufferBytes = s.opt.Buckets, s.opt.BucketBytes, int64(s.opt.BufferBytes)
	r.Batch = float64(r.Buckets) * float64(s.opt.FullTuples())
	r.KeyBytes, r.PlannedRAM = 8, s.planned
	r.PeakDisk = max(r.PeakDisk, st.IntakeBytes+st.SealedBytes+st.LiveBytes+st.DeadBytes+st.DoomedBytes)
	r.Misses, r.MissBytes = 0, 0
	for i := range s.adders {
		r.Misses += s.adders[i].misses
		r.MissBytes += s.adders[i].missBytes
	}
	if r.Links > 0 && r.Misses > 0 {
		misses := float64(r.Misses)
		cost := s.opt.Cost(drum.CostInput{
			Known: float64(r.Known), Tuples: misses, UniqueFraction: float64(r.Found) / misses,
			AuxBytes: float64(r.MissBytes) / misses, AuxRatio: r.textRatio(),
		})
		r.Model = (cost.Bytes()*misses + float64(r.QueueBytes)) / float64(r.Links)
	}
}

func (s *drumStore) close() error {
	if s.cache != nil {
		s.cache.Close()
	}
	return s.d.Close()
}

// baselineStore is a method with which DRUM is compared.
type baselineStore struct {
	job    *drumJob
	name   string
	s      baselines.Store
	queue  *drumQueue
	links  []baselines.Link
	loaded baselines.Stats
}

func openBaselineStore(job *drumJob, m baselines.Method, fs disk.FS, queue *drumQueue) (*baselineStore, error) {
	s := &baselineStore{job: job, name: job.Method, queue: queue, links: make([]baselines.Link, linkBatch)}
	var err error
	s.s, err = m.Open(baselines.Options{
		FS: fs, Dir: path.Join(job.Dirs[0], "baseline"), RAMBytes: job.RAMBytes, Emit: s.emit,
	})
	return s, err
}

func (s *baselineStore) emit(first int64, ls []baselines.Link, fresh []bool) error {
	for i := range ls {
		if fresh[i] {
			if err := s.queue.append(ls[i].Text, uint64(first)+uint64(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *baselineStore) load(ctx context.Context, src *drumSource) error {
	if s.job.Stream.Known == 0 {
		return nil
	}
	if err := s.loadAll(ctx, src); err != nil {
		return err
	}
	err := s.s.Flush(ctx) // loaded keys must be on disk before the clock starts
	s.loaded = s.s.Stats()
	return err
}

func (s *baselineStore) loadAll(ctx context.Context, src *drumSource) error {
	texts, ok := s.s.(baselines.TextLoader)
	if !ok || src.file != nil {
		return s.job.Stream.KnownKeys(s.job.loadChunk(true), func(keys []uint64) error {
			return errors.Join(s.s.Load(keys), ctx.Err())
		})
	}
	var b links.Batch
	for id := int64(0); id < s.job.Stream.Known; id += linkBatch {
		src.stream.Known(&b, id, linkBatch)
		if err := errors.Join(texts.LoadLinks(s.batch(&b)), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

func (s *baselineStore) batch(b *links.Batch) []baselines.Link {
	for i, key := range b.Keys {
		s.links[i] = baselines.Link{Key: key, Text: b.Texts[i]}
	}
	return s.links[:len(b.Keys)]
}

func (s *baselineStore) add(_ int, b *links.Batch) error { return s.s.Add(s.batch(b)) }

func (s *baselineStore) due() bool                       { return false }
func (s *baselineStore) pass(context.Context) error      { return nil }
func (s *baselineStore) flush(ctx context.Context) error { return s.s.Flush(ctx) }
func (s *baselineStore) close() error                    { return s.s.Close() }

func (s *baselineStore) report(r *Result) {
	st := s.s.Stats()
	r.Keys, r.CacheBytes, r.Passes, r.PlannedRAM = st.Known, st.FileBytes, st.Batches-s.loaded.Batches, st.RAMBytes
	r.Misses, r.MissBytes = r.Links, r.TextBytes
	r.Merged = st.BatchLinks - s.loaded.BatchLinks
	if r.Passes > 0 {
		r.Batch = float64(r.Merged) / float64(r.Passes)
	}
	if keys := st.MergeKeys - s.loaded.MergeKeys; keys > 0 {
		r.KeyBytes = float64(st.MergeBytes-s.loaded.MergeBytes) / float64(keys)
	}
}

// openChecker opens the method of a job.
func openChecker(job *drumJob, fs disk.FS, queue *drumQueue) (checker, error) {
	if form, ok := findForm(job.Method); ok {
		return openDrumStore(job, form, fs, queue)
	}
	m, ok := find(job.Method)
	if !ok {
		return nil, fmt.Errorf("bench: drum: unknown method %q", job.Method)
	}
	return openBaselineStore(job, m, fs, queue)
}

// adders returns the number of goroutines that add.
func (job *drumJob) adders() int {
	if _, ok := findForm(job.Method); !ok || job.Numbered {
		return 1
	}
	if job.Adders > 0 {
		return job.Adders
	}
	return runtime.GOMAXPROCS(0)
}
