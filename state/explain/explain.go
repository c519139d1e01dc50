package explain

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"drumbeat/disk"
	"drumbeat/state"
)

// Options say which crawl the Explainer reads, and how.
type Options struct {
	// FS is the file system; nil means the machine's. The Explainer neither writes nor locks.
	FS disk.FS
	// Dirs are all directories of the crawl, in any order. Out are its output directories, if it has
	// separate ones. Without Out, such a crawl's output is not searched.
	Dirs, Out []string
	// Fast skips the queues, the indexes and the logs, and reads only single blocks.
	Fast bool
	// Progress, if set, is called from another goroutine every ProgressEvery (0 means 1 s) during a scan.
	Progress      func(state.Progress)
	ProgressEvery time.Duration
}

// Explainer explains from the last checkpoint why URLs were crawled or not. It is not safe for concurrent
// use.
type Explainer struct{ Opt Options }

// NewExplainer returns an Explainer. It reads no file yet: each call reads the directories again.
func NewExplainer(opt Options) (*Explainer, error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if len(opt.Dirs) == 0 {
		return nil, errors.New("crawl: no directory given")
	}
	return &Explainer{Opt: opt}, nil
}

// AsOf describes the checkpoint that an answer comes from.
type AsOf struct {
	Crawl      string    `json:"crawl"`
	Checkpoint uint64    `json:"checkpoint"`
	Time       time.Time `json:"time"` // of the checkpoint
	AgeSeconds float64   `json:"age_seconds"`
	// State is running (a process locks the directories), finished, stopped (in order), interrupted, or
	// unknown.
	State string `json:"state"`
	Done  string `json:"done,omitempty"` // why the crawl finished
	// BytesRead counts the bytes read for all answers of the call, with the manifest and the suffix list.
	BytesRead int64 `json:"bytes_read"`
}

// RecordReport is the data that the queues keep with a URL.
type RecordReport struct {
	Found     time.Time `json:"found,omitzero"`
	Depth     int       `json:"depth"`
	Parent    string    `json:"parent,omitempty"`     // key of the page on which it was found first
	ParentURL string    `json:"parent_url,omitempty"` // if the record keeps it, or a cheap search finds it
	Budget    uint32    `json:"budget,omitempty"`     // of its PLD at the last STAR check
	Attempts  int       `json:"attempts,omitempty"`   // requests tried
	Waits     int       `json:"waits,omitempty"`      // deferrals without a request
	Redirects int       `json:"redirects,omitempty"`  // since the last page that linked to it
	Faults    int       `json:"faults,omitempty"`     // failures that this machine may have caused
	Reason    string    `json:"reason,omitempty"`     // of the last deferral
	Flags     []string  `json:"flags,omitempty"`
}

// LaneFill is a PLD's statement in a lane of BEAST, for a class of its hosts.
type LaneFill struct {
	Lane  int    `json:"lane"`
	Class int    `json:"class,omitempty"` // see star.HostClasses
	Next  int64  `json:"next_queue"`
	Used  uint32 `json:"used"`
}

// QueueReport is the position of a URL in BEAST.
type QueueReport struct {
	Lane    int   `json:"lane"`
	Lanes   int   `json:"lanes"`
	Number  int64 `json:"number"`  // in its lane, as the other fields
	Current int64 `json:"current"` // the queue that BEAST reads now
	Ahead   int64 `json:"ahead"`   // Number - Current
	Horizon int64 `json:"horizon"`
}

// EndedReport is the end of a URL, from an index or the crawl log.
type EndedReport struct {
	Source    string    `json:"source"` // index or log
	Time      time.Time `json:"time"`
	Status    int       `json:"status,omitempty"`
	Reason    string    `json:"reason,omitempty"` // of a refusal
	MIME      string    `json:"mime,omitempty"`
	Revisit   bool      `json:"revisit,omitempty"` // the body is that of an earlier capture
	Redirect  string    `json:"redirect,omitempty"`
	Dropped   string    `json:"dropped,omitempty"` // why the redirect is not followed
	Truncated string    `json:"truncated,omitempty"`
	// NearDuplicateOf is the page of its host whose text it nearly repeats, by the log.
	NearDuplicateOf string `json:"near_duplicate_of,omitempty"`

	IP       string `json:"ip,omitempty"`
	Attempts int    `json:"attempts,omitempty"` // before the last one
	Bytes    int64  `json:"bytes,omitempty"`
	File     string `json:"file,omitempty"` // WARC file of the response
	Offset   int64  `json:"offset,omitempty"`
	Length   int64  `json:"length,omitempty"`
}

