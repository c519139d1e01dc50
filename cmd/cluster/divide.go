package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
	"drumbeat/weburl"
)

type divideCmd struct {
	File string `arg:"" name:"file"`
	PLD  string `arg:"" name:"pld"`
	connectFlags
	Nodes []int `placeholder:"N"`
	Undo  bool
}

// divideName is the command of changes of the table.
const divideName = "divide"

// Run divides the hosts of a PLD among nodes.
func (d *divideCmd) Run(a *term.App) error {
	if len(d.Nodes) > 0 && d.Undo {
		return term.Usage(fmt.Errorf("--nodes and --undo exclude each other"))
	}
	pld, err := pldOf(d.PLD)
	if err != nil {
		return term.Usage(err)
	}
	return changing(a, d.File, &d.connectFlags, func(ctx context.Context, c *changer) error {
		if err := c.begin(divideName, 0); err != nil {
			return err
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		if node := c.earlier(ctx, c.table, cluster.DividedVersion); node >= 0 {
			return fmt.Errorf("node %d runs a version from before divided PLDs: upgrade it first", node)
		}
		slot, nodes := c.slotOf(pld), d.Nodes
		for _, node := range nodes {
			if err := c.check(node); err != nil {
				return err
			}
		}
		switch {
		case d.Undo:
			nodes = []int{c.table.OwnerOf(slot)}
		case len(nodes) == 0:
			nodes = c.members(-1)
		}
		if err := c.divide(ctx, pld, slot, cluster.EvenParts(nodes)); err != nil {
			return err
		}
		if err := c.conclude(ctx); err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "%s belongs to slot %d of node %d, which finds its new URLs; its hosts are visited by "+
			"%s. Copy %s to all nodes.\n", pld, slot, c.table.OwnerOf(slot), nodeList(nodes), d.File)
		return nil
	})
}

// slotOf returns the slot of a PLD.
func (c *changer) slotOf(pld string) int {
	return weburl.Slot(weburl.NewHasher(c.f.Secret).PLDKey([]byte(pld)))
}

// pldOf returns the PLD that a user has named.
func pldOf(name string) (string, error) {
	for _, private := range []bool{false, true} {
		if pld := weburl.NewSuffixes(private).PLD(name); pld == name && name != "" {
			return pld, nil
		}
	}
	return "", fmt.Errorf("%q is no PLD: want a name such as %s", name,
		cmp.Or(weburl.NewSuffixes(false).PLD(name), "example.org"))
}

// divide makes the changes after which the hosts of a PLD belong to the nodes of parts. In a change, hosts leave one
// node.
func (c *changer) divide(ctx context.Context, pld string, slot int, parts cluster.Parts) error {
	for {
		now := cluster.EvenParts([]int{c.table.OwnerOf(slot)})
		if is := c.table.PartsOf([]byte(pld)); is != nil {
			now = *is
		}
		if now == parts {
			return nil
		}
		from, next, moved := -1, now, 0
		for i := range next {
			if next[i] != parts[i] && (from < 0 || int(next[i]) == from) {
				from, next[i] = int(next[i]), parts[i]
				moved++
			}
		}
		table, err := c.table.Divide(pld, slot, &next)
		if err != nil {
			return term.Usage(err)
		}
		began := time.Now()
		if err := c.apply(ctx, cluster.ChangeGive, table, from, false); err != nil {
			return err
		}
		fmt.Fprintf(c.a.Stdout, "%s of %d with hosts of %s moved from node %d in %v\n",
			human.Counted(moved, "part", "parts"), cluster.DividedParts, pld, from,
			time.Since(began).Round(time.Second))
	}
}

// toDivide returns the slots that are too large for a node by a PLD that is not divided and can be.
func (c *changer) toDivide(ctx context.Context, p *cluster.Plan) (list []cluster.Large) {
	if len(c.members(-1)) < 2 || c.earlier(ctx, c.table, cluster.DividedVersion) >= 0 {
		return nil
	}
	for _, l := range p.Large {
		if l.PLD != "" && c.slotOf(l.PLD) == l.Slot && c.table.PartsOf([]byte(l.PLD)) == nil &&
			len(c.table.Divisions())+len(list) < cluster.MaxDivided {
			list = append(list, l)
		}
	}
	return list
}

// giveHosts gives the hosts of divided PLDs that a node visits to the others.
func (c *changer) giveHosts(ctx context.Context, node int) error {
	others := c.members(node)
	for _, d := range c.table.Divisions() {
		parts := d.Parts
		for i, is := range parts {
			if int(is) == node {
				parts[i] = uint16(others[i%len(others)])
			}
		}
		if err := c.divide(ctx, d.PLD, d.Slot, parts); err != nil {
			return err
		}
	}
	return nil
}
