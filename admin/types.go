package admin

import (
	"time"

	"drumbeat/state/changes"
	"drumbeat/state/explain"
)

// Status is the state of the crawl.
type Status struct {
	Time         time.Time        `json:"time" doc:"When this was measured."`
	State        string           `json:"state" doc:"running, paused, draining, erasing, stopping or finished."`
	Reason       string           `json:"reason,omitempty" doc:"Why it finished: done, stopped, a limit, an error."`
	Version      string           `json:"version"`
	Crawl        string           `json:"crawl" doc:"Identity of the crawl."`
	Agent        string           `json:"agent" doc:"Product token of User-Agent."`
	Contact      string           `json:"contact"`
	Host         string           `json:"host" doc:"Name of this machine."`
	PID          int              `json:"pid"`
	Dirs         []string         `json:"dirs"`
	Started      time.Time        `json:"started" doc:"Start of this run."`
	CrawlStarted time.Time        `json:"crawlStarted,omitzero" doc:"Start of the first run; missing in older crawls."`
	Elapsed      float64          `json:"elapsed" doc:"Seconds of this run."`
	Active       float64          `json:"active" doc:"Seconds of all runs."`
	Health       Health           `json:"health"`
	Progress     Progress         `json:"progress"`
	Waiting      string           `json:"waiting" doc:"Reason why fetching waits; empty if connections are busy."`
	Limits       string           `json:"limits" doc:"Speed limits in force; empty for none."`
	Rates        Rates            `json:"rates"`
	Connections  Connections      `json:"connections"`
	DeferredLate float64          `json:"deferredLate" doc:"Seconds since the first deferred URL was due; 0: none."`
	VisitsLate   float64          `json:"visitsLate" doc:"Seconds since the first visit was due; 0 if none is."`
	Unique       int64            `json:"unique" doc:"URLs found."`
	UniqueShare  float64          `json:"uniqueShare" doc:"The paper's p: new URLs for each link past all filters."`
	PLDs         int64            `json:"plds"`
	Hosts        int64            `json:"hosts" doc:"Distinct hosts, estimated."`
	Servers      int64            `json:"servers" doc:"Distinct addresses, estimated."`
	Places       []Count          `json:"places" doc:"URLs by place, in the order of the crawler."`
	Refused      map[string]int64 `json:"refused" doc:"Refused and not allowed URLs by reason."`
	Deferred     map[string]int64 `json:"deferred" doc:"Deferred URLs by reason."`
	Counters     map[string]int64 `json:"counters" doc:"Totals of all runs, by name."`
	Codes        map[string]int64 `json:"codes" doc:"Responses by status code; 0 for codes outside 100 to 999."`
	Failures     map[string]int64 `json:"failures" doc:"Failed requests for URLs by reason."`
	RAM          Memory           `json:"ram"`
	Disk         DiskUse          `json:"disk"`
	Checkpoint   Checkpoint       `json:"checkpoint"`
	Model        Model            `json:"model"`
	Erasures     *Erasures        `json:"erasures,omitempty" doc:"Missing if no request to erase pages waits."`
	Backup       *Backup          `json:"backup,omitempty" doc:"Missing without --backup."`
	Cluster      *NodeOf          `json:"cluster,omitempty" doc:"Missing for a crawl of one node."`
}

// Progress says how far the crawl is, and how long the rest takes.
type Progress struct {
	Text     string  `json:"text" doc:"In words; empty at the end."`
	Ended    int64   `json:"ended" doc:"URLs fetched or refused."`
	Queued   int64   `json:"queued" doc:"URLs that are left, without those over budget or forbidden by flags."`
	Rate     float64 `json:"rate" doc:"Pages per second over the last ten seconds."`
	LongRate float64 `json:"longRate" doc:"Pages per second over the last ten minutes, or the run if it is shorter."`
	Left     float64 `json:"left" doc:"Seconds that the rest takes at the current rates; 0 if unknown."`
	Grows    float64 `json:"grows" doc:"URLs per second by which the queue grows; 0 if it does not grow."`
}

// Health is the condition of the crawl: see package state/condition.
type Health struct {
	State    string    `json:"state" doc:"working, waiting, slow, standing-still; at the end complete, ended, failed."`
	Level    string    `json:"level" doc:"ok, warn or bad."`
	Text     string    `json:"text" doc:"One or two sentences."`
	Since    time.Time `json:"since,omitzero" doc:"Time of the last response, if it is at least 10 s ago."`
	Until    time.Time `json:"until,omitzero" doc:"When the next request is due, if that is known."`
	Next     string    `json:"next,omitempty" doc:"A command that shows more or helps."`
	Problems []Trouble `json:"problems" doc:"The worst first."`
}

