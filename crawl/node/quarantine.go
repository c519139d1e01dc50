package node

import (
	"bytes"
	"cmp"
	"errors"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// The quarantine keeps messages of other nodes with unreadable records: of an unknown kind or form, or with
// other sums than those of the header. A resend would bring the same bytes, and the pair would stop. So the
// message counts as taken, and the transaction puts it into the queue "quarantine". Its sender drops it like
// any other. At each start, the node tries all of them again: a later release may read them.
//
// A loan of pages is credited at once, since the parts of the limit of pages must add up over all nodes.

// quarantineMost bounds the quarantine: some 6,000 messages of 40 KiB. When it is full, unreadable messages
// wait at their senders, and so do all later messages of these senders.
const quarantineMost = 256 << 20

// quarantineMessage puts a message that is unreadable, because of why, into the quarantine. life is the incarnation of
// its node.
func (s *intake) quarantineMessage(msg *cluster.Message, h *cluster.Header, life uint64, why error) error {
	_, used := s.quarantine.Len()
	full := used+int64(len(msg.Data)) > cmp.Or(s.opt.QuarantineBytes, quarantineMost)
	s.stuck[h.From] = full
	links, edges := h.After.Links.N-h.Before.Links.N, h.After.Edges.N-h.Before.Edges.N
	pages := s.decoder.Pages(msg.Data, h)
	if full {
		pages = 0
	}
	if pages > 0 {
		defer s.morePages()
	}
	kind := logQuarantined
	if full {
		kind = logQuarantineFull
	}
	if s.doubts.refuse(h.From, kind, false) {
		text := "a message from another node is in quarantine: this version cannot read it; see " +
			"docs/howto/cluster/refused.md"
		if full {
			text = "the quarantine is full: a message that this version cannot read, and all later ones, " +
				"wait at their node"
		}
		s.opt.Log.Error(text, "node", h.From, "message", h.Number, "links", links, "edges", edges, "error", why)
	}
	return s.run.Transact(func(tx *account.Tx) error {
		s.in.Seq = msg.Seq
		if full || s.in.IncarnationOf(h.From) != life {
			tx.Nothing = true
			return nil
		}
		s.noteTaken(h)
		s.quarantined[h.From].Add(1)
		tx.Count(state.CountPagesBorrowed, pages)
		return s.quarantine.Append(msg.Data)
	})
}

// retryQuarantine tries each message of the quarantine again, and takes the readable ones. It belongs to the
// goroutine "intake".
func (s *intake) retryQuarantine() error {
	n, _ := s.quarantine.Len()
	var taken, left int64
	for range n {
		msg, ok, err := s.quarantine.Peek()
		if err != nil || !ok {
			return err
		}
		data := bytes.Clone(msg)
		h, bad := cluster.ReadHeader(data)
		if bad == nil {
			s.reset(h.From)
			bad = s.decoder.Records(data, &h, s.inlet)
		}
		if bad == nil {
			var later bool
			if later, bad = s.tables.begins(s.inlet, h.From); later || bad == nil && !s.endsKnown(h.From) {
				bad = cluster.ErrMessage
			}
		}
		if bad != nil && !errors.Is(bad, cluster.ErrMessage) {
			return bad
		}
		if err := s.run.Transact(func(tx *account.Tx) error {
			s.quarantine.Advance()
			if bad != nil {
				return s.quarantine.Append(data)
			}
			s.inlet.Lent = 0 // already credited
			if err := s.tables.take(s.inlet, h.From, tx); err != nil {
				return err
			}
			return s.takeLinks(s.inlet, tx)
		}); err != nil {
			return err
		}
		if bad == nil {
			taken++
		} else if left++; h.From < s.opt.nodes() {
			s.quarantined[h.From].Add(1)
		}
	}
	if n > 0 {
		s.opt.Log.Warn("retried the messages in quarantine; see docs/howto/cluster/refused.md", "taken", taken,
			"still unreadable", left)
	}
	return nil
}

// endsKnown reports whether each end of slots in the message of the inlet has its begin, there or before. The change of
// a message that was in quarantine may be over.
func (s *intake) endsKnown(from int) bool {
	c := s.tables.arriving().change
	for i := range s.inlet.Parts {
		switch p := &s.inlet.Parts[i]; p.Kind {
		case cluster.MovedBegin:
			c, _, _ = cluster.DecodeTableChange(p.Data) // begins has checked it
		case cluster.MovedEnd:
			if change, _, _, err := cluster.MovedEndOf(p.Data); err != nil || !ends(c, change, from) {
				return false
			}
		}
	}
	return true
}

// ends reports whether a change has this number, and a node gives slots by it.
func ends(c *cluster.TableChange, change uint64, giver int) bool {
	return c != nil && uint64(c.Moves) == change && c.Gives(giver)
}
