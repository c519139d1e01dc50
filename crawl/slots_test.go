package crawl

import (
	"strings"
	"testing"

	"drumbeat/cluster/mem"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// TestClusterSlots: an audit of a node finds keys of slots that other nodes own, and a node whose keys have no slots is
// refused.
func TestClusterSlots(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 10, 20, 200)
		c := newCluster(t, web, 2, mem.Faults{}, nil)
		defer c.close()
		c.run(t.Context())
		o := &c.options[0]
		set, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
		must(t, err)
		own := m.Frozen.Slots
		keys := m.Accounts.Unique.N
		if own != state.SlotsOf(o.Cluster.Table, 0) || keys < 50 {
			t.Fatalf("node 0 has %d keys, and its slots are not those of the table", keys)
		}
		write := func(slots state.Slots) {
			m.Frozen.Slots = slots
			data, err := state.EncodeManifest(m)
			if err == nil {
				err = (&state.Saved{Set: set}).WriteManifest(data)
			}
			must(t, err)
		}
		audits := func() (bad [2]string) {
			for i, run := range []func() (*audit.Report, error){
				func() (*audit.Report, error) { return audit.Run(o.Disk.FS, o.Disk.Dirs) },
				func() (*audit.Report, error) {
					deep, err := audit.Deep(audit.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs})
					if err != nil {
						return nil, err
					}
					return &deep.Report, nil
				},
			} {
				rep, err := run()
				must(t, err)
				bad[i] = strings.Join(rep.Bad, "; ")
			}
			return bad
		}
		for i, bad := range audits() {
			if bad != "" {
				t.Errorf("audit %d: %s", i, bad)
			}
		}
		write(state.SlotsOf(o.Cluster.Table, 1))
		for i, bad := range audits() {
			if !strings.Contains(bad, "of slots that other nodes own") {
				t.Errorf("audit %d of keys of other slots: %q", i, bad)
			}
		}
		write(state.Slots{})
		if _, err := Run(t.Context(), *o); err == nil || !strings.Contains(err.Error(), "keys have no slots") {
			t.Errorf("a node whose keys have no slots: %v", err)
		}
	})
}
