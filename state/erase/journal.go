package erase

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Phases of an erasure. What belongs to a phase is done again after a crash within it.
const (
	phasePlanned = "planned" // the targets, the list of files, and bodies that move are durable: files may change
	phaseWARC    = "warc"    // the WARC files are rewritten, and the old ones deleted
	phaseState   = "state"   // logs and state are those without the targets
	phaseDone    = "done"    // the record of the erasure is durable; work files are left
)

// Record is what a crawl keeps of an erasure: erasures/NUMBER.json.
type Record struct {
	Number  int       `json:"number"` // from 1
	Time    time.Time `json:"time"`   // when it began, or the request was made
	Ended   time.Time `json:"ended"`
	Who     string    `json:"who,omitempty"` // asked for it while the crawl ran
	Reason  string    `json:"reason"`
	Digest  string    `json:"digest"`            // SHA-256 of the targets, sorted, each followed by a line feed
	Targets []string  `json:"targets,omitempty"` // the first MaxNamed, of an Order all, unless they are hidden
	Hidden  bool      `json:"hidden,omitempty"`
	Hosts   int64     `json:"hosts"`
	PLDs    int64     `json:"plds"`
	URLs    int64     `json:"urls"`
	Order   string    `json:"order,omitempty"` // as in Request
	// With is the number of the erasure that served several requests, and has their counts; 0 for that one itself.
	With   int    `json:"with,omitempty"`
	Erased Counts `json:"erased"`
	// Store is what became of objects; nil without an object store.
	Store *StoreCounts `json:"store,omitempty"`
}

// MaxNamed bounds Record.Targets.
const MaxNamed = 100

// Counts are what an erasure removes.
type Counts struct {
	Files    int64 `json:"files"`    // WARC files that are rewritten
	Bytes    int64 `json:"bytes"`    // of records that are removed
	Captures int64 `json:"captures"` // responses, revisits, DNS answers and rendered pages
	Records  int64 `json:"records"`  // all records, with these
	Changed  int64 `json:"changed"`  // records that stay and named a target
	Moved    int64 `json:"moved"`    // of them, revisits that become responses with the body
	Bodiless int64 `json:"bodiless"` // of them, revisits whose body is in no WARC file that is here
	LogLines int64 `json:"log_lines"`
	LogNamed int64 `json:"log_named"` // lines that stay and named a target
	Waiting  int64 `json:"waiting"`   // URLs that waited
	Fetched  int64 `json:"fetched"`   // URLs that were fetched
	Barred   int64 `json:"barred"`    // URLs that were unknown, and are not to be fetched
	Absent   int64 `json:"absent"`    // WARC files that are not here, and may have more records
	Outputs  int64 `json:"outputs"`   // files that are not the crawl's and are rewritten
	Rows     int64 `json:"rows"`      // of them: rows, texts and lines that are removed

	Robots   int64 `json:"robots"` // captures by kind
	DNS      int64 `json:"dns"`
	Rendered int64 `json:"rendered"`
	Answers  int64 `json:"answers"`
}

// journal is the content of state/ERASE. Format: "drumbeat-erase 1 <length> <xxhash64 hex>\n", then JSON.
type journal struct {
	Record
	Phase string `json:"phase"`
	Gen   uint64 `json:"gen"` // of the manifest before
	// Fetched are the keys of URLs that were fetched and are to count as refused; New those that URLseen gets.
	Keys    int64      `json:"keys"`
	Fetched weburl.Sum `json:"fetched_sum"`
	New     weburl.Sum `json:"new_sum"`
	// Orders are the keys of the enqueued URLs whose second records go (state.Order).
	Orders weburl.Sum `json:"orders_sum"`
	// Requests are the records of the requests that waited, if the erasure serves such. Record has their number and
	// digest together.
	Requests []Record `json:"requests,omitempty"`
}

const journalMagic = "drumbeat-erase"

// readJournal returns the journal of an unfinished erasure; nil if there is none.
func readJournal(set disk.Set) (*journal, error) {
	name := set.Path(0, state.EraseName)
	data, err := disk.ReadFile(set.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("erase: read %s: %w", name, err)
	}
	j := new(journal)
	if err := state.Unseal(journalMagic, name, data, j); err != nil {
		return nil, err
	}
	return j, nil
}

// recordName returns the path of a file of an erasure.
func recordName(set disk.Set, number int, suffix string) string {
	return set.Path(0, state.ErasedDir, fmt.Sprintf("%06d%s", number, suffix))
}

// recordSuffix is that of a record; state.ErasedKeys and state.AskedKeys are those of keys.
const recordSuffix = ".json"

// Records returns the records of the erasures of a crawl, the first one first.
func Records(set disk.Set) (all []Record, _ error) {
	names, err := set.FS.List(set.Path(0, state.ErasedDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("erase: %w", err)
	}
	for _, name := range names {
		if path.Ext(name) != recordSuffix || name[0] == '.' {
			continue
		}
		file := set.Path(0, state.ErasedDir, name)
		data, err := disk.ReadFile(set.FS, file)
		if err != nil {
			return nil, fmt.Errorf("erase: %w", err)
		}
		var r Record
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, &disk.CorruptError{Path: file, Want: "the record of an erasure", Got: err.Error()}
		}
		all = append(all, r)
	}
	return all, nil
}

// RecordsOf returns the records of the crawl in some directories, which may be running.
func RecordsOf(fsys disk.FS, dirs []string) ([]Record, error) {
	set, err := setOf(fsys, dirs)
	if err != nil {
		return nil, err
	}
	return Records(set)
}

// setOf returns the directories of a crawl.
func setOf(fsys disk.FS, dirs []string) (disk.Set, error) {
	match, err := disk.MatchIdentities(fsys, dirs, state.KindState)
	if err != nil {
		return disk.Set{}, state.MatchError(err)
	}
	if match.Set.Len() == 0 {
		return disk.Set{}, state.NoCrawl(dirs[0])
	}
	return match.Set, nil
}

// writeRecord makes a record durable.
func writeRecord(set disk.Set, r *Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return disk.WriteFileAtomic(set.FS, recordName(set, r.Number, recordSuffix), append(data, '\n'))
}