// Trouble is one thing that is wrong.
type Trouble struct {
	Level string `json:"level" doc:"warn or bad."`
	What  string `json:"what" doc:"disk, network, sites, browser, cluster, checkpoint, memory, operator, store, end."`
	Text  string `json:"text"`
	Next  string `json:"next,omitempty" doc:"A command that shows more or helps."`
}

// Rates are means over the last ten seconds, or the run if it is shorter.
type Rates struct {
	Pages     float64 `json:"pages" doc:"Pages per second."`
	Bits      float64 `json:"bits" doc:"Bits received per second."`
	Links     float64 `json:"links" doc:"Links found per second."`
	Responses float64 `json:"responses" doc:"Responses per second."`
	Errors    float64 `json:"errors" doc:"Failed requests per second."`
}

// Connections are the connection slots.
type Connections struct {
	Limit  int `json:"limit" doc:"Allowed now."`
	Busy   int `json:"busy" doc:"Exchanges under way."`
	Robots int `json:"robots" doc:"Requests for robots.txt under way."`
}

// Count is a number of URLs in a place.
type Count struct {
	Name string `json:"name"`
	URLs int64  `json:"urls"`
}

// Part is a part of RAM or disk.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Memory is the RAM of the process.
type Memory struct {
	Limit int64  `json:"limit" doc:"--ram, in bytes."`
	Used  int64  `json:"used" doc:"Resident memory of the process, in bytes."`
	Parts []Part `json:"parts" doc:"What the plan assigns to each part."`
}

// DiskUse is the disk space of the crawl.
type DiskUse struct {
	Limit int64       `json:"limit" doc:"--disk, in bytes."`
	Used  int64       `json:"used"`
	Parts []Part      `json:"parts"`
	Dirs  []Directory `json:"dirs"`
}

// Directory is the file system of a directory.
type Directory struct {
	Path      string  `json:"path"`
	Free      int64   `json:"free"`
	Size      int64   `json:"size"`
	FreeFiles int64   `json:"freeFiles"`
	KeepFree  int64   `json:"keepFree" doc:"Fetching pauses while the file system has less free space."`
	Device    string  `json:"device" doc:"Device number as lsblk shows it; empty if unknown."`
	Read      int64   `json:"read" doc:"Bytes read in this run."`
	Written   int64   `json:"written" doc:"Bytes written in this run."`
	Reading   float64 `json:"reading" doc:"Seconds of this run in which a read was under way."`
	Writing   float64 `json:"writing" doc:"Seconds of this run in which a write or sync was under way."`
	Busy      float64 `json:"busy" doc:"Seconds of this run in which any of these was under way."`
	Slow      string  `json:"slow" doc:"How slow its disk is compared with the others; empty if it is not slow."`
}

// Checkpoint describes the last checkpoint. Times are in seconds.
type Checkpoint struct {
	Number       uint64    `json:"number"`
	Time         time.Time `json:"time,omitzero"`
	Pause        float64   `json:"pause"`
	Stall        float64   `json:"stall"`
	Total        float64   `json:"total"`
	Bytes        int64     `json:"bytes"`
	LongestPause float64   `json:"longestPause"`
	LongestStall float64   `json:"longestStall"`
}

// Model compares URLseen's I/O with the paper's formulas.
type Model struct {
	Measured  float64 `json:"measured"`
	Predicted float64 `json:"predicted"`
	Unit      string  `json:"unit"`
}

// Structures are the structures on disk.
type Structures struct {
	Drums  []Drum  `json:"drums"`
	Queues []Queue `json:"queues"`
	Beast  Beast   `json:"beast"`
}

