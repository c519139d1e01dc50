package crawl

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/weburl"
)

// AuditRow is what the audit found of one place.
type AuditRow struct {
	Place string
	// Files is what the files hold; Account what the crawl believes. For ended URLs there are no files: their account is
	// taken.
	Files, Account weburl.Sum
	Ended          bool
}

// OK is true when files and account agree.
func (a *AuditRow) OK() bool { return a.Ended || a.Files == a.Account }

// AuditReport is the balance of a stopped crawl: every unique URL is in exactly one place.
type AuditReport struct {
	Crawl      string
	Checkpoint uint64
	Unique     AuditRow // URLseen's keys against the account of unique URLs
	Names      AuditRow // those of the store of names
	Rows       []AuditRow
	Refused    map[string]int64
	Placed     weburl.Sum // sum over Rows of what the files hold
	Bad        []string   // every discrepancy, in words
}

// Balanced is true when nothing is amiss.
func (a *AuditReport) Balanced() bool { return len(a.Bad) == 0 }

// Write prints the table.
func (a *AuditReport) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "place\tURLs in files\tURLs in account\tkey sum\t\t\n")
	row := func(r *AuditRow) {
		state := "ok"
		if !r.OK() {
			state = "DIFFERS"
		}
		files := fmt.Sprint(r.Files.N)
		if r.Ended {
			files, state = "-", ""
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%016x%016x\t%s\t\n", r.Place, files, r.Account.N, r.Account.Hi, r.Account.Lo, state)
	}
	for i := range a.Rows {
		row(&a.Rows[i])
	}
	row(&a.Unique)
	row(&a.Names)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, why := range a.Bad {
		if _, err := fmt.Fprintln(w, "AUDIT:", why); err != nil {
			return err
		}
	}
	if a.Balanced() {
		_, err := fmt.Fprintf(w, "balanced: %d unique URLs, each in exactly one place (checkpoint %d)\n", a.Unique.Files.N, a.Checkpoint)
		return err
	}
	_, err := fmt.Fprintln(w, "NOT balanced")
	return err
}

// AuditOptions say what is audited, and how.
type AuditOptions struct {
	// FS is the file system; nil means the machine's.
	FS disk.FS
	// Dirs are all directories of the crawl, in any order; Out those of its output if it has some of its own. Without
	// them AuditDeep leaves the output out, and says so.
	Dirs, Out []string
	// RAMBytes bounds what AuditDeep sorts in RAM; 0 means 256 MiB. The buffers that the crawl left in its last checkpoint
	// come on top.
	RAMBytes int64
	// TempDir is where AuditDeep makes a directory audit-tmp and sorts what doesn't fit into RAM, 13 bytes a URL; ""
	// means the first of Dirs. What it made is removed at the end.
	TempDir string
	// Progress, if set, is called every ProgressEvery, 0 meaning 1 s, from another goroutine, and once at the end.
	Progress      func(AuditProgress)
	ProgressEvery time.Duration

	repairing bool
	without   bool // the directories with the highest numbers may be missing
}

// AuditProgress is how far an audit is.
type AuditProgress struct {
	Done, Total int64 // bytes; Total is that of the files at the start
	Elapsed     time.Duration
	What        string // what is being read
}

// Audit reads the files of a stopped crawl, never its counters but for ended URLs, and compares number and key sum of
// URLseen with those of all places. It changes nothing but takes the directories' locks. The error is damage found in a
// file (*disk.CorruptError) or a directory that can't be read.
func Audit(fsys disk.FS, dirs []string) (*AuditReport, error) {
	return AuditBalance(AuditOptions{FS: fsys, Dirs: dirs})
}

// AuditBalance is Audit with options.
func AuditBalance(opt AuditOptions) (rep *AuditReport, err error) {
	r, m, err := openAudit(&opt)
	if r != nil {
		defer func() { err = errors.Join(err, r.unlock()) }()
	}
	if err != nil {
		return nil, err
	}
	p := r.startProgress(&opt, "state")
	defer p.end()
	return r.audit(m)
}

