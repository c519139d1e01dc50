package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// received collects the records of messages.
type received struct {
	links, edges []string
	scopes       []uint64
	walkers      []string
	pages        int64
}

func (r *received) Link(rec []byte) (uint64, error) {
	r.links = append(r.links, string(rec))
	return keyOf(string(rec)), nil
}

func (r *received) Checked(rec []byte) (uint64, error) { return r.Link(rec) }

func (r *received) Edge(from, to []byte) error {
	r.edges = append(r.edges, string(from)+" "+string(to))
	return nil
}

func (r *received) Moved(MovedKind, []byte) error { return nil }

func (r *received) Scope(key uint64) error {
	r.scopes = append(r.scopes, key)
	return nil
}

func (r *received) Pages(n int64) error {
	r.pages += n
	return nil
}

func keyOf(link string) uint64 { return edgeKey([]byte(link), nil) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// box is an outbox on a file system that can crash, with its last durable state.
type box struct {
	*Outbox
	t   testing.TB
	fs  *memfs.FS
	gen uint64
	st  *OutboxState
}

func newBox(t testing.TB, fs *memfs.FS) *box {
	must(t, fs.MkdirAll("d/state"))
	must(t, fs.SyncFS("."))
	b := &box{t: t, fs: fs}
	b.open()
	return b
}

func (b *box) set() disk.Set { return disk.Set{FS: b.fs, Paths: []string{"d"}} }

func (b *box) open() {
	o, err := OpenOutbox(OutboxOptions{Set: b.set(), Name: "outbox/1", Crawl: 7, From: 0, To: 1, BlockBytes: 64 << 10},
		b.st)
	must(b.t, err)
	b.Outbox = o
}

// save makes a checkpoint; without flush it does not cover the open message.
func (b *box) save(flush bool) {
	if flush {
		must(b.t, b.Flush())
	}
	b.gen++
	tails, err := disk.CreateTails(b.set(), b.gen)
	must(b.t, err)
	f := b.Freeze()
	b.st, err = f.Save(tails)
	must(b.t, err)
	must(b.t, tails.Close())
	must(b.t, b.fs.SyncFS("d"))
	must(b.t, f.Commit())
}

// crash loses what no checkpoint has.
func (b *box) crash() {
	must(b.t, b.Close())
	b.fs = b.fs.Crash()
	b.open()
}

// deliver makes a checkpoint, and gives all messages to a receiver.
func (b *box) deliver(in *Intake, take func(msg []byte)) {
	b.t.Helper()
	b.save(true)
	for range 2 * b.Figures().Sent { // the order may be that of an interrupted resend
		msg, number, _, err := b.Oldest()
		must(b.t, err)
		if number == in.Taken[0].Number+1 {
			take(msg)
		}
		must(b.t, b.Resent())
	}
	for {
		msg, _, ok, err := b.Next()
		must(b.t, err)
		if !ok {
			return
		}
		take(msg)
		must(b.t, b.Published())
	}
}

// empty drops all messages: the receiver has taken them.
func (b *box) empty(in *Intake) {
	b.t.Helper()
	for all := false; !all; {
		done, err := b.Taken(in.Taken[0].Number, in.Taken[0].Totals)
		must(b.t, err)
		all = done
	}
	if f := b.Figures(); f.Gone != f.Added || f.Sent+f.Unpublished != 0 {
		b.t.Errorf("at the end: %+v", f)
	}
}

// TestOutbox: a receiver gets each record once and in order, whatever is published again or lost after its
// acknowledgement, over crashes of the sender between any two steps, and only what a checkpoint covers is
// published.
func TestOutbox(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := newBox(t, memfs.New(seed))
		in := Intake{Taken: make([]Taken, 2)}
		var got received
		var d Decoder
		take := func(msg []byte) {
			t.Helper()
			h, err := ReadHeader(msg)
			must(t, err)
			v, err := in.Judge(&h, 7, 1)
			must(t, err)
			if v != Take {
				return
			}
			if b.st == nil || h.Number > b.st.Last {
				t.Fatalf("message %d was published, the checkpoint has %d", h.Number, b.st.Last)
			}
			must(t, d.Records(msg, &h, &got))
			in.Taken[0] = Taken{Number: h.Number, Totals: h.After}
		}
		var saved, sent []string // records in a checkpoint, and all
		for n := range 400 {
			switch rng.IntN(12) {
			case 0:
				b.save(rng.IntN(2) == 0)
				saved = slices.Clone(sent)
			case 1:
				b.crash()
				sent = slices.Clone(saved)
			case 2, 3:
				if msg, _, ok, err := b.Next(); err != nil {
					t.Fatal(err)
				} else if ok {
					if rng.IntN(4) > 0 { // else the transport loses it
						take(msg)
					}
					must(t, b.Published())
				}
			case 4:
				for range b.Figures().Sent {
					msg, _, _, err := b.Oldest()
					must(t, err)
					take(msg)
					must(t, b.Resent())
				}
			case 5:
				_, err := b.Taken(in.Taken[0].Number, in.Taken[0].Totals)
				must(t, err)
			default:
				link := fmt.Sprintf("link %d %0*d", n, rng.IntN(30_000), 0)
				must(t, b.AddLink(keyOf(link), []byte(link)))
				must(t, b.AddEdge([]byte("a.example"), fmt.Appendf(nil, "b%d.example", n)))
				must(t, b.AddScope(uint64(n)))
				sent = append(sent, link)
			}
		}
		b.deliver(&in, take)
		if !slices.Equal(got.links, sent) || len(got.edges) != len(sent) || len(got.scopes) != len(sent) {
			t.Fatalf("seed %d: %d links, %d edges and %d scopes received, want %d of each", seed, len(got.links),
				len(got.edges), len(got.scopes), len(sent))
		}
		b.empty(&in)
	}
}

