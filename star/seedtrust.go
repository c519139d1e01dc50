package star

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"drumbeat/internal/extsort"
)

// The share of each seed in the trust that begins at seeds. With equal shares a farm that owns a fifth of the
// seeds has a fifth of the trust, whatever the web thinks of it. So the seeds vote on each other. Each
// divides its vote among the others by the trust that flows from it to them over one or two links: the
// supporters at distance two. The score of a seed is
//
//	score(s) = (Σ √(share(i)·vote(i, s)))² over the seeds i
//
// as in quadratic funding (Buterin, Hitzig and Weyl, Management Science 2019): equal totals of votes count
// more if they come from more seeds. m seeds that vote for each other score m times as much as m isolated
// ones, so a farm of f of n seeds falls behind by f/(n-f) with each round of votes; after three, a fifth of
// the seeds has 1.6 % of all. No share is above the median. So a farm gains nothing if most seeds are
// isolated: all shares are then equal.
//
// A farm with more than half of the seeds wins: links do not show which side is honest.

const (
	voteRounds = 3
	// Up to 512 seeds vote: their votes are a matrix of 1 MiB. Of more seeds 64 vote, those with the lowest
	// keys: 16 MiB of votes for 65,536 seeds.
	mostVoters, fewVoters = 512, 64
	// MostVoteBytes bounds the RAM of votes, and of the keys of seeds and trusted PLDs with their shares and
	// scores.
	MostVoteBytes = (4*fewVoters + 8*4) * MostSeeds
)

// voters returns the number of n seeds that vote.
func voters(n int) int {
	if n <= mostVoters {
		return n
	}
	return fewVoters
}

// shareOut fills shares from edges of weight 1.
func (c *supportSum) shareOut() error {
	votes, err := c.collectVotes()
	if err != nil {
		return err
	}
	n := len(c.seeds)
	for i, of := range votes {
		sum := float32(0)
		for _, v := range of {
			sum += v
		}
		if sum == 0 { // no link to another seed
			sum, of[i] = 1, 1
		}
		for s := range of {
			of[s] /= sum
		}
	}
	c.shares = make([]float64, n)
	for s := range c.shares {
		c.shares[s] = 1 / float64(n)
	}
	for range voteRounds {
		scores := make([]float64, n)
		for i, of := range votes {
			for s, v := range of {
				scores[s] += math.Sqrt(c.shares[i] * float64(v))
			}
		}
		sum := 0.
		for s := range scores {
			scores[s] *= scores[s]
			sum += scores[s]
		}
		for s := range scores {
			c.shares[s] = scores[s] / sum
		}
	}
	median, sum := slices.Sorted(slices.Values(c.shares))[n/2], 0.
	for s := range c.shares {
		if median == 0 { // most seeds have no votes
			c.shares[s] = 1
		} else {
			c.shares[s] = min(c.shares[s], median)
		}
		sum += c.shares[s]
	}
	for s := range c.shares {
		c.shares[s] /= sum
	}
	return nil
}

// collectVotes returns the part of one unit of trust that flows from each voter to each seed over one or two
// links.
func (c *supportSum) collectVotes() (votes [][]float32, err error) {
	votes = make([][]float32, voters(len(c.seeds)))
	for i := range votes {
		votes[i] = make([]float32, len(c.seeds))
	}
	vote := func(voter, seed int, v float64) {
		if voter != seed {
			votes[voter][seed] += float32(v)
		}
	}
	// near has records of PLD, voter that links to it (4 bytes) and its trust (float32).
	near := c.sorter()
	defer func() { err = errors.Join(err, near.Close()) }()
	var rec []byte
	edges, totals := newSorted(c.edges), newSorted(c.totals)
	if err := errors.Join(edges.begin(), totals.begin()); err != nil {
		return nil, err
	}
	for i, seed := range c.seeds[:len(votes)] {
		links, err := totals.at(seed)
		if err != nil {
			return nil, err
		}
		has, err := edges.seek(seed)
		for ; has && err == nil; has = edges.ok && edges.key == seed {
			if s, is := slices.BinarySearch(c.seeds, edges.target()); is {
				vote(i, s, 1/links)
			}
			rec = binary.BigEndian.AppendUint32(append(rec[:0], edges.rest[:8]...), uint32(i))
			rec = binary.BigEndian.AppendUint32(rec, math.Float32bits(float32(1/links)))
			err = errors.Join(near.Add(rec), edges.next(), c.alive())
		}
		if err != nil {
			return nil, err
		}
	}
	if err := near.Sort(); err != nil {
		return nil, err
	}
	return votes, c.secondLinks(near, vote)
}

// secondLinks votes over the second of two links.
func (c *supportSum) secondLinks(near *extsort.Sorter, vote func(voter, seed int, v float64)) error {
	edges, totals, from := newSorted(c.edges), newSorted(c.totals), newSorted(near)
	type part struct {
		voter int
		trust float64
	}
	var parts []part
	err := errors.Join(edges.begin(), totals.begin(), from.begin())
	for err == nil && from.ok {
		pld := from.key
		parts = parts[:0]
		for err == nil && from.ok && from.key == pld {
			parts = append(parts, part{int(binary.BigEndian.Uint32(from.rest)),
				float64(math.Float32frombits(binary.BigEndian.Uint32(from.rest[4:])))})
			err = from.next()
		}
		links, errLinks := totals.at(pld)
		has, errEdges := edges.seek(pld)
		for err = errors.Join(err, errLinks, errEdges); has && err == nil; has = edges.ok && edges.key == pld {
			if s, is := slices.BinarySearch(c.seeds, edges.target()); is {
				for _, p := range parts {
					vote(p.voter, s, p.trust/links)
				}
			}
			err = errors.Join(edges.next(), c.alive())
		}
	}
	return err
}
