package metrics

import (
	"fmt"
	"strings"
	"time"

	"drumbeat/state/snapshot"
)

// value is a metric of one value for a crawl, a directory or a pair of nodes. The name says the kind and the unit
// (TestNames).
type value struct {
	name, help string
	v          any // an integer, a float64 for fractions, a bool for 0 or 1, a time or a duration in seconds
}

// ofCrawl returns the values of the crawl.
func ofCrawl(s *snap) []value {
	return []value{
		{"unique_urls_total", "URLs found", s.Unique},
		{"runs_total", "Starts of the program", s.Runs},
		{"active_seconds_total", "Running time of the crawl", s.Active},
		{"beast_scans_total", "Scans of QF, the URLs over budget", s.Scans},
		{"disk_read_bytes_total", "Bytes read from disk, of this run", s.DiskRead},
		{"disk_written_bytes_total", "Bytes written to disk, of this run", s.DiskWritten},
		{"urlseen_passes_total", "Passes of URLseen, of this run", s.URLSeenPasses},
		{"urlseen_full_passes_total", "Passes over full buckets of URLseen, of this run", s.URLSeenFullPasses},
		{"slot_samples_total", "Samples of the use of connection slots, of this run", s.Slots.Samples},
		{"starved_slot_samples_total", "Samples with no URL in RAM while BEAST had more than the target of " +
			"URLs ahead of fetching, of this run", s.Slots.Starved},
		{"adaptive_delay_steps_total",
			"Steps by which host delays were shortened (--adaptive-delay), of this run", s.DelaySteps},
		{"adaptive_delay_resets_total", "Hosts that returned to their base delay after a sign of strain, of this run",
			s.DelayResets},
		{"history_errors_total", "Samples that the history lost, of this run", s.HistoryErrors},
		{"deferred_late_seconds", "Time since the first deferred URL was due; 0 if none is due",
			s.DeferredLate},
		{"visits_late_seconds", "Time since the first visit was due (--recrawl); 0 if none is due",
			s.VisitsLate},
		{"run_seconds", "Time since the start of this run", s.Elapsed},
		{"unique_ratio", "Unique URLs per link that passed all filters, the paper's p", s.UniqueShare},
		{"peak_pages_per_second", "Highest ten-minute mean of pages per second", s.Peak.Pages},
		{"peak_received_bytes_per_second", "Highest ten-minute mean of bytes received per second", s.Peak.Bits / 8},
		{"hosts", "Distinct hosts found, estimated", s.Hosts},
		{"servers", "Distinct addresses resolved, estimated", s.Servers},
		{"hosts_answered", "Distinct hosts that answered, estimated", s.HostsAnswered},
		{"servers_answered", "Distinct addresses that answered, estimated", s.ServersAnswered},
		{"plds_answered", "Distinct PLDs that answered, estimated", s.PLDsAnswered},
		{"plds", "Nodes of the PLD graph", s.PLDs},
		{"pld_edges", "Edges of the PLD graph", s.Edges},
		{"supporters_computed_timestamp_seconds",
			"Unix time of the last computation for --budget supporters; 0 before the first", s.Supporters},
		{"supporters_computation_seconds", "Duration of the last computation for --budget supporters",
			s.SupportersTook},
		{"trap_hosts", "Hosts that may use only a part of their PLD's budget (--budget traps)", s.TrapHosts},
		{"levels_forgotten_total", "Times that the level of a host or directory had no room in RAM, so that it may " +
			"count as one without links, of this run (--budget hosts or directories)", s.LevelsForgotten},
		{"hosts_in_ram", "Hosts with URLs in RAM or remembered delays", s.HostsInRAM},
		{"adaptive_delay_hosts", "Hosts in RAM with a delay below their base delay (--adaptive-delay)",
			s.AdaptedHosts},
		{"least_host_gap_seconds", "Smallest time from the end of an exchange with a host to the next request to it, " +
			"of this run; 0 before the second request", s.LeastHostGap},
		{"least_server_gap_seconds", "Smallest time between the starts of two requests to an address, of this run; 0 " +
			"before the second request", s.LeastServerGap},
		{"exchanges", "Exchanges under way", s.InFlight},
		{"connections_limit", "Connections allowed now", s.Connections},
		{"robots_exchanges", "Requests for robots.txt under way", s.RobotsInFlight},
		{"robots_queued", "Requests for robots.txt that wait", s.RobotsQueued},
		{"beast_queue", "Number of the current queue of BEAST", s.Queue},
		{"beast_horizon", "Number of queues of BEAST ahead of the current one", s.Horizon},
		{"paused", "1 while fetching pauses for the operator or for disk space", s.Paused},
		{"asks_for_br", "1 while requests ask for br by the choice of --accept-encoding auto", s.AsksForBrotli},
		{"outage", "1 while the network or the name servers fail", s.Outage},
		{"checkpoint_timestamp_seconds", "Unix time of the last checkpoint of this run", s.Checkpoint.When},
		{"saved_timestamp_seconds", "Unix time at which the crawl last had the state of the last checkpoint", s.Saved},
		{"checkpoint_interval_seconds", "Interval of checkpoints", s.CheckpointEvery},
		{"checkpoint_bytes", "Bytes that the last checkpoint wrote", s.Checkpoint.Bytes},
		{"checkpoint_slowest_transaction_seconds", "Longest transaction during the last checkpoint",
			s.Checkpoint.Stall},
	}
}

