package crawl

import (
	"encoding/binary"
	"fmt"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// takeRecords takes the records of a message of another node: links and edges for the stores, those that other nodes
// own, parts of slots that move here, and walkers. It is part of a transaction.
func (c *crawler) takeRecords(in *admit.Inlet, tx *account.Tx) error {
	if err := c.node.SendOn(in, tx); err != nil {
		return err
	}
	for _, record := range in.Handed {
		if err := c.takeHanded(record, tx); err != nil {
			return err
		}
	}
	for i := range in.Parts {
		if err := c.arrive(&in.Parts[i], tx); err != nil {
			return fmt.Errorf("crawl: a part of a slot that moves here (%c): %w", in.Parts[i].Kind, err)
		}
	}
	if err := c.walk.Come(in.Walkers, tx); err != nil {
		return err
	}
	return c.seen.TakeLinks(in, tx)
}

// takeHanded takes a URL that the owner of its divided PLD has found new: it goes to STAR, unless another node visits
// its host by now.
func (c *crawler) takeHanded(record []byte, tx *account.Tx) error {
	var rec weburl.Record
	if err := rec.Decode(record); err != nil {
		return err
	}
	tx.Count(state.CountLinksTaken, 1)
	if sent, err := c.node.PassOn(tx, &rec, record); sent || err != nil {
		return err
	}
	tx.Arrive(c.Hasher.URLKey(rec.URL), state.PlaceStar)
	check := c.budgets.CheckOf(&rec, record)
	if check.Part != 0 {
		tx.Count(state.CountTrapURLs, 1)
	}
	return c.budgets.CheckAll(tx, []star.CheckTuple{check})
}

// arrive takes a part of the state of a slot that moves here. All stages run: a URL is visited as soon as it is here.
// The keys that the giver knows come before all links.
func (c *crawler) arrive(p *admit.MovedPart, tx *account.Tx) error {
	key, value, data := uint64(0), []byte(nil), p.Data
	switch p.Kind {
	case cluster.MovedPLD, cluster.MovedName, cluster.MovedRobots:
		if len(data) < 8 {
			return cluster.ErrMessage
		}
		key, value = binary.LittleEndian.Uint64(data), data[8:]
	}
	switch p.Kind {
	case cluster.MovedKeys:
		return c.arriveKeys(data, tx)
	case cluster.MovedURL:
		return c.arriveURL(data, tx)
	case cluster.MovedVisit:
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return err
		}
		tx.Arrive(c.Hasher.URLKey(rec.URL), state.PlaceStar)
		return c.deferrals.ArriveVisit(tx, &rec, state.PlaceStar)
	case cluster.MovedOrder:
		return c.arriveOrder(data, tx)
	case cluster.MovedLink:
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return err
		}
		t := drum.Tuple{Key: drum.Key(c.Hasher.URLKey(rec.URL)), Op: drum.CheckUpdate, Aux: data}
		return c.seen.KnowMoved([]drum.Tuple{t}, int64(len(data)), tx)
	case cluster.MovedEdges:
		edges := make([]star.Edge, 0, len(data)/16)
		for ; len(data) >= 16; data = data[16:] {
			edges = append(edges, star.Edge{From: binary.LittleEndian.Uint64(data),
				To: binary.LittleEndian.Uint64(data[8:])})
		}
		c.budgets.Wake(tx)
		return c.budgets.AddEdges(edges)
	case cluster.MovedPLD:
		return c.budgets.Arrive(tx, key, value)
	case cluster.MovedName:
		if _, _, err := state.DecodeName(value); err != nil {
			return err
		}
		return c.seen.NameMoved([]drum.Tuple{{Key: drum.Key(key), Op: drum.CheckUpdate, Value: value}}, tx)
	case cluster.MovedRobots:
		return c.check.Arrive(tx, key, value)
	case cluster.MovedHealth:
		return c.health.Add(data)
	case cluster.MovedTraps:
		if c.traps == nil {
			return nil
		}
		return c.traps.Restore(data)
	case cluster.MovedLoad:
		slot, l, err := cluster.MovedLoadOf(data)
		if err == nil {
			c.Accounts.AddLoad(slot, l)
		}
		return err
	case cluster.MovedDelays:
		return c.dispatcher.AddDelays(data)
	}
	return nil // MovedBegin and MovedEnd are of the node
}

// arriveKeys passes keys that the giver knows to URLseen.
func (c *crawler) arriveKeys(data []byte, tx *account.Tx) error {
	keys := make([]drum.Tuple, 0, len(data)/8)
	texts := make([]byte, 0, len(data)/8*9)
	if err := cluster.EachMovedKey(data, func(key uint64) {
		at := len(texts)
		texts = state.AppendMovedKey(texts, key)
		keys = append(keys, drum.Tuple{Key: drum.Key(key), Op: drum.CheckUpdate, Aux: texts[at:len(texts):len(texts)]})
	}); err != nil {
		return err
	}
	return c.seen.KnowMoved(keys, int64(len(texts)), tx)
}

// arriveURL passes a URL that waited at the giver to STAR.
func (c *crawler) arriveURL(data []byte, tx *account.Tx) error {
	var rec weburl.Record
	if len(data) < 2 || data[0] > 1 {
		return cluster.ErrMessage
	}
	if err := rec.Decode(data[1:]); err != nil {
		return err
	}
	tx.Arrive(c.Hasher.URLKey(rec.URL), state.PlaceStar)
	check := c.budgets.CheckOf(&rec, data[1:])
	check.Again = data[0] == 1
	return c.budgets.CheckAll(tx, []star.CheckTuple{check})
}

// arriveOrder takes an enqueued URL. One that was fetched ends the record of its URL that comes. One that waits has a
// record, which goes to RobotsCache as if the URL was enqueued here.
func (c *crawler) arriveOrder(data []byte, tx *account.Tx) error {
	if len(data) == 0 {
		return cluster.ErrMessage
	}
	order, err := state.DecodeOrder(data[1:])
	if err != nil {
		return err
	}
	if order.Done {
		c.orders.Arrive(order)
		return nil
	}
	if sent, err := c.node.SendOrder(order); sent || err != nil { // its slot has moved on meanwhile
		return err
	}
	var rec weburl.Record
	data, order.Visits = order.Visits, nil
	if err := rec.Decode(data); err != nil {
		return err
	}
	began := c.orders.Arrive(order)
	switch {
	case order.Own:
		tx.Arrive(order.Key, state.PlaceRobotsCheck)
	case began:
		tx.EnterOrder(order.Key, state.PlaceRobotsCheck)
	default:
		return nil // the order that was begun here has a record
	}
	if began {
		tx.Count(state.CountEnqueuedMoved, 1)
		if err := c.operator.NoteOrdered(order.Key); err != nil {
			return err
		}
	}
	return c.check.CheckRobots(tx, data, &rec, state.PlaceRobotsCheck)
}
