package nodes

import (
	"context"
	"fmt"
	"time"

	"drumbeat/bench/measure"
	"drumbeat/bench/report"
	"drumbeat/cluster"
)

// Options holds the parameters of Measure. The fields are flags of command bench. A zero means the default.
type Options struct {
	URLs       int           `name:"urls" type:"count" placeholder:"N" help:"URLs of the web. 1e7 takes 90 s of a processor, and 380 MB. Default: 1e7, or 1e6 with --quick."`
	Nodes      int           `type:"count" placeholder:"N" help:"Number of nodes. Default: 64, or 8 with --quick."`
	PLDURLs    int           `name:"pld-urls" type:"count" placeholder:"N" help:"Mean number of URLs of a PLD. Default: 25."`
	Exponent   float64       `type:"fraction" placeholder:"A" help:"The share of PLDs with at least x URLs falls as x^-A. Default: 2."`
	Huge       float64       `type:"fraction" placeholder:"SHARE" help:"Share of all URLs that one PLD has in the second simulation. Default: 0.1."`
	Links      int           `type:"count" placeholder:"N" help:"Links of a page. Default: 12."`
	Away       float64       `type:"fraction" placeholder:"SHARE" help:"Share of further links that lead to other PLDs. Default: 0.5."`
	Rate       int           `type:"count" placeholder:"N" help:"Pages per second of a node. Default: 100."`
	HostDelay  time.Duration `placeholder:"DURATION" help:"Time between two visits of a host. Default: 10s."`
	Checkpoint time.Duration `placeholder:"DURATION" help:"Time between two checkpoints of a node. Default: 60s."`
	Seed       uint64        `type:"count" placeholder:"N" default:"1" help:"Random seed."`
	Quick      bool          `help:"Use small sizes, to end within 30 s."`
}

// Complete fills in defaults and returns all faults, joined.
func (o *Options) Complete() error {
	measure.Default(&o.URLs, measure.Quick(o.Quick, 1_000_000, 10_000_000))
	measure.Default(&o.Nodes, measure.Quick(o.Quick, 8, 64))
	measure.Default(&o.PLDURLs, 25)
	measure.Default(&o.Exponent, 2)
	measure.Default(&o.Huge, 0.1)
	measure.Default(&o.Links, 12)
	measure.Default(&o.Away, 0.5)
	measure.Default(&o.Rate, 100)
	measure.Default(&o.HostDelay, 10*time.Second)
	measure.Default(&o.Checkpoint, time.Minute)
	need, faults := measure.Faults("nodes")
	need(o.URLs >= 10_000 && o.URLs <= 1<<30, "%d URLs, want 1e4 to 2^30", o.URLs)
	need(o.Nodes >= 2 && o.Nodes <= cluster.MaxNodes, "%d nodes, want 2 to %d", o.Nodes, cluster.MaxNodes)
	need(o.PLDURLs >= 2 && o.PLDURLs <= o.URLs/100, "%d URLs in a PLD, want 2 to a hundredth of all", o.PLDURLs)
	need(o.Exponent > 1, "exponent %v, want more than 1", o.Exponent)
	need(o.Huge > 0 && o.Huge < 1, "a PLD with the share %v, want more than 0, less than 1", o.Huge)
	need(o.Links >= 10 && o.Links <= 1000, "%d links, want 10 to 1000", o.Links)
	need(o.Away > 0 && o.Away <= 1, "share %v of links to other PLDs, want more than 0, at most 1", o.Away)
	need(o.Rate >= 1 && o.Rate <= 1_000_000, "%d pages/s, want 1 to 1e6", o.Rate)
	need(o.HostDelay >= time.Second && o.HostDelay <= time.Hour, "a host delay of %v, want 1s to 1h", o.HostDelay)
	need(o.Checkpoint >= 2*time.Second && o.Checkpoint <= time.Hour, "checkpoints every %v, want 2s to 1h", o.Checkpoint)
	return faults()
}

func (o *Options) hostDelay() int { return int(o.HostDelay / time.Second) }
func (o *Options) every() int     { return int(o.Checkpoint / time.Second) }

// Measure simulates a crawl of a web without and with a huge PLD, and computes the balance for several webs.
func (o *Options) Measure(ctx context.Context, progress func(what string)) (*report.Report, error) {
	r := report.New("nodes", fmt.Sprintf("a crawl of %d nodes in virtual time", o.Nodes))
	var results []*result
	for _, huge := range []float64{0, o.Huge} {
		progress(fmt.Sprintf("crawling %s URLs on %d nodes, a huge PLD has %g of them", report.Power(float64(o.URLs)), o.Nodes, huge))
		s, err := newSim(o, sizes(o.URLs, o.URLs/o.PLDURLs, o.Exponent, huge))
		if err != nil {
			return nil, err
		}
		if err := s.run(ctx); err != nil {
			return nil, err
		}
		results = append(results, &s.res)
	}
	progress("spreading PLDs over nodes")
	b, err := o.balances()
	if err != nil {
		return nil, err
	}
	o.report(r, results, b)
	return r, nil
}

// balance is the number of URLs of the largest node over the mean, for one exponent: the mean and the worst of several
// seeds.
type balance struct {
	exponent, largestPLD, mean, worst float64
}

// balanceSeeds is the number of seeds, balanceExponents what is tried beside Options.Exponent.
const balanceSeeds = 10

var balanceExponents = [...]float64{1.2, 1.5, 2, 2.5} // never changed

func (o *Options) balances() (list []balance, _ error) {
	weights := make([]float64, o.Nodes)
	for i := range weights {
		weights[i] = 1
	}
	table, err := cluster.NewTable(weights)
	if err != nil {
		return nil, err
	}
	exponents := []float64{o.Exponent}
	for _, e := range balanceExponents {
		if e != o.Exponent {
			exponents = append(exponents, e)
		}
	}
	for _, exponent := range exponents {
		size := sizes(o.URLs, o.URLs/o.PLDURLs, exponent, 0)
		b := balance{exponent: exponent, largestPLD: float64(size[0]) / float64(o.URLs)}
		for seed := range uint64(balanceSeeds) {
			urls := make([]int, o.Nodes)
			for pld, owner := range owners(table, len(size), o.Seed+seed) {
				urls[owner] += int(size[pld])
			}
			got := overMean(urls)
			b.mean += got / balanceSeeds
			b.worst = max(b.worst, got)
		}
		list = append(list, b)
	}
	return list, nil
}

// overMean returns the largest of a list over its mean.
func overMean(list []int) float64 {
	most, sum := 0, 0
	for _, n := range list {
		most = max(most, n)
		sum += n
	}
	return float64(most) * float64(len(list)) / float64(max(1, sum))
}
