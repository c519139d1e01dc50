package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// DeepReport is the result of Deep.
type DeepReport struct {
	Report
	// Structures has a row for each structure of the manifest.
	Structures []StructureReport
	// Damages are the first MaxDamages pieces that are unreadable or invalid. DamageCount is the number of
	// all.
	Damages     []Damage
	DamageCount int64
	Keys        KeysReport
	Output      OutputReport
	// Unnamed are the first MaxDamages state files that the manifest does not name; the next start deletes
	// them. UnnamedCount is the number of all.
	Unnamed      []string
	UnnamedCount int64
	Bytes        int64 // read
	Elapsed      time.Duration

	Damaged map[string]bool // structures with damage, also beyond MaxDamages
}

// MaxDamages limits the lists of a DeepReport.
const MaxDamages = 1000

// StructureReport is the result for one structure.
type StructureReport struct {
	Name string
	// Records counts the readable URLs, requests, entries or texts. Lost counts those that the manifest
	// counts and that are unreadable.
	Records, Lost int64
	Damages       int64
}

// Damage is one damaged piece of a file.
type Damage struct {
	Structure string
	File      string
	Offset    int64
	Want, Got string // Want is "" if the error is no *disk.CorruptError; Got then is the error's text
}

// String returns the damage in one line.
func (d *Damage) String() string {
	if d.Want == "" {
		return fmt.Sprintf("%s: %s", d.Structure, d.Got)
	}
	return fmt.Sprintf("%s: %s at %d: want %s, got %s", d.Structure, d.File, d.Offset, d.Want, d.Got)
}

// KeysReport is the result of comparing all keys one by one.
type KeysReport struct {
	NotSeen  int64 // URLs in a place, or ended, whose key is not in URLseen
	Twice    int64 // keys in two places, in one and ended, or ended twice
	Nowhere  int64 // keys in URLseen that are in no place and not known to have ended
	Examples []string
}

// OutputReport is the comparison of WARC files, index and crawl log.
type OutputReport struct {
	Checked  bool // false if the output's directories were not given
	WARC     warc.Verified
	LogLines int64
	// Robots and DNS count the records of robots.txt files and of DNS answers in the WARC files and indexes,
	// as do Rendered for rendered pages and Answers for the answers to their requests. The fields with
	// Stored are the accounts of them.
	Robots, DNS, RobotsStored, DNSStored int64
	Rendered, RenderedStored             int64
	Answers, AnswersStored               int64
	// StoredAll means that output and crawl log name every fetched URL. RefusedAll means that the crawl log
	// names every refused URL. With both, the key of every ended URL is known, not only their number and sum.
	StoredAll, RefusedAll bool
	// Remote is about files in an object store.
	Remote   RemoteReport
	Disagree int64 // keys with a line of the crawl log that names a response that is not there
}

// Balanced reports whether the audit found neither discrepancies nor damage.
func (d *DeepReport) Balanced() bool { return d.Report.Balanced() && d.DamageCount == 0 }

// Deep reads once, in file order, everything that the manifest names. It verifies every checksum, sorts the
// keys of all places and of the output in bounded RAM, and compares them one by one with URLseen. It
// continues after damage. It changes only TempDir.
func Deep(opt Options) (rep *DeepReport, err error) {
	r, m, err := Open(&opt)
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return nil, err
	}
	x, err := NewScanner(r, m, &opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	if err := x.Run(); err != nil {
		return nil, err
	}
	return x.Report, nil
}

// Scanner runs a deep audit, also for a repair.
type Scanner struct {
	Saved    *state.Saved
	Manifest *state.Manifest
	opt      *Options
	Report   *DeepReport
	sorter   *keySorter
	meter    *state.ProgressMeter

	Files   [state.NumPlaces]weburl.Sum
	Seen    weburl.Sum
	Names   weburl.Sum
	Fetched weburl.Sum // URLs with a response in the output or a fetched line in the crawl log
	Refused weburl.Sum // URLs with a refusal in the crawl log
	// Fetched excludes the URLs below. FetchedUnseen have ended, but URLseen has not merged them yet.
	// FetchedOrdered have ended and were enqueued again: with Visit, the record of the order counts as that
	// of the URL.
	FetchedUnseen, FetchedOrdered weburl.Sum
	// MovedKeys are keys of slots that have moved here, and that URLseen has not passed on; early are those of URLs
	// that came before URLseen has merged their keys.
	MovedKeys, early weburl.Sum
	// Away are URLs that ended here before their slots moved to other nodes, and those that leave BEAST for them.
	Away weburl.Sum
	// Visit, if set, is called with every key, its entries, and whether URLseen has it.
	Visit   func(key uint64, entries []TaggedKey, seen bool) error
	nowhere weburl.Sum // of the keys that KeysReport.Nowhere counts
	row     *StructureReport
	// foreign counts the keys of URLseen.
	foreign foreignKeys
	// visits are the slots of divided PLDs with hosts that this node visits: their URLs may be here without their keys.
	visits state.Slots
	// orders are the URLs of the table of orders, with whether they have a second record.
	orders      map[uint64]bool
	orderedKeys int64 // records of the queue of all keys that were enqueued
	// LostTexts counts lost texts of links that URLseen had not checked or not passed on.
	LostTexts int64
	// Outboxes are the contents of the outboxes of a node of a cluster, by the other node.
	Outboxes map[int]*cluster.OutboxFound
	cluster  *Cluster
	Stored   []StoredFile // those of the list of objects
	// URL, if set, is called with the URL of each record, and of each response and line of the crawl log, with its
	// place: PlaceFetched for the latter two. The URL is valid during the call.
	URL func(url []byte, at state.Place) error
}

