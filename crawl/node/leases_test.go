package node

import (
	"testing"

	"drumbeat/crawl/account"
	"drumbeat/polite"
	"drumbeat/state/snapshot"
)

// TestOneNode: a crawl of one node has no leases, and nothing holds its requests back.
func TestOneNode(t *testing.T) {
	s := NewLeases(account.New(nil, nil, nil), LeaseOptions{})
	s.Wire(LeaseOthers{Opened: func() { t.Error("the leases of one node opened") }})
	s.Open((*polite.Scheduler)(nil), true)
	s.Start(t.Context())
	if !s.MayFetch() || s.NoRequests() || s.Why() != "" {
		t.Errorf("one node waits for leases: may fetch %t, no requests %t, why %q",
			s.MayFetch(), s.NoRequests(), s.Why())
	}
	if ctx := s.ProcessContext(0); ctx.Done() != nil {
		t.Error("the context of another process ends")
	}
	var sn snapshot.Snapshot
	if s.Show(&sn); sn.Cluster.Leases.On {
		t.Error("the snapshot shows leases")
	}
	s.End(t.Context(), false)
}
