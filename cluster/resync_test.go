package cluster

import (
	"errors"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestGiveUp: an outbox whose receiver was abandoned drops what it has and all that is added, counts it, and its audit
// balances, over a restart; a state that contradicts that is found.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	b, _ := fullBox(t)
	b.open()
	was := b.Figures()
	waited := was.Waiting()
	if dropped := b.Abandon(); dropped.Records() != waited || waited != 9*2001+1 || !b.Abandoned() {
		t.Fatalf("%d records dropped, %d waited", dropped.Records(), waited)
	}
	b.save(false)
	must(t, b.AddLink(keyOf("http://lost.example/"), []byte("http://lost.example/"))) // after the checkpoint
	b.crash()
	must(t, b.AddLink(keyOf("http://late.example/"), []byte("http://late.example/")))
	must(t, b.AddEdge([]byte("a.example"), []byte("late.example")))
	must(t, b.AddScope(7))
	b.save(true)
	if _, _, ok, err := b.Next(); ok || err != nil {
		t.Errorf("a message is left: %v", err)
	}
	if f := b.Figures(); f.Waiting() != 0 || f.Bytes != 0 || f.Dropped.Records() != waited+2 ||
		b.Abandon() != (Totals{}) {
		t.Errorf("%+v", f)
	}
	if found, err := b.scan(nil); err != nil || found.Files != (Totals{}) || found.Wrong != 0 {
		t.Errorf("%v, %+v", err, found)
	}
	files, err := b.fs.List("d/state/outbox/1/sent")
	if err == nil && len(files) > 0 {
		t.Errorf("files are left: %v", files)
	}
	for what, change := range map[string]func(st *OutboxState){
		"other totals":   func(st *OutboxState) { st.Dropped.Links.Lo++ },
		"another number": func(st *OutboxState) { st.Last++ },
		"not abandoned":  func(st *OutboxState) { st.Abandoned = false },
		"an open one":    func(st *OutboxState) { st.Open = disk.Ref{Len: 1} },
	} {
		was := *b.st
		change(b.st)
		if _, err := b.scan(nil); err == nil {
			t.Errorf("%s: not found", what)
		}
		*b.st = was
	}
}

// TestRenumber: the records of an outbox get new numbers in another life, and loans of pages are left out.
func TestRenumber(t *testing.T) {
	t.Parallel()
	b, all := fullBox(t)
	b.open()
	must(t, b.AddPages(5))
	b.save(false)
	must(t, b.Close())
	start := all[4]
	next := &box{t: t, fs: memfs.New(2),
		st: &OutboxState{Last: 90, Taken: 90, Out: start.Totals, Whole: start.Totals, Gone: start.Totals}}
	must(t, next.fs.MkdirAll("d/state"))
	var err error
	next.Outbox, err = OpenOutbox(OutboxOptions{Set: next.set(), Name: "outbox/1", Crawl: CrawlKey(7, 2), To: 1,
		BlockBytes: 64 << 10}, next.st)
	must(t, err)
	key := func(rec []byte) (uint64, error) { return keyOf(string(rec)), nil }
	pages, err := Renumber(b.set(), "outbox/1", b.st, 0, next.Outbox, key)
	if err != nil || pages != 5 {
		t.Fatalf("%v, %d pages", err, pages)
	}
	next.save(false)
	old, err := b.scan(nil)
	must(t, err)
	found, err := next.scan(nil)
	if err != nil || found.Files != old.Files || found.Crawl != CrawlKey(7, 2) || next.Figures().TakenNumber != 90 {
		t.Fatalf("%v, %+v, want %+v", err, found, old)
	}
	in := Intake{Taken: []Taken{{Number: 90, Totals: start.Totals}, {}}, Incarnations: []uint64{2, 0}}
	var d Decoder
	for {
		msg, _, ok, err := next.Next()
		must(t, err)
		if !ok {
			break
		}
		h, err := ReadHeader(msg)
		must(t, err)
		if v, err := in.Judge(&h, 7, 1); v != Take || err != nil {
			t.Fatalf("message %d: %v, %v", h.Number, v, err)
		}
		must(t, d.Records(msg, &h, &received{}))
		in.Taken[0] = Taken{Number: h.Number, Totals: h.After}
		must(t, next.Published())
	}
	if in.Taken[0].Totals != next.Figures().Added {
		t.Error("not all was taken")
	}
	for life := range uint64(5) {
		h := Header{Crawl: CrawlKey(7, life), From: 0, To: 1, Number: in.Taken[0].Number + 1,
			Before: in.Taken[0].Totals}
		v, err := in.Judge(&h, 7, 1)
		switch {
		case life < 2 && (v != Skip || err != nil), life == 2 && (v != Take || err != nil), life > 2 &&
			!errors.Is(err, ErrMessage):
			t.Errorf("life %d: %v, %v", life, v, err)
		}
	}
}

// TestOverGivenUp: a node that was abandoned does not count at the end of the crawl.
func TestOverGivenUp(t *testing.T) {
	t.Parallel()
	mark := func(node int) *Mark {
		m := wholeMark(node, 3)
		m.Agreed = make([]uint64, 3)
		return m
	}
	a, b, gone := mark(0), mark(1), []bool{false, false, true}
	a.Out[2], b.Taken[2].Totals.Links.N = 9, 7
	if Over([]*Mark{a, b, nil}, nil, 0) || !Over([]*Mark{a, b, nil}, gone, 0) {
		t.Error("without the mark of a node that was abandoned")
	}
	if a.Out[1] = 1; Over([]*Mark{a, b, nil}, gone, 0) {
		t.Error("a record is on its way")
	}
	must(t, (&Mark{Incarnation: 3, Checkpoint: 9}).CheckOwn(3, 9))
	must(t, (&Mark{Incarnation: 2, Checkpoint: 99}).CheckOwn(3, 9))
	wantBack(t, (&Mark{Incarnation: 4, Checkpoint: 1}).CheckOwn(3, 9), 0)
}
