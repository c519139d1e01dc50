package gate

import (
	"log/slog"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/options"
	"drumbeat/crawl/pass"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/weburl"
)

const aDay = 24 * time.Hour

// above stands for the stages above the gate. It moves deferred URLs in the accounts.
type above struct {
	Deferrals
	Dispatcher
	Orders
	Cluster
	saved *state.Saved
}

func (a *above) DeferURL(tx *account.Tx, rec *weburl.Record, from state.Place, _ time.Time, why state.Reason) error {
	tx.MoveFor(a.saved.Hasher.URLKey(rec.URL), from, state.PlaceDeferred, why, state.Reason(rec.Reason))
	return nil
}

func (a *above) MetOrder(*account.Tx, *weburl.Record, state.Place) (ok bool, _ error) {
	return false, nil
}
func (a *above) SinceFlags(_, _ time.Time) bool      { return true }
func (a *above) VerdictTime(now time.Time) time.Time { return now }
func (a *above) Moved(uint64, bool)                  {}
func (a *above) NoRequests() bool                    { return false }

// newGate returns Requests, with its Check and Hosts, whose stores are not open.
func newGate(h options.Health) *Requests {
	saved := state.NewSaved(memfs.New(*testworld.Seed), []string{"d"}, nil)
	saved.Hasher, saved.Suffixes = weburl.NewHasher(weburl.Secret{}), weburl.NewSuffixes(false)
	policy := health.Defaults()
	if h.HostRefusals > 0 {
		policy.Failures, policy.Rests, policy.Refusals = h.HostFailures, h.HostRests, h.HostRefusals
	}
	opt := &Options{Log: slog.New(slog.DiscardHandler), Agent: "drumbeat", Health: &h, Policy: &policy,
		Network: &options.Network{}, Politeness: &options.Politeness{}, Links: &admit.Policy{}, Rules: &inforce.Rules{},
		Sites: inforce.NewSites(saved, inforce.SiteOptions{Politeness: &options.Politeness{}})}
	run := account.New(opt.Log, nil, nil)
	k := NewCheck(run, saved, opt, NewHosts(saved, opt), nil, nil, nil)
	k.merges = &pass.Merger{Pending: func() int64 { return 0 }}
	q, a := NewRequests(k, nil, nil, nil), &above{saved: saved}
	q.Wire(Others{Deferrals: a, Flags: a, Orders: a, Cluster: a})
	return q
}

// open opens the stores and QR.
func (q *Requests) open(t *testing.T) {
	t.Helper()
	open := func(name string, opt drum.Options, apply drum.Apply) *drum.Drum {
		opt.Set, opt.Name, opt.Apply = q.saved.Set, name, apply
		opt.Buckets, opt.BufferBytes, opt.BucketBytes = 4, plan.RobotsBufferBytes, 32<<20
		d, err := drum.Open(opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	q.check.RobotsCache = open(state.NameRobotsCache, plan.RobotsShape(), q.check.applyRobots)
	q.RobotsRequested = open(state.NameRobotsRequested, plan.RequestedShape(), q.applyRequested)
	var err error
	q.AwaitRobots, err = queue.Open(queue.Options{Set: q.saved.Set, Name: state.NameAwaitRobots,
		BlockBytes: 1 << 12}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.AwaitRobots.Close() })
}
