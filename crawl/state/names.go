package state

// The files of a crawl's first directory besides the manifest.
const (
	SecretName   = "state/SECRET"
	SuffixesName = "state/suffixes.txt"
	KindState    = "crawl"
	KindOutput   = "output"
)

// SecretCheckText is hashed with the secret: a manifest and a secret that don't belong together are told apart.
const SecretCheckText = "drumbeat secret check"

const (
	JournalName = "state/REPAIR"
	ShadowDir   = "repair-tmp"
)

// The structures of the crawler by name: the paper's names, also those of their directories under state/.
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
	NameWARC            = "warc"
	NameCrawlLog        = "crawllog"
	NameSeedLog         = "seedlog"
	NameRobotsLog       = "robotslog"
)

// Structures are the structures that every manifest has.
var Structures = [...]string{NameURLSeen, NameStar, NameNames, NameBeast, NameRobotsCache, NameRobotsRequested, NameAwaitRobots, NameRobotsFetch,
	NameRobotsDeferred, NameReady, NameHeld, NameDeferred, NameWARC, NameCrawlLog, NameSeedLog, NameRobotsLog}
