// Package contents is a room of the running crawl: the store of contents, which tells whether the body of a
// page was seen before, under any URL.
//
// Of the pages with one body the first is stored; each later one becomes a revisit record or, with
// state.ContentSkip, gives no links.
//
// # Contract
//
// Look and Send take a page that was read; Send is part of the page's transaction. A page whose verdict needs
// the disk waits in the store, and ends in a transaction of its own.
//
// # Concurrency
//
// A Store is safe for concurrent use. One goroutine, in Run, does its passes; they store the pages that
// waited.
//
// # Memory and disk
//
// The plan bounds its RAM and its disk (docs/reference/files/content.md): 85 bytes a body, and the pages that wait.
package contents

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/output"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/space"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Limits of what is compared.
const (
	// Least is the length in bytes of the shortest body that is compared: a revisit record of a shorter
	// one is no shorter than the response.
	Least = 256
	// maxContentURL is the length of the longest URL that a revisit record refers to. Responses of longer URLs
	// are not compared, because each value in the store has a URL.
	maxContentURL = state.MaxContentURL
)

// The store of contents is due for a pass when a bucket is full, when nothing else is in flight, or when
// contentDuty times the duration of the last pass, but at least contentEvery, has passed since. So pages wait
// seconds while the store is small, and its passes never take more than 1 % of the disks' time.
const (
	contentDuty  = 100
	contentEvery = 10 * time.Second
	// contentLastPass is the longest pass, as predicted, that the end of a run waits for.
	contentLastPass = 10 * time.Second
	// mostSteps is the number of passes that a page may need (near.go).
	mostSteps = 4
)

// Store is the store of contents (content seen, Heydon and Najork's "Mercator", section 3.4). It tells
// whether the body of a page was stored before, under any URL. Like URLseen it is a drum, so an answer costs no
// seek, and comes with a pass. A page whose body is certainly new, by a filter in RAM, does not wait: it is
// stored at once, and only its key and its URL go to the drum. Any other page waits in the drum, as a tuple's
// aux, until a pass gives the verdict. Then it is stored whole, or as a revisit record.
//
// Producers: the page workers (send). Consumer: its own goroutine "content", which runs the passes; their
// emission (end) stores the pages.
type Store struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others
	Drum   *drum.Drum      // the owner opens and closes it
	filter *drum.KeyFilter // nil: each page may be known
	// ownsFilter is set if no run keeps the filter.
	ownsFilter bool
	recent     *recentBodies // nil with ContentOff
	// order makes the filter's answer and the tuple's arrival one step for each key: the tuple of the page that
	// the filter takes for new comes first.
	order [256]sync.Mutex
	// nearOrder does the same for the lists of near-duplicates. It is not held together with order.
	nearOrder [256]sync.Mutex

	merges      *pass.Merger
	wakeContent account.Signal
	passEnded   atomic.Int64 // account.Run.Uptime, ns
	passTook    atomic.Int64 // ns

	// Of a round's apply and end, whose calls do not overlap. firsts are the values for the pages of a round
	// whose bodies are known.
	firsts   []byte
	value    []byte // from recent
	encoder  *warc.Encoder
	prepared warc.Prepared

	output *output.Writer
	passes *pass.Runner
	space  *space.Keeper
}

// Options are the options of a Store.
type Options struct {
	Log    *slog.Logger
	Seen   state.ContentSeen
	Store  bool // pages are stored
	Plan   *plan.Plan
	Filter *Filter // of all rounds of a run; nil: the Store makes its own
	// Near needs Store, and Seen other than ContentOff.
	Near state.NearDuplicates
}

// Others are the stages that a Store calls. Their functions are part of a transaction.
type Others struct {
	// HeldLinks encodes the links of a page that waits. SendHeld sends them, or counts them as not taken.
	HeldLinks func(b *admit.Batch) []byte
	SendHeld  func(tx *account.Tx, held []byte, take bool) error
	// EndVisit ends a URL that has its final response.
	EndVisit func(tx *account.Tx, rec *weburl.Record, from state.Place) error
	// Revisits returns the policy for the visits of a URL; ok is false if there are none.
	Revisits func(url []byte) (policy revisit.Policy, ok bool)
}

