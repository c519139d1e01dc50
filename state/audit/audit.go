package audit

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/human"
	"drumbeat/internal/objstore"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Row compares one place, or one store, with its account.
type Row struct {
	Place string
	// Files is the sum of the keys in the files; Account is the sum in the crawl's accounts. Run and
	// Balance find no files for ended URLs and take Account for Files.
	Files, Account weburl.Sum
	Ended          bool
}

// OK reports whether files and account agree.
func (a *Row) OK() bool { return a.Ended || a.Files == a.Account }

// empty reports whether the place has no URL, by the files and by the account.
func (a *Row) empty() bool { return a.Files == weburl.Sum{} && a.Account == weburl.Sum{} }

// Report is the balance of a stopped crawl: every unique URL is in exactly one place.
type Report struct {
	Crawl      string
	Checkpoint uint64
	Unique     Row // keys of URLseen against the account of unique URLs
	Names      Row // keys of the store of names
	Rows       []Row
	Orders     weburl.Sum       // second records of URLs, which the operator has enqueued
	Refused    map[string]int64 // ended and held URLs by reason
	Placed     weburl.Sum       // sum of Files over Rows
	Bad        []string         // every discrepancy, in words
	Cluster    *Cluster         // accounts of a node of a cluster; nil for one node
}

// Balanced reports whether the audit found no discrepancy.
func (a *Report) Balanced() bool { return len(a.Bad) == 0 }

// Write prints the report as a table.
func (a *Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "place\tURLs in files\tURLs in account\tkey sum\t\t\n")
	row := func(r *Row) {
		verdict := "ok"
		if !r.OK() {
			verdict = "DIFFERS"
		}
		files := fmt.Sprint(r.Files.N)
		if r.Ended {
			files, verdict = "-", ""
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%016x%016x\t%s\t\n", state.PlaceText(r.Place), files, r.Account.N,
			r.Account.Hi, r.Account.Lo, verdict)
	}
	for i := range a.Rows {
		if r := &a.Rows[i]; !r.empty() {
			row(r)
		}
	}
	row(&a.Unique)
	if !a.Names.empty() {
		row(&a.Names)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if a.Cluster != nil {
		if err := a.Cluster.Write(w); err != nil {
			return err
		}
	}
	for _, why := range a.Bad {
		if _, err := fmt.Fprintln(w, "AUDIT:", why); err != nil {
			return err
		}
	}
	if a.Balanced() {
		orders := ""
		if a.Orders.N > 0 {
			orders = fmt.Sprintf(", and %d that were enqueued", a.Orders.N)
		}
		_, err := fmt.Fprintf(w, "balanced: %s%s, each in exactly one place (checkpoint %d)\n",
			human.Counted(a.Unique.Files.N, "unique URL", "unique URLs"), orders, a.Checkpoint)
		return err
	}
	_, err := fmt.Fprintln(w, "NOT balanced")
	return err
}

// Options say which crawl to audit, and how.
type Options struct {
	// FS is the file system; nil means the machine's.
	FS disk.FS
	// Dirs are all directories of the crawl, in any order. Out are its output directories, if it has
	// separate ones. Without Out, Deep does not read such a crawl's output, and the report says so.
	Dirs, Out []string
	// RAMBytes limits the RAM in which Deep sorts; 0 means 256 MiB. The buffers in the last checkpoint come
	// on top.
	RAMBytes int64
	// TempDir is where Deep makes the directory audit-tmp, to sort what does not fit into RAM: 13 bytes a
	// URL. "" means the first of Dirs. Deep removes audit-tmp at the end.
	TempDir string
	// Progress, if set, is called from another goroutine every ProgressEvery (0 means 1 s), and once at the
	// end.
	Progress      func(state.Progress)
	ProgressEvery time.Duration

	// Remote says what Deep does about files that are only in an object store; "": RemoteHead.
	Remote Remote
	// OpenStore opens the object store; nil: by S3.
	OpenStore func(objstore.Place) (objstore.Bucket, error)

	Repairing bool // open a crawl although its repair is unfinished
	without   bool // the directories with the highest numbers may be missing
}

