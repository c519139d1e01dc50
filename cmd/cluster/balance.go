package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

type balanceCmd struct {
	File string `arg:"" name:"file"`
	connectFlags
	Weight []float64 `placeholder:"W"`
	Apply  bool
	JSON   bool
}

// balanceReport is what cluster balance prints as JSON.
type balanceReport struct {
	Crawl string       `json:"crawl"`
	Time  time.Time    `json:"time"`
	Nodes []nodeReport `json:"nodes"` // by node
	*cluster.Plan
}

// nodeReport is a node before and after the moves of a plan.
type nodeReport struct {
	Node       int        `json:"node"`
	Weight     float64    `json:"weight"`
	Abandoned  bool       `json:"givenUp,omitempty"` // it takes no part
	Told       time.Time  `json:"told,omitzero"`     // time of its loads, by its clock
	Since      *time.Time `json:"since,omitempty"`   // when its counts began; absent: with the crawl
	Slots      int        `json:"slots"`
	SlotsAfter int        `json:"slotsAfter"`
	Pages      int64      `json:"pages"`
	Waiting    int64      `json:"waiting"`
	Known      int64      `json:"known"`
	Bytes      int64      `json:"bytes"`
}

// Run prints the loads of all nodes, and the moves that would balance them.
func (c *balanceCmd) Run(a *term.App) error {
	if c.Apply {
		return c.apply(a)
	}
	f, e, err := c.open(a, c.File)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusPatience)
	defer cancel()
	if f.Table, _, err = inForce(ctx, e, f); err != nil {
		return errors.Join(err, e.Close())
	}
	weights, err := weightsOf(c.Weight, f.Table.Nodes())
	if err != nil {
		return errors.Join(err, e.Close())
	}
	loads, statuses, err := readLoads(ctx, e, f.Table.Nodes())
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	r, err := propose(f, loads, statuses, weights)
	if err != nil {
		return err
	}
	if c.JSON {
		return term.WriteJSON(a.Stdout, r)
	}
	return r.print(a.Stdout)
}

// apply makes a plan, and carries it out.
func (c *balanceCmd) apply(a *term.App) error {
	return changing(a, c.File, &c.connectFlags, func(ctx context.Context, x *changer) error {
		if err := x.begin(balanceName, 0); err != nil {
			return err
		}
		if err := x.settle(ctx); err != nil {
			return err
		}
		weights, err := weightsOf(c.Weight, x.table.Nodes())
		if err != nil {
			return err
		}
		loads, err := x.loads(ctx)
		if err != nil {
			return err
		}
		plan, err := cluster.Balance(x.table, loads, weights, x.taking())
		if err != nil {
			return term.Usage(err)
		}
		cluster.NameLarge(plan.Large, x.told)
		divide := x.toDivide(ctx, plan)
		if len(plan.Moves)+len(divide) == 0 {
			fmt.Fprintln(a.Stdout, "No slot needs to move.")
			return nil
		}
		if err := x.carryOut(ctx, plan, len(divide) == 0); err != nil {
			return err
		}
		parts := cluster.WeightedParts(weights, x.members(-1))
		for _, l := range divide {
			if err := x.divide(ctx, l.PLD, l.Slot, parts); err != nil {
				return err
			}
		}
		if err := x.conclude(ctx); err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "The largest load is %.2f of its share by the counts of the beginning. "+
			"Copy %s to all nodes.\n", largestAfter(plan), c.File)
		return nil
	})
}

func largestAfter(p *cluster.Plan) (most float64) {
	for _, f := range p.After {
		most = max(most, f.Max())
	}
	return most
}

// readLoads reads the loads and statuses of all nodes; nil for a node without one. A strange one counts as none.
func readLoads(ctx context.Context, e *nats.Transport, nodes int) ([]*cluster.NodeLoads, []*cluster.Status, error) {
	loads, statuses := make([]*cluster.NodeLoads, nodes), make([]*cluster.Status, nodes)
	values, err := e.Values(ctx, cluster.BucketCrawl, cluster.LoadsPattern)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range values {
		if n, err := cluster.DecodeNodeLoads(v.Key, v.Data, nodes); err == nil {
			loads[n.Node] = n
		}
	}
	if values, err = e.Values(ctx, cluster.BucketCrawl, cluster.StatusPattern); err != nil {
		return nil, nil, err
	}
	for _, v := range values {
		if st, err := cluster.DecodeStatus(v.Key, v.Data, nodes); err == nil {
			statuses[st.Node] = st
		}
	}
	return loads, statuses, nil
}

