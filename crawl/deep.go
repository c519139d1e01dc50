package crawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/crawllog"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// DeepReport is what AuditDeep found.
type DeepReport struct {
	AuditReport
	// Structures has a row for each structure of the manifest.
	Structures []StructureReport
	// Damages are the first MaxDamages pieces that can't be read, or that can't be what was written; DamageCount is their
	// number.
	Damages     []Damage
	DamageCount int64
	Keys        KeysReport
	Output      OutputReport
	// Unnamed are the first files of the state that the manifest doesn't name: recovery deletes them. UnnamedCount is their
	// number.
	Unnamed      []string
	UnnamedCount int64
	Bytes        int64 // read
	Elapsed      time.Duration

	damaged map[string]bool // structures with damage, also beyond MaxDamages
}

// MaxDamages bounds the lists of a DeepReport.
const MaxDamages = 1000

// StructureReport is one structure on disk.
type StructureReport struct {
	Name string
	// Records are the URLs, requests, entries or texts that could be read; Lost those that the manifest counts and that
	// could not.
	Records, Lost int64
	Damages       int64
}

// Damage is one piece of a file that isn't what was written.
type Damage struct {
	Structure string
	File      string
	Offset    int64
	Want, Got string // Want is "" when the error has no such form; Got then is its text
}

func (d *Damage) String() string {
	if d.Want == "" {
		return fmt.Sprintf("%s: %s", d.Structure, d.Got)
	}
	return fmt.Sprintf("%s: %s at %d: want %s, got %s", d.Structure, d.File, d.Offset, d.Want, d.Got)
}

// KeysReport is the comparison of all keys, one by one.
type KeysReport struct {
	NotSeen  int64 // URLs in a place, or ended, whose key isn't in URLseen
	Twice    int64 // keys in two places, or in one and ended, or ended twice
	Nowhere  int64 // keys in URLseen in no place and not known to have ended
	Examples []string
}

// OutputReport is the comparison of WARC files, index and crawl log.
type OutputReport struct {
	Checked  bool // false: the output's directories were not given
	WARC     warc.Verified
	LogLines int64
	// Robots and DNS are the records of robots.txt files and DNS answers in WARC files and indexes, RobotsStored and DNSStored what the
	// account says.
	Robots, DNS, RobotsStored, DNSStored int64
	// StoredAll: output and crawl log name every fetched URL; RefusedAll: the crawl log names every refused one. Then
	// every ended URL is known by its key, not by number alone.
	StoredAll, RefusedAll bool
	Disagree              int64 // lines of the crawl log about a stored response that isn't where they say
}

// Balanced is true when nothing is amiss and nothing is damaged.
func (d *DeepReport) Balanced() bool { return d.AuditReport.Balanced() && d.DamageCount == 0 }

