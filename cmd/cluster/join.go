package cluster

import (
	"context"
	"errors"
	"fmt"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

type joinCmd struct {
	File string `arg:"" name:"file"`
	Node *int   `placeholder:"N"`
	connectFlags
	Weight []float64 `placeholder:"W"`
	Wait   bool
}

// Run adds a node to a running cluster.
func (j *joinCmd) Run(a *term.App) error {
	return changing(a, j.File, &j.connectFlags, func(ctx context.Context, c *changer) error {
		node, err := j.room(ctx, c)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "The cluster has room for node %d. Copy %s to its machine, and start it there with the "+
			"flags of the other nodes and --node %d.\n", node, c.file, node)
		weights, err := weightsOf(j.Weight, c.table.Nodes())
		if err != nil {
			return err
		}
		if err := c.await(ctx, func() (string, error) {
			missing, err := c.missing(ctx, []int{node})
			if err != nil || len(missing) == 0 {
				return "", err
			}
			return fmt.Sprintf("until node %d runs", node), nil
		}); err != nil {
			return err
		}
		loads, err := c.loads(ctx)
		if err != nil {
			return err
		}
		plan, err := cluster.Join(c.table, loads, weights, c.taking(), node)
		if err != nil {
			return term.Usage(err)
		}
		plan.Moves = append(plan.Moves, c.unused(plan, loads, weights, node)...)
		if err := c.carryOut(ctx, plan, true); errors.Is(err, context.Canceled) {
			return &term.Ended{Code: term.ExitSignal,
				Why: fmt.Sprintf("stopped by a signal; continue with --node %d", node)}
		} else if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "node %d has joined: it owns %d of %d slots. Copy %s to all nodes.\n", node,
			c.table.Share(node), cluster.Slots, c.file)
		if j.Wait {
			return c.fetches(ctx, node)
		}
		fmt.Fprintf(a.Stdout, "It fetches nothing yet: first the others must read its heartbeats, for a twentieth of "+
			"--cluster-lease (30 s by default), and give it the networks of its sites. drumbeat cluster status says "+
			"how far it is; --wait waits for it.\n")
		return nil
	})
}

// room makes room for a new node, or finds the one for which an earlier command has made it.
func (j *joinCmd) room(ctx context.Context, c *changer) (node int, err error) {
	node = c.table.Nodes()
	if j.Node != nil { // an earlier command was interrupted
		if node = *j.Node; node < 1 || node >= c.table.Nodes() || c.table.HasDeparted(node) {
			return 0, term.Usage(fmt.Errorf("--node %d: the cluster has no such node: leave it out for a new one",
				node))
		}
	}
	if err := c.begin("join", node); err != nil {
		return 0, err
	}
	if err := c.settle(ctx); err != nil || j.Node != nil {
		return node, err
	}
	next, err := c.table.Grow()
	if err != nil {
		return 0, term.Usage(err)
	}
	return node, c.apply(ctx, cluster.ChangeGrow, next, 0, false)
}

// endDone is crawl.StopDone.
const endDone = "done"

// fetches waits until a node has fetched a page, or has nothing to fetch.
func (c *changer) fetches(ctx context.Context, node int) error {
	first, said := int64(-1), ""
	err := c.await(ctx, func() (string, error) {
		v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.StatusKey(node))
		if err != nil && !errors.Is(err, cluster.ErrNotFound) {
			return "", err
		}
		st, err := cluster.DecodeStatus(cluster.StatusKey(node), v.Data, c.table.Nodes())
		if err != nil { // none, or a strange one
			return fmt.Sprintf("for a status of node %d", node), nil
		}
		if first < 0 {
			first = st.Pages
		}
		switch {
		case st.Pages > first || st.PagesPerSecond > 0:
			said = fmt.Sprintf("node %d fetches: %s so far", node, human.Counted(st.Pages, "page", "pages"))
		case st.Idle && st.Queued == 0:
			said = fmt.Sprintf("node %d has nothing to fetch yet: its sites are done, or no link has led to them", node)
		case st.Ended == endDone:
			said = fmt.Sprintf("node %d has ended: the crawl is over", node)
		case st.Ended != "":
			return fmt.Sprintf("until node %d runs: it has ended (%s)", node, st.Ended), nil
		case st.Waits != "":
			return fmt.Sprintf("until node %d fetches: it waits for %s", node, st.Waits), nil
		default:
			return fmt.Sprintf("until node %d fetches", node), nil
		}
		return "", nil
	})
	if err == nil {
		_, err = fmt.Fprintln(c.a.Stdout, said)
	}
	return err
}

// unused are moves that give a node its share of the slots without URLs of each other node: sites that the crawl has
// yet to find belong to them.
func (c *changer) unused(p *cluster.Plan, loads []cluster.Load, weights []float64, node int) (moves []cluster.Move) {
	sum := 0.0
	for _, member := range c.members(-1) {
		sum += weights[member]
	}
	for _, from := range c.members(node) {
		var slots []int
		for slot, owner := range p.Owners {
			if owner == from && loads[slot] == (cluster.Load{}) {
				slots = append(slots, slot)
			}
		}
		if n := int(float64(len(slots)) * weights[node] / sum); n > 0 {
			moves = append(moves, cluster.Move{From: from, To: node, Slots: slots[:n]})
		}
	}
	return moves
}
