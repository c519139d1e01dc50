package explain

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk"
)

// Options say which crawl is asked, and how.
type Options struct {
	// FS is the file system; nil means the machine's. Nothing is written, no lock taken: the crawl may run.
	FS disk.FS
	// Dirs are all directories of the crawl, in any order; Out those of its output if it has some of its own. Without them pages
	// aren't looked up in the output.
	Dirs, Out []string
	// Fast leaves out all that reads more than some blocks: the queues, indexes and logs.
	Fast bool
	// Progress, if set, is called every ProgressEvery, 0 meaning 1 s, from another goroutine, while files are scanned.
	Progress      func(state.Progress)
	ProgressEvery time.Duration
}

// Explainer answers why URLs were or weren't crawled, by what the crawl's last checkpoint names. For one goroutine.
type Explainer struct{ Opt Options }

// NewExplainer returns one; the directories are looked at with each question.
func NewExplainer(opt Options) (*Explainer, error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if len(opt.Dirs) == 0 {
		return nil, errors.New("crawl: no directory given")
	}
	return &Explainer{Opt: opt}, nil
}

// AsOf is the moment that an answer is about.
type AsOf struct {
	Crawl      string    `json:"crawl"`
	Checkpoint uint64    `json:"checkpoint"`
	Time       time.Time `json:"time"` // of the checkpoint
	AgeSeconds float64   `json:"age_seconds"`
	// State is running (a process holds the directories), finished, stopped (in order), interrupted, or unknown.
	State string `json:"state"`
	Done  string `json:"done,omitempty"` // why a finished crawl is over
	// BytesRead is what was read for this answer and those that were given with it, manifest and suffix list included.
	BytesRead int64 `json:"bytes_read"`
}

// The states of AsOf.
const (
	StateRunning     = "running"
	stateFinished    = "finished"
	stateStopped     = "stopped"
	stateInterrupted = "interrupted"
	stateUnknown     = "unknown"
)

// RecordReport is what travels with a URL.
type RecordReport struct {
	Found     time.Time `json:"found,omitzero"`
	Depth     int       `json:"depth"`
	Parent    string    `json:"parent,omitempty"`     // key of the page that it was found on first
	ParentURL string    `json:"parent_url,omitempty"` // if it is short enough to be kept, or easy to find
	Budget    uint32    `json:"budget,omitempty"`     // of its PLD at the last STAR check
	Attempts  int       `json:"attempts,omitempty"`   // exchanges tried
	Waits     int       `json:"waits,omitempty"`      // times deferred without one
	Redirects int       `json:"redirects,omitempty"`  // since the last page that linked to it
	Faults    int       `json:"faults,omitempty"`     // exchanges that may have failed by a fault of this machine
	Reason    string    `json:"reason,omitempty"`     // why it was deferred last
	Flags     []string  `json:"flags,omitempty"`
}

// QueueReport is where in BEAST a URL is.
type QueueReport struct {
	Number  int64 `json:"number"`
	Current int64 `json:"current"` // the queue that is being read
	Ahead   int64 `json:"ahead"`   // Number - Current
	Horizon int64 `json:"horizon"`
}

// EndedReport is how a URL ended, as index or crawl log have it.
type EndedReport struct {
	Source    string    `json:"source"` // index or log
	Time      time.Time `json:"time"`
	Status    int       `json:"status,omitempty"`
	Reason    string    `json:"reason,omitempty"` // refused because of
	MIME      string    `json:"mime,omitempty"`
	Redirect  string    `json:"redirect,omitempty"`
	Dropped   string    `json:"dropped,omitempty"` // why the redirect isn't followed
	Truncated string    `json:"truncated,omitempty"`
	IP        string    `json:"ip,omitempty"`
	Attempts  int       `json:"attempts,omitempty"` // before the last one
	Bytes     int64     `json:"bytes,omitempty"`
	File      string    `json:"file,omitempty"` // WARC file of the response
	Offset    int64     `json:"offset,omitempty"`
	Length    int64     `json:"length,omitempty"`
}

