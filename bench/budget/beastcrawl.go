package budget

import (
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/star"
)

// The geometry of STAR in the virtual crawl. In a crawl of the paper's size a queue holds many more URLs
// than STAR's buffers and buckets, so nearly all URLs pass through STAR's files. A queue of this crawl
// holds only 10^4 to 10^5 URLs, so the buffers (2·16·16 KiB, about 2,000 URLs) and the buckets (4,000
// tuples) are small too.
const (
	beastStarBuckets     = 16
	beastStarBufferBytes = 16 << 10
	beastStarBucketBytes = 128 << 10
)

// The queues of this crawl hold megabytes instead of gigabytes, so their blocks are smaller than in a real
// crawl. A checkpoint, which frees the space of records already read, follows every beastCommitBytes written.
const (
	beastBlockBytes  = 64 << 10
	beastCommitBytes = 256 << 20
)

// tally describes a multiset of records: their number and an order-independent sum of hashes.
type tally struct {
	n, bytes int64
	hash     uint64
}

func (t *tally) add(rec []byte) {
	t.n++
	t.bytes += int64(len(rec))
	t.hash += xxhash.Sum64(rec)
}

// wrong returns the number of records by which the parts together differ from t, or 1 if only the hashes
// differ.
func (t tally) wrong(parts ...tally) int64 {
	var sum tally
	for _, p := range parts {
		sum.n, sum.bytes, sum.hash = sum.n+p.n, sum.bytes+p.bytes, sum.hash+p.hash
	}
	if n := max(t.n-sum.n, sum.n-t.n); n > 0 || t == sum {
		return n
	}
	return 1
}

// moved counts the uncompressed text of records put into or taken out of queues, and the bytes on disk.
type moved struct {
	pages, urls                int64 // pages crawled; URLs put in
	queueRaw, failedRaw        int64 // numbered queues; QF
	checkRaw                   int64 // STAR's buckets, text only
	queueDisk, starDisk, saved int64 // bytes on disk; saved: checkpoints, not part of starDisk
	starRest                   int64 // the part of starDisk that isn't text: keys and the PLDs' records
}

func (m moved) less(o moved) moved {
	return moved{m.pages - o.pages, m.urls - o.urls, m.queueRaw - o.queueRaw, m.failedRaw - o.failedRaw,
		m.checkRaw - o.checkRaw, m.queueDisk - o.queueDisk, m.starDisk - o.starDisk, m.saved - o.saved,
		m.starRest - o.starRest}
}

// stage is one iteration of Theorems 6 and 7: from one scan of QF to the next.
type stage struct {
	moved
	endPages, endURLs int64 // since the beginning of the crawl
	queues            int64 // h, the queues that the stage filled
	failed            int64 // URLs in QF at its end
	spam              int64 // pages of spammers in this stage
}

// virtualCrawl is what both crawls have: a web, and counts of what went in and out.
type virtualCrawl struct {
	web           *budgetWeb
	set           disk.Set
	in, out, left tally // left: records in the queues at the end
	now           moved
	stages        []stage
	began         moved // at the beginning of the current stage
	spam          int64
	links         linkCount
	given         []uint32 // pages of each PLD read from the current queue
	exceeded      int64    // pages beyond a budget
}

func newVirtualCrawl(o *Beast, set disk.Set, web *budgetWeb) virtualCrawl {
	return virtualCrawl{web: web, set: set, links: linkCount{perPage: o.UniquePerPage},
		given: make([]uint32, len(web.budgets))}
}

// seed gives every PLD as many URLs as its budget: the paper's proofs begin with full queues.
func (c *virtualCrawl) seed(put func(rec []byte) error) error {
	var rec []byte
	for x, budget := range c.web.budgets {
		for range budget {
			rec = c.web.appendOf(rec[:0], uint32(x))
			if err := c.link(rec, put); err != nil {
				return err
			}
		}
	}
	return nil
}

// link puts in a new URL.
func (c *virtualCrawl) link(rec []byte, put func(rec []byte) error) error {
	c.in.add(rec)
	c.now.urls++
	return put(rec)
}

// fetched counts a page that was read from the current queue.
func (c *virtualCrawl) fetched(rec []byte) {
	x := recordPLD(rec)
	c.out.add(rec)
	c.now.pages++
	c.now.queueRaw += int64(len(rec))
	if c.given[x]++; c.given[x] > c.web.budgets[x] {
		c.exceeded++
	}
	if int(x) >= len(c.web.budgets)-c.web.spammers {
		c.spam++
	}
}

// follow puts in the links of a page.
func (c *virtualCrawl) follow(put func(rec []byte) error) error {
	var buf [1024]byte
	for range c.links.next() {
		if err := c.link(c.web.append(buf[:0]), put); err != nil {
			return err
		}
	}
	return nil
}

// endStage ends a stage, which filled so many queues, and left so many URLs in QF.
func (c *virtualCrawl) endStage(queues, failed int64) {
	s := stage{moved: c.now.less(c.began), endPages: c.now.pages, endURLs: c.now.urls, queues: queues,
		failed: failed, spam: c.spam}
	c.began, c.spam = c.now, 0
	if s.pages > 0 {
		c.stages = append(c.stages, s)
	}
}

