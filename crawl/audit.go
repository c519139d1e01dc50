package crawl

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

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

// Audit reads the files of a stopped crawl, never its counters but for ended URLs, and compares number and key sum of
// URLseen with those of all places. It changes nothing but takes the directories' locks. The error is damage found in a
// file (*disk.CorruptError) or a directory that can't be read.
func Audit(fsys disk.FS, dirs []string) (rep *AuditReport, err error) {
	r := newRing(Options{FS: fsys, Dirs: dirs, Out: dirs})
	defer func() {
		for _, l := range r.locks {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, dir := range dirs {
		lock, err := fsys.Lock(dir)
		if err != nil {
			return nil, fmt.Errorf("crawl: directory %s: %w", dir, err)
		}
		r.locks = append(r.locks, lock)
	}
	match, err := disk.MatchIdentities(r.meter, dirs, kindState)
	if err != nil {
		return nil, fmt.Errorf("crawl: %w: %w", ErrIncompatible, err)
	}
	if match.Set.Len() == 0 {
		return nil, fmt.Errorf("crawl: %s holds no crawl: %w", dirs[0], ErrIncompatible)
	}
	r.set = match.Set
	m, err := readManifest(r.set)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, fmt.Errorf("crawl: %s holds a crawl without a checkpoint: nothing to audit: %w", dirs[0], ErrIncompatible)
	}
	secret, err := r.openSecret(true)
	if err != nil {
		return nil, err
	}
	r.hasher = weburl.NewHasher(secret)
	if r.hasher.ContentKey([]byte(secretCheckText)) != m.Frozen.SecretCheck {
		return nil, fmt.Errorf("crawl: secret and manifest don't belong together: %w", ErrIncompatible)
	}
	return r.audit(m)
}

func (r *ring) audit(m *manifest) (*AuditReport, error) {
	rep := &AuditReport{Crawl: m.Crawl, Checkpoint: m.Gen, Refused: map[string]int64{}}
	var files [numPlaces]weburl.Sum
	if err := r.auditPlaces(m, &files); err != nil {
		return nil, err
	}
	seen, err := statePart[drum.State](m, nameURLSeen)
	if err != nil {
		return nil, err
	}
	rep.Unique = AuditRow{Place: "URLseen", Account: m.Accounts.Unique}
	if seen != nil {
		err := drum.WalkCache(r.set, nameURLSeen, seen, func(key drum.Key, _ []byte) error {
			rep.Unique.Files.Add(uint64(key))
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
	return rep, nil
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
	for _, q := range []struct {
		name  string
		place Place
	}{{nameAwaitRobots, PlaceAwaitRobots}, {nameReady, PlaceReady}} {
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
