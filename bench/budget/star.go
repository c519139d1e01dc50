package budget

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/result"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/cputime"
	"drumbeat/star"
)

// Star holds the parameters of the measurement of STAR: links between PLDs and budget checks in four cases
// of skew. Its fields are flags of command bench. A zero means the default.
type Star struct {
	Dirs       []string `name:"dir" placeholder:"DIR" required:""`
	PLDs       int      `name:"plds" type:"count" placeholder:"N"`
	Edges      int64    `type:"count" placeholder:"N"`
	Unique     float64  `type:"fraction" placeholder:"SHARE" default:"1/2"`
	Neighbours int64    `type:"count" placeholder:"N"`
	Checks     int64    `type:"count" placeholder:"N"`
	RAMBytes   int64    `name:"ram" type:"size" placeholder:"SIZE"`
	Repeats    int      `name:"repeat" type:"count" placeholder:"N"`
	Seed       uint64   `type:"count" placeholder:"N" default:"1"`
	Quick      bool
}

// starBuckets is k, the number of buckets of each drum.
const starBuckets = 16

// Complete fills in defaults and returns all faults, joined. With 32 MiB of RAM a bucket is full after
// 260,000 pairs.
func (o *Star) Complete() error {
	measure.Default(&o.PLDs, measure.Quick[int](o.Quick, 1e5, 1e6))
	measure.Default(&o.Edges, measure.Quick[int64](o.Quick, 5e5, 5e6))
	measure.Default(&o.Unique, 0.5)
	measure.Default(&o.Neighbours, measure.Quick[int64](o.Quick, 2e5, 2e6))
	measure.Default(&o.Checks, measure.Quick[int64](o.Quick, 4e5, 4e6))
	measure.Default(&o.RAMBytes, measure.Quick[int64](o.Quick, 16<<20, 32<<20))
	measure.Default(&o.Repeats, measure.Quick(o.Quick, 2, 3))
	need, faults := measure.Faults("star")
	need(len(o.Dirs) > 0, "--dir: want at least one directory")
	need(o.PLDs >= 100 && o.PLDs <= 1<<28, "--plds %d: want 100 to 2^28", o.PLDs)
	need(o.Edges >= int64(o.PLDs) && o.Edges <= 1e11, "--edges %d: want at least one for each of the %d "+
		"PLDs, at most 1e11",
		o.Edges, o.PLDs)
	need(o.Unique > 0 && o.Unique <= 1, "--unique %g: want more than 0, at most 1", o.Unique)
	need(o.Neighbours >= 1 && o.Neighbours <= 1<<30, "--neighbours %d: want 1 to 2^30", o.Neighbours)
	need(o.Checks >= checkBatch && o.Checks <= 1e11, "--checks %d: want %d to 1e11", o.Checks, checkBatch)
	need(o.RAMBytes >= 4<<20 && o.RAMBytes <= 8<<30, "--ram %s: want 4 MiB to 8 GiB",
		result.BinaryBytes(int(o.RAMBytes)))
	need(o.Repeats >= 1 && o.Repeats <= 100, "--repeat %d: want 1 to 100", o.Repeats)
	return faults()
}

// drum returns the geometry of one drum: half of its RAM for 2k buffers, a quarter for r, the rest for
// reading and merging.
func (o *Star) drum() drum.Options {
	half := o.RAMBytes / 2
	return drum.Options{Buckets: starBuckets, BufferBytes: int(half/2/(2*starBuckets)) &^ 4095, BucketBytes: half / 4}
}

// diskBytes returns an upper bound of the bytes on disk: waiting tuples, and the caches twice.
func (o *Star) diskBytes() int64 {
	pairs := o.Edges + o.Neighbours
	return int64(float64(pairs)/o.Unique)*20 + 2*8*pairs + int64(o.PLDs)*96 + o.Checks*130
}

// phase holds the cost of one kind of operation.
type phase struct {
	n         int64
	wall, cpu time.Duration // without the generator
	generator time.Duration // its CPU
	disk      int64         // bytes read and written
	passes    int64
}

// rate returns operations/s; cost returns ns of CPU per operation.
func (p *phase) rate() float64 { return float64(p.n) / max(p.wall, 1).Seconds() }

func (p *phase) cost() float64 { return float64(p.cpu.Nanoseconds()) / float64(p.n) }

func (p *phase) perOp() float64 { return float64(p.disk) / float64(p.n) }

