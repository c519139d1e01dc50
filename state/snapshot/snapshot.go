package snapshot

import (
	"time"

	"drumbeat/internal/histogram"
	"drumbeat/state"
)

// PLDShares are shares of the visited PLDs. Snapshot.PLDPages has for each the least power of two that this
// share of them has fewer responses than, estimated; 0 before the first.
var PLDShares = [...]float64{0.5, 0.9, 0.99, 0.999}

// Snapshot is the state of a crawl at one instant, for progress lines, summaries and metrics.
type Snapshot struct {
	Time    time.Time
	Began   time.Time     // of the crawl's first run; zero if it is unknown
	Elapsed time.Duration // of this run
	Active  time.Duration // of all runs
	Runs    int           // starts of the program

	Places   [state.NumPlaces]int64 // URLs by place; see state.Place
	Unique   int64
	Refused  map[string]int64 // by reason
	Deferred map[string]int64 // by reason
	Failed   map[string]int64 // failed exchanges for URLs, by reason
	Counters [state.NumCounters]int64
	Status   [6]int64    // responses by class; see state.Accounts
	Codes    state.Codes // responses by status code

	PagesPerSecond float64 // since the last snapshot of progress
	BitsPerSecond  float64
	LinksPerSecond float64
	// Recent and Longer count the events of the last ten seconds and ten minutes, or of the run if it is shorter.
	Recent, Longer Window
	// Answered is the time of the last response to a request for a URL, RobotsAnswered of one for robots.txt, in
	// this run, to about a second; zero before the first.
	Answered, RobotsAnswered time.Time
	// FailedSince counts the failed requests for URLs and robots.txt since Answered, or the start of the run.
	FailedSince int64
	// DoubtedSince counts the failed requests and lookups since then that do not count yet: the fault may be ours. If
	// nothing has ever answered, those of earlier runs are among them.
	DoubtedSince int64
	// ResponsesPerSecond counts final responses, FailuresPerSecond failed exchanges for URLs.
	ResponsesPerSecond, FailuresPerSecond float64

	Peak           state.Peak // highest means over ten minutes, of all runs
	UniqueShare    float64    // p: unique URLs per link that passed all filters, over the whole crawl
	InFlight       int        // exchanges under way
	Connections    int
	RobotsInFlight int
	RobotsQueued   int64
	PLDs           int64         // nodes of the PLD graph
	Edges          int64         // edges of the PLD graph
	Supporters     time.Time     // end of the last computation for --budget supporters; zero before
	SupportersTook time.Duration // its duration
	Hosts, Servers int64         // distinct, estimated
	// HostsAnswered, ServersAnswered and PLDsAnswered are the distinct ones with a response, estimated.
	HostsAnswered, ServersAnswered, PLDsAnswered int64
	PLDPages                                     [len(PLDShares)]int64 // for each of PLDShares
	Queue, Horizon                               int64                 // BEAST's s and h
	TrapHosts                                    int64                 // that may use only a part of their PLD's budget
	Unsifted                                     int64                 // records of BEAST
	LevelsForgotten                              int64                 // of hosts or directories, since RAM is full
	Uploads                                      Uploads               // finished files that go to an object store
	Backup                                       Backup                // of the running crawl
	Texts                                        Texts                 // with --extract, of this run
	Browser                                      Browser               // with --render
	Erasures                                     Erasures
	Cluster                                      Cluster // of a node of several
	HostsInRAM                                   int64   // with URLs in RAM or remembered delays
	// LeastHostGap is the smallest time of this run between the end of an exchange with a host and its next
	// request, LeastServerGap that between two requests to an address; 0 before the second request.
	LeastHostGap, LeastServerGap time.Duration
	// DelaySteps and DelayResets count the steps of --adaptive-delay of this run. AdaptedHosts are the hosts in
	// RAM that are visited sooner now.
	DelaySteps, DelayResets, AdaptedHosts int64
	// LongestHost is the time that the delay of a host alone lets its URLs in RAM take, for the host with the longest;
	// 0 unless fetching waits for delays.
	LongestHost time.Duration
	NextDue     time.Time // when the first deferred URL is due; zero if there is none
	// DeferredLate and VisitsLate are how long the first deferred URL, and the first visit, has been due.
	DeferredLate, VisitsLate time.Duration
	DiskRead                 int64 // bytes since the start of this run
	DiskWritten              int64
	Checkpoint               CheckpointStats
	// CheckpointEvery is the interval of checkpoints. Saved is when the crawl last had the state that the
	// last manifest holds: later than Checkpoint.When if nothing has changed since.
	CheckpointEvery time.Duration
	Saved           time.Time
	URLSeenKeys     int64
	URLSeenPasses   int64
	Seen            SeenCheck // URLseen, measured and predicted
	// URLSeenFullPasses is the number of passes over full buckets.
	URLSeenFullPasses int64
	Scans             int64  // of QF
	Limits            string // speed limits in force; "" for none
	Wait              Wait   // what keeps connections idle
	Draining          bool   // new links are not queued, by the operator
	Stopping          bool   // the crawl was told to end
	Paused            bool   // by the operator or for disk space
	Outage            bool   // the network or the name servers fail
	AsksForBrotli     bool   // requests ask for br, by the crawl's own choice
	Slots             Slots  // use of connection slots since the start of this run
	SlotsNow          Slots  // use of connection slots since the last snapshot of progress

	Times         [NumTimes]histogram.Snapshot // of this run
	RAM, Disk     Space
	Dirs          []Dir
	HistoryErrors int64 // samples of the history that were lost, in this run
}

