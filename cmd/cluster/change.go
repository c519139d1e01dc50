package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/weburl"
)

// The commands that change the table of owners while the nodes run write one change after another to the broker, each
// when the marks of all nodes have the table before. The nodes carry it out (crawl/node/tables.go). If a command is
// interrupted, the change that it has written is completed, and the same command does the rest.

type leaveCmd struct {
	File string `arg:"" name:"file"`
	Node int    `arg:"" name:"node"`
	connectFlags
	Weight []float64 `placeholder:"W"`
}

type forgetCmd struct {
	File string `arg:"" name:"file"`
	Node int    `arg:"" name:"node"`
	connectFlags
}

// changer changes the table of a cluster.
type changer struct {
	a     *term.App
	file  string
	f     *cluster.File
	e     *nats.Transport
	table *cluster.Table
	last  *cluster.TableChange // that led to table; nil: it has not changed while the crawl ran
	// command is this one, in all of its changes but the last; nil if it makes one change.
	command *cluster.TableCommand
	told    []*cluster.NodeLoads // by node, as loads has read them
}

// changing runs a command that changes the table.
func changing(a *term.App, file string, flags *connectFlags, run func(ctx context.Context, c *changer) error) error {
	f, e, err := flags.open(a, file)
	if err != nil {
		return err
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	c := &changer{a: a, file: file, f: f, e: e, table: f.Table}
	if err = c.read(ctx); err == nil {
		err = run(ctx, c)
	}
	err = errors.Join(err, e.Close())
	if errors.Is(err, context.Canceled) {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal; the same command continues"}
	}
	return err
}

// changeEvery is the interval at which a command looks whether the nodes have a change; waitEvery that of the lines
// about what it waits for.
const (
	changeEvery = time.Second
	waitEvery   = 10 * time.Second
)

// read reads the table in force: that of the broker, or of the file if no change was made.
func (c *changer) read(ctx context.Context) error {
	v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.TableKey)
	if errors.Is(err, cluster.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	last, table, err := cluster.DecodeTableChange(v.Data)
	if err == nil {
		err = table.CheckSlots(weburl.NewHasher(c.f.Secret))
	}
	if err != nil {
		return err
	}
	if last.Moves < c.f.Table.Moves() {
		return term.Usage(fmt.Errorf("%s has table %d, the broker table %d: wait until the nodes have written theirs",
			c.file, c.f.Table.Moves(), last.Moves))
	}
	if last.Refused != "" { // nothing has changed
		if c.f.Table.Sum() != last.Before {
			return term.Usage(fmt.Errorf("%s is not the newest file of the cluster: a node has refused the change "+
				"after table %d", c.file, last.Moves-1))
		}
		return nil
	}
	c.last, c.table = last, table
	return nil
}

// members are the nodes that take part; but: one that need not have started.
func (c *changer) members(but int) (list []int) {
	for node := range c.table.Nodes() {
		if !c.table.HasDeparted(node) && node != but {
			list = append(list, node)
		}
	}
	return list
}

// settle waits until the marks of all nodes have the table, and writes it to the file.
func (c *changer) settle(ctx context.Context) error {
	but := -1
	if c.last != nil && c.last.Kind == cluster.ChangeGrow {
		but = c.table.Nodes() - 1
	}
	if err := c.await(ctx, func() (string, error) {
		missing, err := c.missing(ctx, c.members(but))
		switch {
		case err != nil || len(missing) == 0:
			return "", err
		case c.last != nil && c.last.Kind == cluster.ChangeForget:
			return fmt.Sprintf("until %s heard nothing of node %d for --cluster-lease", nodesHave(missing),
				c.last.Giver), nil
		case c.last != nil && c.last.Kind == cluster.ChangeGive:
			if text := c.giving(ctx, missing); text != "" {
				return text, nil
			}
		}
		return fmt.Sprintf("until %s table %d of owners: start what does not run", nodesHave(missing),
			c.table.Moves()), nil
	}); err != nil {
		return err
	}
	return c.save()
}

// giving says what a change of slots waits for, by the statuses of its givers; "" if they do not tell. The nodes that
// are missing do not have the table.
func (c *changer) giving(ctx context.Context, missing []int) string {
	var looking []int
	left := int64(0)
	for _, node := range c.last.GiverList() {
		v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.StatusKey(node))
		if err != nil {
			continue
		}
		st, err := cluster.DecodeStatus(v.Key, v.Data, c.table.Nodes())
		switch {
		case err != nil:
		case slices.Contains(missing, node) && st.GiveWhy != "":
			return fmt.Sprintf("until node %d gives its slots, which it cannot yet: %s", node,
				term.PlainText(st.GiveWhy))
		case slices.Contains(missing, node):
			return fmt.Sprintf("until %s divided the stores", nodesHave([]int{node}))
		case st.Unsifted > 0:
			looking = append(looking, node)
			left += st.Unsifted
		}
	}
	if left == 0 {
		return ""
	}
	return fmt.Sprintf("until %s looked through the queues for URLs of the slots: %s left", nodesHave(looking),
		human.Counted(left, "URL", "URLs"))
}

