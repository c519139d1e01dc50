package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/internal/objstore"
)

// The manifest is a file in the first directory, replaced atomically, with copies in others (copies.go). It
// names everything that belongs to the crawl at one checkpoint. It is text, so an operator can read it;
// docs/reference/files/_index.md has the layout.
//
// Its version is major.minor. A program refuses a manifest with another major or a larger minor, because it
// would misread it. Raise manifestMajor when the encoding of existing data changes, such as a record or a
// field. Reasons, places and counters that are appended raise the minor automatically. Raise manifestAdded
// for other additions that an older program must not ignore.
const (
	ManifestName  = "state/MANIFEST"
	ManifestMagic = "drumbeat-manifest"
	manifestMajor = 2
	// 2: Form of a stream of output files; 3: Traps, and parts of budgets in the ledgers; 4: coded text logs;
	// 5: version 2 of what visits found; 6: Orders; 7: lanes of BEAST, and scores in URL records; 8: keys of
	// all orders; 9: Walk; 10: Store, Uploads, the queue of objects, Intake and outboxes; 11: the quarantine;
	// 12: keys of addresses in indexes of WARC files; 13: deadlines of orders; 14: lines of
	// orders in the crawl log; 15: Lineage; 16: Table and Next, keys that moved here in URLseen;
	// 17: ArrivedFrom.
	manifestAdded = 17
	manifestMinor = manifestAdded + int(NumPlaces) + int(NumReasons) + int(NumCounters)
)

// ManifestVersion is the version of the manifests that this program writes.
var ManifestVersion = fmt.Sprintf("%d.%d", manifestMajor, manifestMinor)

// Manifest is the JSON body of the file.
type Manifest struct {
	Gen    uint64   `json:"gen"`           // number of the checkpoint, from 1
	Crawl  string   `json:"crawl"`         // identity of the crawl
	Time   int64    `json:"time"`          // Unix seconds
	Clean  bool     `json:"clean"`         // an orderly stop wrote it: nothing was in flight
	Done   string   `json:"done"`          // why the crawl finished; "" if it has not
	Frozen Frozen   `json:"frozen"`        // values that can't change between runs
	Began  int64    `json:"began"`         // Unix seconds of the first start; 0 in crawls of older versions
	Active int64    `json:"active"`        // ms of fetching, over all runs
	Runs   int      `json:"runs"`          // starts of the program
	Run    *LastRun `json:"run,omitempty"` // options of the last run, for explain

	Accounts Accounts `json:"accounts"`
	Seeds    Seeds    `json:"seeds"`
	Watch    Seeds    `json:"watch,omitzero"` // position in the sorted list of --watch
	Held     Held     `json:"held"`
	// The last change of the operator whose seeds were fed.
	Changes  int64                      `json:"changes"`
	Margin   float64                    `json:"margin,omitzero"`   // of package revisit, in seconds
	Names    []string                   `json:"names,omitempty"`   // some names that have addresses
	Parts    map[string]json.RawMessage `json:"parts"`             // state of each structure, by name
	RAM      disk.Ref                   `json:"ram"`               // URL records in RAM: uvarint length, record
	Jobs     disk.Ref                   `json:"jobs"`              // robots requests in RAM, encoded like RAM
	Delays   disk.Ref                   `json:"delays"`            // hosts and servers with long delays
	Hosts    disk.Ref                   `json:"hosts"`             // health of hosts with failures or refusals
	Sketches disk.Ref                   `json:"sketches"`          // distinct hosts and servers
	Scope    disk.Ref                   `json:"scope"`             // sites that redirects of seeds added to the scope
	Traps    disk.Ref                   `json:"traps,omitzero"`    // trap scores of hosts
	Loads    disk.Ref                   `json:"loads,omitzero"`    // cluster.Loads of a node of a cluster
	Orders   disk.Ref                   `json:"orders,omitzero"`   // enqueued URLs, see Order
	Renders  disk.Ref                   `json:"renders,omitzero"`  // pages that are being rendered, encoded like RAM
	Walk     disk.Ref                   `json:"walk,omitzero"`     // the random walk (package walk)
	Store    *Store                     `json:"store,omitempty"`   // the object store of finished output
	Uploads  []objstore.Upload          `json:"uploads,omitempty"` // uploads under way

	Intake *cluster.Intake `json:"intake,omitempty"` // what a node of a cluster has taken from the others
	Full   int64           `json:"full,omitempty"`   // the limit of pages that all nodes together have reached
	// PageSlots are the slots of the nodes before this one, and of this one, when the crawl began: its part
	// of the limit of pages, which slots that move do not change.
	PageSlots *[2]int64 `json:"page_slots,omitempty"`

	// Table is the cluster.TableChange that led to the table of owners, if it has changed while the crawl ran; Next is
	// that of Arriving.
	Table json.RawMessage `json:"table,omitempty"`
	Next  json.RawMessage `json:"next_table,omitempty"`
	// Arriving are the slots that move here while the crawl runs, and are not this node's yet. ArrivedFrom lists the
	// givers whose slots have come. Arrived says that all have: the next run has the table Next, and reads its seeds
	// again if SeedsAgain.
	Arriving    Slots `json:"arriving,omitzero"`
	Arrived     bool  `json:"arrived,omitempty"`
	ArrivedFrom []int `json:"arrived_from,omitempty"`
	SeedsAgain  bool  `json:"seeds_again,omitempty"`
	// Leaving are the slots whose URLs are on their way from this node; nil: none.
	Leaving *Leaving `json:"leaving,omitempty"`

	// Lineage names the times of the crawl between two rewritings of its files, the present one last (lineage.go).
	Lineage []string `json:"lineage,omitempty"`
	// Erasures counts the erasures that rewrote the files.
	Erasures int64     `json:"erasures,omitempty"`
	Restored *Restored `json:"restored,omitempty"` // from a backup; nil: never
}