// Count returns the value of a counter.
func (s *Snapshot) Count(c state.Counter) int64 { return s.Counters[c] }

// Failures returns the number of failed exchanges for URLs.
func (s *Snapshot) Failures() (n int64) {
	for _, f := range s.Failed {
		n += f
	}
	return n
}

// Place returns the number of URLs in a place.
func (s *Snapshot) Place(p state.Place) int64 { return s.Places[p] }

// Space is the use of RAM or disk, at most some seconds old.
type Space struct {
	Limit int64
	Used  int64 // of disk: the crawl's files; 0 until they have been added up
	Parts []Part
}

// Part is the use by one structure. For RAM it is the structure's limit by the plan.
type Part struct {
	Name  string
	Bytes int64
}

// Dir is a directory of the crawl and its file system.
type Dir struct {
	Path                   string
	Free, Total, FreeFiles int64
	KeepFree               int64 // fetching pauses below it
	// Device is the number of its device, such as 8:48; "" if it is not known.
	Device string
	// The work of this run: bytes, and the times in which at least one read, one write or sync, or any of them
	// was under way.
	ReadBytes, WrittenBytes int64
	Reading, Writing, Busy  time.Duration
	Slow                    string // how slow its disk is beside the others; "" if it is not
}

// Time is a kind of duration that a crawl measures.
type Time int

// The kinds.
const (
	TimeLookup     Time = iota // DNS lookups that the resolver's cache did not answer
	TimeConnect                // TCP connects, failed ones included
	TimeTLS                    // TLS handshakes, failed ones included
	TimeFirstByte              // from the request to the first byte of the response
	TimeExchange               // whole exchanges with a response, without waits on this machine
	TimePass                   // passes of all drums
	TimeCheckpoint             // checkpoints, from start to durable manifest
	TimePause                  // holds of the transaction lock by checkpoints
	TimeStall                  // transactions that took LeastStall or more, with their wait for the lock
	NumTimes
)

// LeastStall is the least duration of a transaction that counts as a stall. A usual one takes microseconds.
const LeastStall = time.Millisecond

// CheckpointStats describes the last checkpoint.
type CheckpointStats struct {
	Number uint64
	// Wait is the time until running emissions had ended; fetching continues meanwhile. Pause is the time
	// for which the exclusive lock stopped all transactions. Total is the time from the start to the
	// durable manifest.
	Wait, Pause, Total time.Duration
	// Stall is the longest duration of a transaction that ended during the checkpoint, including its wait
	// for the lock and the disk. It is the delay that a fetcher saw.
	Stall time.Duration
	// Bytes is the number of bytes written, without those that stages wrote at the same time.
	Bytes int64
	When  time.Time
	// LongestPause, LongestStall and LongestTotal cover all checkpoints of this run.
	LongestPause, LongestStall, LongestTotal time.Duration
}

