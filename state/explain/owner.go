package explain

import (
	"fmt"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/weburl"
)

// OutboxReport says where a link stands that is on its way to another node.
type OutboxReport struct {
	Where   string `json:"where"`   // cluster.InOpen, InPending or InSent
	Message uint64 `json:"message"` // its number
}

// readOwners reads the table of the manifest, if it has changed while the crawl ran, or else the file of the cluster in
// its present state. Without them the owners of URLs are unknown.
func (v *view) readOwners(run *state.LastRun) error {
	if len(v.m.Table) > 0 {
		if _, t, err := cluster.DecodeTableChange(v.m.Table); err == nil && t.Sum() == v.m.Frozen.Table {
			v.owners = t
			return nil
		}
	}
	if v.m.Frozen.Nodes == 0 || run.ClusterFile == "" {
		return nil
	}
	data, err := disk.ReadFile(v.r.Meter, run.ClusterFile)
	if err != nil {
		return nil // it may be on another machine
	}
	f, err := cluster.DecodeFile(data)
	if err == nil && f.Table.Sum() == v.m.Frozen.Table {
		v.owners = f.Table
	}
	return nil
}

// outbox returns the state of the outbox for a node; nil if there is none.
func (v *view) outbox(node int) *cluster.OutboxState {
	st, err := state.Part[cluster.OutboxState](v.m, state.OutboxName(node))
	if err != nil || st == nil || st.Pending == nil || st.Sent == nil {
		return nil
	}
	return st
}

// findOwners finds the URLs that belong to other nodes, and the links to them in outboxes.
func (v *view) findOwners(reports []*URLReport) {
	if v.owners == nil {
		return
	}
	var others []*URLReport
	for _, rep := range reports {
		owner := v.owners.Owner(v.r.Hasher.PLDKey([]byte(rep.PLD)))
		visitor := v.owners.Visitor(v.r.Hasher, v.r.Suffixes, []byte(rep.Host))
		switch self := v.m.Frozen.Node; {
		case rep.Place == placeUnseen && visitor == self && owner != self: // of a divided PLD
			rep.Place, rep.elsewhere = "", &owner
		case rep.Place == placeUnseen && owner == self: // it finds the new URLs, whoever visits the host
		case rep.Place == placeUnseen && visitor != self:
			rep.Place, rep.Node = PlaceOtherNode, &visitor
			others = append(others, rep)
		case rep.Seen && visitor != self:
			rep.elsewhere = &visitor
		}
	}
	v.searchOutboxes(others)
}

// searchOutboxes searches the outboxes for links to URLs of other nodes.
func (v *view) searchOutboxes(reports []*URLReport) {
	want := map[int]map[string]*URLReport{} // by node and URL
	for _, rep := range reports {
		owner := *rep.Node
		if !rep.Seen { // a link goes to the owner, a URL that is new to the visitor
			owner = v.owners.Owner(v.r.Hasher.PLDKey([]byte(rep.PLD)))
		}
		if st := v.outbox(owner); st != nil && st.Abandoned {
			rep.GivenUp = true
			continue
		}
		if want[owner] == nil {
			want[owner] = map[string]*URLReport{}
		}
		want[owner][rep.URL] = rep
	}
	if v.opt.Fast {
		return
	}
	for node, urls := range want {
		st := v.outbox(node)
		if st == nil {
			continue
		}
		damages := new([]string)
		damaged := v.damaged(damages)
		_ = damaged(cluster.EachLink(v.r.Set, state.OutboxName(node), st,
			func(record []byte, where string, number uint64) error {
				var rec weburl.Record
				if err := rec.Decode(record); err != nil {
					return err
				}
				if rep := urls[string(rec.URL)]; rep != nil && rep.Outbox == nil {
					rep.Outbox = &OutboxReport{Where: where, Message: number}
					rep.record(&rec)
				}
				return nil
			}, damaged))
		for _, rep := range urls {
			rep.Damage = append(rep.Damage, *damages...)
		}
	}
}

// whyOther explains what became of a URL of another node here.
func (v *view) whyOther(rep *URLReport) []string {
	why := []string{fmt.Sprintf("%s belongs to node %d, which alone fetches its URLs: ask the directories of that node",
		rep.PLD, *rep.Node)}
	switch divided := v.owners.PartsOf([]byte(rep.PLD)) != nil; {
	case rep.elsewhere != nil && rep.Seen, divided && rep.elsewhere == nil:
		why[0] = fmt.Sprintf("the hosts of %s are divided among nodes, and node %d fetches the URLs of %s: ask the "+
			"directories of that node", rep.PLD, *rep.Node, rep.Host)
	case rep.elsewhere != nil:
		return []string{fmt.Sprintf("the hosts of %s are divided among nodes. This one fetches the URLs of %s, and "+
			"has not been sent this one by node %d, which finds the new URLs: ask the directories of that node",
			rep.PLD, rep.Host, *rep.Node)}
	}
	switch o := rep.Outbox; {
	case rep.GivenUp:
		return append(why, fmt.Sprintf("node %d was abandoned (--give-up-node): links to it are dropped", *rep.Node))
	case o == nil && v.opt.Fast:
		return append(why, "--fast does not search the outbox")
	case o == nil && len(rep.Damage) > 0:
		return append(why, "parts of the outbox cannot be read")
	case o == nil:
		return append(why, fmt.Sprintf("no link to it waits here: node %d has all links that this node found",
			*rep.Node))
	case o.Where == cluster.InOpen:
		return append(why, "a link to it waits in the outbox; the next checkpoint completes its message")
	case o.Where == cluster.InPending:
		return append(why,
			fmt.Sprintf("a link to it waits in the outbox, in message %d, which this node has not sent yet", o.Message))
	default:
		return append(why, fmt.Sprintf(
			"a link to it waits in the outbox, in message %d, which this node has sent; node %d has not confirmed "+
				"that it stored it", o.Message, *rep.Node))
	}
}