// TestPassOn: the records for a node that takes part no more leave its outbox in order, published or not, and after an
// interrupted resend, and each checkpoint between them has the rest.
func TestPassOn(t *testing.T) {
	t.Parallel()
	b := newBox(t, memfs.New(1))
	var got received
	var d Decoder
	var want []string
	for n := range 12 {
		link := fmt.Sprintf("link %d", n)
		must(t, b.AddLink(keyOf(link), []byte(link)))
		must(t, b.AddEdge([]byte("a.example"), []byte(link)))
		want = append(want, link)
		if n < 11 { // the last one is in the open message
			b.save(true)
		}
		if n < 6 {
			_, _, _, err := b.Next()
			must(t, err)
			must(t, b.Published())
		}
	}
	for range 2 {
		_, _, _, err := b.Oldest()
		must(t, err)
		must(t, b.Resent())
	}
	b.save(false)
	b.crash()
	must(t, b.Order(func(f func() error) error { return f() }))
	must(t, b.Flush())
	for n := range len(want) {
		msg, ok, err := b.First()
		must(t, err)
		if !ok {
			t.Fatalf("%d messages of %d", n, len(want))
		}
		h, err := ReadHeader(msg)
		must(t, err)
		must(t, d.Records(msg, &h, &got))
		b.PassOn(&h)
		b.save(false)
		b.crash()
		found, err := ScanOutbox(OutboxScan{Set: b.set(), Name: "outbox/1", To: 1, State: b.st,
			LinkKey: func(rec []byte) (uint64, error) { return keyOf(string(rec)), nil }})
		must(t, err)
		f := b.Figures()
		if left := int64(len(want) - n - 1); found.Files.Links.N != left || f.Waiting() != 2*left {
			t.Errorf("after message %d: %+v, %+v", n+1, found.Files, f)
		}
	}
	if _, ok, err := b.First(); ok || err != nil || !slices.Equal(got.links, want) || len(got.edges) != len(want) {
		t.Errorf("%v, %v; links %q", ok, err, got.links)
	}
	if dropped, f := b.Abandon(), b.Figures(); dropped != (Totals{}) || f.PassedOn != f.Added {
		t.Errorf("dropped %+v; %+v", dropped, f)
	}
}

