package mem

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/transporttest"
)

var seedFlag = flag.Uint64("seed", 0, "run the random tests with this seed only")

// TestContract runs the contract in virtual time, at once and with delays.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 30 * time.Millisecond} {
		for _, test := range transporttest.Tests() {
			t.Run(fmt.Sprintf("%s/delay=%v", test.Name, delay), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := New(Options{StreamBytes: 4 << 20, Faults: Faults{Delay: delay}})
					test.Run(t, transporttest.Broker{
						Open: func(node int) cluster.Transport { return n.Transport(node) }, Break: n.Stop,
						Restart: n.Start, Wipe: n.Wipe, Keeps: true, StreamBytes: 4 << 20,
					})
				})
			})
		}
	}
}

// pair is the least protocol that stands a broker like this one: a sender keeps its messages until the mark of
// the receiver covers them, and begins again behind the mark when the receiver misses one or nothing moves.
type pair struct {
	t     *testing.T
	n     *Net
	count int
	naive bool // the sender believes acknowledgements
	got   []int
}

func (p *pair) send(ctx context.Context, e cluster.Transport) {
	next, marked, moved := 1, 0, time.Now()
	for marked < p.count && ctx.Err() == nil {
		for next <= p.count && next <= marked+8 {
			data := strconv.AppendInt(nil, int64(next), 10)
			result := e.Publish(ctx, 1, 0, fmt.Sprint("0-", next), data)
			if p.naive && <-result != nil {
				break
			}
			next++
		}
		time.Sleep(20 * time.Millisecond)
		if p.naive {
			marked = next - 1
			continue
		}
		if v, err := e.Get(ctx, cluster.BucketCrawl, "mark"); err == nil {
			if taken, _ := strconv.Atoi(string(v.Data)); taken > marked {
				marked, moved = taken, time.Now()
			}
		}
		if time.Since(moved) > 10*time.Second {
			next, moved = marked+1, time.Now()
		}
	}
}

func (p *pair) receive(ctx context.Context, e cluster.Transport) {
	var seq uint64
	var epoch int64
	for ctx.Err() == nil {
		r, err := e.Read(ctx, 1, seq+1)
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		if st := r.Stream(); st.Epoch != epoch {
			if epoch != 0 && seq > 0 { // begin again at the beginning
				r.Close()
				seq, epoch = 0, st.Epoch
				continue
			}
			epoch = st.Epoch
		}
		for {
			// Marks may be lost: repeat them.
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			m, err := r.Next(short)
			cancel()
			if err == nil {
				seq = m.Seq
				if n, _ := strconv.Atoi(string(m.Data)); n == len(p.got)+1 {
					p.got = append(p.got, n)
				}
			} else if !errors.Is(err, context.DeadlineExceeded) {
				break
			}
			p.mark(ctx, e, seq)
		}
		r.Close()
	}
}

func (p *pair) mark(ctx context.Context, e cluster.Transport, seq uint64) {
	if _, err := e.Put(ctx, cluster.BucketCrawl, "mark", strconv.AppendInt(nil, int64(len(p.got)), 10)); err == nil {
		_ = e.Purge(ctx, 1, seq) // repeated with the next mark
	}
}

// run returns how many messages arrived within a day of virtual time.
func (p *pair) run(seed uint64) int {
	faults := Faults{Delay: 20 * time.Millisecond, Lose: 0.01, Double: 0.05, NoAck: 0.05, NoAsk: 0.1}
	p.n = New(Options{Seed: seed, Faults: faults})
	ctx, cancel := context.WithTimeout(p.t.Context(), 24*time.Hour)
	defer cancel()
	sender, receiver := p.n.Transport(0), p.n.Transport(1)
	var events []string
	chaos, calm := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.n.Chaos(chaos, Chaos{Nodes: 2, Every: 2 * time.Second, Away: 3 * time.Second,
			Log: func(text string) { events = append(events, text) }})
	}()
	got := make(chan struct{})
	go func() { p.receive(ctx, receiver); close(got) }()
	p.send(ctx, sender)
	calm()
	<-ended
	if p.naive {
		time.Sleep(time.Minute) // for what is under way
	}
	cancel()
	<-got
	synctest.Wait()
	if len(events) == 0 {
		p.t.Errorf("seed %d: no events", seed)
	}
	for _, e := range []*Transport{sender, receiver} {
		if err := e.Close(); err != nil {
			p.t.Error(err)
		}
	}
	return len(p.got)
}