// propose makes a plan from what the nodes have told. Abandoned nodes take no part.
func propose(f *cluster.File, loads []*cluster.NodeLoads, statuses []*cluster.Status,
	weights []float64) (*balanceReport, error) {
	r := &balanceReport{Crawl: f.Crawl, Time: time.Now().UTC()}
	members, silent := make([]bool, len(weights)), []string(nil)
	abandoned := cluster.Summarize(statuses, r.Time).Abandoned
	for node := range members {
		members[node] = !slices.Contains(abandoned, node)
		if members[node] && loads[node] == nil {
			silent = append(silent, fmt.Sprint(node))
		}
	}
	if len(silent) > 0 {
		return nil, fmt.Errorf("no plan, because these nodes have not told their loads: %s. Each node does so every "+
			"minute, if it runs a version that counts them", strings.Join(silent, ", "))
	}
	of := cluster.LoadsOf(f.Table, loads)
	var err error
	if r.Plan, err = cluster.Balance(f.Table, of, weights, members); err != nil {
		return nil, term.Usage(err)
	}
	cluster.NameLarge(r.Large, loads)
	r.Large = slices.DeleteFunc(r.Large, func(l cluster.Large) bool { return f.Table.PartsOf([]byte(l.PLD)) != nil })
	for node := range members {
		r.Nodes = append(r.Nodes, nodeReport{Node: node, Weight: weights[node], Abandoned: !members[node]})
		n := &r.Nodes[node]
		if l := loads[node]; l != nil {
			n.Told = l.Time
			if s := l.Loads.Since; s != 0 {
				since := time.Unix(s, 0).UTC()
				n.Since = &since
			}
		}
	}
	for slot, l := range of[:cluster.Slots] {
		n := &r.Nodes[f.Table.OwnerOf(slot)]
		n.Slots++
		n.Pages, n.Waiting = n.Pages+max(0, l.Pages), n.Waiting+max(0, l.Waiting)
		n.Known, n.Bytes = n.Known+max(0, l.Known), n.Bytes+max(0, l.Bytes)
		r.Nodes[r.Owners[slot]].SlotsAfter++
	}
	for node, l := range of[cluster.Slots:] {
		n := &r.Nodes[node]
		n.Pages, n.Waiting, n.Bytes = n.Pages+max(0, l.Pages), n.Waiting+max(0, l.Waiting), n.Bytes+max(0, l.Bytes)
	}
	return r, nil
}