// Drum is a DRUM structure.
type Drum struct {
	Name         string    `json:"name"`
	Buckets      int       `json:"buckets"`
	Keys         int64     `json:"keys"`
	Pending      int64     `json:"pending" doc:"Tuples in the buckets."`
	PendingBytes int64     `json:"pendingBytes"`
	Full         float64   `json:"full" doc:"Mean fill of the buckets, from 0 to 1."`
	Fill         []float64 `json:"fill" doc:"Fill by bucket, in at most 256 groups; URLseen only."`
	FullBuckets  int64     `json:"fullBuckets"`
	Running      bool      `json:"running" doc:"A pass is in progress."`
	Passes       int64     `json:"passes" doc:"In this run."`
	LastPass     float64   `json:"lastPassSeconds"`
	NextPass     float64   `json:"nextPassSeconds" doc:"Predicted duration of an early pass now."`
	DiskBytes    int64     `json:"diskBytes"`
	IOBytes      int64     `json:"ioBytes" doc:"Read and written in this run."`
	TupleIO      float64   `json:"tupleIOBytes" doc:"Read and written per tuple (URLseen: per link) in this run."`
	PredictedIO  float64   `json:"predictedTupleIOBytes" doc:"The model's prediction for the same passes."`
}

// Queue is a queue on disk.
type Queue struct {
	Name  string `json:"name"`
	URLs  int64  `json:"urls"`
	Bytes int64  `json:"bytes"`
}

// Beast are BEAST's queues.
type Beast struct {
	Current  int64        `json:"current" doc:"s, the queue being read."`
	Horizon  int64        `json:"horizon" doc:"h."`
	Queues   []BeastQueue `json:"queues"`
	Failed   int64        `json:"failed" doc:"URLs in QF."`
	Scanning bool         `json:"scanning" doc:"QF is being read."`
	Scans    int64        `json:"scans"`
	Priority string       `json:"priority" doc:"Which URLs go first, as in --priority, or the --strategy."`
	Lanes    []BeastLane  `json:"lanes" doc:"The other fields are sums or maxima of all lanes."`
}

// BeastLane is one of BEAST's lanes.
type BeastLane struct {
	Weight  uint32 `json:"weight" doc:"Its share of the URLs read and of the budgets, among the weights of all lanes."`
	Current int64  `json:"current" doc:"The queue being read."`
	URLs    int64  `json:"urls" doc:"In numbered queues."`
	Failed  int64  `json:"failed" doc:"In QF."`
}

// BeastQueue is a numbered queue.
type BeastQueue struct {
	Lane   int   `json:"lane" doc:"From 0, the best."`
	Number int64 `json:"number" doc:"In its lane."`
	URLs   int64 `json:"urls"`
	Bytes  int64 `json:"bytes"`
}

// Slots say what connection slots are used for.
type Slots struct {
	Total int   `json:"total"`
	Uses  []Use `json:"uses"`
}

// Use is one use of slots.
type Use struct {
	Name string  `json:"name"`
	Now  float64 `json:"now" doc:"Mean number of slots since the last second."`
	Run  float64 `json:"run" doc:"Mean number of slots since the start of this run."`
}

// Hosts is a list of hosts.
type Hosts struct {
	Hosts []Host `json:"hosts"`
}

// Host is a host with URLs in RAM or in trouble.
type Host struct {
	Host  string    `json:"host" doc:"Empty if the crawl knows only its key."`
	Key   string    `json:"key" doc:"Hexadecimal."`
	State string    `json:"state" doc:"ok, or how it failed or refused."`
	Until time.Time `json:"until,omitzero" doc:"End of its back-off."`
	At    time.Time `json:"at,omitzero" doc:"Its last failure or refusal."`
	InRAM int       `json:"inRam" doc:"URLs in RAM."`
}

// PLDs is a list of PLDs.
type PLDs struct {
	AsOf time.Time `json:"asOf" doc:"Checkpoint of the values; the one by which the list is sorted is current."`
	PLDs []PLD     `json:"plds"`
}

// PLD is a PLD with its rank in the order of the list. It has no number of queued URLs: no structure counts by
// PLD the URLs that leave BEAST, so that number would take a scan of all queues (explain host makes one).
type PLD struct {
	Rank     int    `json:"rank" doc:"In the order of the list."`
	PLD      string `json:"pld" doc:"Empty if the crawl knows only its key so far."`
	Key      string `json:"key" doc:"Hexadecimal."`
	Indegree uint32 `json:"indegree"`
	Budget   uint32 `json:"budget" doc:"Pages per queue."`
	Pages    uint32 `json:"pages" doc:"Responses."`
	Bytes    uint64 `json:"bytes"`
	Placed   uint32 `json:"placed" doc:"URLs that entered BEAST."`
	Pinned   bool   `json:"pinned" doc:"The operator has fixed the budget."`
}

