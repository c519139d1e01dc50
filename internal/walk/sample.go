package walk

import "math"

// Sampled is a page of the sample.
type Sampled struct {
	URL    string
	Status int
	Visits int // times a walker came; 0 for a seed to which none came
	Links  int // to other URLs, once each
	Linked int // visited URLs that link to it
	// Chance is the probability of a visit, given the steps of the walk; 1 for seeds.
	Chance float64
	// Weight is the number of pages that it represents. A draw in proportion to the weights approximates a
	// uniform draw from all pages. The sum estimates the number of pages.
	Weight float64
	Missed float64 // logarithm of the probability that no step led to the URL; -leastMissed at least
	Seed   bool    // visited without a step
}

// leastMissed bounds Sampled.Missed: the probability is 0 in any case.
const leastMissed = 1000

// Sample returns the visited pages, in the order in which they were seen.
func (w *Walk) Sample() []Sampled {
	sample := w.SamplePart(nil)
	for i := range sample {
		s := &sample[i]
		if s.Chance = 1; !s.Seed {
			s.Chance = -math.Expm1(s.Missed)
		}
		s.Weight = 1 / s.Chance
	}
	addUnseen(sample)
	return sample
}

// SamplePart returns the part of the sample that one of several nodes knows, in the order in which the URLs were seen:
// its own visited pages, and the URLs of other nodes, with status 0, to which pages of this one link. elsewhere says by
// the key which URLs are of other nodes; nil: none. There are no chances and weights: the sum of Missed over
// all nodes gives the chance of a URL, and that of Linked its links.
func (w *Walk) SamplePart(elsewhere func(key uint64) bool) []Sampled {
	missed := make([]float64, len(w.nodes))
	linked := make([]int, len(w.nodes))
	for i := range w.nodes {
		n := &w.nodes[i]
		one := math.Log1p(-1 / float64(len(n.links))) // -Inf if there is one link only
		for _, to := range n.links {
			linked[to]++
			if n.steps > 0 {
				missed[to] += float64(n.steps) * one
			}
		}
	}
	var sample []Sampled
	for i := range w.nodes {
		n := &w.nodes[i]
		s := Sampled{URL: n.url, Linked: linked[i], Missed: max(missed[i], -leastMissed)}
		switch {
		case n.state == Page:
			s.Status, s.Visits, s.Links, s.Seed = int(n.status), int(n.visits), len(n.links), n.seed
		case elsewhere == nil || linked[i] == 0 || !elsewhere(n.key):
			continue
		}
		sample = append(sample, s)
	}
	return sample
}

// addUnseen adds the estimated number of unseen pages to the weights of the pages seen once.
func addUnseen(sample []Sampled) {
	var once, twice float64
	for i := range sample {
		switch sample[i].Linked {
		case 1:
			once += sample[i].Weight
		case 2:
			twice += sample[i].Weight
		}
	}
	if twice == 0 {
		return // no basis for an estimate
	}
	for i := range sample {
		if sample[i].Linked == 1 {
			sample[i].Weight *= 1 + once/(2*twice)
		}
	}
}