// New returns a Store. Wire must give it the other stages before a run.
func New(run *account.Run, saved *state.Saved, opt Options, w *output.Writer, p *pass.Runner, k *space.Keeper) *Store {
	return &Store{run: run, saved: saved, opt: opt, output: w, passes: p, space: k, wakeContent: run.PulsedSignal()}
}

// Wire gives the Store the stages that it calls.
func (c *Store) Wire(others Others) { c.others = others }

// DrumOptions returns the options of Drum.
func (c *Store) DrumOptions() drum.Options {
	o := c.opt.Plan.Content.Shaped(plan.ContentShape())
	o.Set, o.Name, o.DiskBytes, o.Reserve = c.saved.Set, state.NameContent, c.opt.Plan.ContentDiskBytes, c.reserve
	o.Apply, o.BeginRound = c.apply, func() { c.firsts = c.firsts[:0] }
	o.Yield, o.MaxValueBytes = true, c.maxValue()
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.Op == drum.CheckUpdate }, c.emitSeen
	return o
}

// maxValue bounds a value: a list takes a quarter of a buffer at most. Only the buffers of tests are so small.
func (c *Store) maxValue() int { return min(state.MaxContentValue, c.opt.Plan.Content.BufferBytes/4) }

// reserve reserves space for a round, and refuses it if its pages do not fit into the output directories.
func (c *Store) reserve(need int64) (func(), error) {
	_, waiting := c.Drum.Pending()
	if err := c.space.OutputRoom(2 * waiting / int64(c.opt.Plan.Content.Buckets)); err != nil {
		return nil, err
	}
	return c.space.Reserve(need)
}

// The emission of a round can be gigabytes: with a --disk of 20 TB and no filter, 640 GB of pages wait, 2.5
// GB in each of 256 buckets, 25 s at 100 MB/s. A smaller round would not do, because each round rewrites the
// part of its bucket (340 MB with 10^9 bodies). So emissions yield to checkpoints (drum.Options.Yield). A
// checkpoint then waits for one batch of pages: those of one block of aux, at most a buffer (256 KiB to 1
// MiB, before compression), and for the keys of the round to be read again. The rest of the round costs one
// more reading of the part, and no writing.

// apply keeps the value of the first page with a body. It takes a value that equals the page's own for the
// trace of an emission that has yielded: the page is the first one. (Two pages with one URL, second and body
// are equal as well. Then the body is stored twice.) A page that waits gets its position in firsts, plus one.
// If firsts is full, the page gets 0, and is stored as if its body were new.
func (c *Store) apply(_ drum.Key, old []byte, exists bool, run []drum.Item, _ *drum.Arena,
	dst []byte) ([]byte, drum.Action) {
	if state.OfNearList(run[0].Value) {
		return c.applyNear(old, exists, run, dst)
	}
	first, action, at := old, drum.Keep, 0
	for i := range run {
		switch {
		case !exists && len(run[i].Value) == 0: // asked for by a copy, but not there
		case !exists:
			first, exists, action = run[i].Value, true, drum.Set
			run[i].New = true
		case run[i].Op != drum.CheckUpdate:
		case i == 0 && bytes.Equal(old, run[i].Value):
			run[i].New = true
		case at == 0 && int64(len(c.firsts)+len(first)) > c.opt.Plan.Content.BucketBytes:
		default:
			if at == 0 {
				at = len(c.firsts) + 1
				c.firsts = binary.LittleEndian.AppendUint16(c.firsts, uint16(len(first)))
				c.firsts = append(c.firsts, first...)
			}
			run[i].Result = uint64(at)
		}
	}
	if action == drum.Keep {
		return dst, drum.Keep
	}
	return append(dst, first...), drum.Set
}

// first returns the value at a position that apply gave.
func (c *Store) first(at uint64) []byte {
	b := c.firsts[at-1:]
	return b[2:][:binary.LittleEndian.Uint16(b)]
}