// Since updates the maxima with those of the previous checkpoint, nil if there is none.
func (c *CheckpointStats) Since(last *CheckpointStats) {
	if last == nil {
		last = &CheckpointStats{}
	}
	c.LongestPause = max(last.LongestPause, c.Pause)
	c.LongestStall = max(last.LongestStall, c.Stall)
	c.LongestTotal = max(last.LongestTotal, c.Total)
}

// SeenCheck compares the measurements of URLseen in this run with the predictions of the formulas. It
// changes at the end of a pass. Unknown values are 0.
type SeenCheck struct {
	// Links is the number of links merged in Passes. URLBytes is the mean length of the text added for a
	// link, and TextRatio its compression on disk. Unique is the share of new links.
	Links     int64   `json:"links"`
	Passes    int64   `json:"passes"`
	URLBytes  float64 `json:"urlBytes"`
	TextRatio float64 `json:"textRatio"`
	Unique    float64 `json:"unique"`
	// Bytes is the I/O for a link. Predicted is drum.Options.Cost for the actual passes; Full is the cost
	// if all passes had been full. Small crawls merge early to keep fetchers busy.
	Bytes     float64 `json:"linkBytes"`
	Predicted float64 `json:"predictedLinkBytes"`
	Full      float64 `json:"fullLinkBytes"`
	// Alpha and PredictedAlpha are Bytes and Predicted in units of URLBytes.
	Alpha          float64 `json:"alpha"`
	PredictedAlpha float64 `json:"predictedAlpha"`
	// DiskBandwidth is the speed of passes that move at least 1 MiB, in bytes/s, including the results they
	// emit.
	DiskBandwidth float64 `json:"diskBandwidth"`
	// PageBytes is the I/O of the whole crawl for a page. PredictedPageBytes is that of Forecast for the
	// links and URLs found. DiskRate and PredictedDiskRate are the pages/s that DiskBandwidth then allows
	// (Theorem 3).
	PageBytes          float64 `json:"pageBytes"`
	PredictedPageBytes float64 `json:"predictedPageBytes"`
	DiskRate           float64 `json:"diskRate"`
	PredictedDiskRate  float64 `json:"predictedDiskRate"`
}

// Texts counts the texts extracted while the crawl runs, in this run.
type Texts struct {
	Parts   int64 // that were made, one for each WARC file
	Pages   int64 // in them
	Waiting int64 // WARC files with their final names and without a part
	Faults  int64 // failed attempts at a part, damaged records, waits for room, and a directory that cannot be used
}

// Backup describes the backups of a crawl (--backup).
type Backup struct {
	On          bool
	Place       string
	Every       time.Duration
	Number      int64     // of the newest backup, of all runs; 0: none
	Time        time.Time // of its checkpoint
	Bytes       int64     // of its files
	Made        int64     // in this run
	Copied      int64     // bytes of all backups of this run
	Total, Done int64     // bytes that the backup under way copies, and has copied
	Held        int       // files that wait for it
	Late        bool      // the crawl has changed, and the newest backup is older than twice Every
	Faults      int64     // failed attempts in this run
	Failing     string    // the last error, while attempts fail; "": none does
}

// Uploads counts finished output files on their way to an object store.
type Uploads struct {
	On           bool   // the crawl has an object store
	Files, Bytes int64  // that the store took in this run
	Objects      int64  // files in the store as of the last checkpoint, of all runs
	Waiting      int64  // finished WARC files and logs that are still here
	WaitingBytes int64  // of them
	SpoolBytes   int64  // fetching rests when WaitingBytes is more
	Faults       int64  // failed attempts in this run
	Failing      string // the last error, while an attempt fails; "": none does
}