// ofStructures returns the values of the structures, RAM, disk and outputs.
func ofStructures(s *snap) []value {
	return []value{
		{"urlseen_keys", "Keys in URLseen", s.URLSeenKeys},
		{"urlseen_link_io_bytes", "Disk I/O of URLseen per link, measured", s.Seen.Bytes},
		{"urlseen_link_io_predicted_bytes", "Disk I/O of URLseen per link, predicted", s.Seen.Predicted},
		{"urlseen_text_ratio", "Compression of the texts of links in URLseen, of this run", s.Seen.TextRatio},
		{"disk_pages_per_second", "Pages per second that the disks can sustain, measured", s.Seen.DiskRate},
		{"disk_predicted_pages_per_second",
			"Pages per second that the disks can sustain, predicted", s.Seen.PredictedDiskRate},
		{"ram_limit_bytes", "Limit of the RAM of the process", s.RAM.Limit},
		{"ram_used_bytes", "Resident memory of the process", s.RAM.Used},
		{"disk_limit_bytes", "Limit of the crawl's files", s.Disk.Limit},
		{"disk_used_bytes", "Size of the crawl's files", s.Disk.Used},
		{"backup_number", "Number of the newest backup; 0: none, or no --backup", s.Backup.Number},
		{"backup_timestamp_seconds", "Unix time of the checkpoint of the newest backup", s.Backup.Time},
		{"backup_copied_bytes", "Bytes that the backups of this run have copied", s.Backup.Copied},
		{"backup_held_files", "Files that the backup under way keeps from being deleted", s.Backup.Held},
		{"backup_failing", "1 while backups fail", min(1, len(s.Backup.Failing))},
		{"backup_late", "1 if the crawl has changed since a backup older than twice --backup-every", s.Backup.Late},
		{"backup_faults", "Failed attempts to make a backup in this run", s.Backup.Faults},
		{"store_objects", "Files in the object store as of the last checkpoint (--out s3://…)", s.Uploads.Objects},
		{"store_files", "Files that the object store accepted in this run", s.Uploads.Files},
		{"store_bytes", "Bytes of the files that the object store accepted in this run", s.Uploads.Bytes},
		{"store_waiting_files", "Finished WARC files and logs that wait for the object store", s.Uploads.Waiting},
		{"store_waiting_bytes",
			"Bytes of finished WARC files and logs that wait for the object store; fetching pauses above --spool",
			s.Uploads.WaitingBytes},
		{"store_failing", "1 while the object store accepts no file", min(1, len(s.Uploads.Failing))},
		{"store_faults", "Failed attempts to put a file into the object store in this run", s.Uploads.Faults},
		{"texts_parts", "Parts of texts made in this run (--extract)", s.Texts.Parts},
		{"texts_pages", "Pages in parts of texts made in this run (--extract)", s.Texts.Pages},
		{"texts_waiting_files", "Finished WARC files without a part of texts (--extract)", s.Texts.Waiting},
		{"texts_faults", "Failed attempts at parts of texts and damaged records in this run", s.Texts.Faults},
	}
}