// Look finds the key of a body that is compared, and the page that had it lately. That page's transaction has
// begun, so a checkpoint that has this page has that one too. whole says that the response is to be stored as
// it came, and was decoded to its end. text is of the text; its Simhash is 0 if that is not compared.
func (c *Store) Look(b *Body, rec *weburl.Record, resp *fetch.Response, whole bool, text *state.NearEntry) error {
	b.known, b.text = false, *text
	b.compared = c.opt.Seen != state.ContentOff && whole && resp.Spill == nil && len(resp.Body) >= Least &&
		resp.Truncated == fetch.NotTruncated && len(rec.URL) <= maxContentURL
	if !b.compared {
		return nil
	}
	b.plain = len(resp.Header("Content-Encoding")) == 0
	b.key = drum.Key(c.saved.Hasher.BodyKey(resp.Body, b.plain))
	if b.value, b.known = c.recent.get(b.value[:0], b.key); b.known {
		return b.first.decode(b.value)
	}
	return nil
}

// Send tells the store of a page. It is part of the page's transaction. waits means that the store has the
// page and will end it.
func (c *Store) Send(tx *account.Tx, b *Body, p *Page) (waits bool, _ error) {
	if !b.compared {
		return false, nil
	}
	if b.known { // the store has the body
		tx.Count(state.CountDuplicates, 1)
		if c.opt.Store {
			tx.Count(state.CountRevisits, 1)
			tx.Count(state.CountBytesRevisits, int64(len(p.Resp.Body)))
		}
		return false, nil
	}
	v := bodyValue{date: p.Resp.Start, url: p.Rec.URL}
	if c.opt.Store {
		var err error
		if v.digest, err = p.Records.Digest(); err != nil {
			return false, err
		}
	}
	b.own = v.append(b.own[:0])
	if b.text.Simhash != 0 && c.opt.Near.KeepOne {
		if waits, err := c.sendNear(tx, b, p); waits || err != nil {
			return waits, err
		}
	}
	t := &b.tuple[0]
	*t = drum.Tuple{Key: b.key, Op: drum.Update, Value: b.own}
	mu := &c.order[t.Key>>56]
	mu.Lock()
	defer mu.Unlock()
	if c.filter == nil || c.filter.Add(t.Key) {
		if waits = c.wrap(b, p, nil); waits {
			t.Op, t.Aux = drum.CheckUpdate, b.aux
			tx.Wake(c.merges)
		} else {
			tx.Count(state.CountContentLarge, 1)
		}
	} else {
		c.recent.put(t.Key, b.own)
	}
	return waits, c.Drum.Add(b.tuple[:])
}

// TakesLinks reports whether the links of a page are sent in its transaction.
func (c *Store) TakesLinks(b *Body, rec *weburl.Record, waits bool) bool {
	return !(waits || b.known) || !c.holdsLinks(rec)
}

// wrap puts what is needed to end the page into b.aux. It reports whether the store can hold it; otherwise
// the page is stored at once, and its body perhaps a second time. near is Waiting.Near.
func (c *Store) wrap(b *Body, p *Page, near []byte) bool {
	var wait state.Waiting
	if len(near) > 0 {
		wait.Near, wait.Own = near, b.own
	}
	waiting := *p.Rec
	p.Visited(&waiting)
	wait.Record, wait.Size = waiting.Append(nil), uint64(len(p.Resp.Body))
	if c.opt.Store {
		wait.Form, wait.Capture = c.output.Form(), p.Records.AppendBinary(b.capture[:0])
		b.capture = wait.Capture
	}
	if e := p.Log(); e != nil {
		wait.Log = e.Append(nil)
	}
	if c.holdsLinks(p.Rec) {
		wait.Links = c.others.HeldLinks(p.Links)
	}
	if size := len(wait.Capture) + len(wait.Log) + len(wait.Links) + len(wait.Record) + len(wait.Near) +
		len(wait.Own); size > c.opt.Plan.Content.BufferBytes-contentSlack {
		return false
	}
	b.aux = wait.Append(b.aux[:0])
	return true
}

// contentSlack is room for the lengths and headers around a page in a buffer of the store.
const contentSlack = 256