// await calls what at intervals until it returns "", and says what it waits for.
func (c *changer) await(ctx context.Context, what func() (string, error)) error {
	for told := time.Now(); ; {
		text, err := what()
		if errors.Is(err, cluster.ErrAway) {
			text, err = "for the broker", nil
		}
		if err != nil || text == "" {
			return err
		}
		if time.Since(told) >= waitEvery {
			fmt.Fprintln(c.a.Stderr, "waiting "+text)
			told = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(changeEvery):
		}
	}
}

func nodesHave(nodes []int) string {
	if len(nodes) == 1 {
		return nodeList(nodes) + " has"
	}
	return nodeList(nodes) + " have"
}

// missing returns the nodes whose marks do not have the table. A node that has refused the change is an error.
func (c *changer) missing(ctx context.Context, nodes []int) (missing []int, _ error) {
	if v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.TableKey); err == nil {
		if now, _, err := cluster.DecodeTableChange(v.Data); err == nil && now.Moves == c.table.Moves() &&
			now.Refused != "" && !c.given(ctx, now) {
			return nil, fmt.Errorf("nothing has moved: %s", now.Refused)
		}
	}
	for _, node := range nodes {
		v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
		if err != nil && !errors.Is(err, cluster.ErrNotFound) {
			return nil, err
		}
		if err != nil || cluster.MarkMoves(v.Data) < c.table.Moves() {
			missing = append(missing, node)
		}
	}
	return missing, nil
}

// given reports whether a giver has carried out a change although it is refused: the broker has read a killed process's
// refusal late, and a giver writes the change again.
func (c *changer) given(ctx context.Context, change *cluster.TableChange) bool {
	return slices.ContainsFunc(change.GiverList(), func(node int) bool {
		v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
		return err == nil && cluster.MarkMoves(v.Data) >= change.Moves
	})
}

// earlier returns the first node that takes part in a table and runs a version of the program from before one of the
// protocol; -1: none.
func (c *changer) earlier(ctx context.Context, t *cluster.Table, version int) int {
	for _, node := range c.members(-1) {
		if t.HasDeparted(node) {
			continue
		}
		v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
		if err != nil {
			continue // it has not started: settle has waited for all others
		}
		m := new(cluster.Mark)
		if json.Unmarshal(v.Data, m) == nil && m.Reads() < version {
			return node
		}
	}
	return -1
}

// save writes the table to the file of the cluster, if that has an older one.
func (c *changer) save() error {
	if c.f.Table.Moves() >= c.table.Moves() {
		return nil
	}
	c.f.Table = c.table
	data, err := c.f.Encode()
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(disk.OS(), c.file, data)
}

// apply makes one change, and waits until all nodes have it. last says that this command makes no further one.
func (c *changer) apply(ctx context.Context, kind cluster.ChangeKind, next *cluster.Table, giver int, last bool) error {
	if node := c.earlier(ctx, next, cluster.MovedVersion); node >= 0 {
		return fmt.Errorf("node %d runs an earlier version, whose table of owners cannot change while it runs: "+
			"upgrade it first", node)
	}
	change := cluster.NewTableChange(kind, c.table, next, giver, rand.Text())
	if !last {
		change.Command = c.command
	}
	data, err := change.Encode()
	if err != nil {
		return err
	}
	v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.TableKey)
	switch {
	case errors.Is(err, cluster.ErrNotFound):
		_, err = c.e.Create(ctx, cluster.BucketCrawl, cluster.TableKey, data)
	case err == nil:
		if now, _, bad := cluster.DecodeTableChange(v.Data); bad == nil && now.Moves > c.table.Moves() &&
			now.Refused == "" {
			return another(now)
		}
		_, err = c.e.Update(ctx, cluster.BucketCrawl, cluster.TableKey, data, v.Revision)
	}
	if errors.Is(err, cluster.ErrExists) || errors.Is(err, cluster.ErrChanged) {
		if v, err = c.e.Get(ctx, cluster.BucketCrawl, cluster.TableKey); err == nil {
			now, _, _ := cluster.DecodeTableChange(v.Data)
			err = another(now)
		}
	}
	if err != nil {
		return err
	}
	c.last, c.table = change, next
	return c.settle(ctx)
}