// Run reads the files of a stopped crawl and compares the number and key sum of URLseen with those of all
// places. It takes only the sums of ended URLs from the accounts. It locks the directories and changes
// nothing. The error is damage in a file (*disk.CorruptError) or a directory that can't be read.
func Run(fsys disk.FS, dirs []string) (*Report, error) { return Balance(Options{FS: fsys, Dirs: dirs}) }

// Balance is Run with options.
func Balance(opt Options) (rep *Report, err error) {
	r, m, err := Open(&opt)
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return nil, err
	}
	p := r.StartProgress(opt.Progress, opt.ProgressEvery, "state")
	defer p.End()
	return BalanceSaved(r, m)
}

// Open locks the directories of a crawl and reads its manifest. The caller must unlock a non-nil Saved,
// after an error too.
func Open(opt *Options) (*state.Saved, *state.Manifest, error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if len(opt.Dirs) == 0 {
		return nil, nil, errors.New("crawl: no directory given")
	}
	r := state.NewSaved(opt.FS, opt.Dirs, opt.Dirs)
	if m, err := opt.match(r.Meter); err != nil { // before Lock creates a file in a foreign directory
		return r, nil, state.MatchError(err)
	} else if m.Set.Len() == 0 {
		return r, nil, state.NoCrawl(opt.Dirs[0])
	}
	for _, dir := range slices.Concat(opt.Dirs, opt.Out) {
		if err := r.Lock(opt.FS, dir); err != nil {
			return r, nil, err
		}
	}
	match, err := opt.match(r.Meter)
	if err != nil {
		return r, nil, state.MatchError(err)
	}
	if match.Set.Len() == 0 {
		return r, nil, state.NoCrawl(opt.Dirs[0])
	}
	r.Set, r.Out = match.Set, match.Set
	if err := r.RefuseRepairing(); err != nil && !opt.Repairing {
		return r, nil, err
	}
	m, _, err := state.ReadManifest(r.Set)
	if err != nil {
		return r, nil, err
	}
	if m == nil {
		return r, nil, state.Incompatible("crawl: %s holds a crawl without a checkpoint, so there is nothing to audit",
			opt.Dirs[0])
	}
	r.HideRemote, r.OpenStore = opt.remote().hide(), opt.OpenStore
	if err := r.Take(match, m, opt.Out); err != nil {
		return r, nil, err
	}
	return r, m, nil
}

// BalanceSaved is Balance for a crawl that Open has returned.
func BalanceSaved(r *state.Saved, m *state.Manifest) (*Report, error) {
	var files [state.NumPlaces]weburl.Sum
	var known weburl.Sum
	if err := auditPlaces(r, m, &files, &known); err != nil {
		return nil, err
	}
	seen, err := state.Part[drum.State](m, state.NameURLSeen)
	if err != nil {
		return nil, err
	}
	var keys weburl.Sum
	foreign := foreignKeys{of: m}
	if seen != nil {
		sum := func(key drum.Key, _ []byte) error {
			keys.Add(uint64(key))
			foreign.note(uint64(key))
			return nil
		}
		_, err := drum.ScanState(r.Set, state.NameURLSeen, seen.Cache(), drum.Scan{Entry: sum})
		if err != nil {
			return nil, err
		}
	}
	names, err := auditNames(r, m)
	if err != nil {
		return nil, err
	}
	cluster, err := auditCluster(r, m)
	if err != nil {
		return nil, err
	}
	rep := balance(m, &files, keys, names, known)
	rep.Cluster = cluster
	cluster.check(m, rep)
	foreign.conclude(rep)
	return rep, nil
}

// foreignKeys counts the keys of a node of a cluster whose slots other nodes own. Their URLs would be fetched twice.
type foreignKeys struct {
	of *state.Manifest
	n  int64
}

func (f *foreignKeys) note(key uint64) {
	if f.of.Elsewhere(key) {
		f.n++
	}
}

func (f *foreignKeys) conclude(rep *Report) {
	if f.n > 0 {
		rep.Bad = append(rep.Bad, fmt.Sprintf("URLseen: %s of slots that other nodes own",
			human.Counted(f.n, "key is", "keys are")))
	}
}