// holdsLinks reports whether the links of a page that waits are sent with the verdict. Those of seeds are sent
// at once: an operator asked for them.
func (c *Store) holdsLinks(rec *weburl.Record) bool {
	return c.opt.Seen == state.ContentSkip && rec.Flags&weburl.FlagSeed == 0
}

// emitSeen ends pages whose verdict has come.
func (c *Store) emitSeen(results []drum.Result) error {
	c.run.Hook("content")
	for i := range results {
		if err := c.end(&results[i]); err != nil {
			return err
		}
	}
	return nil
}

// verdict says what is known of a page that has waited.
type verdict struct {
	first    bodyValue // the capture that the page repeats
	known    bool      // it has the body of first
	near     bool      // its text is near
	distance int       // in bits
}

// end continues with a page that has waited: it may wait for its next verdict.
func (c *Store) end(res *drum.Result) error {
	var wait state.Waiting
	if err := wait.Decode(res.Aux); err != nil {
		return err
	}
	var rec weburl.Record
	if err := rec.Decode(wait.Record); err != nil {
		return fmt.Errorf("crawl: record from the store of contents: %w", err)
	}
	v := verdict{known: res.Result > 0}
	switch {
	case len(wait.Near) > 0 && len(res.Value) > 0:
		return c.endNear(res, &wait, &rec)
	case len(wait.Near) > 0 && v.known:
		return c.endCopy(c.first(res.Result), &wait, &rec)
	case len(wait.Near) > 0:
		return c.endCopy(nil, &wait, &rec)
	case v.known:
		if err := v.first.decode(c.first(res.Result)); err != nil {
			return err
		}
	}
	if c.recent != nil && v.known {
		c.recent.put(res.Key, c.first(res.Result))
	} else if c.recent != nil && res.New {
		c.recent.put(res.Key, res.Value)
	}
	return c.finish(&wait, &rec, &v)
}

// finish stores a page that has waited, in a transaction of its own: pages are large.
func (c *Store) finish(wait *state.Waiting, rec *weburl.Record, v *verdict) error {
	revisit, noted := false, v.near && !c.opt.Near.Whole && len(wait.Capture) > 0
	if len(wait.Capture) > 0 {
		var err error
		if revisit, err = c.capture(wait, v.known, &v.first); err == nil && noted {
			err = c.note(v)
		}
		if err != nil {
			return fmt.Errorf("crawl: page %s from the store of contents: %w", rec.URL, err)
		}
	}
	if revisit {
		if err := becameRevisit(rec, &v.first); err != nil {
			return err
		}
	}
	if v.near || v.known && c.opt.Near.KeepOne && sameHost(v.first.url, rec.URL) {
		if err := c.noteCopy(rec, noted); err != nil {
			return err
		}
	}
	return c.run.Transact(func(tx *account.Tx) error {
		if err := c.others.EndVisit(tx, rec, state.PlaceContent); err != nil {
			return err
		}
		c.count(tx, v, revisit, noted, int64(wait.Size))
		var at warc.Location
		if len(wait.Capture) > 0 {
			var err error
			if at, err = c.output.Append(&c.prepared, time.Now()); err != nil {
				return err
			}
		}
		if len(wait.Links) > 0 {
			if err := c.others.SendHeld(tx, wait.Links, !v.known); err != nil {
				return err
			}
		}
		if len(wait.Log) == 0 {
			return nil
		}
		var e crawllog.Entry
		if err := json.Unmarshal(wait.Log, &e); err != nil {
			return fmt.Errorf("crawl: log line of %s from the store of contents: %w", rec.URL, err)
		}
		e.File, e.Offset = at.File, at.Offset
		switch {
		case v.known:
			e.DuplicateOf = string(v.first.url)
		case v.near:
			e.NearDuplicateOf = string(v.first.url)
		}
		return c.output.LogEntry(&e)
	})
}