// PLDReport is what STAR and BEAST know about a PLD.
type PLDReport struct {
	PLD      string `json:"pld"`
	Known    bool   `json:"known"`
	Indegree uint32 `json:"indegree"`
	Prior    uint32 `json:"prior,omitempty"` // in-degree by --ranks
	Rank     int    `json:"rank,omitempty"`  // among the top ranks
	// With --budget supporters, once they have been computed: the number of supporters, the standing from 0 to 1, and
	// whether a computation has known the PLD.
	BySupporters bool      `json:"by_supporters,omitempty"`
	Supporters   float64   `json:"supporters,omitempty"`
	Standing     float64   `json:"standing,omitempty"`
	Newcomer     bool      `json:"newcomer,omitempty"`
	Ranks        int       `json:"ranks,omitempty"`
	FirstSeen    time.Time `json:"first_seen,omitzero"`
	Placed       uint32    `json:"placed"`  // URLs put into numbered queues
	Fetched      uint32    `json:"fetched"` // responses
	Bytes        uint64    `json:"bytes"`
	Budget       uint32    `json:"budget,omitempty"`          // pages, from the budget function; sets delays
	PerQueue     uint32    `json:"pages_per_queue,omitempty"` // more than Budget in small crawls
	Pinned       bool      `json:"pinned,omitempty"`          // the operator fixed the budget
	Next         int64     `json:"next_queue"`                // statement: queue of its next URL
	Used         uint32    `json:"used"`                      // statement: its URLs in that queue
	// Further are the statements of the lanes after the first that were used.
	Further []LaneFill `json:"further_lanes,omitempty"`
	// With --budget hosts or directories: about how many of them the PLD has, and by which its budget is divided.
	Parts   int               `json:"parts,omitempty"`
	Divided state.BudgetParts `json:"divided,omitempty"`
	Checks  int64             `json:"checks_waiting"` // URLs that wait for their budget; 0 with Fast
}

// DelayReport is a back-off: a delay longer than the usual one of the host or server.
type DelayReport struct {
	Who   string    `json:"who"` // host NAME or server ADDRESS
	Until time.Time `json:"until"`
}

// OriginReport is what RobotsCache and RobotsRequested know about an origin.
type OriginReport struct {
	Origin      string    `json:"origin"`
	State       string    `json:"state"` // none, rules, no file, unreachable, no host, forbidden
	Stale       bool      `json:"stale,omitempty"`
	Failures    int       `json:"failures,omitempty"`
	TLS         string    `json:"tls,omitempty"` // why TLS failed, if the last request failed by that
	Fetched     time.Time `json:"fetched,omitzero"`
	Expires     time.Time `json:"expires,omitzero"`
	RetryAt     time.Time `json:"retry_at,omitzero"`
	Addresses   []string  `json:"addresses,omitempty"`
	AddrExpires time.Time `json:"addresses_expire,omitzero"`
	CrawlDelay  float64   `json:"crawl_delay,omitempty"` // seconds, from robots.txt
	Rules       int       `json:"rules"`
	OwnGroup    bool      `json:"own_group,omitempty"` // the rules are of a group that names our agent
	Cut         int       `json:"rules_cut,omitempty"` // rules dropped or shortened by limits
	// Delay is the time between two requests in seconds. DelayWhy names the flag or rule that sets it.
	Delay    float64   `json:"delay"`
	DelayWhy string    `json:"delay_why"`
	Asked    time.Time `json:"asked,omitzero"` // last request for robots.txt or addresses
	// Asking is the state of a request for robots.txt or addresses: "" (none), requested (waits for the
	// next merge of RobotsRequested), queued, under way, or put off until AskAt. Empty with Fast.
	Asking string    `json:"asking,omitempty"`
	AskAt  time.Time `json:"ask_at,omitzero"`
	// AskTries counts its failures so far that may be this machine's, at most robots.MaxTries.
	AskTries int `json:"ask_tries,omitempty"`
	// WaitingAnswers and WaitingURLs count the tuples that wait for RobotsCache's next merge. The other
	// fields include the content of those answers. 0 with Fast.
	WaitingAnswers int64 `json:"waiting_answers,omitempty"`
	WaitingURLs    int64 `json:"waiting_urls,omitempty"`
	// FailingSince is the time of the first of Failures. Pages counts admitted URLs; only
	// --max-pages host counts them.
	FailingSince time.Time `json:"failing_since,omitzero"`
	Pages        int64     `json:"pages,omitempty"`
	// Health is the health of the host over all its origins; nil if the host is healthy.
	Health *HealthReport `json:"health,omitempty"`
}

