package state

import (
	"drumbeat/internal/ports"
	"drumbeat/internal/urlrule"
)

// LastRun are the options of a run that the manifest keeps for package state/explain and for reports. The crawler does
// not read them. An older program's manifest has none.
type LastRun struct {
	Version            string          `json:"version,omitempty"`
	Agent              string          `json:"agent"`
	Contact            string          `json:"contact,omitempty"`    // an older program kept none
	UserAgent          string          `json:"user_agent,omitempty"` // the header
	About              About           `json:"about,omitzero"`
	Seeds              string          `json:"seeds,omitempty"`       // name of the file
	FirstSeeds         []string        `json:"first_seeds,omitempty"` // at most MaxFirstSeeds
	Scope              Scope           `json:"scope"`
	MaxDepth           int             `json:"max_depth"`
	MaxURLBytes        int             `json:"max_url_bytes"`
	MaxRedirects       int             `json:"max_redirects,omitempty"`
	Ports              ports.Set       `json:"ports,omitzero"` // as text
	AllowNets          []string        `json:"allow_nets,omitempty"`
	NameServers        []string        `json:"name_servers,omitempty"` // with ports; none: the machine's
	Retries            int             `json:"retries"`
	Budget             string          `json:"budget"`
	BudgetDefault      uint32          `json:"budget_default"`
	BudgetMax          uint32          `json:"budget_max"`
	BudgetRanks        int             `json:"budget_ranks"`
	QueuePages         int64           `json:"queue_pages,omitempty"`
	BudgetShare        float64         `json:"budget_share,omitempty"` // of all PLDs that the node of a cluster has
	HostDelay          int64           `json:"host_delay_ms"`          // with the default budget
	HostDelayMin       int64           `json:"host_delay_min_ms"`
	ServerDelay        int64           `json:"server_delay_ms"`
	ServerDelayMin     int64           `json:"server_delay_min_ms"`
	MaxCrawlDelay      int64           `json:"max_crawl_delay_ms"`
	PLDDelay           int64           `json:"pld_delay_ms,omitempty"`
	PLDDelayMin        int64           `json:"pld_delay_min_ms,omitempty"`
	NetworkRate        float64         `json:"network_rate,omitempty"` // requests per second
	NetworkConnections int             `json:"network_connections,omitempty"`
	HostDelayFactor    float64         `json:"host_delay_factor,omitempty"`
	AdaptiveDelay      bool            `json:"adaptive_delay,omitempty"`
	Backoff            int64           `json:"backoff_ms,omitempty"`
	BackoffMax         int64           `json:"backoff_max_ms,omitempty"`
	RetryAfterMax      int64           `json:"retry_after_max_ms,omitempty"`
	HostFailures       int             `json:"host_failures,omitempty"`
	HostRests          int             `json:"host_rests,omitempty"`
	HostRefusals       int             `json:"host_refusals,omitempty"`
	RobotsWait         int64           `json:"robots_wait_ms,omitempty"`
	RobotsForget       int64           `json:"robots_forget_ms,omitempty"`
	MaxPagesPerHost    int64           `json:"max_pages_per_host,omitempty"`
	Rules              []string        `json:"rules,omitempty"` // names of the files
	Blacklist          []string        `json:"blacklist,omitempty"`
	Sites              string          `json:"sites,omitempty"` // name of the file
	ClusterFile        string          `json:"cluster_file,omitempty"`
	URLRules           urlrule.Options `json:"url_rules,omitzero"`
	CrawlLog           LogLevel        `json:"crawl_log"`
	Store              bool            `json:"store"`
	Drain              bool            `json:"drain,omitempty"`
	Earlier            []Earlier       `json:"earlier,omitempty"` // from which the first run took something
}

// Earlier is a crawl of --since, with what the new crawl took from it when it began.
type Earlier struct {
	Dirs    []string `json:"directories"`
	Out     []string `json:"output_directories,omitempty"` // if they are separate and were named
	Crawl   string   `json:"crawl"`
	Bodies  int64    `json:"bodies"`             // to which the new crawl's revisit records may refer
	URLs    int64    `json:"urls,omitempty"`     // of this scope that it had fetched, with --since-known due or skip
	LeftOut int64    `json:"left_out,omitempty"` // of these, those that are not fetched, unless they are seeds
	Planned int64    `json:"planned,omitempty"`  // and those that wait for the visit that was planned
}

// MaxFirstSeeds bounds LastRun.FirstSeeds, which name a crawl: two tell that there are several.
const MaxFirstSeeds = 2

// Scope says which links a crawl follows.
type Scope string

// The scopes. With ScopeHost and ScopePLD budgets are off.
const (
	ScopeAll  Scope = "all"
	ScopePLD  Scope = "pld"
	ScopeHost Scope = "host"
)

// ContentSeen says what a crawl does with bodies that it has seen before.
type ContentSeen string

// The values of ContentSeen.
const (
	ContentOff    ContentSeen = "off"    // bodies are not compared
	ContentRecord ContentSeen = "record" // a body seen before is stored as a revisit record
	ContentSkip   ContentSeen = "skip"   // the same, and the page's links are not taken
)

// Archive says what of a response is stored whose page asks archives not to keep it.
type Archive string

// The values of Archive.
const (
	ArchiveKeep    Archive = "keep"    // all, as of any other
	ArchiveHeaders Archive = "headers" // the head without the body
	ArchiveDrop    Archive = "drop"    // nothing but a metadata record
)

// Usage says what becomes of a response whose site refuses a use of it.
type Usage string

// The values of Usage.
const (
	UsageKeep Usage = "keep" // it is stored as any other
	UsageMark Usage = "mark" // its metadata record, the crawl log and the tables name the use
	UsageDrop Usage = "drop" // nothing is stored but a metadata record, which names the use
)

// Usages say what becomes of responses whose sites refuse to have them used for search, as input of AI models, or to
// train these. "" is UsageKeep.
type Usages struct{ Search, AIInput, AITrain Usage }

// LogLevel says which outcomes of URLs the crawl log gets.
type LogLevel string

// The crawl log's levels.
const (
	LogOff    LogLevel = "off"
	LogErrors LogLevel = "errors"
	LogAll    LogLevel = "all"
)