// openAudit takes the directories' locks, and reads what a crawl's files can't be read without. The ring is to be unlocked
// also after an error.
func openAudit(opt *AuditOptions) (*ring, *manifest, error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if len(opt.Dirs) == 0 {
		return nil, nil, errors.New("crawl: no directory given")
	}
	r := newRing(Options{FS: opt.FS, Dirs: opt.Dirs, Out: opt.Dirs})
	if m, err := opt.match(r.meter); err != nil { // before a lock file is made in what isn't a crawl's
		return r, nil, matchError(err)
	} else if m.Set.Len() == 0 {
		return r, nil, fmt.Errorf("crawl: %s holds no crawl: %w", opt.Dirs[0], ErrIncompatible)
	}
	for _, dir := range slices.Concat(opt.Dirs, opt.Out) {
		lock, err := opt.FS.Lock(dir)
		if err != nil {
			return r, nil, lockError(dir, err)
		}
		r.locks = append(r.locks, lock)
	}
	match, err := opt.match(r.meter)
	if err != nil {
		return r, nil, matchError(err)
	}
	if match.Set.Len() == 0 {
		return r, nil, fmt.Errorf("crawl: %s holds no crawl: %w", opt.Dirs[0], ErrIncompatible)
	}
	r.set, r.out = match.Set, match.Set
	if err := r.refuseRepairing(); err != nil && !opt.repairing {
		return r, nil, err
	}
	m, _, err := readManifest(r.set)
	if err != nil {
		return r, nil, err
	}
	if m == nil {
		return r, nil, fmt.Errorf("crawl: %s holds a crawl without a checkpoint: nothing to audit: %w", opt.Dirs[0], ErrIncompatible)
	}
	if err := m.whole(); err != nil {
		return r, nil, err
	}
	r.crawlID, r.manifest, r.gen, r.separateOut = match.Crawl, m, m.Gen, m.Frozen.SeparateOut
	r.opt.KeepEscapes = m.Frozen.KeepEscapes
	r.opt.PrivateSuffixes = m.Frozen.Private // keys of PLDs follow it
	if r.separateOut {
		if err := r.matchOut(opt.Out); err != nil {
			return r, nil, err
		}
	}
	secret, err := r.openSecret(m)
	if err != nil {
		return r, nil, err
	}
	r.hasher = weburl.NewHasher(secret)
	if r.hasher.ContentKey([]byte(secretCheckText)) != m.Frozen.SecretCheck {
		return r, nil, fmt.Errorf("crawl: secret and manifest don't belong together: %w", ErrIncompatible)
	}
	return r, m, nil
}

// matchOut finds the output directories of the crawl; with none given there is no output to be read.
func (r *ring) matchOut(paths []string) error {
	r.out = disk.Set{FS: r.meter}
	if len(paths) == 0 {
		return nil
	}
	match, err := disk.MatchIdentities(r.meter, paths, kindOutput)
	if err == nil && match.Crawl != r.crawlID {
		err = fmt.Errorf("output of crawl %q, not of %q", match.Crawl, r.crawlID)
	}
	if err != nil {
		return matchError(err)
	}
	r.out = match.Set
	return nil
}

func (r *ring) unlock() error {
	var errs []error
	for _, l := range r.locks {
		errs = append(errs, l.Close())
	}
	r.locks = nil
	return errors.Join(errs...)
}

