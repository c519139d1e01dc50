package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/queue"
)

// fullBox returns an outbox with messages that were dropped, sent, sent again in part, and not published, and with an
// open one, and what its receiver has taken after each message.
func fullBox(t testing.TB) (*box, []Taken) {
	b := newBox(t, memfs.New(1))
	var all []Taken
	for m := range 12 {
		for i := range 2000 {
			link := fmt.Sprintf("http://host%d-%d.example/%x", i%7, m,
				edgeKey([]byte{byte(m)}, []byte{byte(i), byte(i >> 8)}))
			must(t, b.AddLink(keyOf(link), []byte(link)))
		}
		must(t, b.AddEdge([]byte("a.example"), fmt.Appendf(nil, "b%d.example", m)))
		must(t, b.AddScope(uint64(m)))
		must(t, b.Flush())
		f := b.Figures()
		all = append(all, Taken{Number: f.Last, Totals: f.Added})
	}
	b.save(true)
	for range 9 {
		must(t, b.Published())
	}
	if ok, err := b.Taken(3, all[2].Totals); !ok || err != nil {
		t.Fatal(ok, err)
	}
	must(t, b.Resent()) // messages 4 and 5 are the last ones now, as if a crash interrupted a resend
	must(t, b.Resent())
	must(t, b.AddLink(keyOf("http://open.example/"), []byte("http://open.example/")))
	b.save(false)
	must(t, b.Close())
	return b, all
}

// scan audits a box.
func (b *box) scan(damaged func(error) error) (*OutboxFound, error) {
	return ScanOutbox(OutboxScan{Set: b.set(), Name: "outbox/1", From: 0, To: 1, State: b.st, Damaged: damaged,
		LinkKey: func(rec []byte) (uint64, error) { return keyOf(string(rec)), nil }})
}

// TestScanOutbox: a sound outbox has exactly the records of its accounts, and what a receiver may have taken is told
// from what it cannot have.
func TestScanOutbox(t *testing.T) {
	t.Parallel()
	b, all := fullBox(t)
	found, err := b.scan(nil)
	must(t, err)
	st := b.st
	if found.Messages != 9 || found.Lost != 0 || found.Crawl != 7 || found.Files.Links.N != 9*2000+1 ||
		found.Files.Edges.N != 9 {
		t.Errorf("found %+v", found)
	}
	where := map[string]int{}
	must(t, EachLink(b.set(), "outbox/1", st, func(rec []byte, in string, number uint64) error {
		if got := string(rec); in != InOpen && !strings.Contains(got, fmt.Sprintf("-%d.example", number-1)) {
			t.Fatalf("%s in message %d", got, number)
		}
		where[in]++
		return nil
	}, func(err error) error { return err }))
	if where[InSent] != 6*2000 || where[InPending] != 3*2000 || where[InOpen] != 1 {
		t.Errorf("links are in %v", where)
	}
	sums, err := ParseSums(AppendSums(nil, found.Sums))
	must(t, err)
	s := Sent{Out: st.Out, Gone: st.Gone, Last: st.Last, GoneNumber: st.Taken, Sums: sums}
	for _, taken := range all {
		above, err := s.Check(0, 1, taken)
		if taken.Number < 3 {
			wantBack(t, err, 1)
			continue
		}
		must(t, err)
		if want := int64(12-taken.Number)*2000 + 1; above.Links.N != want {
			t.Errorf("taken %d: %d links above, want %d", taken.Number, above.Links.N, want)
		}
		taken.Totals.Links.Lo++
		_, err = s.Check(0, 1, taken)
		wantBack(t, err, -1)
	}
	_, err = s.Check(0, 1, Taken{Number: 13})
	wantBack(t, err, 0)
}

// wantBack requires the error that a node was set back.
func wantBack(t *testing.T, err error, node int) {
	t.Helper()
	var back *SetBackError
	if !errors.As(err, &back) || back.Back != node {
		t.Errorf("got %v, want that node %d was set back", err, node)
	}
}

// flip changes a bit in the second half of a file: the first half was dropped, or sent again.
func (b *box) flip(name string) {
	f, err := b.fs.Open(name)
	must(b.t, err)
	size, err := f.Size()
	must(b.t, err)
	var c [1]byte
	must(b.t, disk.ReadFull(f, c[:], size*3/4))
	c[0] ^= 4
	_, err = f.WriteAt(c[:], size*3/4)
	must(b.t, err)
	must(b.t, f.Close())
}

// TestScanOutboxFaults: each fault of an outbox is found, and the file is named if there is one; whatever else is
// readable is counted.
func TestScanOutboxFaults(t *testing.T) {
	t.Parallel()
	segment := func(b *box) string { return queue.Files(b.set(), "outbox/1/sent", b.st.Sent)[0] }
	for _, c := range []struct {
		what  string
		hurt  func(b *box) (named string)
		lost  bool
		open  bool
		other bool // the accounts differ, and no file
	}{
		{what: "a byte of a sent message", lost: true, hurt: func(b *box) string {
			name := segment(b)
			b.flip(name)
			return name
		}},
		{what: "a missing file", lost: true, hurt: func(b *box) string {
			name := segment(b)
			must(t, b.fs.Remove(name))
			return name
		}},
		{what: "the open message", open: true, hurt: func(b *box) string { b.st.Open.Sum++; return "tails" }},
		{what: "an account", other: true, hurt: func(b *box) string { b.st.Out.Edges.N++; return "outbox/1" }},
		{what: "a dropped message", other: true, hurt: func(b *box) string { b.st.Gone.Links.Lo++; return "outbox/1" }},
		{what: "the number of the last one", other: true, hurt: func(b *box) string { b.st.Last++; return "outbox/1" }},
		{what: "the messages of another node", other: true, hurt: func(b *box) string {
			other := newBox(t, memfs.New(2))
			other.fs, other.st, other.gen = b.fs, nil, 100
			var err error
			other.Outbox, err = OpenOutbox(OutboxOptions{Set: b.set(), Name: "outbox/2", Crawl: 7, From: 0, To: 2,
				BlockBytes: 4096}, nil)
			must(t, err)
			must(t, other.AddLink(1, []byte("x")))
			other.save(true)
			must(t, other.Close())
			b.st = other.st
			return "outbox/1"
		}},
	} {
		b, _ := fullBox(t)
		name := c.hurt(b)
		var all []string
		found, err := b.scan(func(err error) error {
			var damage *disk.CorruptError
			if !errors.As(err, &damage) {
				t.Errorf("%s: %v", c.what, err)
			}
			all = append(all, err.Error())
			return nil
		})
		must(t, err)
		if len(all) == 0 || !strings.Contains(all[0], name) {
			t.Errorf("%s: found %q, want %s", c.what, all, name)
		}
		if c.other != (found.Wrong > 0) {
			t.Errorf("%s: %d contradictions", c.what, found.Wrong)
		}
		if !c.other && (c.lost != (found.Lost > 0) || c.open != found.OpenLost) {
			t.Errorf("%s: found %+v", c.what, found)
		}
		if _, err := b.scan(nil); err == nil {
			t.Errorf("%s: no error", c.what)
		}
	}
}
