package crawl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/snapshot"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// TestSlots: every slot in every sample must have a use. With long delays nearly all slots must wait for
// politeness, and with a slow site nearly all must be in exchanges.
func TestSlots(t *testing.T) {
	for _, c := range []struct {
		name        string
		connections int
		delay, slow time.Duration
		most        SlotUse
	}{
		{"delays", 8, 2 * time.Second, 0, snapshot.SlotPolite},
		{"slow sites", 3, 0, 3 * time.Second, snapshot.SlotRead},
	} {
		synctest.Test(t, func(t *testing.T) {
			web, err := simweb.New(simweb.Options{Seed: *seedFlag, PLDs: 8, Hosts: 8, Pages: 200, LinksPerPage: 8, PageBytes: 2000, IPs: 8,
				SlowHosts: 7, SlowDelay: c.slow})
			if err != nil {
				t.Fatal(err)
			}
			opt := simOptions(t, web, memfs.New(1))
			opt.HostDelay, opt.HostDelayMin, opt.ServerDelay, opt.ServerDelayMin = c.delay, c.delay, 0, 0
			opt.Connections, opt.Linger = c.connections, time.Second
			var last Slots
			opt.Snapshot = func(s *Snapshot) { last = s.Slots }
			opt.SnapshotEvery = time.Second
			res, err := Run(context.Background(), opt)
			if err != nil {
				t.Fatal(err)
			}
			got := res.Snapshot.Slots
			sum := int64(0)
			for _, u := range SlotUses() {
				t.Logf("%s: %s: %.2f", c.name, u, got.Mean(u))
				sum += got.Use[u]
				if got.Use[u] > got.Use[c.most] {
					t.Errorf("%s: %q has more slots than %q", c.name, u, c.most)
				}
			}
			if got.Samples < 1000 || sum != got.Samples*int64(opt.Connections) {
				t.Errorf("%s: %d samples of %d slots have %d uses", c.name, got.Samples, opt.Connections, sum)
			}
			if d := got.Sub(last); d.Samples < 0 || d.Samples > 2000 {
				t.Errorf("%s: %d samples since the last snapshot", c.name, d.Samples)
			}
		})
	}
}