// TestChaos: with random faults and events, a protocol that repeats gets everything through, and one that
// believes acknowledgements does not. Else the faults would prove nothing.
func TestChaos(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2, 3, 4, 5, 6}
	if *seedFlag != 0 {
		seeds = []uint64{*seedFlag}
	}
	lost, all := 0, Counts{}
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			p := &pair{t: t, count: 500}
			if got := p.run(seed); got != p.count {
				t.Errorf("seed %d: %d of %d messages arrived", seed, got, p.count)
			}
			c := p.n.Counts()
			all.Stored, all.Dropped, all.Lost = all.Stored+c.Stored, all.Dropped+c.Dropped, all.Lost+c.Lost
			all.Doubled, all.NotAcked, all.Full = all.Doubled+c.Doubled, all.NotAcked+c.NotAcked, all.Full+c.Full
		})
		synctest.Test(t, func(t *testing.T) {
			p := &pair{t: t, count: 500, naive: true}
			if p.run(seed) != p.count {
				lost++
			}
		})
	}
	if all.Doubled == 0 || all.NotAcked == 0 || all.Lost == 0 || all.Dropped == 0 || all.Full == 0 {
		t.Errorf("some faults never happened: %+v", all)
	}
	if lost < len(seeds) {
		t.Errorf("the protocol that believes acknowledgements lost something with %d of %d seeds only",
			lost, len(seeds))
	}
}

// TestOrderWithFaults: first arrivals of each sender are in order, whatever is doubled or delayed, and senders
// mix.
func TestOrderWithFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := New(Options{Seed: max(1, *seedFlag), Faults: Faults{Delay: time.Second, Double: 0.3}})
		const each = 200
		var results []<-chan error
		for i := 1; i <= each; i++ {
			for from := range 3 {
				e := n.Transport(from)
				defer e.Close()
				results = append(results, e.Publish(t.Context(), 7, from, "", strconv.AppendInt(nil, int64(i), 10)))
			}
		}
		for _, r := range results {
			if err := <-r; err != nil {
				t.Fatal(err)
			}
		}
		e := n.Transport(7)
		defer e.Close()
		r, err := e.Read(t.Context(), 7, 1)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]int{}
		mixed, last := 0, 0
		for seen[0]+seen[1]+seen[2] < 3*each {
			m, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			k, _ := strconv.Atoi(string(m.Data))
			if k > seen[m.From]+1 {
				t.Fatalf("node %d: %d after %d", m.From, k, seen[m.From])
			}
			seen[m.From] = max(k, seen[m.From])
			if k < last {
				mixed++
			}
			last = k
		}
		if c := n.Counts(); mixed == 0 || c.Doubled == 0 {
			t.Errorf("%d in another order than published, %+v", mixed, c)
		}
	})
}

// TestEvents: what each event does, to the number.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := New(Options{Seed: 1, BucketBytes: 1000})
		e, other := n.Transport(0), n.Transport(1)
		defer e.Close()
		defer other.Close()
		ctx := t.Context()
		publish := func(k byte) error { return <-e.Publish(ctx, 1, 0, string(k), []byte{k}) }
		for k := range byte(10) {
			if err := publish(k); err != nil {
				t.Fatal(err)
			}
		}
		r, err := other.Read(ctx, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		n.LoseTail(1, 3)
		if _, err := r.Next(ctx); !errors.Is(err, cluster.ErrInterrupted) {
			t.Errorf("next returns %v", err)
		}
		if err := publish(7); err != nil { // its id is forgotten with it
			t.Fatal(err)
		}
		if r, err = other.Read(ctx, 1, 8); err != nil {
			t.Fatal(err)
		}
		if m, err := r.Next(ctx); err != nil || m.Seq != 8 || !bytes.Equal(m.Data, []byte{7}) {
			t.Errorf("got %+v, %v", m, err)
		}
		n.SetFull(true)
		if err := publish(8); !errors.Is(err, cluster.ErrFull) {
			t.Errorf("publish returns %v", err)
		}
		n.SetFull(false)

		n.Cut(1)
		if e.State().Connected == false || other.State().Connected {
			t.Error("the wrong node is cut off")
		}
		n.Heal(1)
		for _, data := range []string{"a", "b", "c"} {
			if _, err := e.Put(ctx, cluster.BucketNet, "k", []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Create(ctx, cluster.BucketNet, "l", nil); err != nil {
			t.Fatal(err)
		}
		n.LoseValues(cluster.BucketNet, 3)
		if v, err := e.Get(ctx, cluster.BucketNet, "k"); err != nil || string(v.Data) != "a" || v.Revision != 1 {
			t.Errorf("got %+v, %v", v, err)
		}
		if got := n.Values(cluster.BucketNet); len(got) != 1 || got["k"] != "a" {
			t.Errorf("values %v", got)
		}
		if last, err := other.Last(ctx, cluster.BucketNet); err != nil || last != 1 {
			t.Errorf("last revision %d, %v", last, err)
		}
		if _, err := e.Put(ctx, cluster.BucketNet, "m", make([]byte, 1000)); !errors.Is(err, cluster.ErrFull) {
			t.Errorf("put into a full bucket returns %v", err)
		}
		if bytes := n.buckets[cluster.BucketNet].bytes; bytes != len("k")+len("a")+overhead {
			t.Errorf("the bucket has %d bytes", bytes)
		}
	})
}