// Frozen are the values that can't change after the start of a crawl.
type Frozen struct {
	SecretCheck uint64 `json:"secret_check"` // keyed hash of a constant
	Suffixes    string `json:"suffixes"`     // digest of the public suffix list
	Private     bool   `json:"private"`
	SeparateOut bool   `json:"separate_out"`
	KeepEscapes bool   `json:"keep_escapes"`
	Lanes       int    `json:"lanes,omitempty"` // of BEAST, if there are several
	Walk        bool   `json:"walk,omitempty"`  // the crawl is a random walk
	// Parts are those of PLDs among which budgets are divided; true in earlier manifests means hosts.
	Parts BudgetParts `json:"hosts,omitempty"`
	Nodes int         `json:"nodes,omitempty"` // of the cluster; 0 for one node
	Node  int         `json:"node,omitempty"`  // of them, this one
	Table uint64      `json:"table,omitempty"` // cluster.Table.Sum
	// Those that this node owns; its keys have slots (weburl.Hasher.WithSlots).
	Slots Slots `json:"slots,omitzero"`
}

// EncodeManifest returns the file: "drumbeat-manifest <version> <length> <xxhash64 hex>\n" and the JSON body.
func EncodeManifest(m *Manifest) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("crawl: encode manifest: %w", err)
	}
	sum := ManifestSum(ManifestVersion, body)
	head := fmt.Sprintf("%s %s %d %016x\n", ManifestMagic, ManifestVersion, len(body), sum)
	return append([]byte(head), body...), nil
}

// ManifestSum returns the checksum of a manifest. It covers the version, because a damaged version could
// turn into a smaller minor, which the program accepts.
func ManifestSum(version string, body []byte) uint64 {
	d := xxhash.New()
	_, _ = d.WriteString(version + "\n") // a Digest returns no error
	_, _ = d.Write(body)
	return d.Sum64()
}

// DecodeManifest decodes the file's content. Damage is a *disk.CorruptError with path; another version is
// ErrIncompatible.
func DecodeManifest(path string, data []byte) (*Manifest, error) {
	corrupt := func(off int64, want, got string) error {
		return &disk.CorruptError{Path: path, Offset: off, Want: want, Got: got}
	}
	head, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, corrupt(0, "a header line", "none")
	}
	fields := strings.Split(string(head), " ") // strict: any changed byte is damage
	if len(fields) != 4 || fields[0] != ManifestMagic {
		return nil, corrupt(0, ManifestMagic, string(head[:min(len(head), 40)]))
	}
	if err := checkVersion(path, fields[1]); err != nil {
		return nil, err
	}
	if fields[2] != strconv.Itoa(len(body)) {
		return nil, corrupt(int64(len(head)), fields[2]+" bytes", strconv.Itoa(len(body))+" bytes")
	}
	if sum := fmt.Sprintf("%016x", ManifestSum(fields[1], body)); sum != fields[3] {
		return nil, corrupt(int64(len(head))+1, fields[3], sum)
	}
	var m Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("crawl: manifest %s: %w", path, err)
	}
	return &m, nil
}

