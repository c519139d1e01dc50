package orders

import (
	"sync"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// TestAdoptWhileEnding: URLseen's emission finds an order while another transaction ends it. Either the
// order's record is that of the unique URL, and stays in the crawl, or it leaves, and the emission learns
// that it did.
func TestAdoptWhileEnding(t *testing.T) {
	for i := range 20_000 {
		o := New()
		o.Begin(1, 2)
		refuses := i%2 == 0
		var leaves, found, adopted bool
		var both sync.WaitGroup
		both.Go(func() {
			if refuses {
				leaves = o.Refused(1)
			} else {
				leaves = o.Fetched(1, nil)
			}
		})
		order, ok := o.Adopt(1)
		found, adopted = ok, ok && !order.Done
		both.Wait()
		if leaves == adopted {
			t.Fatalf("refused %t, leaves %t, found %t, adopted %t", refuses, leaves, found, adopted)
		}
	}
}

// TestOrdersRestored: a checkpoint keeps which orders are on their way to RAM, so that passes do not wait
// after a restart either: those in RobotsCache and its queues, but not those that are in RAM, deferred,
// stored or ended.
func TestOrdersRestored(t *testing.T) {
	t.Parallel()
	set := disk.Set{FS: memfs.New(1), Paths: []string{"d0"}}
	if err := set.FS.MkdirAll("d0/state"); err != nil {
		t.Fatal(err)
	}
	o := New()
	for key := range uint64(6) {
		o.Begin(key, 7+key/3)
	}
	o.Moved(1, false)
	o.Moved(2, false)
	o.Moved(2, true) // it was deferred, and returns
	o.Stored(3)
	o.Fetched(4, []byte("visits"))
	tails, err := disk.CreateTails(set, 1)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := tails.Write(0, state.DumpRecords(o.Freeze()))
	if err == nil {
		err = tails.Close()
	}
	again := New()
	if err == nil {
		err = again.Restore(set, ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := again.urgent.Load(); n != 3 || again.Ahead(7) != 2 || again.Ahead(8) != 1 || again.waiting != 5 {
		t.Errorf("%d orders are urgent, %d and %d of the hosts, %d wait; want 3, 2, 1, 5", n, again.Ahead(7),
			again.Ahead(8), again.waiting)
	}
	again.Moved(0, false)
	if n := again.urgent.Load(); n != 2 {
		t.Errorf("%d orders are urgent after one came to RAM, want 2", n)
	}
	for key := range uint64(6) {
		want, _ := o.Look(key)
		want.Urgent = want.Urgent && key > 0
		if got, ok := again.Look(key); !ok || got.Urgent != want.Urgent || got.Stored != want.Stored ||
			got.Done != want.Done || string(got.Visits) != string(want.Visits) {
			t.Errorf("order %d: %+v, want %+v", key, got, want)
		}
	}
}

// TestOrderArrives: an order that comes with its slot takes the place of one that has ended here, and of none that
// waits.
func TestOrderArrives(t *testing.T) {
	t.Parallel()
	o := New()
	o.Begin(1, 7)
	o.Fetched(1, nil)
	o.Begin(2, 7)
	for _, x := range []struct {
		order state.Order
		want  bool
	}{
		{state.Order{Key: 1, Host: 7, Done: true}, false},
		{state.Order{Key: 1, Host: 7, Urgent: true, Deadline: 9}, true},
		{state.Order{Key: 1, Host: 7, Urgent: true}, false},
		{state.Order{Key: 2, Host: 7, Done: true}, false},
		{state.Order{Key: 3, Host: 7, Done: true}, true},
	} {
		if got := o.Arrive(&x.order); got != x.want {
			t.Errorf("%+v: arrives %t, want %t", x.order, got, x.want)
		}
	}
	if o.waiting != 2 || o.urgent.Load() != 2 || o.Watched() != 1 || len(o.Overdue(10)) != 1 || o.Waits(3) {
		t.Errorf("%d orders wait, %d are urgent, %d watched; want 2, 2, 1", o.waiting, o.urgent.Load(), o.Watched())
	}
}