// print prints the report.
func (r *balanceReport) print(out io.Writer) error {
	if err := r.printNodes(out); err != nil {
		return err
	}
	var b strings.Builder
	for i := range r.Nodes {
		if s := r.Nodes[i].Since; s != nil {
			fmt.Fprintf(&b, "Node %d counts since %s: its figures are too low, and so is what it gets or gives.\n", i,
				s.Format("2006-01-02 15:04 UTC"))
		}
	}
	known := int64(0)
	for i := range r.Nodes {
		known += r.Nodes[i].Known
	}
	for i := range r.Moves {
		m := &r.Moves[i]
		fmt.Fprintf(&b, "From node %d to node %d: %s with %s (%.1f %% of all): %s\n", m.From, m.To,
			human.Counted(len(m.Slots), "slot", "slots"), human.Counted(m.Known, "known URL", "known URLs"),
			100*float64(m.Known)/float64(max(1, known)), slotList(m.Slots))
	}
	r.printAbove(&b)
	named := 0
	for _, l := range r.Large {
		if l.PLD != "" {
			named++
			fmt.Fprintf(&b, "Most of slot %d is %s: --apply divides its hosts among the nodes.\n", l.Slot, l.PLD)
		}
	}
	if len(r.Moves)+named == 0 {
		b.WriteString("No move is proposed.\n")
	} else {
		b.WriteString("This is a proposal: nothing has moved. --apply carries it out.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printNodes prints a row for each node.
func (r *balanceReport) printNodes(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "node\tslots\tpages\twaiting\tknown\tpages of its share\twaiting of its share\tknown of its share")
	change := func(was, is string) string {
		if was == is {
			return was
		}
		return was + " → " + is
	}
	factor := func(was, is float64) string {
		if was == 0 && is == 0 {
			return "–"
		}
		return change(fmt.Sprintf("%.2f", was), fmt.Sprintf("%.2f", is))
	}
	for i := range r.Nodes {
		n, was, is := &r.Nodes[i], &r.Before[i], &r.After[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i, change(fmt.Sprint(n.Slots), fmt.Sprint(n.SlotsAfter)),
			human.Count(n.Pages), human.Count(n.Waiting), human.Count(n.Known), factor(was.Pages, is.Pages),
			factor(was.Waiting, is.Waiting), factor(was.Known, is.Known))
	}
	return t.Flush()
}

// mostAbove is the number of nodes above the tolerance that are printed. The JSON has all.
const mostAbove = 10

// printAbove says which nodes stay above the tolerance, and why.
func (r *balanceReport) printAbove(b *strings.Builder) {
	for _, a := range r.Above[:min(len(r.Above), mostAbove)] {
		fmt.Fprintf(b, "Node %d stays at %.2f of its share of the %s: ", a.Node, a.Factor, a.Measure)
		if a.Alone > 1 {
			more := "cluster divide gives its hosts to several nodes"
			if a.Measure == cluster.MeasureKnown {
				more = "its known URLs stay with one node"
			}
			fmt.Fprintf(b, "slot %d alone has %.2f, probably by one PLD: %s.\n", a.Slot, a.Alone, more)
		} else {
			fmt.Fprintf(b, "no move of whole slots was found that helps. Its largest one, %d, has %.2f.\n", a.Slot,
				a.Alone)
		}
	}
	if n := len(r.Above) - mostAbove; n > 0 {
		fmt.Fprintf(b, "%s more above %.2f: --json names all.\n", human.Counted(n, "node stays", "nodes stay"),
			cluster.Tolerance)
	}
}

// mostRanges bounds the ranges of slots in a line of text. The JSON has all.
const mostRanges = 8

// slotList returns ascending slots as ranges.
func slotList(slots []int) string {
	var ranges []string
	for len(slots) > 0 {
		if len(ranges) == mostRanges {
			return strings.Join(ranges, ", ") + fmt.Sprintf(" and %d more", len(slots))
		}
		n := 1
		for n < len(slots) && slots[n] == slots[0]+n {
			n++
		}
		if text := fmt.Sprint(slots[0]); n == 1 {
			ranges = append(ranges, text)
		} else {
			ranges = append(ranges, fmt.Sprintf("%s-%d", text, slots[n-1]))
		}
		slots = slots[n:]
	}
	return strings.Join(ranges, ", ")
}

// largestLoads are the nodes with the largest loads.
type largestLoads struct {
	Pages   largestLoad `json:"pages"`
	Waiting largestLoad `json:"waiting"`
}

// largestLoad is a load as a multiple of the mean of all nodes; 0 if all have none.
type largestLoad struct {
	Node   int     `json:"node"`
	Factor float64 `json:"factor"`
}

// text says which nodes have the largest loads; "" if none is known.
func (l *largestLoads) text() string {
	switch {
	case l == nil || l.Pages.Factor == 0 && l.Waiting.Factor == 0:
		return ""
	case l.Waiting.Factor == 0:
		return fmt.Sprintf("Largest load: node %d has %.2f times the mean of the pages.", l.Pages.Node, l.Pages.Factor)
	case l.Pages.Factor == 0:
		return fmt.Sprintf("Largest load: node %d has %.2f times the mean of the waiting URLs.", l.Waiting.Node,
			l.Waiting.Factor)
	}
	return fmt.Sprintf("Largest loads: node %d has %.2f times the mean of the pages, node %d %.2f times that of the "+
		"waiting URLs.", l.Pages.Node, l.Pages.Factor, l.Waiting.Node, l.Waiting.Factor)
}

// largestOf returns the largest loads of the nodes that are not abandoned; nil with one node, or if one has told none.
func largestOf(loads []*cluster.NodeLoads, abandoned []int) *largestLoads {
	var pages, waiting []float64
	var nodes []int
	for node, n := range loads {
		if slices.Contains(abandoned, node) {
			continue
		}
		if n == nil {
			return nil
		}
		sum := n.Loads.Sum()
		nodes = append(nodes, node)
		pages, waiting = append(pages, float64(sum.Pages)), append(waiting, float64(sum.Waiting))
	}
	if len(nodes) < 2 {
		return nil
	}
	largest := func(list []float64) (l largestLoad) {
		sum := 0.0
		for i, x := range list {
			if sum += x; i == 0 || x > list[slices.Index(nodes, l.Node)] {
				l.Node = nodes[i]
			}
		}
		if sum > 0 {
			l.Factor = list[slices.Index(nodes, l.Node)] * float64(len(list)) / sum
		}
		return l
	}
	return &largestLoads{largest(pages), largest(waiting)}
}