const defaultAuditRAM = 256 << 20

// NewScanner prepares a deep audit of a crawl that Open returned. The caller must call Close.
func NewScanner(r *state.Saved, m *state.Manifest, opt *Options) (*Scanner, error) {
	if opt.RAMBytes == 0 {
		opt.RAMBytes = defaultAuditRAM
	}
	if opt.TempDir == "" {
		opt.TempDir = r.Set.Path(0)
	}
	if err := r.OpenSuffixes(m.Frozen.Private, true); err != nil {
		return nil, err
	}
	x := &Scanner{Saved: r, Manifest: m, opt: opt, Report: &DeepReport{Damaged: map[string]bool{}},
		sorter: newKeySorter(r.Set.FS, opt.TempDir+"/audit-tmp", opt.RAMBytes/2)}
	tables, err := m.DividedTables()
	for _, t := range tables {
		for _, d := range t.Divisions() {
			if d.Parts.Share(m.Frozen.Node) > 0 {
				x.visits.Set(d.Slot)
			}
		}
	}
	return x, err
}

// Close removes the temporary files.
func (x *Scanner) Close() error { return x.sorter.Close() }

// Run reads all files and fills Report. It reports damage there, not as an error.
func (x *Scanner) Run() error {
	began, before := time.Now(), x.Saved.Meter.Counts().ReadBytes
	x.meter = x.Saved.StartProgress(x.opt.Progress, x.opt.ProgressEvery, "state", "warc", "log")
	defer x.meter.End()
	if err := x.scanState(); err != nil {
		return err
	}
	if err := errors.Join(x.objects(), x.scanOutput(), x.Saved.RemoteFailed(), x.scanErased()); err != nil {
		return err
	}
	if err := x.unnamed(); err != nil {
		return err
	}
	x.Begin(state.NameURLSeen)
	if err := x.compareKeys(); err != nil {
		return err
	}
	x.conclude()
	x.Report.Bytes, x.Report.Elapsed = x.Saved.Meter.Counts().ReadBytes-before, time.Since(began)
	return nil
}

// Begin selects the structure that the following damage and counts belong to.
func (x *Scanner) Begin(name string) {
	x.meter.Set(name)
	for i := range x.Report.Structures {
		if x.Report.Structures[i].Name == name {
			x.row = &x.Report.Structures[i]
			return
		}
	}
	x.Report.Structures = append(x.Report.Structures, StructureReport{Name: name})
	x.row = &x.Report.Structures[len(x.Report.Structures)-1]
}

// damage records damage of the current structure. It returns err only if a test's simulated crash caused it.
func (x *Scanner) damage(err error) error {
	if errors.Is(err, disk.ErrCrashed) {
		return err
	}
	x.row.Damages++
	x.Report.DamageCount++
	x.Report.Damaged[x.row.Name] = true
	if len(x.Report.Damages) >= MaxDamages {
		return nil
	}
	d := Damage{Structure: x.row.Name, Got: err.Error()}
	if c := (*disk.CorruptError)(nil); errors.As(err, &c) {
		d.File, d.Offset, d.Want, d.Got = c.Path, c.Offset, c.Want, c.Got
	}
	x.Report.Damages = append(x.Report.Damages, d)
	return nil
}

// lost records n lost records of the current structure.
func (x *Scanner) lost(n int64) { x.row.Lost += n }

