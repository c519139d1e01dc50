package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status describes a node to people, in the value "status.<node>" of BucketCrawl. The crawl uses one field:
// it lends no pages to a node that has Ended. A node writes its status every StatusEvery, and when it ends.
type Status struct {
	Form
	Node    int       `json:"node"`
	Time    time.Time `json:"time"` // by the node's clock
	Host    string    `json:"host,omitempty"`
	Version string    `json:"version,omitempty"`
	Config  string    `json:"config,omitempty"` // Config.Digest of the node
	Ended   string    `json:"ended,omitempty"`  // why its run has ended; "" while it runs

	Pages          int64   `json:"pages"` // of all runs
	PagesPerSecond float64 `json:"pagesPerSecond"`
	PagesLeft      int64   `json:"pagesLeft,omitempty"` // of its part of --max-pages
	Queued         int64   `json:"queued"`              // URLs that have not ended
	// Of them, URLs in its queues that it still has to look at: some may belong to slots that have left.
	Unsifted  int64  `json:"marked,omitempty"`
	Idle      bool   `json:"idle,omitempty"`   // it only waits for the others
	Waits     string `json:"waits,omitempty"`  // the reason why fetching waits
	Paused    bool   `json:"paused,omitempty"` // by the operator or for disk space
	DiskUsed  int64  `json:"diskUsed"`
	DiskLimit int64  `json:"diskLimit"`

	Checkpoint uint64    `json:"checkpoint"` // number of the last one
	Saved      time.Time `json:"saved,omitzero"`

	Waiting      int64  `json:"waiting"` // records that other nodes have not made durable
	WaitingBytes int64  `json:"waitingBytes"`
	Slowest      int    `json:"slowest,omitempty"` // the node with the largest backlog, if any
	Connects     uint64 `json:"connects"`          // connections to the broker in this run
	Abandoned    []int  `json:"givenUp,omitempty"` // nodes that it has abandoned, and those that have departed
	// Broker says that the process of the node runs a broker (--cluster embed).
	Broker bool `json:"broker,omitempty"`
	// Nodes that take part no more by the table of owners: others have their slots.
	Departed []int `json:"departed,omitempty"`

	Quarantined int64 `json:"quarantined,omitempty"` // unreadable messages of other nodes that it keeps
	// Messages and marks of other nodes that it has refused in this run.
	Refused int64 `json:"refused,omitempty"`

	// Orders of the cluster (Order) that it has taken, and those that it could not carry out, with a reason.
	Orders        int    `json:"orders,omitempty"`
	OrdersWaiting int    `json:"ordersWaiting,omitempty"`
	OrderWhy      string `json:"orderWhy,omitempty"`
	// GiveWhy says why this node cannot give its slots though other nodes have given theirs.
	GiveWhy string `json:"giveWhy,omitempty"`

	// The condition of the node, by its own judgement (state/condition); "" of a node older than the fields.
	State string `json:"state,omitempty"`
	Level string `json:"level,omitempty"`
	Text  string `json:"text,omitempty"`

	// The node does not run yet: drumbeat cluster replace waits for the others.
	Replacing bool `json:"replacing,omitempty"`

	Leases *LeaseStatus `json:"leases,omitempty"` // nil: the nodes share networks, or the node is older than the field
}

// LeaseStatus describes a node's leases of networks.
type LeaseStatus struct {
	Held       int     `json:"held" doc:"Networks that the node may visit now."`
	Wanted     int     `json:"wanted" doc:"Networks that the node waits for."`
	Longest    float64 `json:"longest,omitempty" doc:"Longest wait for one of them, in seconds."`
	URLs       int64   `json:"urls" doc:"URLs that wait for them, in RAM and on disk."`
	Taken      int64   `json:"taken" doc:"Leases acquired in this run."`
	HandedOver int64   `json:"handedOver" doc:"Leases handed to another node in this run."`
	Lost       int64   `json:"lost" doc:"Leases that other nodes took from it in this run, after too long a silence."`
	Resting    bool    `json:"resting,omitempty" doc:"It fetches nothing: its heartbeats do not arrive."`
	Starting   bool    `json:"starting,omitempty" doc:"It has not fetched since its start, for that reason."`
}