// poolRecords is the number of different records that the generator repeats in a cycle.
const poolRecords = 1 << 14

// generatorCost is the generator's time for one link or URL, in ns.
type generatorCost struct{ wall, cpu float64 }

// of returns the cost of n links or URLs.
func (g generatorCost) of(n int64) (wall, cpu time.Duration) {
	return time.Duration(g.wall * float64(n)), time.Duration(g.cpu * float64(n))
}

// starRun is one measurement of one case.
type starRun struct {
	kind            string
	update, check   phase
	pairs           int64 // distinct pairs
	largest         uint32
	bits            float64 // bits per pair in the edges' cache
	wrongDegrees    int64   // PLDs whose in-degree differs from the generator's count
	wrongBudgets    int64   // URLs whose budget differs from F
	rss             int64   // peak RSS minus the RSS before the stores were opened
	ram             int64   // the bound that the options give
	star            *star.Star
	opt             *Star
	web             *starWeb
	expect          []uint32
	answered        int64
	edges           []star.Edge
	checks          []star.CheckTuple
	pool            [][]byte
	perLink, perURL generatorCost
}

// Measure measures every case.
func (o Star) Measure(ctx context.Context, progress func(what string)) (_ *result.Report, err error) {
	if err := o.Complete(); err != nil {
		return nil, err
	}
	r := result.New("star", "STAR: links between PLDs as input; exact in-degrees and budgets as output")
	scratch, err := measure.NewScratch("star", o.Dirs, o.diskBytes())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	scratch.FS = disk.Direct()
	runs := map[string][]*starRun{}
	for n := range o.Repeats {
		for _, kind := range starCases {
			progress(fmt.Sprintf("%s, %d of %d", kind, n+1, o.Repeats))
			set, err := scratch.Set()
			if err != nil {
				return nil, err
			}
			run := &starRun{kind: kind, opt: &o, web: newStarWeb(&o, kind, o.Seed+uint64(n))}
			if err := run.measure(ctx, set); err != nil {
				return nil, fmt.Errorf("bench: star: case %s: %w", kind, err)
			}
			run.web, run.expect, run.pool = nil, nil, nil // the next one's RAM is measured
			runs[kind] = append(runs[kind], run)
		}
	}
	starReport(&o, runs, r)
	return r, nil
}

// measure opens a store in set and sends all links, then all checks, through it.
func (r *starRun) measure(ctx context.Context, set disk.Set) (err error) {
	before, err := r.open(ctx, set)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.star.Close()) }()
	if err := r.updates(ctx); err != nil {
		return err
	}
	r.pairs = r.web.pairs
	for y, d := range r.web.seen {
		r.largest = max(r.largest, d)
		if d != r.web.degrees[y] {
			return fmt.Errorf("the generator made only %d of %d pairs to PLD %d", d, r.web.degrees[y], y)
		}
	}
	r.star.Refresh()
	copy(r.expect, r.web.budgets())
	if err := r.checked(ctx); err != nil {
		return err
	}
	r.rss = measure.PeakSince(before)
	return r.verify(set)
}

// open allocates the generator's memory, measures the generator and opens the store. It returns the RAM in
// use before the store was opened.
func (r *starRun) open(ctx context.Context, set disk.Set) (rss int64, err error) {
	web := newBudgetWeb(&Beast{PLDs: 100, Budget: 10, URLBytes: 110, Seed: r.opt.Seed})
	for range poolRecords {
		r.pool = append(r.pool, web.append(nil))
	}
	r.edges, r.checks = make([]star.Edge, checkBatch), make([]star.CheckTuple, checkBatch)
	r.expect = make([]uint32, r.opt.PLDs)
	opt := star.Options{
		Set: set, Edges: r.opt.drum(), Indegree: r.opt.drum(), Budgets: starBudgets(10),
		Place: func(ledger *[star.LedgerBytes]byte, _ uint32, _, _ uint8) int64 { ledger[0]++; return 1 },
		Emit:  r.emit,
	}
	r.ram = opt.RAMBytes()
	if err := r.generate(ctx); err != nil {
		return 0, err
	}
	debug.FreeOSMemory()
	measure.ResetPeakRSS()
	rss = measure.PeakRSS()
	r.star, err = star.Open(opt, nil)
	return rss, err
}