// record decodes a URL record of a place and adds its key to the sorter.
func (x *Scanner) record(p state.Place, data []byte) (weburl.Record, error) {
	var rec weburl.Record
	x.row.Records++
	if err := rec.Decode(data); err != nil {
		x.lost(1)
		x.row.Records--
		return rec, x.damage(fmt.Errorf("unreadable record: %w", err))
	}
	if err := x.url(rec.URL, p); err != nil {
		return rec, err
	}
	key := x.Saved.Hasher.URLKey(rec.URL)
	x.Files[p].Add(key)
	return rec, x.sorter.add(TaggedKey{Key: key, Tag: uint8(p)})
}

// url passes a URL to URL.
func (x *Scanner) url(url []byte, at state.Place) error {
	if x.URL == nil {
		return nil
	}
	return x.URL(url, at)
}

// markOf hashes the position and status of a response; never 0.
func markOf(file string, offset int64, status int) uint32 {
	b := make([]byte, 0, 128)
	b = append(b, file...)
	b = binary.LittleEndian.AppendUint64(b, uint64(offset))
	b = binary.LittleEndian.AppendUint32(b, uint32(status))
	return max(1, uint32(xxhash.Sum64(b)))
}

// scanOutput reads WARC files, index and logs.
func (x *Scanner) scanOutput() error {
	out := &x.Report.Output
	x.Begin(state.NameCrawlLog)
	st, err := state.Part[crawllog.State](x.Manifest, state.NameCrawlLog)
	if err != nil {
		return err
	}
	if st != nil {
		sum, err := crawllog.Scan(crawllog.Options{Set: x.Saved.Set, Prefix: "crawl"}, st, x.logEntry, x.damage)
		if err != nil {
			return err
		}
		out.LogLines, x.row.Records = sum.Lines, sum.Lines
	}
	for _, l := range []struct{ name, prefix string }{{state.NameSeedLog, "seeds"}, {state.NameRobotsLog, "robots"}} {
		x.Begin(l.name)
		if st, err = state.Part[crawllog.State](x.Manifest, l.name); err != nil {
			return err
		}
		if st != nil {
			sum, err := crawllog.Scan(crawllog.Options{Set: x.Saved.Set, Prefix: l.prefix}, st,
				func(*crawllog.Entry) error { return nil }, x.damage)
			if err != nil {
				return err
			}
			x.row.Records = sum.Lines
		}
	}
	out.Checked = x.Saved.Out.Len() > 0
	if !out.Checked {
		return nil
	}
	x.Begin(state.NameWARC)
	ws, err := state.Part[warc.State](x.Manifest, state.NameWARC)
	if err != nil || ws == nil {
		return err
	}
	out.WARC, err = warc.VerifyFiles(x.Saved.WARCFiles(), ws, warc.Verify{
		MaxBlock: max(64<<20, x.opt.RAMBytes/2),
		Omitted:  func(url string) error { return x.capture(&warc.Capture{URL: url}) },
		Capture:  x.capture, Indexed: x.capture, Damaged: x.damage,
	})
	x.row.Records = out.WARC.Records
	out.WARC.AbsentFiles = max(0, out.WARC.AbsentFiles-out.Remote.Unread) // they are in the object store
	return err
}

// scanErased reads the keys of URLs that were erased, which count as refused.
func (x *Scanner) scanErased() error {
	x.Begin(nameErased)
	err := x.Saved.EachErasedKey(func(key uint64) error {
		x.row.Records++
		return x.sorter.add(TaggedKey{Key: key, Tag: tagLogRefused})
	})
	if corrupt := (*disk.CorruptError)(nil); errors.As(err, &corrupt) {
		return x.damage(corrupt)
	}
	return err
}

// nameErased is the structure of the keys of erased URLs.
const nameErased = state.ErasedDir

// capture adds a stored response.
func (x *Scanner) capture(c *warc.Capture) error {
	switch c.Kind { // these are not URLs of the crawl
	case warc.KindRobots:
		x.Report.Output.Robots++
		return nil
	case warc.KindDNS:
		x.Report.Output.DNS++
		return nil
	case warc.KindRendered:
		x.Report.Output.Rendered++
		return nil
	case warc.KindScript:
		x.Report.Output.Answers++
		return nil
	}
	if err := x.url([]byte(c.URL), state.PlaceFetched); err != nil {
		return err
	}
	key := x.Saved.Hasher.URLKey([]byte(c.URL))
	return x.sorter.add(TaggedKey{Key: key, Tag: tagStored, Mark: markOf(c.File, c.Offset, c.Status)})
}

