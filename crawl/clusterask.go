package crawl

import "context"

// owner returns the node that owns a host.
func (s *clusterStage) owner(host []byte) int {
	if !s.on() {
		return s.node
	}
	return s.opt.Cluster.Table.Owner(s.PLDKey(host))
}

// Elsewhere reports whether another node owns a host.
func (s *clusterStage) Elsewhere(host []byte) bool { return s.owner(host) != s.node }

// NoRequests reports whether requests for a robots.txt cannot begin yet.
func (s *clusterStage) NoRequests() bool { return s.leases.NoRequests() }

// Ask asks the owner of a host, and returns its answer; abandoned says that there will be none.
func (s *clusterStage) Ask(ctx context.Context, host []byte, kind string,
	data []byte) (answer []byte, abandoned bool, _ error) {
	owner := s.owner(host)
	if s.abandoned[owner] {
		return nil, true, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.leases.ProcessContext(owner), cancel) // a process that was killed does not answer
	defer stop()
	answer, err := s.opt.Cluster.Transport.Ask(ctx, owner, kind, data)
	return answer, false, err
}

// Answer has answer answer what other nodes ask, until stop is called.
func (s *clusterStage) Answer(kind string,
	answer func(ctx context.Context, from int, data []byte) []byte) (stop func(), _ error) {
	return s.opt.Cluster.Transport.Answer(kind, answer)
}