// beastCrawl is a virtual crawl through STAR and BEAST. It is for one goroutine.
type beastCrawl struct {
	virtualCrawl
	star       *star.Star
	beast      *beast.Beast
	queueMeter *disk.Meter
	starMeter  *disk.Meter
	tailMeter  *disk.Meter
	gen        uint64
	committed  int64 // bytes written at the last checkpoint
	current    beast.Number
	batch      []star.CheckTuple
	arena      []byte
}

// openBeastCrawl creates the stores and gives the PLDs their in-degrees.
func openBeastCrawl(ctx context.Context, o *Beast, set disk.Set, web *budgetWeb) (c *beastCrawl, err error) {
	c = &beastCrawl{virtualCrawl: newVirtualCrawl(o, set, web), queueMeter: disk.NewMeter(set.FS),
		starMeter: disk.NewMeter(set.FS), tailMeter: disk.NewMeter(set.FS)}
	on := func(m *disk.Meter) disk.Set { return disk.Set{FS: m, Paths: set.Paths} }
	if c.beast, err = beast.Open(beast.Options{Set: on(c.queueMeter), BlockBytes: beastBlockBytes}, nil); err != nil {
		return nil, err
	}
	d := drum.Options{Buckets: beastStarBuckets, BufferBytes: beastStarBufferBytes, BucketBytes: beastStarBucketBytes}
	c.star, err = star.Open(star.Options{
		Set: on(c.starMeter), Edges: d, Indegree: d, Budgets: starBudgets(o.Budget),
		Place: c.place, Emit: c.placed, Pin: c.beast.Pin,
	}, nil)
	if err != nil {
		return nil, errors.Join(err, c.beast.Close())
	}
	if err := giveDegrees(ctx, c.star, web); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// giveDegrees adds the edges that give every PLD its in-degree and so its budget.
func giveDegrees(ctx context.Context, s *star.Star, web *budgetWeb) error {
	plds := uint32(len(web.budgets))
	var edges []star.Edge
	for x, d := range web.degrees {
		for i := range d {
			edges = append(edges, star.Edge{From: pldKey((uint32(x) + 1 + i) % plds), To: pldKey(uint32(x))})
		}
		if len(edges) >= 1024 || x == len(web.degrees)-1 {
			if err := s.AddEdges(edges); err != nil {
				return err
			}
			edges = edges[:0]
			if s.Full() {
				if _, err := s.Pass(ctx, false); err != nil {
					return err
				}
			}
		}
	}
	if _, err := s.PassAll(ctx); err != nil {
		return err
	}
	s.Refresh()
	for x, d := range web.degrees {
		if _, pages := s.Budget(d); pages != web.budgets[x] {
			return fmt.Errorf("bench: beast: the PLD of rank %d and in-degree %d has a budget of %d pages, "+
				"want %d", x+1, d,
				pages, web.budgets[x])
		}
	}
	return nil
}

func (c *beastCrawl) close() error { return errors.Join(c.star.Close(), c.beast.Close()) }

// place is the function that STAR calls for each URL.
func (c *beastCrawl) place(ledger *[star.LedgerBytes]byte, pages uint32, _, _ uint8) int64 {
	l := beast.DecodeLedger(ledger)
	n := c.beast.Place(&l, pages)
	l.Encode(ledger)
	return int64(n)
}

// placed receives STAR's results.
func (c *beastCrawl) placed(placed []star.Placed) error {
	for i := range placed {
		p := &placed[i]
		size := int64(len(p.Aux))
		c.now.checkRaw += size
		if n := beast.Number(p.Number); n == beast.OverBudget {
			c.now.failedRaw += size
		} else {
			c.now.queueRaw += size
		}
		if err := c.beast.Append(beast.Number(p.Number), p.Aux); err != nil {
			return err
		}
	}
	return nil
}

// checkBatch is the number of URLs in one call of STAR.
const checkBatch = 256

// check copies a record into the batch for STAR.
func (c *beastCrawl) check(ctx context.Context, rec []byte) error {
	at := len(c.arena)
	c.arena = append(c.arena, rec...)
	c.batch = append(c.batch, star.CheckTuple{PLD: pldKey(recordPLD(rec)), Aux: c.arena[at:len(c.arena):len(c.arena)]})
	c.now.checkRaw += int64(len(rec))
	if len(c.batch) < checkBatch {
		return nil
	}
	return c.flush(ctx)
}

// flush sends the batch to STAR and merges full buckets.
func (c *beastCrawl) flush(ctx context.Context) error {
	if len(c.batch) == 0 {
		return nil
	}
	if err := c.star.Check(c.batch); err != nil {
		return err
	}
	c.batch, c.arena = c.batch[:0], c.arena[:0]
	if !c.star.Full() {
		return nil
	}
	_, err := c.star.Pass(ctx, false)
	return err
}

// run crawls until the given number of URLs has been put in. Between two pages every record is in a queue,
// in STAR's buckets or crawled.
func (c *beastCrawl) run(ctx context.Context, urls int64, progress func(c *beastCrawl)) error {
	check := func(rec []byte) error { return c.check(ctx, rec) }
	if err := c.seed(check); err != nil {
		return err
	}
	for c.now.urls < urls {
		if c.now.pages%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress(c)
			if err := c.commit(false); err != nil {
				return err
			}
		}
		rec, ok, err := c.peek(ctx)
		if err == nil && !ok {
			err = errors.New("bench: beast: the crawl has no URLs left")
		}
		if err != nil {
			return err
		}
		c.fetched(rec)
		c.beast.Advance()
		if err := c.follow(check); err != nil {
			return err
		}
	}
	return c.finish(ctx)
}

