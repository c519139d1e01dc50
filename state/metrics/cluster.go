package metrics

import (
	"strconv"

	"drumbeat/state/snapshot"
)

// cluster returns the metrics of a node of a cluster. Those of pairs have the other node as their label.
func cluster() []Metric {
	list := []Metric{
		gauge("broker_connected", "", "1 while a node of a cluster is connected to the broker, otherwise 0",
			func(s *snap) float64 {
				return flag(s.Cluster.Connected)
			}),
		gauge("broker_away_seconds", "seconds", "How long a node of a cluster has been without the broker",
			func(s *snap) float64 {
				if s.Cluster.Nodes == 0 || s.Cluster.Connected {
					return 0
				}
				return s.Time.Sub(s.Cluster.Since).Seconds()
			}),
		gauge("broker_connections", "", "Connections to the broker in this run",
			func(s *snap) float64 { return float64(s.Cluster.Connects) }),
		gauge("cluster_nodes", "", "Nodes of the cluster; 0 for a crawl of one node",
			func(s *snap) float64 { return float64(s.Cluster.Nodes) }),
		gauge("cluster_idle", "", "1 while a node of a cluster only waits for others, by its last checkpoint",
			func(s *snap) float64 {
				return flag(s.Cluster.Idle)
			}),
		gauge("pages_left", "", "Pages that a node of a cluster may fetch until --max-pages",
			func(s *snap) float64 { return float64(s.Cluster.PagesLeft) }),
		gauge("leases_held", "", "Networks that this node of a cluster may visit now",
			func(s *snap) float64 { return float64(s.Cluster.Leases.Held) }),
		gauge("leases_wanted", "", "Networks that this node waits for, since another visits them",
			func(s *snap) float64 { return float64(s.Cluster.Leases.Wanted) }),
		gauge("leases_longest_wait_seconds", "seconds", "How long this node has waited for one of them",
			func(s *snap) float64 { return s.Cluster.Leases.Longest.Seconds() }),
		gauge("leases_waiting_urls", "", "URLs that wait for such networks, in RAM and on disk",
			func(s *snap) float64 { return float64(s.Cluster.Leases.URLs) }),
		gauge("leases_taken", "", "Leases of networks that this node got in this run",
			func(s *snap) float64 { return float64(s.Cluster.Leases.Taken) }),
		gauge("leases_handed_over", "", "Leases that this node handed to another one in this run",
			func(s *snap) float64 { return float64(s.Cluster.Leases.HandedOver) }),
		gauge("leases_lost", "", "Leases that this node found in other hands in this run",
			func(s *snap) float64 { return float64(s.Cluster.Leases.Lost) }),
		gauge("leases_room_used_bytes", "bytes", "What the broker uses for leases of networks",
			func(s *snap) float64 { return float64(s.Cluster.Leases.RoomBytes) }),
		gauge("leases_room_bytes", "bytes", "What the broker may use for leases of networks; 0 while that is unknown",
			func(s *snap) float64 { return float64(s.Cluster.Leases.RoomLimit) }),
		gauge("leases_refused", "", "Leases that the broker had no room for in this run; each is asked for again",
			func(s *snap) float64 { return float64(s.Cluster.Leases.Refused) }),
		gauge("leases_collected", "", "Leases of ended and killed processes that this node deleted in this run",
			func(s *snap) float64 { return float64(s.Cluster.Leases.Collected) }),
		gauge("leases_unreadable", "", "Leases whose value this node could not read in this run",
			func(s *snap) float64 { return float64(s.Cluster.Leases.Unreadable) }),
		gauge("leases_replaced", "", "Of these, leases that this node took after --cluster-lease",
			func(s *snap) float64 { return float64(s.Cluster.Leases.Replaced) }),
		gauge("leases_guarded", "", "1 while new leases wait until all nodes have claimed theirs",
			func(s *snap) float64 { return flag(s.Cluster.Leases.Guarded) }),
		gauge("leases_resting", "", "1 while nothing is fetched because other nodes have not heard of this one",
			func(s *snap) float64 { return flag(s.Cluster.Leases.Resting) }),
		gauge("leases_starting", "", "1 while that is so since the start of the process",
			func(s *snap) float64 { return flag(s.Cluster.Leases.Starting) }),
	}
	for _, row := range []struct {
		name, help, unit string
		kind             Kind
		v                func(p *snapshot.Pair) float64
	}{
		{"pair_added_records_total", "Links and edges for another node", "", Counter,
			func(p *snapshot.Pair) float64 { return float64(p.Added) }},
		{"pair_taken_records_total", "Links and edges taken from another node", "", Counter,
			func(p *snapshot.Pair) float64 { return float64(p.Taken) }},
		{"pair_waiting_records", "Links and edges that another node does not have for good", "", Gauge,
			func(p *snapshot.Pair) float64 { return float64(p.Waiting) }},
		{"pair_waiting_bytes", "Bytes of them", "bytes", Gauge,
			func(p *snapshot.Pair) float64 { return float64(p.WaitingBytes) }},
		{"pair_stalled_seconds", "How long another node has taken none of them", "seconds", Gauge,
			func(p *snapshot.Pair) float64 { return p.Stalled.Seconds() }},
		{"pair_published", "Messages published for another node in this run", "", Gauge,
			func(p *snapshot.Pair) float64 { return float64(p.Published) }},
		{"pair_resends", "How often all messages under way were published again in this run", "", Gauge,
			func(p *snapshot.Pair) float64 { return float64(p.Resends) }},
		{"pair_holes", "How often messages of another node were missing in this run", "", Gauge,
			func(p *snapshot.Pair) float64 { return float64(p.Holes) }},
		{"pair_quarantined_messages",
			"Messages of another node that this version cannot read, kept in quarantine", "", Gauge,
			func(p *snapshot.Pair) float64 { return float64(p.Quarantined) }},
		{"pair_refused_messages", "Messages of another node that were refused, in this run", "", Gauge,
			func(p *snapshot.Pair) float64 { return float64(p.RefusedMessages) }},
		{"pair_refused_marks", "Marks of another node that were refused, in this run", "", Gauge,
			func(p *snapshot.Pair) float64 { return float64(p.RefusedMarks) }},
		{"pair_held", "1 while nothing is sent to another node, because it does not read the messages of this version",
			"", Gauge,
			func(p *snapshot.Pair) float64 { return flag(p.Held) }},
	} {
		list = append(list, Metric{Name: row.name, Help: row.help, Unit: row.unit, Kind: row.kind, Label: "node",
			each: func(s *snap, f emit) {
				for i := range s.Cluster.Pairs {
					f(strconv.Itoa(s.Cluster.Pairs[i].Node), row.v(&s.Cluster.Pairs[i]))
				}
			}})
	}
	return list
}