// count counts a page that has waited, with a body of so many bytes.
func (c *Store) count(tx *account.Tx, v *verdict, revisit, noted bool, size int64) {
	if v.known {
		tx.Count(state.CountDuplicates, 1)
	}
	if revisit {
		tx.Count(state.CountRevisits, 1)
		tx.Count(state.CountBytesRevisits, size)
	}
	if v.near {
		tx.Count(state.CountNearCopies, 1)
	}
	if noted {
		tx.Count(state.CountNearNotes, 1)
		tx.Count(state.CountBytesNear, size)
	}
}

// capture decodes the records of a page. If its body was stored before, the response becomes a revisit record. A body
// that was stored in another coding is stored again, since readers take it with the headers of this response.
func (c *Store) capture(wait *state.Waiting, known bool, first *bodyValue) (revisit bool, _ error) {
	if form := c.output.Form(); wait.Form != form {
		return false, errContentForm
	}
	if err := c.prepared.UnmarshalBinary(wait.Capture); err != nil {
		return false, err
	}
	if !known {
		return false, nil
	}
	digest, err := c.prepared.Digest()
	if err != nil {
		return false, err
	}
	if digest != first.digest {
		return false, nil
	}
	if c.encoder == nil {
		c.encoder = c.output.NewEncoder()
	}
	return true, c.encoder.Revisit(&c.prepared, warc.Original{URL: first.url, Date: first.date})
}

// errContentForm says that pages wait as records of another form than the run's.
var errContentForm = fmt.Errorf(
	"pages waiting for the content check use another WARC format or dictionary: run the crawl with "+
		"the previous --warc until it stops cleanly, then change --warc: %w",
	state.ErrIncompatible)

// due reports whether an early pass is due.
func (c *Store) due() bool {
	if c.passes.NothingLeft() {
		return true
	}
	wait := max(contentEvery, contentDuty*time.Duration(c.passTook.Load()))
	return c.run.Uptime()-time.Duration(c.passEnded.Load()) >= wait
}

func (c *Store) waiting() int64 { return c.run.Accounts.In(state.PlaceContent) }

func (c *Store) pass(ctx context.Context, early bool) (int, error) {
	began := time.Now()
	n, err := c.Drum.Pass(ctx, early)
	c.passTook.Store(int64(time.Since(began)))
	c.passEnded.Store(int64(c.run.Uptime()))
	return n, err
}

// Open makes the Store ready for a run, once Drum is open.
// earlier are the stores whose bodies a new crawl takes.
func (c *Store) Open(m *state.Manifest, earlier []Earlier) error {
	c.passEnded.Store(int64(c.run.Uptime()))
	c.merges = &pass.Merger{
		Passes: c.passes, Name: state.NameContent, Pass: c.pass, Full: c.Drum.Full, Pending: c.waiting,
		Keys: c.Drum.Keys, Bytes: pass.PendingBytes(c.Drum),
		Cost:  func() time.Duration { return c.Drum.Stats().PredictedEarly },
		Early: c.due, Starving: func() bool { return false }, Wake: c.wakeContent,
	}
	if m != nil || c.opt.Seen == state.ContentOff || len(earlier) == 0 {
		return c.fill(m)
	}
	if err := c.takeEarlier(earlier); err != nil {
		return err
	}
	if err := c.fill(m); err != nil {
		return err
	}
	return c.filterEarlier(earlier)
}

// Run runs the passes of the store until ctx ends.
func (c *Store) Run(ctx context.Context) error { return c.passes.Run(ctx, c.merges) }

// Finish ends the pages that wait, after the stages, unless that takes long or finds no room. Then the next
// run ends them.
func (c *Store) Finish() error {
	if c.waiting() == 0 || c.Drum.Stats().PredictedEarly > contentLastPass {
		return nil
	}
	for range mostSteps {
		if _, err := c.Drum.Pass(context.Background(), true); err != nil && !errors.Is(err, space.ErrNoRoom) {
			return err
		}
		if c.waiting() == 0 {
			break
		}
	}
	return nil
}

// BufferedBytes implements space.Store.
func (c *Store) BufferedBytes() int64 { return c.opt.Plan.Content.BufferedIn(c.Drum) }

// UnsavedBytes implements space.Store.
func (c *Store) UnsavedBytes() int64 { return c.Drum.UnsavedBytes() }