func (r *ring) audit(m *manifest) (*AuditReport, error) {
	var files [numPlaces]weburl.Sum
	if err := r.auditPlaces(m, &files); err != nil {
		return nil, err
	}
	seen, err := statePart[drum.State](m, nameURLSeen)
	if err != nil {
		return nil, err
	}
	var keys weburl.Sum
	if seen != nil {
		err := drum.WalkCache(r.set, nameURLSeen, seen, func(key drum.Key, _ []byte) error {
			keys.Add(uint64(key))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if seen != nil {
		err := drum.WalkUniques(r.set, nameURLSeen, seen, func(aux []byte) error {
			var rec weburl.Record
			if err := rec.Decode(aux); err != nil {
				return fmt.Errorf("crawl: audit of %s: %w", PlaceUnstreamed, err)
			}
			files[PlaceUnstreamed].Add(r.hasher.URLKey(rec.URL))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	names, err := r.auditNames(m)
	if err != nil {
		return nil, err
	}
	return balance(m, &files, keys, names), nil
}

// balance compares what the files hold with the accounts.
func balance(m *manifest, files *[numPlaces]weburl.Sum, seen, names weburl.Sum) *AuditReport {
	rep := &AuditReport{Crawl: m.Crawl, Checkpoint: m.Gen, Refused: map[string]int64{}}
	rep.Unique = AuditRow{Place: "URLseen", Files: seen, Account: m.Accounts.Unique}
	rep.Names = AuditRow{Place: nameNames, Files: names, Account: m.Accounts.Names}
	if !rep.Names.OK() {
		rep.Bad = append(rep.Bad, fmt.Sprintf("%s: the cache holds %d keys, the account says %d%s", nameNames, names.N, m.Accounts.Names.N,
			sameNumber(names, m.Accounts.Names)))
	}
	// Unique texts that a pass hasn't handed on yet have no account of their own: they enter it when they do.
	m.Accounts.Places[PlaceUnstreamed] = files[PlaceUnstreamed]
	rep.Unique.Account.Merge(files[PlaceUnstreamed])
	for p := range numPlaces {
		row := AuditRow{Place: p.String(), Files: files[p], Account: m.Accounts.Places[p], Ended: p == PlaceFetched || p == PlaceRefused}
		if row.Ended {
			row.Files = row.Account
		}
		rep.Placed.Merge(row.Files)
		if !row.OK() {
			rep.Bad = append(rep.Bad, fmt.Sprintf("%s: the files hold %d URLs, the account says %d%s", p, row.Files.N, row.Account.N,
				sameNumber(row.Files, row.Account)))
		}
		rep.Rows = append(rep.Rows, row)
	}
	for i, n := range m.Accounts.Refused {
		if n > 0 {
			rep.Refused[Reason(i).String()] = n
		}
	}
	if !rep.Unique.OK() {
		rep.Bad = append(rep.Bad, fmt.Sprintf("URLseen: its cache holds %d keys, the account says %d%s", rep.Unique.Files.N,
			rep.Unique.Account.N, sameNumber(rep.Unique.Files, rep.Unique.Account)))
	}
	if rep.Placed != rep.Unique.Files {
		rep.Bad = append(rep.Bad, fmt.Sprintf("URLseen knows %d URLs, all places together hold %d%s", rep.Unique.Files.N, rep.Placed.N,
			sameNumber(rep.Placed, rep.Unique.Files)))
	}
	return rep
}

func sameNumber(a, b weburl.Sum) string {
	if a.N == b.N {
		return ", but they are not the same ones"
	}
	return ""
}

// auditPlaces adds up the records in the files of every place.
func (r *ring) auditPlaces(m *manifest, sums *[numPlaces]weburl.Sum) error {
	add := func(p Place) func([]byte) error {
		return func(data []byte) error {
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return fmt.Errorf("crawl: audit of %s: %w", p, err)
			}
			sums[p].Add(r.hasher.URLKey(rec.URL))
			return nil
		}
	}
	st, err := statePart[star.State](m, nameStar)
	if err != nil {
		return err
	}
	if err := star.WalkChecks(r.set, nameStar, st, add(PlaceStar)); err != nil {
		return err
	}
	bs, err := statePart[beast.State](m, nameBeast)
	if err != nil {
		return err
	}
	inBeast, inFailed := add(PlaceBeast), add(PlaceFailed)
	if err := beast.Walk(r.set, nameBeast, bs, func(n beast.Number, rec []byte) error {
		if n == beast.Failed {
			return inFailed(rec)
		}
		return inBeast(rec)
	}); err != nil {
		return err
	}
	cache, err := statePart[drum.State](m, nameRobotsCache)
	if err != nil {
		return err
	}
	check := add(PlaceRobotsCheck)
	if err := drum.Walk(r.set, nameRobotsCache, cache, func(t drum.Tuple) error {
		if t.Op != drum.Check {
			return nil
		}
		return check(t.Value)
	}); err != nil {
		return err
	}
	for _, q := range urlQueues {
		st, err := statePart[queue.State](m, q.name)
		if err != nil {
			return err
		}
		if err := queue.Walk(r.set, q.name, st, add(q.place)); err != nil {
			return err
		}
	}
	inLater := add(PlaceLater)
	later, err := statePart[queue.CalendarState](m, nameLater)
	if err != nil {
		return err
	}
	if err := queue.WalkCalendar(r.set, nameLater, later, func(_ int64, rec []byte) error { return inLater(rec) }); err != nil {
		return err
	}
	ram, err := disk.ReadTail(r.set, m.RAM)
	if err != nil {
		return err
	}
	return eachRecord("URLs in RAM", ram, add(PlaceRAM))
}