// generate measures the cost of a copy of the generator alone.
func (r *starRun) generate(ctx context.Context) error {
	full := r.web
	defer func() { r.web = full }()
	r.web = newStarWeb(r.opt, r.kind, r.opt.Seed)
	n := min(full.links, 1<<20) / checkBatch * checkBatch
	cost := func(next func(done int64)) generatorCost {
		began, cpu := time.Now(), cputime.Process()
		for done := int64(0); done < n; done += checkBatch {
			next(done)
		}
		return generatorCost{float64(time.Since(began)) / float64(n), float64(cputime.Process()-cpu) / float64(n)}
	}
	r.perLink = cost(func(int64) { r.nextEdges() })
	r.perURL = cost(r.nextChecks)
	return ctx.Err()
}

func (r *starRun) nextEdges() {
	for i := range r.edges {
		from, to := r.web.next()
		r.edges[i] = star.Edge{From: mix(from + 1<<40), To: pldKey(to)}
	}
}

func (r *starRun) nextChecks(done int64) {
	for i := range r.checks {
		r.checks[i] = star.CheckTuple{PLD: pldKey(r.web.url()), Aux: r.pool[(done+int64(i))%poolRecords]}
	}
}

// updates sends all links, and merges until all are counted.
func (r *starRun) updates(ctx context.Context) error {
	n := r.web.links / checkBatch * checkBatch
	if rest := r.web.links - n; rest > 0 {
		n += checkBatch // the generator continues with repeats
	}
	began, cpu := time.Now(), cputime.Process()
	for done := int64(0); done < n; done += checkBatch {
		r.nextEdges()
		if err := r.star.AddEdges(r.edges); err != nil {
			return err
		}
		if err := r.merge(ctx); err != nil {
			return err
		}
	}
	if _, err := r.star.PassAll(ctx); err != nil {
		return err
	}
	r.update = r.phase(n, began, cpu, r.perLink)
	edges, _ := r.star.Stats()
	r.bits = 8 * float64(edges.LiveBytes) / float64(edges.Keys)
	return nil
}

// phase returns the cost since began, without the generator's.
func (r *starRun) phase(n int64, began time.Time, cpu time.Duration, g generatorCost) phase {
	edges, indegree := r.star.Stats()
	wall, spent := g.of(n)
	return phase{n: n, wall: time.Since(began) - wall, cpu: cputime.Process() - cpu - spent, generator: spent,
		disk:   edges.IOBytes() + indegree.IOBytes() - r.update.disk,
		passes: edges.Passes + indegree.Passes - r.update.passes}
}

// checked sends all URLs, and merges until STAR has answered all checks.
func (r *starRun) checked(ctx context.Context) error {
	n := r.opt.Checks / checkBatch * checkBatch
	began, cpu := time.Now(), cputime.Process()
	for done := int64(0); done < n; done += checkBatch {
		r.nextChecks(done)
		if err := r.star.Check(r.checks); err != nil {
			return err
		}
		if err := r.merge(ctx); err != nil {
			return err
		}
	}
	if _, err := r.star.PassAll(ctx); err != nil {
		return err
	}
	r.check = r.phase(n, began, cpu, r.perURL)
	if r.answered != n {
		return fmt.Errorf("only %d of %d checks were answered", r.answered, n)
	}
	return nil
}

func (r *starRun) merge(ctx context.Context) error {
	if !r.star.Full() {
		return nil
	}
	_, err := r.star.Pass(ctx, false)
	return err
}

// emit receives the answers.
func (r *starRun) emit(placed []star.Placed) error {
	for i := range placed {
		if p := &placed[i]; p.Budget != r.expect[pldNumber(p.PLD)] {
			r.wrongBudgets++
		}
	}
	r.answered += int64(len(placed))
	return nil
}

// verify compares every in-degree on disk with the generator's count.
func (r *starRun) verify(set disk.Set) error {
	r.star.Pause()
	frozen := r.star.Freeze()
	r.star.Resume()
	tails, err := disk.CreateTails(set, 1)
	if err != nil {
		return err
	}
	st, err := frozen.Save(tails)
	if err := errors.Join(err, tails.Close()); err != nil {
		return err
	}
	missing := int64(len(r.web.seen))
	err = star.WalkPLDs(set, "pld", st, func(pld uint64, record star.PLD) error {
		y := pldNumber(pld)
		if int(y) >= len(r.web.seen) || pldKey(y) != pld {
			return fmt.Errorf("no link leads to PLD %016x", pld)
		}
		missing--
		if record.Indegree != r.web.seen[y] {
			r.wrongDegrees++
		}
		return nil
	})
	r.wrongDegrees += missing
	return err
}