// balance compares the sums of the files with the accounts. known are the keys of URLseen that have moved here and
// that no pass has passed on.
func balance(m *state.Manifest, files *[state.NumPlaces]weburl.Sum, seen, names, known weburl.Sum) *Report {
	rep := &Report{Crawl: m.Crawl, Checkpoint: m.Gen, Refused: map[string]int64{}}
	rep.Unique = Row{Place: "URLseen", Files: seen, Account: m.Accounts.Unique}
	rep.Names = Row{Place: state.NameNames, Files: names, Account: m.Accounts.Names}
	if !rep.Names.OK() {
		rep.Bad = append(rep.Bad, fmt.Sprintf("%s: the cache holds %s, the account says %d%s",
			state.NameNames, human.Counted(names.N, "key", "keys"), m.Accounts.Names.N,
			sameNumber(names, m.Accounts.Names)))
	}
	// URLseen's unique texts enter the accounts when a pass emits them, so take their sum from the files.
	m.Accounts.Places[state.PlaceUnstreamed] = files[state.PlaceUnstreamed]
	rep.Unique.Account.Merge(files[state.PlaceUnstreamed])
	rep.Unique.Account.Merge(known)
	for p := range state.NumPlaces {
		row := Row{Place: p.String(), Files: files[p], Account: m.Accounts.Places[p],
			Ended: p == state.PlaceFetched || p == state.PlaceRefused}
		if row.Ended {
			row.Files = row.Account
		}
		rep.Placed.Merge(row.Files)
		if !row.OK() {
			rep.Bad = append(rep.Bad, fmt.Sprintf("%s: the files hold %s, the account says %d%s",
				p.Text(), human.Counted(row.Files.N, "URL", "URLs"), row.Account.N,
				sameNumber(row.Files, row.Account)))
		}
		rep.Rows = append(rep.Rows, row)
	}
	for i, n := range m.Accounts.Refused {
		if n > 0 {
			rep.Refused[state.Reason(i).String()] = n
		}
	}
	if !rep.Unique.OK() {
		rep.Bad = append(rep.Bad, fmt.Sprintf("URLseen: the cache holds %s, the account says %d%s",
			human.Counted(rep.Unique.Files.N, "key", "keys"), rep.Unique.Account.N,
			sameNumber(rep.Unique.Files, rep.Unique.Account)))
	}
	want := rep.Unique.Files
	rep.Orders = m.Accounts.Orders
	want.Merge(rep.Orders)
	want.Merge(m.Accounts.Moved)
	want.Remove(known)
	if rep.Placed != want {
		rep.Bad = append(rep.Bad, fmt.Sprintf("URLseen, enqueued and moved URLs are %d, all places together hold %d%s",
			want.N, rep.Placed.N, sameNumber(rep.Placed, want)))
	}
	return rep
}

func sameNumber(a, b weburl.Sum) string {
	if a.N == b.N {
		return ", but their keys differ"
	}
	return ""
}

// auditPlaces sums the keys of the records in the files of every place, and those of URLScan.Known.
func auditPlaces(r *state.Saved, m *state.Manifest, sums *[state.NumPlaces]weburl.Sum, known *weburl.Sum) error {
	visit := func(at state.Spot, data []byte) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return fmt.Errorf("crawl: audit of %s: %w", at.Place, err)
		}
		sums[at.Place].Add(r.Hasher.URLKey(rec.URL))
		return nil
	}
	return r.ScanURLs(m, state.URLScan{Places: state.WaitingPlaces[:], Known: known.Add, Visit: visit})
}

// auditNames sums the keys of the store of names and verifies each name.
func auditNames(r *state.Saved, m *state.Manifest) (sum weburl.Sum, err error) {
	st, err := state.Part[drum.State](m, state.NameNames)
	if err != nil || st == nil {
		return sum, err
	}
	entry := func(key drum.Key, value []byte) error {
		sum.Add(uint64(key))
		_, _, err := state.CheckName(r.Hasher, key, value)
		return err
	}
	_, err = drum.ScanState(r.Set, state.NameNames, st.Cache(), drum.Scan{Entry: entry})
	return sum, err
}