// loads returns the load of each slot, by what all members tell.
func (c *changer) loads(ctx context.Context) ([]cluster.Load, error) {
	var loads []*cluster.NodeLoads
	if err := c.await(ctx, func() (_ string, err error) {
		if loads, _, err = readLoads(ctx, c.e, c.table.Nodes()); err != nil {
			return "", err
		}
		var silent []int
		for _, node := range c.members(-1) {
			if loads[node] == nil && c.table.Share(node) > 0 {
				silent = append(silent, node)
			}
		}
		if len(silent) == 0 {
			return "", nil
		}
		return fmt.Sprintf("until %s told the loads of its slots, which each node does every minute",
			nodesHave(silent)), nil
	}); err != nil {
		return nil, err
	}
	c.told = loads
	return cluster.LoadsOf(c.table, loads), nil
}

// weightsOf returns the weights of n nodes: those that were given, or equal ones.
func weightsOf(given []float64, n int) ([]float64, error) {
	if len(given) == 0 {
		return slices.Repeat([]float64{1}, n), nil
	}
	if len(given) != n {
		return nil, term.Usage(fmt.Errorf("--weight has %s for %s", human.Counted(len(given), "weight", "weights"),
			human.Counted(n, "node", "nodes")))
	}
	return given, nil
}

// taking says by node whether it takes part.
func (c *changer) taking() []bool {
	members := make([]bool, c.table.Nodes())
	for _, node := range c.members(-1) {
		members[node] = true
	}
	return members
}

// carryOut makes the moves of a plan. last says that the command makes no change after them.
func (c *changer) carryOut(ctx context.Context, p *cluster.Plan, last bool) error {
	several := c.earlier(ctx, c.table, cluster.GiversVersion) < 0
	for moves := p.Moves; len(moves) > 0; {
		var now []cluster.Move
		now, moves = oneChange(moves, several)
		to, known, givers, takers := map[int]int{}, int64(0), []int(nil), []int(nil)
		for _, m := range now {
			for _, slot := range m.Slots {
				to[slot] = m.To
			}
			known += m.Known
			givers, takers = append(givers, m.From), append(takers, m.To)
		}
		next, err := c.table.Give(to)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := c.apply(ctx, cluster.ChangeGive, next, 0, last && len(moves) == 0); err != nil {
			return err
		}
		fmt.Fprintf(c.a.Stdout, "%s with %s moved from %s to %s in %v\n", human.Counted(len(to), "slot", "slots"),
			human.Counted(known, "known URL", "known URLs"), nodeList(givers), nodeList(takers),
			time.Since(began).Round(time.Second))
	}
	if !last {
		return nil
	}
	return c.conclude(ctx)
}

// oneChange divides moves into those of the next change and the others: in a change no node both gives and takes, and
// one node gives if several cannot.
func oneChange(moves []cluster.Move, several bool) (now, later []cluster.Move) {
	for _, m := range moves {
		if slices.ContainsFunc(now, func(o cluster.Move) bool {
			return m.From == o.To || m.To == o.From || !several && m.From != o.From
		}) {
			later = append(later, m)
		} else {
			now = append(now, m)
		}
	}
	return now, later
}

// nodeList names nodes, each once.
func nodeList(nodes []int) string {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ", "), "[]")
	if len(nodes) == 1 {
		return "node " + list
	}
	return "nodes " + list
}

// Run makes a node give all its slots, and leave the cluster.
func (l *leaveCmd) Run(a *term.App) error {
	return changing(a, l.File, &l.connectFlags, func(ctx context.Context, c *changer) error {
		if err := c.begin("leave", l.Node); err != nil {
			return err
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		if err := c.check(l.Node); err != nil {
			return err
		}
		if err := c.withoutBroker(ctx, l.Node); err != nil {
			return err
		}
		weights, err := weightsOf(l.Weight, c.table.Nodes())
		if err != nil {
			return err
		}
		if c.table.Share(l.Node) > 0 {
			loads, err := c.loads(ctx)
			if err != nil {
				return err
			}
			plan, err := cluster.Leave(c.table, loads, weights, c.taking(), l.Node)
			if err != nil {
				return term.Usage(err)
			}
			if err := c.carryOut(ctx, plan, false); err != nil {
				return err
			}
		}
		if err := c.giveHosts(ctx, l.Node); err != nil {
			return err
		}
		if err := c.await(ctx, func() (string, error) { return c.holds(ctx, l.Node) }); err != nil {
			return err
		}
		next, err := c.table.Depart(l.Node)
		if err != nil {
			return term.Usage(err)
		}
		if err := c.apply(ctx, cluster.ChangeDepart, next, l.Node, true); err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "node %d has left: its process ends. Keep its pages and logs, and an audit of it. "+
			"Copy %s to all nodes.\n", l.Node, c.file)
		return nil
	})
}