// AuditDeep reads all that the manifest names once, in the order of the files, verifies every checksum, sorts the keys of
// all places and of the output in bounded RAM, and compares them one by one with URLseen. It goes on behind damage. It
// changes nothing but TempDir.
func AuditDeep(opt AuditOptions) (rep *DeepReport, err error) {
	r, m, err := openAudit(&opt)
	if r != nil {
		defer func() { err = errors.Join(err, r.unlock()) }()
	}
	if err != nil {
		return nil, err
	}
	x, err := r.newDeepAudit(m, &opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	if err := x.run(); err != nil {
		return nil, err
	}
	return x.rep, nil
}

// deepAudit is the work of AuditDeep, and the first half of Repair's.
type deepAudit struct {
	r      *ring
	m      *manifest
	opt    *AuditOptions
	rep    *DeepReport
	sorter *keySorter
	meter  *progressMeter

	files   [numPlaces]weburl.Sum
	seen    weburl.Sum
	names   weburl.Sum
	fetched weburl.Sum // URLs with a response in the output or a line of it in the crawl log
	refused weburl.Sum // URLs with a refusal in the crawl log
	// visit, if set, is called with every key and its entries, seen telling whether it is in URLseen.
	visit func(key uint64, entries []taggedKey, seen bool) error
	row   *StructureReport
	// lostTexts of links that URLseen had not judged or not handed on.
	lostTexts int64
}

const defaultAuditRAM = 256 << 20

func (r *ring) newDeepAudit(m *manifest, opt *AuditOptions) (*deepAudit, error) {
	if opt.RAMBytes == 0 {
		opt.RAMBytes = defaultAuditRAM
	}
	if opt.TempDir == "" {
		opt.TempDir = r.set.Path(0)
	}
	if err := r.openSuffixes(true); err != nil {
		return nil, err
	}
	return &deepAudit{r: r, m: m, opt: opt, rep: &DeepReport{damaged: map[string]bool{}},
		sorter: newKeySorter(r.set.FS, opt.TempDir+"/audit-tmp", opt.RAMBytes/2)}, nil
}

func (x *deepAudit) close() error { return x.sorter.close() }

func (x *deepAudit) run() error {
	began, before := time.Now(), x.r.meter.Counts().ReadBytes
	x.meter = x.r.startProgress(x.opt, "state", "warc", "log")
	defer x.meter.end()
	if err := x.scanState(); err != nil {
		return err
	}
	if err := x.scanOutput(); err != nil {
		return err
	}
	if err := x.unnamed(); err != nil {
		return err
	}
	x.begin(nameURLSeen)
	if err := x.compareKeys(); err != nil {
		return err
	}
	x.conclude()
	x.rep.Bytes, x.rep.Elapsed = x.r.meter.Counts().ReadBytes-before, time.Since(began)
	return nil
}

// begin makes the structure the one that damage and counts belong to.
func (x *deepAudit) begin(name string) {
	x.meter.set(name)
	for i := range x.rep.Structures {
		if x.rep.Structures[i].Name == name {
			x.row = &x.rep.Structures[i]
			return
		}
	}
	x.rep.Structures = append(x.rep.Structures, StructureReport{Name: name})
	x.row = &x.rep.Structures[len(x.rep.Structures)-1]
}

// damage notes damage of the present structure.
func (x *deepAudit) damage(err error) error {
	if errors.Is(err, disk.ErrCrashed) {
		return err
	}
	x.row.Damages++
	x.rep.DamageCount++
	x.rep.damaged[x.row.Name] = true
	if len(x.rep.Damages) >= MaxDamages {
		return nil
	}
	d := Damage{Structure: x.row.Name, Got: err.Error()}
	if c := (*disk.CorruptError)(nil); errors.As(err, &c) {
		d.File, d.Offset, d.Want, d.Got = c.Path, c.Offset, c.Want, c.Got
	}
	x.rep.Damages = append(x.rep.Damages, d)
	return nil
}

// lost notes records that could not be read.
func (x *deepAudit) lost(n int64) { x.row.Lost += n }

// record takes a URL record of a place: its key goes to the sorter.
func (x *deepAudit) record(p Place, data []byte) (weburl.Record, error) {
	var rec weburl.Record
	x.row.Records++
	if err := rec.Decode(data); err != nil {
		x.lost(1)
		x.row.Records--
		return rec, x.damage(fmt.Errorf("a record that can't be read: %w", err))
	}
	key := x.r.hasher.URLKey(rec.URL)
	x.files[p].Add(key)
	return rec, x.sorter.add(taggedKey{key: key, tag: uint8(p)})
}

// markOf hashes where a response is.
func markOf(file string, offset int64, status int) uint32 {
	b := make([]byte, 0, 128)
	b = append(b, file...)
	b = binary.LittleEndian.AppendUint64(b, uint64(offset))
	b = binary.LittleEndian.AppendUint32(b, uint32(status))
	return max(1, uint32(xxhash.Sum64(b)))
}

// scanOutput reads WARC files, index and logs.
func (x *deepAudit) scanOutput() error {
	out := &x.rep.Output
	x.begin(nameCrawlLog)
	st, err := statePart[crawllog.State](x.m, nameCrawlLog)
	if err != nil {
		return err
	}
	if st != nil {
		sum, err := crawllog.Scan(crawllog.Options{Set: x.r.set, Prefix: "crawl"}, st, x.logEntry, x.damage)
		if err != nil {
			return err
		}
		out.LogLines, x.row.Records = sum.Lines, sum.Lines
	}
	for _, l := range []struct{ name, prefix string }{{nameSeedLog, "seeds"}, {nameRobotsLog, "robots"}} {
		x.begin(l.name)
		if st, err = statePart[crawllog.State](x.m, l.name); err != nil {
			return err
		}
		if st != nil {
			sum, err := crawllog.Scan(crawllog.Options{Set: x.r.set, Prefix: l.prefix}, st,
				func(*crawllog.Entry) error { return nil }, x.damage)
			if err != nil {
				return err
			}
			x.row.Records = sum.Lines
		}
	}
	out.Checked = x.r.out.Len() > 0
	if !out.Checked {
		return nil
	}
	x.begin(nameWARC)
	ws, err := statePart[warc.State](x.m, nameWARC)
	if err != nil || ws == nil {
		return err
	}
	out.WARC, err = warc.VerifyFiles(x.r.warcOptions(), ws, warc.Verify{
		MaxBlock: max(64<<20, x.opt.RAMBytes/2),
		Capture:  x.capture, Indexed: x.capture, Damaged: x.damage,
	})
	x.row.Records = out.WARC.Records
	return err
}

// capture takes a stored response.
func (x *deepAudit) capture(c *warc.Capture) error {
	switch c.Kind { // these aren't URLs of the crawl
	case warc.KindRobots:
		x.rep.Output.Robots++
		return nil
	case warc.KindDNS:
		x.rep.Output.DNS++
		return nil
	}
	key := x.r.hasher.URLKey([]byte(c.URL))
	return x.sorter.add(taggedKey{key: key, tag: tagStored, mark: markOf(c.File, c.Offset, c.Status)})
}

// logEntry takes a line of the crawl log.
func (x *deepAudit) logEntry(e *crawllog.Entry) error {
	k := taggedKey{key: x.r.hasher.URLKey([]byte(e.URL)), tag: tagLogRefused}
	if e.Reason == "" {
		k.tag = tagLogFetched
		if e.File != "" {
			k.mark = markOf(e.File, e.Offset, e.Status)
		}
	}
	return x.sorter.add(k)
}

// compareKeys goes through URLseen's keys and all others side by side, in order.
func (x *deepAudit) compareKeys() error {
	return x.eachKey(func(key uint64, entries []taggedKey, seen bool) error {
		if seen {
			x.seen.Add(key)
		}
		return x.compare(key, entries, seen)
	})
}

// eachKey calls fn for each key that is in URLseen (seen) or was met elsewhere, in order.
func (x *deepAudit) eachKey(fn func(key uint64, entries []taggedKey, seen bool) error) error {
	stream, err := x.sorter.sorted()
	if err != nil {
		return err
	}
	defer stream.close()
	var buf []taggedKey
	group, more, err := stream.group(buf)
	if err != nil {
		return err
	}
	next := func() error {
		group, more, err = stream.group(group)
		return err
	}
	err = x.scanSeen(func(key drum.Key, _ []byte) error {
		for more && group[0].key < uint64(key) {
			if err := fn(group[0].key, group, false); err != nil {
				return err
			}
			if err := next(); err != nil {
				return err
			}
		}
		if more && group[0].key == uint64(key) {
			if err := fn(uint64(key), group, true); err != nil {
				return err
			}
			return next()
		}
		return fn(uint64(key), nil, true)
	})
	for err == nil && more {
		if err = fn(group[0].key, group, false); err == nil {
			err = next()
		}
	}
	return err
}

// compare judges one key.
func (x *deepAudit) compare(key uint64, entries []taggedKey, seen bool) error {
	var live, stored, logged, refused int
	for _, e := range entries {
		switch e.tag {
		case tagStored:
			stored++
		case tagLogFetched:
			logged++
		case tagLogRefused:
			refused++
		default:
			live++
		}
	}
	if stored+logged > 0 {
		x.fetched.Add(key)
	}
	if refused > 0 {
		x.refused.Add(key)
	}
	k := &x.rep.Keys
	ended := max(stored, logged) + refused
	switch {
	case live+ended == 0 && seen:
		k.Nowhere++
	case !seen:
		k.NotSeen++
		x.example("not in URLseen", key, entries)
	}
	if live+ended > 1 {
		k.Twice++
		x.example("more than once", key, entries)
	}
	if stored > 0 && logged > 0 && !agree(entries) {
		x.rep.Output.Disagree++
		x.example("the crawl log and the WARC files disagree", key, entries)
	}
	if x.visit != nil {
		return x.visit(key, entries, seen)
	}
	return nil
}

// agree tells whether each line of the crawl log that names a stored response names one that is there.
func agree(entries []taggedKey) bool {
	for _, e := range entries {
		if e.tag == tagLogFetched && e.mark != 0 &&
			!slices.ContainsFunc(entries, func(o taggedKey) bool { return o.tag == tagStored && o.mark == e.mark }) {
			return false
		}
	}
	return true
}

// maxExamples bounds the keys that are shown.
const maxExamples = 20

func (x *deepAudit) example(what string, key uint64, entries []taggedKey) {
	if len(x.rep.Keys.Examples) >= maxExamples {
		return
	}
	text := fmt.Sprintf("key %016x %s:", key, what)
	for _, e := range entries {
		text += " " + tagName(e.tag)
	}
	x.rep.Keys.Examples = append(x.rep.Keys.Examples, text)
}

func tagName(tag uint8) string {
	switch tag {
	case tagStored:
		return "stored"
	case tagLogFetched:
		return "log:fetched"
	case tagLogRefused:
		return "log:refused"
	}
	return Place(tag).String()
}

// conclude makes the balance of what was read.
func (x *deepAudit) conclude() {
	rep, out := x.rep, &x.rep.Output
	fetched, refused := x.m.Accounts.Places[PlaceFetched], x.m.Accounts.Places[PlaceRefused]
	out.StoredAll = x.fetched.N >= fetched.N
	out.RefusedAll = x.refused.N >= refused.N
	rep.AuditReport = *balance(x.m, &x.files, x.seen, x.names)
	bad := func(format string, args ...any) { rep.Bad = append(rep.Bad, fmt.Sprintf(format, args...)) }
	ended := func(p Place, found weburl.Sum, where string) {
		account := x.m.Accounts.Places[p]
		row := &rep.Rows[p]
		row.Ended, row.Files = false, found
		if found != account {
			bad("%s: %s hold %d URLs, the account says %d%s", p, where, found.N, account.N, sameNumber(found, account))
		}
	}
	if out.StoredAll {
		ended(PlaceFetched, x.fetched, "output and crawl log")
	}
	if out.RefusedAll {
		ended(PlaceRefused, x.refused, "the crawl log")
	}
	out.RobotsStored, out.DNSStored = x.m.Accounts.Counters[CountRobotsStored], x.m.Accounts.Counters[CountDNSStored]
	whole := out.Checked && out.WARC.AbsentFiles == 0 && !rep.damaged[nameWARC]
	for _, s := range []struct {
		what           string
		found, account int64
	}{{"robots.txt records", out.Robots, out.RobotsStored}, {"DNS records", out.DNS, out.DNSStored}} {
		if s.found > s.account || whole && s.found < s.account {
			bad("the output holds %d %s, the account says %d", s.found, s.what, s.account)
		}
	}
	k := &rep.Keys
	if k.NotSeen > 0 {
		bad("%d URLs are in a place or in the output, but not in URLseen", k.NotSeen)
	}
	if k.Twice > 0 {
		bad("%d URLs are in more than one place, or ended more than once", k.Twice)
	}
	if out.StoredAll && out.RefusedAll && k.Nowhere > 0 {
		bad("%d keys of URLseen are in no place, and neither fetched nor refused", k.Nowhere)
	}
	if out.Disagree > 0 {
		bad("%d lines of the crawl log name a response that isn't where they say", out.Disagree)
	}
}
