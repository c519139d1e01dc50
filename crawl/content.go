package crawl

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Limits of what is compared.
const (
	// leastContent is the length in bytes of the shortest body that is compared: a revisit record of a shorter
	// one is no shorter than the response.
	leastContent = 256
	// maxContentURL is the length of the longest URL that a revisit record refers to. Responses of longer URLs
	// are not compared, because each value in the store has a URL.
	maxContentURL = state.MaxContentValue - plan.ContentHead
)

// The store of contents is due for a pass when a bucket is full, when nothing else is in flight, or when
// contentDuty times the duration of the last pass, but at least contentEvery, has passed since. So pages wait
// seconds while the store is small, and its passes never take more than 1 % of the disks' time.
const (
	contentDuty  = 100
	contentEvery = 10 * time.Second
	// contentLastPass is the longest pass, as predicted, that the end of a run waits for.
	contentLastPass = 10 * time.Second
)

// contentStage is the store of contents (content seen, Heydon and Najork's "Mercator", section 3.4). It tells
// whether the body of a page was stored before, under any URL. Like URLseen it is a drum, so an answer costs no
// seek, and comes with a pass. A page whose body is certainly new, by a filter in RAM, does not wait: it is
// stored at once, and only its key and its URL go to the drum. Any other page waits in the drum, as a tuple's
// aux, until a pass gives the verdict. Then it is stored whole, or as a revisit record.
//
// Producers: the page workers (send). Consumer: its own goroutine "content", which runs the passes; their
// emission (end) stores the pages.
type contentStage struct {
	*engine
	content *drum.Drum
	filter  *drum.KeyFilter // nil: each page may be known
	// ownsFilter is set if no run keeps the filter.
	ownsFilter bool
	recent     *recentBodies // nil with ContentOff
	// order makes the filter's answer and the tuple's arrival one step for each key: the tuple of the page that
	// the filter takes for new comes first.
	order [256]sync.Mutex

	merges      *pass.Merger
	wakeContent account.Signal
	passEnded   atomic.Int64 // engine.uptime, ns
	passTook    atomic.Int64 // ns

	// Of a round's apply and end, whose calls do not overlap. firsts are the values for the pages of a round
	// whose bodies are known.
	firsts   []byte
	encoder  *warc.Encoder
	prepared warc.Prepared

	deferrals *deferrals
	output    *output.Writer
	passes    *pass.Runner
	seen      *seenStage
	space     *space.Keeper
}

func newContentStage(e *engine) *contentStage {
	return &contentStage{engine: e, wakeContent: e.PulsedSignal()}
}

func (c *contentStage) store() drum.Options {
	o := c.plan.Content.Shaped(plan.ContentShape())
	o.Set, o.Name, o.DiskBytes, o.Reserve = c.Set, state.NameContent, c.plan.ContentDiskBytes, c.reserve
	o.Apply, o.BeginRound = c.apply, func() { c.firsts = c.firsts[:0] }
	o.Yield = true
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.Op == drum.CheckUpdate }, c.emitSeen
	return o
}

// reserve reserves space for a round, and refuses it if its pages do not fit into the output directories.
func (c *contentStage) reserve(need int64) (func(), error) {
	_, waiting := c.content.Pending()
	if err := c.space.OutputRoom(2 * waiting / int64(c.plan.Content.Buckets)); err != nil {
		return nil, err
	}
	return c.space.Reserve(need)
}

// The emission of a round can be gigabytes: with a --disk of 20 TB and no filter, 640 GB of pages wait, 2.5 GB in each of
// 256 buckets, 25 s at 100 MB/s. A smaller round would not do, because each round rewrites the part of its bucket (340
// MB with 10^9 bodies). So emissions yield to checkpoints (drum.Options.Yield). A checkpoint then waits for one batch of
// pages: those of one block of aux, at most a buffer (256 KiB to 1 MiB, before compression), and for the keys of the
// round to be read again. The rest of the round costs one more reading of the part, and no writing.