// withoutBroker refuses a node whose process runs a broker: it would take the broker with it.
func (c *changer) withoutBroker(ctx context.Context, node int) error {
	v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.StatusKey(node))
	if errors.Is(err, cluster.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if st, err := cluster.DecodeStatus(v.Key, v.Data, c.table.Nodes()); err == nil && st.Ended == "" && st.Broker {
		return &term.Ended{Code: term.ExitFailure, Why: fmt.Sprintf("node %d runs the broker (--cluster embed), and "+
			"cannot leave: first start all nodes with other servers", node)}
	}
	return nil
}

// check refuses a node that does not take part, or is the last one.
func (c *changer) check(node int) error {
	switch {
	case node < 0 || node >= c.table.Nodes() || c.table.HasDeparted(node):
		return term.Usage(fmt.Errorf("node %d does not take part", node))
	case len(c.members(node)) == 0:
		return term.Usage(fmt.Errorf("node %d is the last one", node))
	}
	return nil
}

// holds says why a node that leaves must stay; "" once the other nodes have all of its records, it has theirs, and it
// has rendered its pages.
func (c *changer) holds(ctx context.Context, node int) (string, error) {
	marks, err := c.marks(ctx)
	if err != nil {
		return "", err
	}
	if marks[node] != nil && marks[node].Renders > 0 {
		return fmt.Sprintf("for %s of node %d, which its browser renders first",
			human.Counted(marks[node].Renders, "page", "pages"), node), nil
	}
	left := int64(0)
	for _, other := range c.members(node) {
		if marks[other] == nil || marks[node] == nil {
			left++
			continue
		}
		left += marks[node].Out[other] - marks[other].Taken[node].Totals.Records()
		left += marks[other].Out[node] - marks[node].Taken[other].Totals.Records()
	}
	if left == 0 {
		return "", nil
	}
	return fmt.Sprintf("for %s from or to node %d", human.Counted(left, "record", "records"), node), nil
}

// marks reads the marks of all nodes; nil for one without, or of another table.
func (c *changer) marks(ctx context.Context) ([]*cluster.Mark, error) {
	marks := make([]*cluster.Mark, c.table.Nodes())
	for node := range marks {
		m, err := cluster.ReadMark(ctx, c.e, node, c.table.Nodes())
		if err != nil {
			return nil, err
		}
		if m != nil && m.Table == c.table.Sum() {
			marks[node] = m
		}
	}
	return marks, nil
}

// Run gives the slots of a lost node to the others, which begin with them.
func (g *forgetCmd) Run(a *term.App) error {
	return changing(a, g.File, &g.connectFlags, g.run)
}

func (g *forgetCmd) run(ctx context.Context, c *changer) error {
	if c.last != nil && c.last.Kind == cluster.ChangeForget && c.table.HasDeparted(g.Node) {
		return c.settle(ctx) // the command was interrupted
	}
	if err := c.check(g.Node); err != nil {
		return err
	}
	others, err := c.missing(ctx, c.members(g.Node))
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fmt.Errorf("a change of the table of owners is under way until %s it: start what does not run first; "+
			"if slots were moving to or from node %d, only --give-up-node helps", nodesHave(others), g.Node)
	}
	lost, slots := g.lost(ctx, c), c.table.Share(g.Node)
	next, err := c.table.Depart(g.Node)
	if err != nil {
		return term.Usage(err)
	}
	if err := c.apply(ctx, cluster.ChangeForget, next, g.Node, true); err != nil {
		return err
	}
	fmt.Fprintf(c.a.Stdout, "node %d is forgotten, and its %s belong to the others, which begin with their sites. %s"+
		"Copy %s to all nodes.\n", g.Node, human.Counted(slots, "slot", "slots"), lost, c.file)
	return nil
}

// lost says what is lost with a node, by its last status.
func (g *forgetCmd) lost(ctx context.Context, c *changer) string {
	text := ""
	if v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.StatusKey(g.Node)); err == nil {
		var st cluster.Status
		if json.Unmarshal(v.Data, &st) == nil {
			text = fmt.Sprintf("Lost by its last status: %s in its queues, and which %s it had fetched. ",
				human.Counted(st.Queued, "URL", "URLs"), human.Counted(st.Pages, "page", "pages"))
		}
	}
	return text
}