// peek returns the next URL. At the end of a queue it first waits until STAR has placed all URLs.
func (c *beastCrawl) peek(ctx context.Context) (rec []byte, ok bool, err error) {
	for {
		if c.beast.AtEnd() {
			if err := c.drain(ctx); err != nil {
				return nil, false, err
			}
		}
		rec, ok, err = c.beast.Peek()
		if err != nil {
			return nil, false, err
		}
		if s := c.beast.Current(); s != c.current {
			c.current = s
			clear(c.given)
		}
		if c.beast.ScanDue() || !ok && c.beast.Stats().OverBudgetRecords > 0 {
			if err := c.scan(ctx); err != nil {
				return nil, false, err
			}
			continue
		}
		return rec, ok, nil
	}
}

// drain makes STAR answer all checks.
func (c *beastCrawl) drain(ctx context.Context) error {
	if err := c.flush(ctx); err != nil || c.star.PendingChecks() == 0 {
		return err
	}
	_, err := c.star.Pass(ctx, true)
	return err
}

// scan ends a stage and reads QF.
func (c *beastCrawl) scan(ctx context.Context) error {
	c.count()
	st := c.beast.Stats()
	c.endStage(int64(st.Horizon), st.OverBudgetRecords)
	if err := c.beast.StartScan(); err != nil {
		return err
	}
	for n := 1; ; n++ {
		rec, ok, err := c.beast.ScanPeek()
		if err != nil {
			return err
		}
		if !ok {
			return c.beast.EndScan()
		}
		c.now.failedRaw += int64(len(rec))
		if err := c.check(ctx, rec); err != nil {
			return err
		}
		c.beast.ScanAdvance()
		if n%4096 == 0 {
			if err := errors.Join(ctx.Err(), c.commit(false)); err != nil {
				return err
			}
		}
	}
}

// count adds the readings of the meters to now.
func (c *beastCrawl) count() {
	q := c.queueMeter.Counts()
	c.now.queueDisk = q.ReadBytes + q.WrittenBytes
	edges, indegree := c.star.Stats()
	c.now.starDisk = indegree.IOBytes()
	c.now.starRest = indegree.IOBytes() - indegree.AuxRead - indegree.AuxWritten
	c.now.saved = c.tailMeter.Counts().WrittenBytes + edges.BufferWritten + indegree.BufferWritten
}

// commit makes a checkpoint if enough bytes were written since the last one, or if must is true.
func (c *beastCrawl) commit(must bool) error {
	written := c.queueMeter.Counts().WrittenBytes + c.starMeter.Counts().WrittenBytes
	if !must && written-c.committed < beastCommitBytes {
		return nil
	}
	c.committed = written
	_, _, err := c.checkpoint()
	return err
}

// checkpoint follows the protocol of package disk without syncs and manifest, because no restart follows.
func (c *beastCrawl) checkpoint() (*star.State, *beast.State, error) {
	c.star.Pause()
	fs, fb := c.star.Freeze(), c.beast.Freeze()
	c.star.Resume()
	c.gen++
	tails, err := disk.CreateTails(disk.Set{FS: c.tailMeter, Paths: c.set.Paths}, c.gen)
	if err != nil {
		return nil, nil, err
	}
	ss, err := fs.Save(tails)
	sb, errBeast := fb.Save(tails)
	if err := errors.Join(err, errBeast, tails.Close()); err != nil {
		return nil, nil, err
	}
	err = errors.Join(fs.Commit(), fb.Commit(), disk.RemoveTails(c.set, func(g uint64) bool { return g == c.gen }))
	return ss, sb, err
}

// finish makes STAR answer the remaining checks and counts the records left in the files.
func (c *beastCrawl) finish(ctx context.Context) error {
	if err := c.drain(ctx); err != nil {
		return err
	}
	c.count()
	_, state, err := c.checkpoint()
	if err != nil {
		return err
	}
	_, _, err = beast.Scan(c.set, "beast", state, func(_ int, _ beast.Number, rec []byte) error {
		c.left.add(rec)
		if c.left.n%4096 == 0 {
			return ctx.Err()
		}
		return nil
	}, nil)
	return err
}
