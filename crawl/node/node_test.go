package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/weburl"
)

// table returns that of two nodes of the same size.
func table(t *testing.T) *cluster.Table {
	t.Helper()
	table, err := cluster.NewTable([]float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// openNode opens node 1 of two at a manifest, without outboxes. It counts the edges that it takes.
func openNode(t *testing.T, m *state.Manifest) (n *Node, edges *int) {
	t.Helper()
	links := &admit.Policy{Table: table(t), Node: 1, Hasher: weburl.NewHasher(weburl.Secret{})}
	n = New(account.New(slog.New(slog.DiscardHandler), nil, nil), Options{Log: slog.New(slog.DiscardHandler), Node: 1,
		Table: links.Table, Crawl: 7, Transport: mem.New(mem.Options{}).Transport(1)}, nil)
	edges = new(int)
	n.Wire(Others{GoOn: func() {}, TakeLinks: func(in *admit.Inlet, _ *account.Tx) error {
		*edges += len(in.Edges)
		return nil
	}})
	if err := n.Open(m, links); err != nil {
		t.Fatal(err)
	}
	return n, edges
}

// TestMarkIsDurable: the mark says what the last checkpoint covers, not what was taken since.
func TestMarkIsDurable(t *testing.T) {
	t.Parallel()
	was := cluster.Taken{Number: 5}
	m := &state.Manifest{Gen: 3, Intake: &cluster.Intake{Taken: []cluster.Taken{was, {}}}}
	n, _ := openNode(t, m)
	n.intake.in.Taken[0].Number++
	if got := n.marks.mark; got.Taken[0] != was || m.Intake.Taken[0] != was || got.Checkpoint != 3 {
		t.Errorf("the mark says %+v, the manifest %+v", got, m.Intake)
	}
	mo := &Moment{}
	mo.intake, mo.reading = n.intake.freeze()
	n.intake.in.Taken[0].Number++
	if n.Checkpointed(4, 0, mo); n.marks.mark.Taken[0].Number != 6 || n.marks.mark.Checkpoint != 4 {
		t.Errorf("the mark of the next checkpoint says %+v", n.marks.mark)
	}
}

// message returns the first message of node 0 to node 1, with one edge.
func message(t *testing.T) []byte {
	t.Helper()
	fs := memfs.New(1)
	set := disk.Set{FS: fs, Paths: []string{"d"}}
	if err := fs.MkdirAll("d/state"); err != nil {
		t.Fatal(err)
	}
	o, err := cluster.OpenOutbox(cluster.OutboxOptions{Set: set, Name: "outbox/1", Crawl: 7, From: 0, To: 1,
		BlockBytes: 64 << 10}, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, hasher, owners := []byte("a.example"), weburl.NewHasher(weburl.Secret{}), table(t)
	for ; owners.Owner(hasher.PLDKey(to)) != 1; to[0]++ {
	}
	tails, err := disk.CreateTails(set, 1)
	if err = errors.Join(err, o.AddEdge([]byte("from.example"), to), o.Flush()); err != nil {
		t.Fatal(err)
	}
	f := o.Freeze()
	if _, err := f.Save(tails); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tails.Close(), f.Commit()); err != nil {
		t.Fatal(err)
	}
	msg, _, ok, err := o.Next()
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	msg = slices.Clone(msg)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	return msg
}

// TestForgedMessage: a message that disagrees with those before it is refused and counted, and does not stop
// the node. If it comes again and again, with none that is right between, the node ends. A right one withdraws
// the agreement to the end.
func TestForgedMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := message(t)
		h, err := cluster.ReadHeader(good)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(good)
		bad[24]++ // of the totals before it
		binary.LittleEndian.PutUint64(bad[len(bad)-8:], xxhash.Sum64(bad[:len(bad)-8]))
		n, edges := openNode(t, nil)
		take := func(data []byte) error { return n.intake.take(&cluster.Message{Seq: 1, From: 0, Data: data}) }
		n.end.promised.Store(true)
		for range 3 {
			if err := take(bad); err != nil {
				t.Fatalf("one false message: %v", err)
			}
		}
		if !n.Quiet() {
			t.Error("a false message withdraws the agreement")
		}
		if err := take(good); err != nil || n.intake.in.Taken[0].Totals != h.After || *edges != 1 || n.Quiet() {
			t.Fatalf("the true message after it: %v, taken %+v, %d edges, quiet %v", err, n.intake.in.Taken[0], *edges,
				n.Quiet())
		}
		if _, messages := n.doubts.counts(0); messages != 3 {
			t.Errorf("%d messages were refused", messages)
		}
		n.intake.in.Taken[0] = cluster.Taken{}
		for try := 0; err == nil && try < 10; try++ {
			err = take(bad)
			time.Sleep(doubtFor / 3)
		}
		var back *cluster.SetBackError
		if !errors.As(err, &back) || *edges != 1 {
			t.Errorf("a false message again and again: %v", err)
		}
	})
}

// TestAbandoned: the nodes of the options are lost, and a configuration names them in order.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	a := &abandoned{self: 1, gone: make([]bool, 4)}
	if a.any() || a.line() != nil {
		t.Errorf("%v are abandoned", a.nodes())
	}
	a.restore([]int{3, 0}, nil)
	want := fmt.Sprintf("[0 3] [%s: [0,3]]", cluster.AbandonedName)
	if got := fmt.Sprint(a.nodes(), a.line()); got != want || !a.any() {
		t.Error(got)
	}
}