// HealthReport describes the recent failures and refusals of a host (package internal/health).
type HealthReport struct {
	Text     string    `json:"text"` // the other fields in words
	Failures int       `json:"failures,omitempty"`
	Rests    int       `json:"rests,omitempty"`    // long back-offs since the last success
	Refusals int       `json:"refusals,omitempty"` // since the last page
	Stage    int       `json:"stage,omitempty"`    // runs of refusals
	End      string    `json:"end"`                // open, not welcome, given up, asks for payment
	Until    time.Time `json:"until,omitzero"`     // end of the back-off
	Why      string    `json:"why,omitempty"`      // cause of the back-off
	Last     string    `json:"last"`               // last event
	Status   int       `json:"status,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// VerdictReport is what an origin's robots.txt says about a URL now.
type VerdictReport struct {
	// Decision is the decision of RobotsCache: request, resolve, allow, disallow, wait and so on. Until is
	// its end, if known.
	Decision string    `json:"decision"`
	Until    time.Time `json:"until,omitzero"`
	Allowed  bool      `json:"allowed"` // by the rules alone
	Rule     string    `json:"rule"`    // that decides, as robots.txt spells it; "" if none does
	// Use is what robots.txt and tdmrep.json say about the use of the URL; nil if it is unknown or there is no file.
	Use *UseReport `json:"use,omitempty"`
}

// UseReport is what robots.txt and tdmrep.json say about the use of a URL. Digest and Group are empty without the
// former.
type UseReport struct {
	Text          string   `json:"text"`   // the other fields in words
	Digest        string   `json:"digest"` // of the file, as its WARC-Payload-Digest
	Group         string   `json:"group"`  // own, * or none
	ContentSignal string   `json:"content_signal,omitempty"`
	ContentUsage  string   `json:"content_usage,omitempty"` // at this path
	License       string   `json:"license,omitempty"`
	AIDisallowed  []string `json:"ai_disallowed,omitempty"` // bots whose own groups disallow it
	TDMFile       string   `json:"tdm_file,omitempty"`      // what tdmrep.json says: 0 or 1
	TDMPolicy     string   `json:"tdm_policy,omitempty"`    // its terms
	Cut           bool     `json:"rights_cut,omitempty"`    // limits have removed something
}

// LinkReport is what the crawler would do with the URL if a page linked to it now.
type LinkReport struct {
	Taken bool   `json:"taken"`
	Why   string `json:"why"`
	// Rewritten is the URL that the crawler takes instead (--strip-params and the like), if it differs.
	Rewritten string `json:"rewritten,omitempty"`
	// Blocked means that the blacklist names the URL; the crawler then refuses it in every place.
	Blocked bool `json:"blocked,omitempty"`
}

// URLReport is the answer about a URL.
type URLReport struct {
	Asked string `json:"asked"`
	Error string `json:"error,omitempty"` // why Asked is no URL for the crawler
	URL   string `json:"url,omitempty"`
	Host  string `json:"host,omitempty"`
	PLD   string `json:"pld,omitempty"`
	Key   string `json:"key,omitempty"`
	AsOf  *AsOf  `json:"as_of,omitempty"`

	Seen bool `json:"seen"` // in URLseen
	// Place is one of the crawl's places, or unseen, link (found; URLseen has not checked it), ended
	// (fetched or refused; no file says which), not-scanned (seen; Fast), unknown (an unreadable file
	// may hold it), or other-node (Node).
	Place string   `json:"place"`
	Why   []string `json:"why"`
	// The node of the cluster to which the URL belongs, if it is another one.
	Node    *int `json:"node,omitempty"`
	GivenUp bool `json:"given_up,omitempty"` // Node was given up: links to the URL are dropped
	// Where a link to the URL stands in the outbox for Node, if one does.
	Outbox *OutboxReport `json:"outbox,omitempty"`
	Queue  *QueueReport  `json:"queue,omitempty"`
	Due    time.Time     `json:"due,omitzero"`   // when a deferred URL returns
	Copy   bool          `json:"copy,omitempty"` // of another page of its host, so visits are rare
	Record *RecordReport `json:"record,omitempty"`
	Ended  *EndedReport  `json:"ended,omitempty"`
	Erased bool          `json:"erased,omitempty"` // by drumbeat erase, and not fetched since

	Link *LinkReport `json:"link,omitempty"`
	// Settings are those of --sites; nil for none.
	Settings *SettingsReport `json:"settings,omitempty"`
	Site     *PLDReport      `json:"site,omitempty"`
	Trap     *TrapReport     `json:"trap,omitempty"`
	Robots   *OriginReport   `json:"robots,omitempty"`
	Verdict  *VerdictReport  `json:"verdict,omitempty"`
	Delays   []DelayReport   `json:"delays,omitempty"`
	Damage   []string        `json:"damage,omitempty"` // what could not be read

	key    uint64
	parent uint64
	// elsewhere is the other node of a divided PLD that may have the URL: its owner, or the visitor of the host.
	elsewhere *int
	lane      int // of a URL in QF
}

// RobotsReport is the answer of "explain robots".
type RobotsReport struct {
	Asked   string         `json:"asked"`
	Error   string         `json:"error,omitempty"`
	URL     string         `json:"url,omitempty"`
	AsOf    *AsOf          `json:"as_of,omitempty"`
	Robots  *OriginReport  `json:"robots,omitempty"`
	Verdict *VerdictReport `json:"verdict,omitempty"`
	Text    string         `json:"text,omitempty"` // the rules for our agent, as a robots.txt
	Damage  []string       `json:"damage,omitempty"`
}

// PaceReport is the adapted delay of a host (--adaptive-delay).
type PaceReport struct {
	Delay    float64 `json:"delay"` // seconds from the last exchange to the next
	Steps    int     `json:"steps"` // taken from the base delay to --host-delay min, of AllSteps
	AllSteps int     `json:"all_steps"`
	Answer   float64 `json:"answer,omitempty"` // mean answer time in seconds
}

// HostReport is the answer about a host.
type HostReport struct {
	Asked    string          `json:"asked"`
	Error    string          `json:"error,omitempty"`
	Host     string          `json:"host,omitempty"`
	AsOf     *AsOf           `json:"as_of,omitempty"`
	Settings *SettingsReport `json:"settings,omitempty"`
	Site     *PLDReport      `json:"site,omitempty"`
	Trap     *TrapReport     `json:"trap,omitempty"`
	Origins  []*OriginReport `json:"origins,omitempty"`
	Delays   []DelayReport   `json:"delays,omitempty"`
	// Pace is set by a running crawl with --adaptive-delay, for a host that was visited lately. No file has it.
	Pace *PaceReport `json:"pace,omitempty"`
	Waiting
	Stored *int64   `json:"stored,omitempty"` // the host's responses in the indexes; nil with Fast
	Why    []string `json:"why"`
	Damage []string `json:"damage,omitempty"`
}

// Waiting counts the URLs of a host or PLD that wait. All are nil with Fast.
type Waiting struct {
	// Places counts the URLs by place. Deferred counts the deferred ones by reason; NextDue is when the first of
	// them returns. Queues counts those in BEAST by queue number, for the first MaxHostQueues queues.
	Places   map[string]int64 `json:"places,omitempty"`
	Deferred map[string]int64 `json:"deferred,omitempty"`
	NextDue  time.Time        `json:"next_due,omitzero"`
	Queues   map[int64]int64  `json:"queues,omitempty"`
}

// MaxHostQueues limits Waiting.Queues.
const MaxHostQueues = 32

// maxExplainTries limits how often a call starts again because a checkpoint came while it opened files.
// Opening takes milliseconds, so this is rare.
const maxExplainTries = 20

// with calls use with the files of the last checkpoint. It opens the files that need returns before it
// calls use, so they stay readable if the crawl deletes them. It starts again if a checkpoint came in
// between, or if a file that could not be pinned disappeared.
func (e *Explainer) with(need func(v *view) []string, use func(v *view) error) error {
	for range maxExplainTries {
		v, err := openExplainView(&e.Opt)
		if err != nil {
			return err
		}
		v.Pin(need(v))
		same, err := v.Same()
		if err == nil && same {
			err = use(v)
			if err == nil && v.vanished {
				same, err = v.Same()
			}
		}
		v.asOf.BytesRead = v.r.Meter.Counts().ReadBytes
		v.Close()
		if err != nil || same {
			return err
		}
	}
	return fmt.Errorf("crawl: %s: the crawl made a new checkpoint each of the %d times that its files were opened",
		e.Opt.Dirs[0], maxExplainTries)
}

// damaged returns a function that adds an error to list and to v.hurt, and returns nil.
func (v *view) damaged(list *[]string) func(error) error {
	return func(err error) error {
		if err == nil {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			v.vanished = true
		}
		text := err.Error()
		if len(*list) < maxExplainDamage && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
		if len(v.hurt) < maxExplainDamage {
			v.hurt = append(v.hurt, text)
		}
		return nil
	}
}

// maxExplainDamage limits the damage list of a report; "audit --deep" prints all damage.
const maxExplainDamage = 10
