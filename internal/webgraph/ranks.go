package webgraph

import (
	"context"
	"fmt"
	"math"
	"slices"

	"drumbeat/disk"
	"drumbeat/internal/human"
)

// Options are the settings of a computation.
type Options struct {
	FS  disk.FS
	Dir string // for counters, must exist
	// RAMBytes bounds memory, beside 4 bytes a node of the graph itself.
	RAMBytes int64
	Workers  int
	// Progress, if set, is called after each step of a computation, from its goroutine. change is the number of nodes
	// whose value has changed, or for PageRank the sum of the changes.
	Progress func(step int, change float64)
}

const (
	damping = 0.85 // share of the steps that follow an arc
	// PageRank ends when a step changes the values by less than this in sum, or after maxPowerSteps: the error
	// falls by damping with each step, so 100 leave 1e-7.
	leastChange   = 1e-6
	maxPowerSteps = 100
	rankBytes     = 12 // a node
)

// MemoryError says that RAMBytes are too few.
type MemoryError struct{ Have, Want int64 }

// Error names both.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("the graph needs %s of RAM, and %s are allowed", human.Bytes(e.Want), human.Bytes(e.Have))
}

// PageRank returns the PageRank of each node. They add up to 1.
func (g *Graph) PageRank(ctx context.Context, opt Options) ([]float32, error) {
	if want := int64(g.nodes) * rankBytes; want > opt.RAMBytes {
		return nil, &MemoryError{opt.RAMBytes, want}
	}
	// A node's value is its rank, divided by the number of its arcs if it has some.
	now, next := make([]float32, g.nodes), make([]float32, g.nodes)
	n := float64(g.nodes)
	lost := 0.0 // rank of the nodes without arcs
	for v, out := range g.out {
		now[v] = float32(1 / n / max(1, float64(out)))
		if out == 0 {
			lost += 1 / n
		}
	}
	count := len(g.tasks())
	changes, losts := make([]float64, count), make([]float64, count) // in the order of tasks: sums do not vary
	for step := 1; step <= maxPowerSteps; step++ {
		base := (1-damping)/n + damping*lost/n
		clear(changes)
		clear(losts)
		err := g.parallel(ctx, opt.Workers, func(r *reader, number int, t task) error {
			last, _ := g.nodesOf(t)
			sum := 0.0
			end := func() {
				rank, out := base+damping*sum, max(1, float64(g.out[last]))
				changes[number] += math.Abs(rank - float64(now[last])*out)
				if g.out[last] == 0 {
					losts[number] += rank
				}
				next[last] = float32(rank / out)
			}
			err := r.each(t, func(v uint32, from []uint32) {
				if v != last {
					end()
					last, sum = v, 0
				}
				for _, u := range from {
					sum += float64(now[u])
				}
			})
			end()
			return err
		})
		if err != nil {
			return nil, err
		}
		now, next = next, now
		change := 0.0
		lost = 0
		for i := range changes {
			change += changes[i]
			lost += losts[i]
		}
		if opt.Progress != nil {
			opt.Progress(step, change)
		}
		if change < leastChange {
			break
		}
	}
	sum := 0.0
	for v, out := range g.out {
		now[v] *= max(1, float32(out))
		sum += float64(now[v])
	}
	for v := range now {
		now[v] = float32(float64(now[v]) / sum)
	}
	return now, nil
}

// exactWork is the product of nodes and arcs up to which Harmonic searches from each node: some seconds.
const exactWork = 1 << 30

// Harmonic returns the harmonic centrality of each node, and whether the values are exact.
func (g *Graph) Harmonic(ctx context.Context, opt Options) (values []float32, exact bool, err error) {
	if int64(g.nodes)*(g.arcs+1) <= exactWork && g.arcs*4 <= opt.RAMBytes {
		values, err = g.exact(ctx, opt)
		return values, true, err
	}
	values, err = g.hyperBall(ctx, opt)
	return values, false, err
}

// exact searches from each node against the arcs.
func (g *Graph) exact(ctx context.Context, opt Options) ([]float32, error) {
	from := make([][]uint32, g.nodes)
	err := g.parallel(ctx, 1, func(r *reader, _ int, t task) error {
		return r.each(t, func(v uint32, list []uint32) { from[v] = append(from[v], list...) })
	})
	if err != nil {
		return nil, err
	}
	values := make([]float32, g.nodes)
	seen := make([]uint32, g.nodes) // 1 + the node whose search saw it last
	var now, next []uint32
	for v := range g.nodes {
		if v%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		seen[v], now = v+1, append(now[:0], v)
		sum := 0.0
		for d := 1.0; len(now) > 0; d++ {
			next = next[:0]
			for _, w := range now {
				for _, u := range from[w] {
					if seen[u] != v+1 {
						seen[u] = v + 1
						next = append(next, u)
					}
				}
			}
			sum += float64(len(next)) / d
			now, next = next, now
		}
		values[v] = float32(sum)
	}
	if opt.Progress != nil {
		opt.Progress(1, 0)
	}
	return values, nil
}

// Positions returns the position of each node if the highest value is the first: 1 and so on. Equal values are
// in the order of the nodes. It takes 8 bytes a node.
func Positions(values []float32) []uint32 {
	order := make([]uint32, len(values))
	for v := range order {
		order[v] = uint32(v)
	}
	slices.SortStableFunc(order, func(a, b uint32) int {
		switch x, y := values[a], values[b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	at := make([]uint32, len(values))
	for i, v := range order {
		at[v] = uint32(i + 1)
	}
	return at
}