// apply keeps the value of the first page with a body. It takes a value that equals the page's own for the trace of an
// emission that has yielded: the page is the first one. (Two pages with one URL, second and body are equal as well. Then
// the body is stored twice.) A page that waits gets its position in firsts, plus one. If
// firsts is full, the page gets 0, and is stored as if its body were new.
func (c *contentStage) apply(_ drum.Key, old []byte, exists bool, run []drum.Item, _ *drum.Arena, dst []byte) ([]byte, drum.Action) {
	first, action, at := old, drum.Keep, 0
	for i := range run {
		switch {
		case !exists:
			first, exists, action = run[i].Value, true, drum.Set
			run[i].New = true
		case run[i].Op != drum.CheckUpdate:
		case i == 0 && bytes.Equal(old, run[i].Value):
			run[i].New = true
		case at == 0 && int64(len(c.firsts)+len(first)) > c.plan.Content.BucketBytes:
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
func (c *contentStage) first(at uint64) []byte {
	b := c.firsts[at-1:]
	return b[2:][:binary.LittleEndian.Uint16(b)]
}

// bodyValue is the value of a body: the page that has it. Encoding: digest, Unix seconds (4 bytes, little-endian),
// URL.
type bodyValue struct {
	digest [20]byte // of the payload, for a page that is stored
	date   time.Time
	url    []byte
}

func (v *bodyValue) append(dst []byte) []byte {
	dst = append(dst, v.digest[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(v.date.Unix()))
	return append(dst, v.url...)
}

var errContent = errors.New("crawl: damaged value in the store of contents")

func (v *bodyValue) decode(b []byte) error {
	if len(b) <= plan.ContentHead {
		return errContent
	}
	copy(v.digest[:], b)
	v.date = time.Unix(int64(binary.LittleEndian.Uint32(b[20:])), 0)
	v.url = b[plan.ContentHead:]
	return nil
}

// comparable reports whether the body of a response is compared.
func (c *contentStage) comparable(w *pageWorker, rec *weburl.Record, resp *fetch.Response, is found) bool {
	return c.opt.Output.ContentSeen != state.ContentOff && w.stores == state.ArchiveKeep && resp.Spill == nil && w.streamed == nil && !is.sitemap &&
		len(resp.Body) >= leastContent && resp.Truncated == fetch.NotTruncated && resp.Flaws&decodeCut == 0 &&
		len(rec.URL) <= maxContentURL
}

// body is what a worker knows of a page's body.
type body struct {
	compared bool // key is set
	plain    bool // the payload is the body: it came without content coding
	key      drum.Key
	first    bodyValue // the page that had it first, if known
	known    bool
	value    []byte // memory of first.url
}

// look fills in w.body: the key of a body that is compared, and the page that had it lately. That page's
// transaction has begun, so a checkpoint that has this page has that one too.
func (c *contentStage) look(w *pageWorker, rec *weburl.Record, resp *fetch.Response, is found) error {
	b := &w.body
	b.compared, b.known = c.comparable(w, rec, resp, is), false
	if !b.compared {
		return nil
	}
	b.plain = len(resp.Header("Content-Encoding")) == 0
	b.key = drum.Key(c.Hasher.BodyKey(resp.Body, b.plain))
	if b.value, b.known = c.recent.get(b.value[:0], b.key); b.known {
		return b.first.decode(b.value)
	}
	return nil
}

// send tells the store of a page. It is part of the page's transaction. waits means that the store has the page
// and will end it.
func (c *contentStage) send(tx *account.Tx, w *pageWorker, rec *weburl.Record, resp *fetch.Response, is found) (waits bool, _ error) {
	if !w.body.compared {
		return false, nil
	}
	if w.body.known { // the store has the body
		tx.Count(state.CountDuplicates, 1)
		if c.opt.Output.Store {
			tx.Count(state.CountRevisits, 1)
			tx.Count(state.CountBytesRevisits, int64(len(resp.Body)))
		}
		return false, nil
	}
	v := bodyValue{date: resp.Start, url: rec.URL}
	if c.opt.Output.Store {
		var err error
		if v.digest, err = w.prepared.Digest(); err != nil {
			return false, err
		}
	}
	w.value = v.append(w.value[:0])
	t := &w.tuple[0]
	*t = drum.Tuple{Key: w.body.key, Op: drum.Update, Value: w.value}
	mu := &c.order[t.Key>>56]
	mu.Lock()
	defer mu.Unlock()
	if c.filter == nil || c.filter.Add(t.Key) {
		if waits = c.wrap(tx, w, rec, resp, is); waits {
			t.Op, t.Aux = drum.CheckUpdate, w.aux
			tx.Wake(c.merges)
		}
	} else {
		c.recent.put(t.Key, w.value)
	}
	return waits, c.content.Add(w.tuple[:])
}

// takesLinks reports whether the links of a page are sent in its transaction.
func (c *contentStage) takesLinks(w *pageWorker, rec *weburl.Record, waits bool) bool {
	return !(waits || w.body.known) || !c.holdsLinks(rec)
}

// wrap puts what is needed to end the page into w.aux. It reports whether the store can hold it; otherwise the
// page is stored at once, and its body perhaps a second time.
func (c *contentStage) wrap(tx *account.Tx, w *pageWorker, rec *weburl.Record, resp *fetch.Response, is found) bool {
	var wait state.Waiting
	waiting := *rec
	w.visit.apply(&waiting)
	wait.Record, wait.Size = waiting.Append(nil), uint64(len(resp.Body))
	if c.opt.Output.Store {
		wait.Form, wait.Capture = c.output.Form(), w.prepared.AppendBinary(w.capture[:0])
		w.capture = wait.Capture
	}
	if e := c.fetchedEntry(w, rec, resp, is.body != contentOther); e != nil {
		wait.Log = e.Append(nil)
	}
	if c.holdsLinks(rec) {
		wait.Links = c.seen.heldLinks(w.links)
	}
	if len(wait.Capture)+len(wait.Log)+len(wait.Links)+len(wait.Record) > c.plan.Content.BufferBytes-contentSlack {
		tx.Count(state.CountContentLarge, 1)
		return false
	}
	w.aux = wait.Append(w.aux[:0])
	return true
}

// contentSlack is room for the lengths and headers around a page in a buffer of the store.
const contentSlack = 256

// holdsLinks reports whether the links of a page that waits are sent with the verdict. Those of seeds are sent
// at once: an operator asked for them.
func (c *contentStage) holdsLinks(rec *weburl.Record) bool {
	return c.opt.Output.ContentSeen == state.ContentSkip && rec.Flags&weburl.FlagSeed == 0
}

// emitSeen ends pages whose verdict has come.
func (c *contentStage) emitSeen(results []drum.Result) error {
	c.Hook("content")
	for i := range results {
		if err := c.end(&results[i]); err != nil {
			return err
		}
	}
	return nil
}

// end stores a page that has waited, in a transaction of its own: pages are large.
func (c *contentStage) end(res *drum.Result) error {
	var wait state.Waiting
	if err := wait.Decode(res.Aux); err != nil {
		return err
	}
	var rec weburl.Record
	if err := rec.Decode(wait.Record); err != nil {
		return fmt.Errorf("crawl: record from the store of contents: %w", err)
	}
	var first bodyValue
	known := res.Result > 0
	if known {
		if err := first.decode(c.first(res.Result)); err != nil {
			return err
		}
	}
	revisit := false
	if len(wait.Capture) > 0 {
		var err error
		if revisit, err = c.capture(&wait, known, &first); err != nil {
			return fmt.Errorf("crawl: page %s from the store of contents: %w", rec.URL, err)
		}
	}
	if revisit {
		if err := becameRevisit(&rec, &first); err != nil {
			return err
		}
	}
	if c.recent != nil && known {
		c.recent.put(res.Key, c.first(res.Result))
	} else if c.recent != nil && res.New {
		c.recent.put(res.Key, res.Value)
	}
	return c.Transact(func(tx *account.Tx) error {
		if err := c.deferrals.endVisit(tx, &rec, state.PlaceContent); err != nil {
			return err
		}
		if known {
			tx.Count(state.CountDuplicates, 1)
		}
		if revisit {
			tx.Count(state.CountRevisits, 1)
			tx.Count(state.CountBytesRevisits, int64(wait.Size))
		}
		var at warc.Location
		if len(wait.Capture) > 0 {
			var err error
			if at, err = c.output.Append(&c.prepared, time.Now()); err != nil {
				return err
			}
		}
		if len(wait.Links) > 0 {
			if err := c.seen.sendHeld(tx, wait.Links, !known); err != nil {
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
		if known {
			e.DuplicateOf = string(first.url)
		}
		return c.output.LogEntry(&e)
	})
}

// capture decodes the records of a page. If its body was stored before, the response becomes a revisit record. A body
// that was stored in another coding is stored again, since readers take it with the headers of this response.
func (c *contentStage) capture(wait *state.Waiting, known bool, first *bodyValue) (revisit bool, _ error) {
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
var errContentForm = fmt.Errorf("pages that wait for the check of their content are in another WARC format, or have another "+
	"dictionary: run the crawl with the former --warc until it stops in order, then change it: %w",
	state.ErrIncompatible)

// due reports whether an early pass is due.
func (c *contentStage) due() bool {
	if c.passes.NothingLeft() {
		return true
	}
	wait := max(contentEvery, contentDuty*time.Duration(c.passTook.Load()))
	return c.Uptime()-time.Duration(c.passEnded.Load()) >= wait
}

func (c *contentStage) waiting() int64 { return c.Accounts.In(state.PlaceContent) }

func (c *contentStage) pass(ctx context.Context, early bool) (int, error) {
	began := time.Now()
	n, err := c.content.Pass(ctx, early)
	c.passTook.Store(int64(time.Since(began)))
	c.passEnded.Store(int64(c.Uptime()))
	return n, err
}

func (c *contentStage) openMerger() {
	c.passEnded.Store(int64(c.Uptime()))
	c.merges = &pass.Merger{
		Passes: c.passes, Name: state.NameContent, Pass: c.pass, Full: c.content.Full, Pending: c.waiting, Keys: c.content.Keys,
		Bytes: pass.PendingBytes(c.content),
		Cost:  func() time.Duration { return c.content.Stats().PredictedEarly },
		Early: c.due, Starving: func() bool { return false }, Wake: c.wakeContent,
	}
}

func (c *contentStage) mergeContent(ctx context.Context) error {
	return c.passes.Run(ctx, c.merges)
}

// finish ends the pages that wait, after the stages, unless that takes long or finds no room. Then the next run
// ends them.
func (c *contentStage) finish() error {
	if c.waiting() == 0 || c.content.Stats().PredictedEarly > contentLastPass {
		return nil
	}
	if _, err := c.content.Pass(context.Background(), true); err != nil && !errors.Is(err, space.ErrNoRoom) {
		return err
	}
	return nil
}

// heldLinks encodes the links of a page whose verdict is still to come: URLseen's tuples, names and edges. Their
// counters are those of the page's transaction.
func (s *seenStage) heldLinks(b *admit.Batch) []byte {
	b.Seen = slices.Grow(b.Seen[:0], len(b.Keys))[:len(b.Keys)]
	clear(b.Seen)
	b.Code()
	if len(b.Tuples)+len(b.Edges) == 0 {
		return nil
	}
	text := func(t *drum.Tuple) []byte { return t.Aux }
	dst := state.AppendTuples(nil, b.Tuples, text)
	dst = state.AppendTuples(dst, b.Names.Tuples, func(t *drum.Tuple) []byte { return t.Value })
	for _, e := range b.Edges {
		dst = binary.LittleEndian.AppendUint64(dst, e.From)
		dst = binary.LittleEndian.AppendUint64(dst, e.To)
	}
	return dst
}

// sendHeld sends links of heldLinks if take is true, and counts them as not taken otherwise.
func (s *seenStage) sendHeld(tx *account.Tx, held []byte, take bool) error {
	var links, names []drum.Tuple
	rest, err := state.EachTuple(held, func(key drum.Key, text []byte) {
		links = append(links, drum.Tuple{Key: key, Op: drum.CheckUpdate, Aux: text})
	})
	if err != nil {
		return err
	}
	if !take {
		tx.Count(state.CountLinksDuplicate, int64(len(links)))
		return nil
	}
	if s.drains() {
		tx.Count(state.CountLinksDraining, int64(len(links)))
		return nil
	}
	if rest, err = state.EachTuple(rest, func(key drum.Key, text []byte) {
		names = append(names, drum.Tuple{Key: key, Op: drum.CheckUpdate, Value: text})
	}); err != nil {
		return err
	}
	if len(links) > 0 {
		if err := s.urlSeen.Add(links); err != nil {
			return err
		}
		tx.Count(state.CountLinksChecked, int64(len(links)))
		s.seenMeter.added.Add(int64(len(links)))
		tx.Wake(s.merges)
	}
	if err := s.sendNames(&admit.Names{Tuples: names}, tx); err != nil {
		return err
	}
	var edges []star.Edge
	for ; len(rest) >= 16; rest = rest[16:] {
		edges = append(edges, star.Edge{From: binary.LittleEndian.Uint64(rest), To: binary.LittleEndian.Uint64(rest[8:])})
	}
	if len(edges) == 0 {
		return nil
	}
	tx.Count(state.CountEdges, int64(len(edges)))
	return s.budgets.addEdges(edges)
}