// checkVersion returns ErrIncompatible for a manifest that this program would misread.
func checkVersion(path, version string) error {
	major, minor, _ := strings.Cut(version, ".")
	n, err := strconv.ParseUint(minor, 10, 31)
	if major != strconv.Itoa(manifestMajor) || err != nil || strconv.FormatUint(n, 10) != minor {
		return fmt.Errorf("crawl: manifest %s has format version %s, this program reads %s: %w",
			path, version, ManifestVersion, ErrIncompatible)
	}
	if n > uint64(manifestMinor) {
		return fmt.Errorf("crawl: a newer program wrote manifest %s (format version %s, this program reads %s); "+
			"use that program: %w", path, version, ManifestVersion, ErrIncompatible)
	}
	return nil
}

// Whole returns ErrIncompatible if the manifest lacks the state of a structure. That structure would start
// empty.
func (m *Manifest) Whole() error {
	for _, name := range Structures {
		if len(m.Parts[name]) == 0 {
			return fmt.Errorf("crawl: the manifest has no state of %s: %w", name, ErrIncompatible)
		}
	}
	if m.Accounts.Places[PlaceContent].N > 0 && len(m.Parts[NameContent]) == 0 {
		return fmt.Errorf("crawl: the manifest has no state of %s: %w", NameContent, ErrIncompatible)
	}
	return nil
}

// Part decodes the state of a structure; nil if the manifest has none.
func Part[S any](m *Manifest, name string) (*S, error) {
	if m == nil {
		return nil, nil
	}
	raw, ok := m.Parts[name]
	if !ok {
		return nil, nil
	}
	s := new(S)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("crawl: manifest: state of %s: %w", name, err)
	}
	return s, nil
}

// Held is the manifest's state of PlaceHeld. That place holds URLs that the operator's own flags forbid by
// address or port. The first run with other flags returns each of them once to RobotsCache.
type Held struct {
	Flags string `json:"flags"` // Options.NetworkFlags of the last run
	// Since is the Unix second from which RobotsCache's forbidden addresses follow Flags; older ones
	// followed other flags.
	Since int64 `json:"since"`
	Left  int64 `json:"left"` // records at the queue's head still to be returned under Flags
}

// Seeds is the feeder's position in the seed file. The feeder reads a file with another length or checksum
// from its start. URLseen drops the URLs that it fed before, so only new lines count.
type Seeds struct {
	Offset int64  `json:"offset"` // bytes read
	Size   int64  `json:"size"`
	Sum    uint64 `json:"sum"` // xxhash64 of the whole file
	Done   bool   `json:"done"`
}

// URLQueue is a queue of URLs and its place.
type URLQueue struct {
	Name  string
	Place Place
}

// URLQueues are the queues of URLs.
var URLQueues = [...]URLQueue{{NameAwaitRobots, PlaceAwaitRobots}, {NameReady, PlaceReady}, {NameHeld, PlaceHeld}}

// Names of the tails that the manifest itself refers to, for reports on structures.
const (
	NameRAM      = "ram"
	NameJobs     = "jobs"
	NameDelays   = "delays"
	NameHosts    = "hosts"
	NameSketches = "sketches"
	NameScope    = "scope"
	NameTraps    = "traps"
	NameLoads    = "loads"
	NameOrders   = "orders"
	NameRenders  = "renders"
	NameWalk     = "walk"
	NameIdentity = "identity" // manifest and secret, with their copies
)

// DamagedDir, under state, holds the files that a repair replaced.
const DamagedDir = "damaged"

// DumpRecords encodes records for a tail file: uvarint length and bytes of each. EachRecord decodes them.
func DumpRecords(recs [][]byte) []byte {
	var b []byte
	for _, rec := range recs {
		b = binary.AppendUvarint(b, uint64(len(rec)))
		b = append(b, rec...)
	}
	return b
}

// EachRecord calls f for each record of a dump. A wrong length is a *disk.CorruptError with path.
func EachRecord(path string, b []byte, f func(rec []byte) error) error {
	off := 0
	for off < len(b) {
		n, w := binary.Uvarint(b[off:])
		if w <= 0 || n > uint64(len(b)-off-w) {
			return &disk.CorruptError{Path: path, Offset: int64(off), Want: "a record", Got: "a length beyond the end"}
		}
		off += w
		if err := f(b[off : off+int(n)]); err != nil {
			return err
		}
		off += int(n)
	}
	return nil
}