// Explanation is the answer to a question about a URL, a host, a PLD or an address.
type Explanation struct {
	URL  *explain.URLReport  `json:"url,omitempty"`
	Host *explain.HostReport `json:"host,omitempty"`
	// At are hosts at the address in question.
	At []Host `json:"at,omitempty" doc:"For an address: the hosts at it with the most URLs in RAM, at most 50."`
}

// Limits are the limits and changes in force.
type Limits struct {
	Rate           string            `json:"rate" doc:"Schedule of requests per second in force; none for no limit."`
	Bandwidth      string            `json:"bandwidth"`
	Connections    string            `json:"connections"`
	ConnectionsNow int               `json:"connectionsNow"`
	Slots          int               `json:"slots" doc:"--connections: the most that a change can allow."`
	Changed        *changes.Settings `json:"changed" doc:"Changes of the operator; empty fields: the flags' values."`
}

// LimitChange are limits to put in force.
type LimitChange struct {
	Rate        *string `json:"rate,omitempty" doc:"Schedule as in --rate; empty: the flag's; missing: keep it."`
	Bandwidth   *string `json:"bandwidth,omitempty"`
	Connections *string `json:"connections,omitempty"`
}

// Changes is a list of changes, newest first.
type Changes struct {
	Changes []Change `json:"changes"`
}

// Change is a change that was made.
type Change struct {
	changes.Change
	Undo string `json:"undo,omitempty" doc:"The kind of change that undoes it."`
	Everywhere
}

// Everywhere says whether a change is an order that all nodes of a cluster carry out.
type Everywhere struct {
	Everywhere bool   `json:"everywhere,omitempty" doc:"All nodes of the cluster carry it out, once they run."`
	Alone      string `json:"alone,omitempty" doc:"Why this node of the cluster carries it out alone."`
}

// Drain switches draining on or off.
type Drain struct {
	On bool `json:"on"`
}

// Delay is a delay of a host.
type Delay struct {
	Delay float64 `json:"delay" doc:"Seconds from the end of a response to the next request."`
}

// Budget is a budget of a PLD.
type Budget struct {
	Budget  uint32 `json:"budget" doc:"Pages per queue."`
	Requeue bool   `json:"requeue,omitempty" doc:"Place the URLs in BEAST's later queues again, by the new budget."`
}

// Function is a budget function.
type Function struct {
	Function string `json:"function" doc:"As in --budget: paper, equal, popular, inverse, proportional or supporters."`
	Default  uint32 `json:"default" doc:"Pages per queue, as in --budget default."`
	Max      uint32 `json:"max" doc:"Pages per queue, as in --budget max."`
}

// Priority says which URLs go first.
type Priority struct {
	Priority string   `json:"priority" doc:"As in --priority: none, depth, indegree, hook or sitemap."`
	Weights  []uint32 `json:"weights,omitempty" doc:"As in --priority weights, the default."`
}

// FunctionSet says that the budget function or the priority was changed.
type FunctionSet struct {
	Change Change `json:"change"`
	Moves  int64  `json:"moves" doc:"URLs in BEAST's queues when the change was made; they are placed again."`
}

// Rule is a rule of a blacklist.
type Rule struct {
	Rule string `json:"rule" doc:"host NAME, pld NAME or net ADDRESS or CIDR."`
}

// Unblocked says that a rule was removed.
type Unblocked struct {
	Change
	Refused int64 `json:"refused" doc:"URLs that the blacklist has permanently refused in this crawl."`
}

// Seeds are seeds to add.
type Seeds struct {
	Seeds []string `json:"seeds" doc:"A URL or host each, at most 10,000."`
}

// SeedsTaken says which seeds were taken.
type SeedsTaken struct {
	Accepted int       `json:"accepted"`
	Refused  []BadSeed `json:"refused" doc:"At most 100."`
	Change   Change    `json:"change"`
}

// BadSeed is a line that is no seed.
type BadSeed struct {
	Line string `json:"line"`
	Why  string `json:"why"`
}

// Enqueue has URLs to fetch before all others.
type Enqueue struct {
	URLs []string `json:"urls" doc:"At most 256."`
}

// EnqueueTaken has an answer for each URL of an Enqueue, in their order.
type EnqueueTaken struct {
	Accepted int        `json:"accepted"`
	URLs     []Enqueued `json:"urls"`
	Change   Change     `json:"change" doc:"It has no number if no URL was accepted."`
}

