package state

import "strconv"

// Files of a crawl's first directory besides the manifest, and the kinds of directories in their identities.
const (
	SecretName   = "state/SECRET"
	SuffixesName = "state/suffixes.txt"
	ChangesName  = "state/changes" // changes of the operator (package changes)
	HistoryName  = "history"       // directory of figures over time (package history)
	KindState    = "crawl"
	KindOutput   = "output"
)

// SecretCheckText is hashed with the secret to detect a secret that does not belong to the manifest.
const SecretCheckText = "drumbeat secret check"

// JournalName and ShadowDir are the files of a repair.
const (
	JournalName = "state/REPAIR"
	ShadowDir   = "repair-tmp"
)

// MoveName is the file of a move of slots between nodes that has not been carried out in this node.
const MoveName = "state/MOVE"

// ReplaceName is the file of a node that takes its place again from a backup (repair.Replace), until it has it.
const ReplaceName = "state/REPLACE"

// GiveName is the file of slots that a node is giving to others while they run.
const GiveName = "state/GIVE"

// EraseName is the journal of an erasure under way (package erase), ErasedDir the directory of what is kept of the
// erasures of a crawl, and EraseDir that of the work files.
const (
	EraseName = "state/ERASE"
	ErasedDir = "erasures"
	EraseDir  = "erase-tmp"
)

// Names of the crawler's structures and of their directories under state/. Most are the paper's names.
const (
	NameURLSeen         = "urlseen"
	NameStar            = "pldindegree"
	NameBeast           = "beast"
	NameRobotsCache     = "robotscache"
	NameRobotsRequested = "robotsrequested"
	NameAwaitRobots     = "awaitrobots" // QR
	NameRobotsFetch     = "robotsfetch" // QD
	NameRobotsDeferred  = "robotslater"
	NameReady           = "ready" // Q
	NameDeferred        = "later"
	NameHeld            = "held"
	NameNames           = "names"
	NameContent         = "content"    // bodies seen
	NameRender          = "render"     // pages to be rendered
	NameOrdered         = "ordered"    // keys of all URLs that were enqueued
	NameObjects         = "objects"    // files in the object store
	NameWalkLog         = "walklog"    // what the walkers of a random walk saw and did
	NameQuarantine      = "quarantine" // messages of other nodes that could not be read
	NameHostLinks       = "hostlinks"  // links to hosts, for --budget hosts
	NameWARC            = "warc"
	NameCrawlLog        = "crawllog"
	NameSeedLog         = "seedlog"
	NameRobotsLog       = "robotslog"
)

// LogPrefixes begin the names of the crawl log, the seed log and the robots log.
var LogPrefixes = [...]string{"crawl", "seeds", "robots"}

// OutboxPrefix is the beginning of the names of the outboxes of a node of a cluster; the number of the other
// node follows.
const OutboxPrefix = "outbox/"

// OutboxName returns the name of the outbox for a node.
func OutboxName(node int) string { return OutboxPrefix + strconv.Itoa(node) }

// Structures are the structures that every manifest has.
var Structures = [...]string{NameURLSeen, NameStar, NameNames, NameBeast, NameRobotsCache, NameRobotsRequested,
	NameAwaitRobots, NameRobotsFetch, NameRobotsDeferred, NameReady, NameHeld, NameDeferred, NameWARC, NameCrawlLog,
	NameSeedLog, NameRobotsLog}
