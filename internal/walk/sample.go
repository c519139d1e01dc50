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
}

// Sample returns the visited pages, in the order in which they were seen.
func (w *Walk) Sample() []Sampled {
	missed := make([]float64, len(w.nodes)) // logarithm of the probability that no step led to the URL
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
		if n.state != Page {
			continue
		}
		s := Sampled{URL: n.url, Status: int(n.status), Visits: int(n.visits), Links: len(n.links),
			Linked: linked[i], Chance: 1}
		if !n.seed {
			s.Chance = -math.Expm1(missed[i])
		}
		s.Weight = 1 / s.Chance
		sample = append(sample, s)
	}
	addUnseen(sample)
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
