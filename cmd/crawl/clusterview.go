package crawl

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"drumbeat/crawl"
	"drumbeat/internal/human"
	"drumbeat/state/snapshot"
)

// pairLines bounds the other nodes of a cluster that progress and summary list: those for which most waits.
const pairLines = 8

// brokerText says whether a node of a cluster is connected to the broker.
func brokerText(s *crawl.Snapshot) string {
	c := &s.Cluster
	text := fmt.Sprintf("node %d of %d, connected to the broker", c.Node, c.Nodes)
	if !c.Connected {
		text = fmt.Sprintf("node %d of %d, without the broker for %s", c.Node, c.Nodes,
			human.Duration(s.Time.Sub(c.Since)))
	}
	if c.Connects > 1 {
		text += fmt.Sprintf(" (connection %d of this run)", c.Connects)
	}
	if c.PagesLeft > 0 {
		text += fmt.Sprintf("; may fetch %s (--max-pages)",
			human.Counted(c.PagesLeft, "more page", "more pages"))
	}
	return text
}

// leaseText says which networks a node may visit, "" if the nodes share them.
func leaseText(s *crawl.Snapshot) string {
	l, n := &s.Cluster.Leases, humanize.Comma
	if !l.On {
		return ""
	}
	text := fmt.Sprintf("visits %s, waits for %s", human.Counted(l.Held, "network", "networks"),
		n(int64(l.Wanted)))
	if l.Wanted > 0 {
		text += fmt.Sprintf(" (for up to %s)", human.Duration(l.Longest))
	}
	if l.URLs > 0 {
		text += fmt.Sprintf(" with %s", human.Counted(l.URLs, "URL", "URLs"))
	}
	if text += fmt.Sprintf("; %s acquired, %s handed over", human.Counted(l.Taken, "lease", "leases"),
		n(l.HandedOver)); l.Lost > 0 {
		text += fmt.Sprintf(", %s lost", n(l.Lost))
	}
	if l.Refused > 0 {
		text += fmt.Sprintf(", %s refused by the broker for lack of room (--cluster-leases)", n(l.Refused))
	}
	if l.Unreadable > 0 {
		text += fmt.Sprintf(", %s unreadable", n(l.Unreadable))
	}
	switch {
	case l.Starting:
		text += "; fetches nothing yet: the other nodes must hear from it first"
	case l.Resting:
		text += "; fetches nothing: the other nodes have not heard from it for too long"
	case l.Guarded:
		text += "; new networks wait until all nodes have claimed theirs"
	}
	return text
}

// pairTexts describes the exchange with other nodes, a line each.
func pairTexts(s *crawl.Snapshot) (lines []string) {
	n := humanize.Comma
	pairs := slices.Clone(s.Cluster.Pairs)
	slices.SortStableFunc(pairs, func(a, b snapshot.Pair) int { return int(min(1, max(-1, b.Waiting-a.Waiting))) })
	for _, p := range pairs[:min(len(pairs), pairLines)] {
		text := fmt.Sprintf("node %d: %s of %s", p.Node, n(p.Waiting),
			human.Counted(p.Added, "record waits", "records wait"))
		if p.Abandoned {
			word := "abandoned"
			if p.Departed {
				word = "departed"
			}
			lines = append(lines,
				fmt.Sprintf("node %d: %s; %s of %s for it dropped; %s received from it",
					p.Node, word, n(p.Dropped), human.Counted(p.Added, "record", "records"),
					human.Counted(p.Taken, "record", "records")))
			continue
		}
		if p.Waiting > 0 {
			text += ", " + human.Bytes(p.WaitingBytes)
		}
		if p.Stalled > 0 {
			text += ", none received for " + human.Duration(p.Stalled)
		}
		text += fmt.Sprintf("; %s published", human.Counted(p.Published, "message", "messages"))
		if p.Resends > 0 {
			text += fmt.Sprintf(", all published again %s", human.Counted(p.Resends, "time", "times"))
		}
		text += fmt.Sprintf("; %s received from it", human.Counted(p.Taken, "record", "records"))
		if p.Holes > 0 {
			text += fmt.Sprintf(", gaps found %s", human.Counted(p.Holes, "time", "times"))
		}
		if p.Held {
			text += "; nothing is sent to it, because its version is older"
		}
		if p.Quarantined > 0 {
			text += fmt.Sprintf("; %s of its messages in quarantine", n(p.Quarantined))
		}
		if p.RefusedMessages > 0 {
			text += fmt.Sprintf("; %s of its messages refused", n(p.RefusedMessages))
		}
		if p.RefusedMarks > 0 {
			text += fmt.Sprintf("; %s of its marks refused", n(p.RefusedMarks))
		}
		lines = append(lines, text)
	}
	if more := len(pairs) - pairLines; more > 0 {
		lines = append(lines, fmt.Sprintf("%s with fewer waiting records",
			human.Counted(more, "more node", "more nodes")))
	}
	return lines
}

// clusterFields are the fields of a progress line in the log.
func clusterFields(s *crawl.Snapshot) (fields []any) {
	c := &s.Cluster
	if c.Nodes == 0 {
		return nil
	}
	records, bytes, slowest := c.Waiting()
	fields = append(fields, "records_wait", records, "records_wait_bytes", bytes)
	if records > 0 {
		fields = append(fields, "most_wait_for_node", slowest)
	}
	if !c.Connected {
		fields = append(fields, "broker_away", short(s.Time.Sub(c.Since)))
	}
	if l := &c.Leases; l.On {
		fields = append(fields, "networks_held", l.Held, "networks_wanted", l.Wanted)
		if l.Wanted > 0 {
			fields = append(fields, "longest_wait", short(l.Longest), "urls_wait_for_networks", l.URLs)
		}
		if l.Resting {
			fields = append(fields, "rests", true)
		}
	}
	return fields
}