// PLDReport is what STAR and BEAST know of a PLD.
type PLDReport struct {
	PLD       string    `json:"pld"`
	Known     bool      `json:"known"`
	Indegree  uint32    `json:"indegree"`
	Rank      int       `json:"rank,omitempty"` // among the top ranks
	Ranks     int       `json:"ranks,omitempty"`
	FirstSeen time.Time `json:"first_seen,omitzero"`
	Placed    uint32    `json:"placed"`  // URLs put into numbered queues
	Fetched   uint32    `json:"fetched"` // responses
	Bytes     uint64    `json:"bytes"`
	Budget    uint32    `json:"budget,omitempty"`          // pages, by the function; delays follow it
	PerQueue  uint32    `json:"pages_per_queue,omitempty"` // more than Budget in small crawls
	Next      int64     `json:"next_queue"`                // the ledger: where its next URL goes …
	Used      uint32    `json:"used"`                      // … and how many it has there
	Checks    int64     `json:"checks_waiting"`            // URLs that wait for their budget; not with Fast
}

// DelayReport is a rest longer than the plain delay.
type DelayReport struct {
	Who   string    `json:"who"` // host NAME or server ADDRESS
	Until time.Time `json:"until"`
}

// OriginReport is what RobotsCache and RobotsRequested know of an origin.
type OriginReport struct {
	Origin      string    `json:"origin"`
	State       string    `json:"state"` // of robots.txt: none, rules, no file, unreachable, no host, forbidden
	Stale       bool      `json:"stale,omitempty"`
	Failures    int       `json:"failures,omitempty"`
	Fetched     time.Time `json:"fetched,omitzero"`
	Expires     time.Time `json:"expires,omitzero"`
	RetryAt     time.Time `json:"retry_at,omitzero"`
	Addresses   []string  `json:"addresses,omitempty"`
	AddrExpires time.Time `json:"addresses_expire,omitzero"`
	CrawlDelay  float64   `json:"crawl_delay,omitempty"` // seconds, as robots.txt says
	Rules       int       `json:"rules"`
	OwnGroup    bool      `json:"own_group,omitempty"` // the rules are of a group that names our agent
	Cut         int       `json:"rules_cut,omitempty"` // rules left out or shortened by limits
	// Delay is the time between two visits, in seconds, by the budget and what else is known; Why says what makes it so.
	Delay    float64   `json:"delay"`
	DelayWhy string    `json:"delay_why"`
	Asked    time.Time `json:"asked,omitzero"` // robots.txt or addresses: last request
	// Asking is where a request for them is now: "" for none, requested (its merge is waited for), queued, under way, or deferred
	// until AskAt. Not with Fast.
	Asking string    `json:"asking,omitempty"`
	AskAt  time.Time `json:"ask_at,omitzero"`
	// Waiting are answers and URLs that RobotsCache hasn't merged yet; what the answers say is in this report. Not with Fast.
	WaitingAnswers int64 `json:"waiting_answers,omitempty"`
	WaitingURLs    int64 `json:"waiting_urls,omitempty"`
	// FailingSince is when the first of Failures was, Pages how many URLs were admitted (with --max-pages-per-host alone).
	FailingSince time.Time `json:"failing_since,omitzero"`
	Pages        int64     `json:"pages,omitempty"`
	// Health is that of the host, whichever origin it was learned from; nil while it is well.
	Health *HealthReport `json:"health,omitempty"`
}

