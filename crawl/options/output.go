package options

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"drumbeat/state"
	"drumbeat/warc"
)

// Output says what a crawl stores, and in which form.
type Output struct {
	// Store writes responses to WARC files.
	Store bool
	// WARCFileBytes is the size at which a WARC file is finished. Default: 1 GB.
	WARCFileBytes int64
	WARCFormat    warc.Format
	WARCDict      []byte // of zst files, from warc.ReadDict; empty: none
	WARCLevel     int    // warc.LevelFast, or 1 to 9
	// RollEvery is the age at which output files are finished, so that they can be moved away while the crawl
	// runs. Files are also finished when they are full and when the crawl stops. 0 means no age limit.
	RollEvery time.Duration
	// OutMode is the mode of finished output files, such as 0640. Their directories get the matching
	// access. 0 means 0600.
	OutMode fs.FileMode
	// ArchiveRobots stores the exchanges for robots.txt, including redirects. ArchiveDNS stores the DNS
	// answers. Both require Store.
	ArchiveRobots, ArchiveDNS bool
	// ContentSeen says what happens to bodies seen before; "": ContentRecord. ContentRecord without Store is
	// ContentOff.
	ContentSeen state.ContentSeen
	// Since are the directories of earlier crawls on Disk.FS, each list those of one. Separate output directories may
	// be among them, and must be unless SinceKnown is KnownAll. A new crawl takes the bodies that they have stored: its
	// pages with such a body become revisit records. They need ContentRecord. Later runs of the crawl may name them,
	// too, which changes nothing.
	Since [][]string
	// SinceKnown says what a new crawl does with the URLs that the crawls of Since have fetched; "": KnownAll.
	SinceKnown Known
	// NoArchive and NoIndex say what is stored of a response with this directive; "": ArchiveKeep.
	NoArchive, NoIndex state.Archive
	// Usage says what becomes of responses whose sites refuse a use of them.
	Usage state.Usages
	// TDMRep requests /.well-known/tdmrep.json of each origin after its robots.txt, if the rules allow it, and before
	// its pages (package robots, Reservations).
	TDMRep bool
	// Simhash stores the simhash of each page's visible text (package internal/simhash).
	Simhash bool
	// NearDuplicates says how pages are treated that nearly repeat another page of their host. KeepOne needs Store, and
	// ContentSeen other than ContentOff.
	NearDuplicates state.NearDuplicates
	// CrawlLog says which outcomes of URLs are logged. Default: state.LogErrors.
	CrawlLog state.LogLevel
}

// Known says which of the URLs that earlier crawls have fetched a new crawl fetches, apart from seeds.
type Known string

// The values of Known.
const (
	KnownAll  Known = "all"  // those that it finds
	KnownDue  Known = "due"  // those whose next visit is due by the plan of the earlier crawl, or without a plan
	KnownSkip Known = "skip" // none but sitemaps and feeds
)

// Defaults sets the zero fields.
func (o *Output) Defaults() {
	setDefault(&o.ContentSeen, state.ContentRecord)
	if !o.Store && o.ContentSeen == state.ContentRecord {
		o.ContentSeen = state.ContentOff // there is nothing to record
	}
	setDefault(&o.CrawlLog, state.LogErrors)
	setDefault(&o.SinceKnown, KnownAll)
	setDefault(&o.WARCFileBytes, 1_000_000_000)
}

// Validate returns an error if the level of the log is unknown, or if Since has no use.
func (o *Output) Validate() error {
	if seen := o.ContentSeen; len(o.Since) > 0 && (!o.Store || seen != "" && seen != state.ContentRecord) {
		return errors.New("crawl: the bodies of earlier crawls are for a crawl that writes revisit records")
	}
	switch o.SinceKnown {
	case "", KnownAll:
	case KnownDue, KnownSkip:
		if len(o.Since) == 0 {
			return errors.New("crawl: URLs that are known need the earlier crawls that know them")
		}
	default:
		return fmt.Errorf("crawl: known URLs %q are not all, due or skip", o.SinceKnown)
	}
	if n := &o.NearDuplicates; n.KeepOne && (!o.Store || o.ContentSeen == state.ContentOff) {
		return errors.New("crawl: near-duplicates are found only among stored pages whose bodies are compared")
	} else if n.Bits < 0 || n.Bits > state.MaxNearBits {
		return fmt.Errorf("crawl: near-duplicates within %d bits: must be 0 to %d", n.Bits, state.MaxNearBits)
	}
	switch o.CrawlLog {
	case "", state.LogOff, state.LogErrors, state.LogAll:
		return nil
	}
	return fmt.Errorf("crawl: crawl log level %q is not off, errors or all", o.CrawlLog)
}
