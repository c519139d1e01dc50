package node

import (
	"encoding/binary"
	"errors"
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
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/weburl"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// openNode opens node 1 of two at a manifest, without outboxes. It counts the edges that it takes.
func openNode(t *testing.T, m *state.Manifest) (n *Node, edges *int) {
	table, err := cluster.NewTable([]float64{1, 1})
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	saved := &state.Saved{Hasher: weburl.NewHasher(weburl.Secret{}), Suffixes: weburl.NewSuffixes(false)}
	n = New(account.New(log, nil, nil), saved, Options{Log: log, Node: 1, Table: table, Crawl: 7,
		Transport: mem.New(mem.Options{}).Transport(1)}, nil, nil)
	edges = new(int)
	n.Wire(Others{GoOn: func() {}, Renders: func() int64 { return 0 },
		TakeLinks: func(in *admit.Inlet, _ *account.Tx) error {
			*edges += len(in.Edges)
			return nil
		}})
	must(t, n.Open(m, &admit.Policy{Table: table, Node: 1, Hasher: saved.Hasher}))
	return n, edges
}

// TestMarkIsDurable: the mark says what the last checkpoint covers, not what was taken since, or dropped from an
// outbox. Otherwise the node would have a lower number after a kill, and the others would refuse its mark.
func TestMarkIsDurable(t *testing.T) {
	t.Parallel()
	was := cluster.Taken{Number: 5}
	m := &state.Manifest{Gen: 3, Intake: &cluster.Intake{Taken: []cluster.Taken{was, {}}}}
	n, _ := openNode(t, m)
	n.intake.in.Taken[0].Number++
	if got := n.marks.mark; got.Taken[0] != was || m.Intake.Taken[0] != was || got.Checkpoint != 3 {
		t.Errorf("the mark says %+v, the manifest %+v", got, m.Intake)
	}
	n.Checkpointed(4, 0, &Moment{intake: m.Intake, outs: []int64{9, 0}, gone: []uint64{7, 0}})
	if got := n.marks.mark; got.Checkpoint != 4 || got.Gone[0] != 7 {
		t.Errorf("the mark says %+v", got)
	}
}

// TestOwner: a host belongs to the node of its PLD.
func TestOwner(t *testing.T) {
	t.Parallel()
	n, _ := openNode(t, nil)
	for c := range byte(20) {
		pld := []byte{'a' + c, '.', 'e', 'x', 'a', 'm', 'p', 'l', 'e'}
		if host := append([]byte("www."), pld...); n.Elsewhere(host) != n.Elsewhere(pld) {
			t.Errorf("%s belongs to another node than %s", host, pld)
		}
	}
}

// nameOf returns a PLD that node 1 owns, or node 0.
func nameOf(n *Node, node int) []byte {
	name := []byte("a.example")
	for n.Elsewhere(name) != (node != n.opt.Node) {
		name[0]++
	}
	return name
}

// edgeTo returns the first message of node 0, with an edge to a PLD, in a version.
func edgeTo(t *testing.T, to []byte, version int) []byte {
	set := disk.Set{FS: memfs.New(1), Paths: []string{"d"}}
	must(t, set.FS.MkdirAll("d/state"))
	o, err := cluster.OpenOutbox(cluster.OutboxOptions{Set: set, Name: "outbox/1", Crawl: 7, To: 1,
		Version: func() int { return version }, BlockBytes: 64 << 10}, nil)
	must(t, err)
	tails, err := disk.CreateTails(set, 1)
	must(t, err, o.AddEdge([]byte("from.example"), to), o.Flush())
	f := o.Freeze()
	_, err = f.Save(tails)
	must(t, err, tails.Close(), f.Commit())
	msg, _, _, err := o.Next()
	msg = slices.Clone(msg)
	must(t, err, o.Close())
	return msg
}

// TestUnreadableMessage: a message that this node cannot take is kept in quarantine, counts as taken, and is not asked
// for again. One with a wrong checksum is refused: its sender keeps it, and is asked for it.
func TestUnreadableMessage(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"a later version": true, "a wrong checksum": false} {
		synctest.Test(t, func(t *testing.T) {
			n, edges := openNode(t, nil)
			set := disk.Set{FS: memfs.New(1), Paths: []string{"d"}}
			must(t, set.FS.MkdirAll("d/state"))
			q, err := queue.Open(queue.Options{Set: set, Name: "quarantine", BlockBytes: 64 << 10}, nil)
			must(t, err)
			*n.Quarantine() = q
			version := cluster.FirstVersion
			if name == "a later version" {
				version = cluster.Version + 1
			}
			msg := edgeTo(t, nameOf(n, n.opt.Node), version)
			h, err := cluster.ReadHeader(msg)
			must(t, err)
			if name == "a wrong checksum" {
				msg[40]++
			}
			for range 3 {
				must(t, n.intake.take(&cluster.Message{Seq: 1, From: 0, Data: msg}))
			}
			records, _ := q.Len()
			_, refused := n.doubts.counts(0)
			wantRecords, wantTaken := int64(0), cluster.Taken{}
			if kept {
				wantRecords, wantTaken = 1, cluster.Taken{Number: 1, Totals: h.After}
			}
			if records != wantRecords || n.intake.in.Taken[0] != wantTaken || (refused == 3) == kept ||
				(n.intake.resends()[0] > 0) == kept || *edges != 0 {
				t.Errorf("%s: %d messages in quarantine, taken %+v, %d refused, resends %v, %d edges", name, records,
					n.intake.in.Taken[0], refused, n.intake.resends(), *edges)
			}
			must(t, q.Close())
		})
	}
}

// TestForgedMessage: a message that disagrees with those before it is refused and counted, and does not stop
// the node. If it comes again and again, with none that is right between, the node ends. A right one withdraws
// the agreement to the end.
func TestForgedMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, edges := openNode(t, nil)
		good := edgeTo(t, nameOf(n, n.opt.Node), cluster.FirstVersion)
		h, err := cluster.ReadHeader(good)
		must(t, err)
		bad := slices.Clone(good)
		bad[24]++ // of the totals before it
		binary.LittleEndian.PutUint64(bad[len(bad)-8:], xxhash.Sum64(bad[:len(bad)-8]))
		take := func(data []byte) error { return n.intake.take(&cluster.Message{Seq: 1, From: 0, Data: data}) }
		n.end.promised.Store(true)
		for range 3 {
			if err := take(bad); err != nil || !n.Quiet() {
				t.Fatalf("one false message: %v, quiet %v", err, n.Quiet())
			}
		}
		if err := take(good); err != nil || n.intake.in.Taken[0].Totals != h.After || *edges != 1 || n.Quiet() {
			t.Fatalf("the true message: %v, taken %+v, %d edges", err, n.intake.in.Taken[0], *edges)
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