// HealthReport is how a host has treated us lately (package health).
type HealthReport struct {
	Text     string    `json:"text"` // all of it in words
	Failures int       `json:"failures,omitempty"`
	Rests    int       `json:"rests,omitempty"`    // long rests since the last success
	Refusals int       `json:"refusals,omitempty"` // since the last page
	Stage    int       `json:"stage,omitempty"`    // runs of refusals
	End      string    `json:"end"`                // open, not welcome, given up
	Until    time.Time `json:"until,omitzero"`     // it rests until then …
	Why      string    `json:"why,omitempty"`      // … because of this
	Last     string    `json:"last"`               // event
	Status   int       `json:"status,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// VerdictReport is what an origin's robots.txt says of a URL now.
type VerdictReport struct {
	// Decision is what RobotsCache would say: request, resolve, allow, disallow, wait and so on; Until is set where it is known.
	Decision string    `json:"decision"`
	Until    time.Time `json:"until,omitzero"`
	Allowed  bool      `json:"allowed"` // by the rules, whatever else
	Rule     string    `json:"rule"`    // that decides, as robots.txt spells it; "" if none does
}

// LinkReport is what would become of the URL as a link on a page now.
type LinkReport struct {
	Taken bool   `json:"taken"`
	Why   string `json:"why"`
	// Rewritten is the URL that would be taken for it (--strip-params and the like), if it is another one.
	Rewritten string `json:"rewritten,omitempty"`
	// Blocked: the blacklist names it, so it is refused wherever it is.
	Blocked bool `json:"blocked,omitempty"`
}

// URLReport is the answer about a URL.
type URLReport struct {
	Asked string `json:"asked"`
	Error string `json:"error,omitempty"` // not a URL for the crawler
	URL   string `json:"url,omitempty"`
	Host  string `json:"host,omitempty"`
	PLD   string `json:"pld,omitempty"`
	Key   string `json:"key,omitempty"`
	AsOf  *AsOf  `json:"as_of,omitempty"`

	Seen bool `json:"seen"` // in URLseen
	// Place is one of the crawl's places, or: unseen; link (met, URLseen hasn't judged it); ended (fetched or refused, which one no
	// file says); not-scanned (seen; Fast); unknown (what can't be read may have it).
	Place  string        `json:"place"`
	Why    []string      `json:"why"`
	Queue  *QueueReport  `json:"queue,omitempty"`
	Due    time.Time     `json:"due,omitzero"` // later: when it comes back
	Record *RecordReport `json:"record,omitempty"`
	Ended  *EndedReport  `json:"ended,omitempty"`

	Link    *LinkReport    `json:"link,omitempty"`
	Site    *PLDReport     `json:"site,omitempty"`
	Robots  *OriginReport  `json:"robots,omitempty"`
	Verdict *VerdictReport `json:"verdict,omitempty"`
	Delays  []DelayReport  `json:"delays,omitempty"`
	Damage  []string       `json:"damage,omitempty"` // what could not be read

	key    uint64
	parent uint64
}

// RobotsReport is the answer of explain robots.
type RobotsReport struct {
	Asked   string         `json:"asked"`
	Error   string         `json:"error,omitempty"`
	URL     string         `json:"url,omitempty"`
	AsOf    *AsOf          `json:"as_of,omitempty"`
	Robots  *OriginReport  `json:"robots,omitempty"`
	Verdict *VerdictReport `json:"verdict,omitempty"`
	Text    string         `json:"text,omitempty"` // the rules that apply to us, as a robots.txt
	Damage  []string       `json:"damage,omitempty"`
}

// HostReport is the answer about a host.
type HostReport struct {
	Asked   string          `json:"asked"`
	Error   string          `json:"error,omitempty"`
	Host    string          `json:"host,omitempty"`
	AsOf    *AsOf           `json:"as_of,omitempty"`
	Site    *PLDReport      `json:"site,omitempty"`
	Origins []*OriginReport `json:"origins,omitempty"`
	Delays  []DelayReport   `json:"delays,omitempty"`
	// Places are the host's URLs by place, Later those in later by reason, NextDue when the first of them comes back; Queues those in
	// BEAST by queue number, of the first MaxHostQueues. Stored are its responses in the indexes. Nil with Fast.
	Places   map[string]int64 `json:"places,omitempty"`
	Deferred map[string]int64 `json:"deferred,omitempty"`
	NextDue  time.Time        `json:"next_due,omitzero"`
	Queues   map[int64]int64  `json:"queues,omitempty"`
	Stored   *int64           `json:"stored,omitempty"`
	Why      []string         `json:"why"`
	Damage   []string         `json:"damage,omitempty"`
}

// MaxHostQueues bounds HostReport.Queues.
const MaxHostQueues = 32

// maxExplainTries bounds how often an answer is begun anew because the crawl has made a checkpoint meanwhile. It happens when one
// comes in the milliseconds in which the files are opened.
const maxExplainTries = 20

// with calls use with the files of the last checkpoint: those that need says are open before use begins, and stay readable whatever the
// crawl does. If files that weren't opened, beyond maxPinned, vanish meanwhile, all begins anew.
func (e *Explainer) with(need func(v *view) []string, use func(v *view) error) error {
	for range maxExplainTries {
		v, err := openExplainView(&e.Opt)
		if err != nil {
			return err
		}
		v.pin(need(v))
		same, err := v.same()
		if err == nil && same {
			err = use(v)
			if err == nil && v.vanished {
				same, err = v.same()
			}
		}
		v.asOf.BytesRead = v.r.Meter.Counts().ReadBytes
		v.close()
		if err != nil || same {
			return err
		}
	}
	return fmt.Errorf("crawl: %s: checkpoints follow each other too fast: %d times in a row one came while its files were opened",
		e.Opt.Dirs[0], maxExplainTries)
}

// damaged takes what can't be read into a report's list.
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

// maxExplainDamage bounds a report's list; audit --deep has all.
const maxExplainDamage = 10
