package budgets

import (
	"context"
	"fmt"
	"time"

	"drumbeat/beast"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Links to hosts, with which STAR divides the budget of a PLD among its hosts (options.Budgets.Parts, package star).
// With state.ByDirectories, "host" stands for a directory at the root of a host, too: only the keys differ.
// The store of links has a sketch of each host that another PLD links to. Its emissions keep the levels of hosts in
// RAM up to date, and each check of a URL takes the level of its host from there: when the URL is new, and again
// when QF is read.

// HostLinksOptions returns the options of the store of links to hosts.
func (b *Stage) HostLinksOptions() drum.Options {
	o := b.opt.Plan.HostLinks.Geometry(b.space.Reserve)
	shape := star.HostLinksShape()
	o.Set, o.Name = b.saved.Set, state.NameHostLinks
	o.ValueBytes, o.Each, o.Codec, o.Apply = shape.ValueBytes, shape.Each, shape.Codec, shape.Apply
	o.Wanted = func(r *drum.Result) bool { return r.Result > 0 }
	o.Emit = func(results []drum.Result) error {
		for i := range results {
			b.levels.Set(uint64(results[i].Key), uint8(results[i].Result))
		}
		return nil
	}
	return o
}

// OpenHostLinks opens the store of links to hosts, and reads the levels from it.
func (b *Stage) OpenHostLinks(st *drum.State) (*drum.Drum, error) {
	b.levels = star.NewHostLevels(b.opt.Plan.HostLevelBytes)
	if st != nil {
		_, err := drum.ScanState(b.saved.Set, state.NameHostLinks, st.Cache(), drum.Scan{
			Entry: func(key drum.Key, value []byte) error {
				if len(value) != star.HostSketchBytes {
					return fmt.Errorf("crawl: links to a host of %d bytes, want %d", len(value), star.HostSketchBytes)
				}
				sketch := star.HostSketch(value)
				if level := sketch.Level(); level > 0 {
					b.levels.Set(uint64(key), level)
				}
				return nil
			},
		})
		if err != nil {
			return nil, err
		}
	}
	return drum.Open(b.HostLinksOptions(), st)
}

// AddHostLinks sends links from PLDs to hosts of other PLDs to their store. It is part of a transaction.
func (b *Stage) AddHostLinks(links []star.HostLink) error {
	var tuples [8]drum.Tuple // most links of a page are recent
	var values [len(tuples)][2]byte
	n := 0
	for i, l := range links {
		if b.recentEdges == nil || !b.recentEdges.TestAndSet(l.Recent()) {
			values[n] = l.Value()
			tuples[n] = drum.Tuple{Key: drum.Key(l.Host), Op: drum.CheckUpdate, Value: values[n][:]}
			n++
		}
		if n == len(tuples) || n > 0 && i == len(links)-1 {
			if err := b.HostLinks.Add(tuples[:n]); err != nil {
				return err
			}
			n = 0
		}
	}
	return nil
}

// passHostLinks merges the links that wait. An early pass does so if it takes less than a merge of STAR may, or an
// eighth of the hosts wait.
func (b *Stage) passHostLinks(ctx context.Context, early bool) (rounds int, err error) {
	if b.HostLinks == nil {
		return 0, nil
	}
	const cheap = 50 * time.Millisecond
	s := b.HostLinks.Stats()
	return b.HostLinks.Pass(ctx, early && (s.PredictedEarly <= cheap || s.Tuples >= s.Keys/8))
}

// levelOf returns the key and the level of the host or directory of a URL. All links to the PLD count for its main
// host.
func (b *Stage) levelOf(url *weburl.Parts) (key uint64, level uint8) {
	key, main := b.opt.Budgets.Parts.KeyOf(b.saved.Hasher, url.Host, b.saved.Suffixes.PLDBytes(url.Host), url.Path)
	if main {
		return key, star.AllLinks
	}
	return key, b.levels.Get(key)
}

// placeHost is place for a URL of a class of hosts. STAR calls it if the PLD's budget is divided.
func (b *Stage) placeHost(ledgers *[star.HostClasses]*[star.LedgerBytes]byte, class int, budget uint32,
	lane uint8) int64 {
	s := b.opt.Strategy.Load()
	if budget == 0 || !s.Budgets || s.SitesAtOnce > 0 && int(lane) == s.Lanes-1 {
		return b.place(ledgers[0], budget, 0, lane)
	}
	var decoded [star.HostClasses]beast.Ledger
	for i, l := range ledgers {
		decoded[i] = beast.DecodeLedger(l)
	}
	n := b.Beast.PlaceClass(int(lane), decoded[:], class, budget)
	for i := range decoded {
		decoded[i].Encode(ledgers[i])
	}
	return int64(n)
}