// StatusEvery is the interval of a node's status. A node without a status for StatusOld is missing.
const (
	StatusEvery = 10 * time.Second
	StatusOld   = time.Minute
)

// StatusPattern matches the keys of all statuses.
const StatusPattern = "status.*"

// StatusKey returns the key of a node's status.
func StatusKey(node int) string { return "status." + strconv.Itoa(node) }

// maxStatusBytes bounds a status: its texts are short.
const maxStatusBytes = 16 << 10

// Encode returns the value of the status.
func (st *Status) Encode() ([]byte, error) {
	data, err := json.Marshal(st)
	if err == nil && len(data) > maxStatusBytes {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: status of node %d: %w", st.Node, err)
	}
	return data, nil
}

// DecodeStatus decodes the value of a key in a cluster of nodes. The value is untrusted.
func DecodeStatus(key string, data []byte, nodes int) (*Status, error) {
	if len(data) > maxStatusBytes {
		return nil, fmt.Errorf("cluster: %s: %w", key, ErrTooLarge)
	}
	var st Status
	if err := json.Unmarshal(data, &st); err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", key, err)
	}
	if err := st.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	number, err := strconv.Atoi(strings.TrimPrefix(key, "status."))
	if err != nil || number != st.Node || st.Node < 0 || st.Node >= nodes {
		return nil, fmt.Errorf("cluster: %s is not the status of one of %d nodes", key, nodes)
	}
	for _, other := range slices.Concat(st.Abandoned, st.Departed) {
		if other < 0 || other >= nodes {
			return nil, fmt.Errorf("cluster: %s abandons node %d of %d", key, other, nodes)
		}
	}
	return &st, nil
}

// Heard reports whether the node's status is recent, or says that the node has ended.
func (st *Status) Heard(now time.Time) bool { return st.Ended != "" || now.Sub(st.Time) < StatusOld }

// Overview sums up the statuses of all nodes.
type Overview struct {
	Pages          int64   `json:"pages"`
	PagesPerSecond float64 `json:"pagesPerSecond"`
	Queued         int64   `json:"queued"`
	Waiting        int64   `json:"waiting" doc:"Records that other nodes have not made durable."`
	Missing        []int   `json:"missing" doc:"Nodes without a status in the last minute, except abandoned ones."`
	Abandoned      []int   `json:"givenUp,omitempty" doc:"Abandoned nodes: the others continue without them."`
	Departed       []int   `json:"departed,omitempty" doc:"Of them, nodes whose slots others have."`
	Fullest        int     `json:"fullest" doc:"Node with the fullest disk, by its own --disk; -1 if unknown."`
	FullestShare   float64 `json:"fullestShare" doc:"Used share of its --disk."`
	Configs        int     `json:"configs" doc:"Different configurations; more than 1 if nodes lack a reload."`
}

// Summarize adds up the statuses of all nodes, by number; nil for a node that has not reported.
func Summarize(list []*Status, now time.Time) Overview {
	o := Overview{Missing: []int{}, Fullest: -1}
	configs := map[string]bool{}
	for _, st := range list {
		if st != nil {
			o.Abandoned = append(o.Abandoned, st.Abandoned...)
			o.Departed = append(o.Departed, st.Departed...)
		}
	}
	slices.Sort(o.Abandoned)
	o.Abandoned = slices.Compact(o.Abandoned)
	slices.Sort(o.Departed)
	o.Departed = slices.Compact(o.Departed)
	for node, st := range list {
		if (st == nil || !st.Heard(now)) && !slices.Contains(o.Abandoned, node) {
			o.Missing = append(o.Missing, node)
		}
		if st == nil {
			continue
		}
		o.Pages += st.Pages
		o.Queued += st.Queued
		o.Waiting += st.Waiting
		if st.Ended == "" && st.Heard(now) {
			o.PagesPerSecond += st.PagesPerSecond
		}
		if st.Config != "" {
			configs[st.Config] = true
		}
		if share := float64(st.DiskUsed) / float64(max(1, st.DiskLimit)); st.DiskLimit > 0 &&
			(o.Fullest < 0 || share > o.FullestShare) {
			o.Fullest, o.FullestShare = node, share
		}
	}
	o.Configs = len(configs)
	return o
}