// Enqueued is the answer about a URL.
type Enqueued struct {
	Line    string  `json:"line" doc:"As given."`
	URL     string  `json:"url,omitempty" doc:"As the crawl spells it."`
	Refused string  `json:"refused,omitempty" doc:"Why the crawl does not accept it, apart from robots.txt."`
	Wait    float64 `json:"wait" doc:"Estimated seconds until the request, if the crawl is not paused."`
	Because string  `json:"because,omitempty" doc:"Reason for the wait."`
}

// Erasures are the requests to erase pages that wait.
type Erasures struct {
	Waiting int       `json:"waiting" doc:"All, with those refused."`
	Refused int       `json:"refused" doc:"Those that could not be carried out."`
	Why     string    `json:"why,omitempty" doc:"Why one of them could not."`
	Since   time.Time `json:"since,omitzero" doc:"When the crawl paused for them."`
	Step    string    `json:"step,omitempty" doc:"Progress of the erasure."`
}

// Backup describes the backups of the crawl.
type Backup struct {
	Place   string    `json:"place"`
	Number  int64     `json:"number" doc:"Of the newest backup; 0: none yet."`
	Time    time.Time `json:"time,omitzero" doc:"Of its checkpoint."`
	Bytes   int64     `json:"bytes" doc:"Of its files."`
	Total   int64     `json:"total" doc:"Bytes that the backup under way, or else the last one, has to copy."`
	Copied  int64     `json:"copied" doc:"Of these, bytes copied."`
	Late    bool      `json:"late" doc:"The crawl has changed since a backup older than twice --backup-every."`
	Failing string    `json:"failing,omitempty" doc:"The last error, while attempts fail."`
}

// Erase is a request to erase pages.
type Erase struct {
	Hosts  []string `json:"hosts,omitempty" doc:"All pages of these hosts."`
	PLDs   []string `json:"plds,omitempty" doc:"All pages of all hosts of these PLDs."`
	URLs   []string `json:"urls,omitempty"`
	List   string   `json:"list,omitempty" doc:"A target on each line: a URL, host:NAME or pld:NAME."`
	Reason string   `json:"reason" doc:"One line of at most 1000 bytes."`
	Hide   bool     `json:"hide,omitempty" doc:"Keep no target in the record."`
	Later  bool     `json:"later,omitempty" doc:"Wait until the crawl ends or starts. Otherwise it pauses now."`
}

// EraseTaken says that a request to erase pages is durable.
type EraseTaken struct {
	Number int    `json:"number" doc:"Number of the request and of its record."`
	Digest string `json:"digest" doc:"SHA-256 of the targets, as in the record."`
	Hosts  int64  `json:"hosts"`
	PLDs   int64  `json:"plds"`
	URLs   int64  `json:"urls"`
	Everywhere
}

// EraseReport lists requests to erase pages, without targets and reasons.
type EraseReport struct {
	Waiting []EraseRow `json:"waiting"`
	Done    []EraseRow `json:"done"`
}

// EraseRow is a request to erase pages.
type EraseRow struct {
	EraseTaken
	Time     time.Time `json:"time" doc:"When the request was made, or its erasure began."`
	Ended    time.Time `json:"ended,omitzero"`
	Later    bool      `json:"later,omitempty"`
	Error    string    `json:"error,omitempty" doc:"Why the last attempt changed nothing."`
	Captures int64     `json:"captures" doc:"Removed; 0 if With is set."`
	With     int       `json:"with,omitempty" doc:"Request together with which it was served, which has the counts."`
}

// Reload reads files again.
type Reload struct {
	Requeue bool `json:"requeue,omitempty" doc:"Place the URLs of BEAST's later queues again, by sites' new budgets."`
}

// Reloaded says what a reload changed.
type Reloaded struct {
	Change     Change `json:"change"`
	Sites      string `json:"sites,omitempty" doc:"The site settings in force."`
	Terms      int    `json:"terms" doc:"Hosts and PLDs with URLs in RAM whose delays or connections changed."`
	Evicted    int    `json:"evicted" doc:"URLs that left RAM because their host has fewer connections."`
	Budgets    int    `json:"budgets" doc:"PLDs whose fixed budget changed."`
	Priorities int    `json:"priorities" doc:"Tables of sites whose priority changed."`
	Cut        int    `json:"cut" doc:"Exchanges that the blacklist ended."`
	Swept      int    `json:"swept" doc:"URLs that left RAM because of the blacklist."`
	Moves      int64  `json:"moves" doc:"URLs in BEAST's queues that are placed again."`
}

// LogLines are the last lines of the log.
type LogLines struct {
	Lines []Line `json:"lines"`
}
