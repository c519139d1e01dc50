//go:build !noembed

package nats

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
)

// fullLeases opens a transport whose bucket of leases has as many as may be created. It returns their
// revisions, by number.
func fullLeases(t *testing.T) (*Transport, []uint64) {
	e := open(t, Options{Crawl: "0123456789abcdef0123456789abcdef", LeasesBytes: cluster.LeastLeasesBytes,
		Embed: &Embed{Dir: t.TempDir(), Sync: 10 * time.Second}})
	var revs []uint64
	for {
		rev, err := e.Create(t.Context(), cluster.BucketNet, leaseKey(len(revs)),
			[]byte(`{"node":1,"run":1234567890123456789}`))
		if errors.Is(err, cluster.ErrFull) {
			return e, revs
		} else if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, rev)
	}
}

func leaseKey(i int) string { return fmt.Sprintf("net.%06x", i) }

// TestLeaseRoom: in a bucket of leases without room for another one, each lease can be given back, handed
// over with a longer value, and taken, heartbeats grow, and new nodes begin to send heartbeats. What is given
// back leaves nothing.
func TestLeaseRoom(t *testing.T) {
	e, revs := fullLeases(t)
	ctx := t.Context()
	room := func() cluster.Room {
		t.Helper()
		r, err := e.Room(ctx, cluster.BucketNet)
		must(t, err)
		return r
	}
	full := room()
	each := float64(full.Bytes) / float64(len(revs))
	t.Logf("%d leases, %d of %d bytes: %.1f each", len(revs), full.Bytes, full.Limit, each)
	if part := float64(full.Bytes) / float64(full.Limit); part < cluster.LeaseRoom || part > cluster.LeaseRoom+0.01 {
		t.Errorf("no lease is created with %.3f of the room in use", part)
	}
	if each > cluster.LeaseBytes {
		t.Errorf("a lease takes %.1f bytes, want at most %d", each, cluster.LeaseBytes)
	}
	beat, err := e.Create(ctx, cluster.BucketNet, "beat.7", []byte(`{"run":1234567890123456789,"count":9}`))
	if err != nil {
		t.Fatalf("the first heartbeat of a node: %v", err)
	}
	if _, err := e.Update(ctx, cluster.BucketNet, "beat.7", []byte(`{"run":1234567890123456789,"count":10}`),
		beat); err != nil {
		t.Errorf("a heartbeat with a digit more: %v", err)
	}
	for i, rev := range revs[:100] {
		hand := fmt.Appendf(nil,
			`{"node":2,"run":1234567890123456789,"wait":[{"node":1,"run":1234567890123456789,"wait":%d}]}`, i)
		if _, err := e.Update(ctx, cluster.BucketNet, leaseKey(i), hand, rev); err != nil {
			t.Fatalf("lease %d cannot be handed over: %v", i, err)
		}
	}
	before := room().Bytes
	for i, rev := range revs[100:400] {
		if err := e.Delete(ctx, cluster.BucketNet, leaseKey(100+i), rev); err != nil {
			t.Fatalf("lease %d cannot be given back: %v", 100+i, err)
		}
	}
	if freed := before - room().Bytes; float64(freed) < 299*each {
		t.Errorf("300 leases that were given back have freed %d bytes, want %.0f", freed, 300*each)
	}
	if err := e.Delete(ctx, cluster.BucketNet, leaseKey(100), revs[100]); !errors.Is(err, cluster.ErrChanged) {
		t.Errorf("a lease is given back twice: %v", err)
	}
	if err := e.Delete(ctx, cluster.BucketNet, leaseKey(0), revs[0]); !errors.Is(err, cluster.ErrChanged) {
		t.Errorf("a lease that was handed over is given back: %v", err)
	}
	if _, err := e.Get(ctx, cluster.BucketNet, leaseKey(0)); err != nil {
		t.Errorf("a lease that was handed over is gone: %v", err)
	}
	e.mu.Lock()
	e.leases.full = time.Time{} // a second has passed
	e.mu.Unlock()
	if _, err := e.Create(ctx, cluster.BucketNet, leaseKey(100), nil); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if last, err := e.Last(ctx, cluster.BucketNet); err != nil || last < revs[len(revs)-1] {
		t.Errorf("the last revision is %d, %v: what is given back takes no revision back", last, err)
	}
}

// TestLeaseRoomGrows: a bucket that has less room than the options say gets more, and keeps it if others say
// less. If the broker has none to give, there is a warning.
func TestLeaseRoomGrows(t *testing.T) {
	const least = cluster.LeastLeasesBytes
	dir := t.TempDir()
	for i, c := range []struct{ asked, store, want int64 }{
		{least, 0, least}, {2 * least, 0, 2 * least}, {least, 0, 2 * least},
		{4 * least, 3 * least, 2 * least}, {4 * least, 0, 4 * least}, {0, 0, cluster.DefaultLeasesBytes},
	} {
		var mu sync.Mutex
		var warned []string
		e, err := Open(Options{Crawl: "t1", LeasesBytes: c.asked, StreamBytes: testStream,
			Embed: &Embed{Dir: dir, StoreBytes: c.store}, Warn: func(text string) {
				mu.Lock()
				defer mu.Unlock()
				warned = append(warned, text)
			}})
		must(t, err)
		room, err := e.Room(t.Context(), cluster.BucketNet)
		if err != nil || room.Limit != c.want {
			t.Errorf("%d: %d bytes asked for: the room is %+v, %v, want %d", i, c.asked, room, err, c.want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if told := strings.Contains(strings.Join(warned, "\n"), "--cluster-leases"); told != (c.store > 0) {
			t.Errorf("%d: warnings %q", i, warned)
		}
	}
}
