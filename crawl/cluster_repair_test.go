package crawl

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// TestClusterRepair: repair refuses an outbox that has lost messages, and changes nothing, unless the other node has
// them; then it drops them, and the cluster crawls on to the end. It drops records without number, and counts them.
func TestClusterRepair(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c, fs, _ := stoppedCluster(t, func(c *testCluster) {
			// Node 0 does not hear that others have taken what it has sent.
			c.options[0].Cluster.Transport = &deafEngine{c.options[0].Cluster.Transport,
				time.Now().Add(5 * time.Second)}
		})
		c.options[0].Cluster.Transport = c.engines[0]
		defer c.close()
		var whole []audit.Node
		for i := range c.options {
			whole = append(whole, c.auditNode(fs, i))
		}
		var fixed *memfs.FS
		tried := map[string]int{}
		for from := range c.options {
			for to := range c.options {
				if from == to || tried["fixed"] == 2 {
					continue
				}
				hurt := fs.Fork(1)
				file := c.hurtSent(hurt, from, to)
				if file == "" {
					continue
				}
				o := &c.options[from]
				_, err := repairOf(t, hurt, o, nil)
				c.wantRefused(hurt, from, err, file)
				rep, err := repairOf(t, hurt, o, func(r *repair.Options) { r.Others = whole })
				if errors.Is(err, repair.ErrOutbox) { // the other node had not taken them
					c.wantRefused(hurt, from, err, file)
					tried["refused"]++
					continue
				}
				if err != nil || len(rep.Actions) != 1 || !strings.Contains(rep.Actions[0], "has made them durable") {
					t.Fatalf("node %d: %v, %+v", from, err, rep)
				}
				if rep, err := c.audit(hurt, true); err != nil || !rep.Balanced() {
					t.Errorf("node %d, after the repair: %v, %+v", from, err, rep)
				}
				fixed = hurt
				tried["fixed"]++
			}
		}
		c.dropOpen(fs)
		if fixed == nil {
			t.Fatal("no outbox could be repaired: ", tried)
		}
		t.Log(tried)
		for i := range c.options {
			c.options[i].Disk.FS = fixed
		}
		c.run(t.Context())
		if doubled := c.checkCuts(); doubled > 0 {
			t.Errorf("%d URLs were fetched more than once", doubled)
		}
	})
}

// deafEngine delivers no marks after a time.
type deafEngine struct {
	cluster.Transport
	after time.Time
}

func (e *deafEngine) Watch(ctx context.Context, b cluster.Bucket, pattern string) (cluster.Watcher, error) {
	w, err := e.Transport.Watch(ctx, b, pattern)
	if err != nil || pattern != cluster.MarkPattern {
		return w, err
	}
	return &deafWatcher{w, e.after}, nil
}

type deafWatcher struct {
	cluster.Watcher
	after time.Time
}

func (w *deafWatcher) Next(ctx context.Context) (cluster.Value, bool, error) {
	for {
		v, ok, err := w.Watcher.Next(ctx)
		if err != nil || time.Now().Before(w.after) {
			return v, ok, err
		}
	}
}

// hurtSent changes a byte of the oldest message that a node has sent to another. It returns the file, "" if
// there is none.
func (c *testCluster) hurtSent(fs disk.FS, from, to int) string {
	c.t.Helper()
	set, st := lastPart[cluster.OutboxState](c.t, fs, c.options[from].Disk.Dirs, state.OutboxName(to))
	ref := st.Sent.Head
	if ref.Len == 0 {
		ref = st.Sent.Tail
	}
	if ref.Len == 0 {
		return ""
	}
	name := set.Path(ref.Dir, "state", fmt.Sprintf("tails-%010d", ref.Gen))
	data, err := disk.ReadFile(fs, name)
	if err == nil {
		data[ref.Off+ref.Len/2] ^= 1
		err = disk.WriteFileAtomic(fs, name, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return name
}

// wantRefused requires that repair has refused an outbox with an error that names the file, and has changed nothing.
func (c *testCluster) wantRefused(fs disk.FS, node int, err error, file string) {
	c.t.Helper()
	var damage *disk.CorruptError
	if !errors.Is(err, repair.ErrOutbox) || !errors.As(err, &damage) || damage.Path != file ||
		!strings.Contains(err.Error(), "--taken") {
		c.t.Errorf("node %d: %v", node, err)
	}
	if _, err := audit.Run(fs, c.options[node].Disk.Dirs); !errors.As(err, &damage) || damage.Path != file {
		c.t.Errorf("node %d after a repair that was refused: %v", node, err)
	}
}

// dropOpen repairs an outbox whose open message is lost.
func (c *testCluster) dropOpen(whole *memfs.FS) {
	c.t.Helper()
	fs := whole.Fork(1)
	h := weburl.NewHasher(c.options[0].Cluster.Secret)
	rec := weburl.Record{URL: []byte("http://lost.example/")}
	raw := rec.Append(nil)
	open := append(binary.AppendUvarint([]byte{'L'}, uint64(len(raw))), raw...)
	tamper(c.t, fs, &c.options[0], func(set disk.Set, m *state.Manifest, tails *disk.Tails) error {
		st, err := state.Part[cluster.OutboxState](m, state.OutboxName(1))
		if err != nil {
			return err
		}
		if st.Open, err = tails.Write(0, open); err != nil {
			return err
		}
		st.Open.Sum++
		st.Out.Links.Add(h.URLKey(rec.URL))
		m.Accounts.Counters[state.CountLinksSent]++
		m.Parts[state.OutboxName(1)], err = json.Marshal(st)
		return err
	})
	if _, err := audit.Run(fs, c.options[0].Disk.Dirs); err == nil {
		c.t.Error("a lost message that is open was not noticed")
	}
	rep, err := repairOf(c.t, fs, &c.options[0], nil)
	if err != nil || rep.Links != 1 {
		c.t.Fatalf("a lost message that is open: %v, %+v", err, rep)
	}
	all, err := c.audit(fs, true)
	if err != nil || !all.Balanced() || all.Out != c.sent(whole) {
		c.t.Errorf("after the loss of a message that is open: %v, %+v", err, all)
	}
}

// sent returns what all nodes have sent.
func (c *testCluster) sent(fs disk.FS) cluster.Totals {
	c.t.Helper()
	rep, err := c.audit(fs, false)
	if err != nil {
		c.t.Fatal(err)
	}
	return rep.Out
}