// TestSetBack: a node that was set back to an older copy is noticed on both sides.
func TestSetBack(t *testing.T) {
	t.Parallel()
	b := newBox(t, memfs.New(1))
	must(t, b.AddLink(1, []byte("one")))
	b.save(true)
	_, err := b.Taken(2, Totals{}) // a message that was never sent
	wantBack(t, err, 0)
	_, err = b.Taken(1, Totals{}) // another message 1
	wantBack(t, err, -1)
	msg, _, _, err := b.Next()
	must(t, err)
	h, err := ReadHeader(msg)
	must(t, err)
	h.Before.Links.Add(5) // other records before message 1
	in := Intake{Taken: make([]Taken, 2)}
	_, err = in.Judge(&h, 7, 1)
	wantBack(t, err, -1)
	m := wholeMark(0, 2)
	m.Checkpoint, m.Gone[1] = 4, 3
	must(t, m.CheckGone(1, 3))
	wantBack(t, m.CheckGone(1, 2), 1)
	must(t, m.CheckOwn(0, 4))
	wantBack(t, m.CheckOwn(0, 3), 0)
}

// FuzzMessage: bytes from outside are decoded, or refused with ErrMessage.
func FuzzMessage(f *testing.F) {
	b := newBox(f, memfs.New(1))
	must(f, b.AddLink(keyOf("http://a/"), []byte("http://a/")))
	must(f, b.AddEdge([]byte("a"), []byte("b")))
	must(f, b.AddScope(3))
	b.save(true)
	msg, _, _, err := b.Next()
	must(f, err)
	f.Add(slices.Clone(msg))
	f.Add([]byte(messageMagic))
	var d Decoder
	f.Fuzz(func(t *testing.T, msg []byte) {
		h, err := ReadHeader(msg)
		if err == nil {
			err = d.Records(msg, &h, &received{})
		}
		if err != nil && !errors.Is(err, ErrMessage) {
			t.Fatal(err)
		}
	})
}

// TestOver: the crawl is over only if all nodes are idle and nothing is on its way, or a node has found it
// over in this round or a later one.
func TestOver(t *testing.T) {
	t.Parallel()
	mark := func(node int, taken, out int64) *Mark {
		m := wholeMark(node, 2)
		m.Taken[1-node].Totals.Links.N, m.Out[1-node] = taken, out
		m.Term, m.Agreed = uint64(7+node), []uint64{7, 8}
		return m
	}
	busy, done := mark(1, 3, 4), mark(1, 0, 0)
	busy.Idle, done.Done, done.Round = false, true, 2
	// Another term, no agreement, and the mark of a node that has ended in an earlier term of this one.
	other, alone, ended := mark(1, 3, 4), mark(1, 3, 4), mark(1, 3, 4)
	other.Term, alone.Agreed, ended.Done, ended.Agreed = 9, nil, true, []uint64{5, 8}
	for i, c := range []struct {
		marks []*Mark
		round int64
		want  bool
	}{
		{[]*Mark{mark(0, 4, 3), mark(1, 3, 4)}, 0, true}, {[]*Mark{mark(0, 4, 3), nil}, 0, false},
		{[]*Mark{mark(0, 4, 3), busy}, 0, false}, {[]*Mark{mark(0, 4, 5), mark(1, 3, 4)}, 0, false},
		{[]*Mark{mark(0, 2, 3), mark(1, 3, 4)}, 0, false}, {[]*Mark{nil, done}, 0, true}, {[]*Mark{nil, done}, 2, true},
		{[]*Mark{nil, done}, 3, false}, {[]*Mark{mark(0, 4, 3), other}, 0, false}, {[]*Mark{mark(0, 4, 3), alone}, 0,
			false}, {[]*Mark{mark(0, 4, 3), ended}, 3, true}, {[]*Mark{mark(0, 4, 3), mark(1, 3, 4)}, 3, true},
	} {
		if got := Over(c.marks, nil, c.round); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
		for _, m := range c.marks {
			if m == nil {
				continue
			}
			data, err := m.Encode()
			must(t, err)
			if _, err := DecodeMark(MarkKey(m.Node), data, 2); err != nil {
				t.Error(err)
			}
			if _, err := DecodeMark(MarkKey(m.Node), data, 1); err == nil {
				t.Error("a mark of a larger cluster was taken")
			}
		}
	}
}