// ofCluster returns the values of a node of a cluster.
func ofCluster(s *snap) []value {
	l, away := &s.Cluster.Leases, time.Duration(0)
	if s.Cluster.Nodes > 0 && !s.Cluster.Connected {
		away = s.Time.Sub(s.Cluster.Since)
	}
	return []value{
		{"broker_connected", "1 while a node of a cluster is connected to the broker, otherwise 0",
			s.Cluster.Connected},
		{"broker_away_seconds", "How long a node of a cluster has been without the broker", away},
		{"broker_connections", "Connections to the broker in this run", s.Cluster.Connects},
		{"broker_losses", "How often the broker had lost values in this run, such as those of lost files", l.Losses},
		{"cluster_nodes", "Nodes of the cluster; 0 for a crawl of one node", s.Cluster.Nodes},
		{"cluster_orders", "Orders to all nodes (blocked and unblocked rules, erasures) that the node has",
			s.Cluster.Orders.Taken},
		{"cluster_orders_waiting", "Orders of other nodes that this one could not carry out yet",
			s.Cluster.Orders.Waiting},
		{"cluster_idle", "1 while a node of a cluster only waits for others, by its last checkpoint", s.Cluster.Idle},
		{"pages_left", "Pages that a node of a cluster may fetch until --max-pages", s.Cluster.PagesLeft},
		{"leases_held", "Networks that this node of a cluster may visit now", l.Held},
		{"leases_wanted", "Networks that this node waits for because another node visits them", l.Wanted},
		{"leases_longest_wait_seconds", "Longest wait of this node for a network that another node visits", l.Longest},
		{"leases_waiting_urls", "URLs that wait for networks that other nodes visit, in RAM and on disk", l.URLs},
		{"leases_taken", "Leases of networks that this node got in this run", l.Taken},
		{"leases_handed_over", "Leases that this node handed to another one in this run", l.HandedOver},
		{"leases_lost", "Leases that this node lost to another one in this run", l.Lost},
		{"leases_room_used_bytes", "Bytes that the broker uses for leases of networks", l.RoomBytes},
		{"leases_room_bytes", "Bytes that the broker may use for leases of networks; 0 while unknown", l.RoomLimit},
		{"leases_refused", "Leases that the broker had no room for in this run; each is asked for again", l.Refused},
		{"leases_collected", "Leases of ended and killed processes that this node deleted in this run", l.Collected},
		{"leases_unreadable", "Leases whose value this node could not read in this run", l.Unreadable},
		{"leases_replaced", "Unreadable leases that this node replaced after --cluster-lease", l.Replaced},
		{"leases_guarded", "1 while new leases wait until all nodes have claimed theirs", l.Guarded},
		{"leases_resting", "1 while nothing is fetched because other nodes have not heard from this one", l.Resting},
		{"leases_starting",
			"1 while nothing has been fetched since the start because other nodes have not heard from this one",
			l.Starting},
	}
}

// ofDir returns the values of a directory.
func ofDir(d *snapshot.Dir) []value {
	return []value{
		{"dir_read_bytes_total", "Bytes read from a directory, of this run", d.ReadBytes},
		{"dir_written_bytes_total", "Bytes written to a directory, of this run", d.WrittenBytes},
		{"dir_reading_seconds_total", "Time in which a read of a directory was under way, of this run", d.Reading},
		{"dir_writing_seconds_total",
			"Time in which a write or sync of a directory was under way, of this run", d.Writing},
		{"dir_busy_seconds_total", "Time in which a read, write or sync of a directory was under way, of this run",
			d.Busy},
		{"dir_free_bytes", "Free space of the file system of a directory", d.Free},
		{"dir_size_bytes", "Size of the file system of a directory", d.Total},
		{"dir_free_files", "Files that the file system of a directory can still create", d.FreeFiles},
		{"dir_keep_free_bytes", "Free space of a directory below which fetching pauses", d.KeepFree},
		{"dir_slow", "1 while the disk of a directory is far slower than the others, otherwise 0", d.Slow != ""},
	}
}

// ofPair returns the values of the exchange with another node.
func ofPair(p *snapshot.Pair) []value {
	return []value{
		{"pair_added_records_total", "Links and edges for another node", p.Added},
		{"pair_taken_records_total", "Links and edges received from another node", p.Taken},
		{"pair_waiting_records", "Links and edges that another node has not yet made durable", p.Waiting},
		{"pair_waiting_bytes", "Bytes of links and edges that another node has not yet made durable", p.WaitingBytes},
		{"pair_stalled_seconds", "How long another node has received none of them", p.Stalled},
		{"pair_silent_seconds", "How long another node, neither ended nor abandoned, has not reported, in this run",
			p.Silent},
		{"pair_published", "Messages published for another node in this run", p.Published},
		{"pair_resends", "How often all messages under way were published again in this run", p.Resends},
		{"pair_holes", "How often messages of another node were missing in this run", p.Holes},
		{"pair_quarantined_messages", "Messages of another node that this version cannot read, kept in quarantine",
			p.Quarantined},
		{"pair_refused_messages", "Messages of another node that were refused, in this run", p.RefusedMessages},
		{"pair_refused_marks", "Marks of another node that were refused, in this run", p.RefusedMarks},
		{"pair_held", "1 while nothing is sent to another node, because it does not read the next message for it",
			p.Held},
	}
}

// number returns what a metric shows for a value.
func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		return v
	case time.Duration:
		return v.Seconds()
	case time.Time:
		if v.IsZero() {
			return 0
		}
		return float64(v.UnixMilli()) / 1000
	case bool:
		if v {
			return 1
		}
		return 0
	}
	panic(fmt.Sprintf("BUG: a metric has a value of type %T", v))
}

// describe returns the metrics of values.
func describe(label string, values []value) (list []Metric) {
	for _, v := range values {
		m := Metric{Name: v.name, Help: v.help, Label: label, Kind: Gauge}
		base, total := strings.CutSuffix(v.name, "_total")
		if total {
			m.Kind = Counter
		}
		for _, unit := range []string{"bytes", "seconds"} {
			if strings.HasSuffix(base, "_"+unit) {
				m.Unit = unit
			}
		}
		_, m.fraction = v.v.(float64)
		list = append(list, m)
	}
	return list
}