// logEntry adds a line of the crawl log that ended a URL.
func (x *Scanner) logEntry(e *crawllog.Entry) error {
	if e.Order {
		return nil
	}
	if err := x.url([]byte(e.URL), state.PlaceFetched); err != nil {
		return err
	}
	k := TaggedKey{Key: x.Saved.Hasher.URLKey([]byte(e.URL)), Tag: tagLogRefused}
	if e.Reason == "" {
		k.Tag = tagLogFetched
		if e.File != "" {
			k.Mark = markOf(e.File, e.Offset, e.Status)
		}
	}
	return x.sorter.add(k)
}

// conclude compares the sums with the accounts and describes the discrepancies.
func (x *Scanner) conclude() {
	rep, out := x.Report, &x.Report.Output
	fetched, refused := x.Manifest.Accounts.Places[state.PlaceFetched], x.Manifest.Accounts.Places[state.PlaceRefused]
	out.StoredAll = x.Fetched.N >= fetched.N
	out.RefusedAll = x.Refused.N >= refused.N
	rep.Report = *balance(x.Manifest, &x.Files, x.Seen, x.Names, x.MovedKeys)
	rep.Cluster = x.cluster
	x.cluster.check(x.Manifest, &rep.Report)
	x.foreign.conclude(&rep.Report)
	bad := func(format string, args ...any) { rep.Bad = append(rep.Bad, fmt.Sprintf(format, args...)) }
	ended := func(p state.Place, found weburl.Sum, where string) {
		account := x.Manifest.Accounts.Places[p]
		row := &rep.Rows[p]
		row.Ended, row.Files = false, found
		if found != account {
			bad("%s: %s hold %s, the account says %d%s", p, where, human.Counted(found.N, "URL", "URLs"),
				account.N, sameNumber(found, account))
		}
	}
	elsewhere, several := x.endedElsewhere()
	if out.StoredAll && !several {
		ended(state.PlaceFetched, x.Fetched, "output and crawl log")
	}
	if out.RefusedAll {
		ended(state.PlaceRefused, x.Refused, "the crawl log")
	}
	counters := &x.Manifest.Accounts.Counters
	out.RobotsStored, out.DNSStored = counters[state.CountRobotsStored], counters[state.CountDNSStored]
	out.RenderedStored, out.AnswersStored = counters[state.CountRenderedStored], counters[state.CountRenderAnswers]
	whole := out.Checked && out.WARC.AbsentFiles+out.Remote.Unread == 0 && !rep.Damaged[state.NameWARC]
	for _, s := range []struct {
		what           string
		found, account int64
	}{{"robots.txt records", out.Robots, out.RobotsStored}, {"DNS records", out.DNS, out.DNSStored},
		{"rendered pages", out.Rendered, out.RenderedStored},
		{"answers to rendered pages", out.Answers, out.AnswersStored}} {
		if s.found > s.account || whole && s.found < s.account {
			bad("the output holds %d %s, the account says %d", s.found, s.what, s.account)
		}
	}
	k := &rep.Keys
	if k.NotSeen > 0 {
		bad("%s in a place or in the output but not in URLseen",
			human.Counted(k.NotSeen, "URL is", "URLs are"))
	}
	if k.Twice > 0 {
		bad("%s in more than one place, or done more than once", human.Counted(k.Twice, "URL is", "URLs are"))
	}
	moved := x.Away
	moved.Remove(x.nowhere)
	moved.Merge(x.early)
	moved.Merge(x.MovedKeys)
	moved.Remove(elsewhere)
	if (out.StoredAll || several) && out.RefusedAll && moved != x.Manifest.Accounts.Moved {
		bad("%s in no place, and neither fetched nor refused here; %s done here before "+
			"their slots moved; the account of moved URLs says %d",
			human.Counted(k.Nowhere, "key of URLseen is", "keys of URLseen are"),
			human.Counted(x.Away.N, "URL was", "URLs were"), x.Manifest.Accounts.Moved.N)
	}
	if out.Disagree > 0 {
		bad("%s a line in the crawl log that names a response that is not there",
			human.Counted(out.Disagree, "URL has", "URLs have"))
	}
}

// endedElsewhere returns the URLs that have responses here, but have not ended here: they were visited, and waited for
// their next visit when their slots moved to other nodes. Only the difference between all that have responses and those
// that have ended is known. x.Away has the same URLs, so the account of moved URLs must fit both. ok is false if there
// cannot be any.
func (x *Scanner) endedElsewhere() (urls weburl.Sum, ok bool) {
	if x.Manifest.Frozen.Nodes == 0 || !x.Manifest.Accounts.Recrawled() {
		return urls, false
	}
	urls = x.Fetched
	urls.Remove(x.Manifest.Accounts.Places[state.PlaceFetched])
	return urls, true
}
