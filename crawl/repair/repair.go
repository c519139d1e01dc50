package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"drumbeat/crawl/audit"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/star"
	"drumbeat/weburl"
)

// Report is what Repair found, did (or, dry, would do) and what is lost.
type Report struct {
	Deep *audit.DeepReport // of the crawl as it was found
	// Finished: an earlier repair was cut off, and has been brought to its end first.
	Finished bool
	Dry      bool
	// Actions are what was done, in order.
	Actions []string
	// Lost URLs were in a damaged place. Of these, Forgotten were taken out of URLseen, so that they are new when a link or
	// the seeds lead to them again; Unnamed can't be told from those that ended, and are counted as refused for
	// ReasonLost.
	Forgotten, Unnamed int64
	// Links are texts of links that are lost: URLs to which only these lead are not found.
	Links int64
	// Again: texts of links that are given to URLseen once more, since what it had decided about them is lost.
	Again int64
	// Unseen keys are missing in URLseen and could not be restored: those URLs may be fetched again.
	Unseen int64
	// Doubled records of one URL were dropped.
	Doubled int64
	// Left is what is damaged and stays as it is.
	Left []string
	// Aside is the directory, under each of the crawl's, that has the files that were replaced; "" if there are none.
	Aside string
}

// Nothing is true when there was nothing to do.
func (r *Report) Nothing() bool { return len(r.Actions) == 0 }

// Options say what is repaired, and how.
type Options struct {
	audit.Options
	// DryRun finds out what would be done and lost, and changes nothing.
	DryRun bool
	// hook is called at places where the tests cut the program off.
	hook func(place string)
}

// Run brings a stopped crawl with damaged files to a state that balances and can go on: it reads everything as AuditDeep
// does; makes each damaged structure anew from what can be read of it; takes those keys out of URLseen whose URLs are in
// no place any more, so that they can be found again; and corrects the accounts. What it replaces it moves to
// state/damaged. Nothing changes before all that is new is durable; cut off, it is finished by the next Repair.
func Run(opt Options) (rep *Report, err error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	rep = &Report{Dry: opt.DryRun}
	if opt.hook == nil {
		opt.hook = func(string) {}
	}
	r, m, err := openRepair(&opt, rep)
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return nil, err
	}
	if r.SeparateOut && r.Out.Len() == 0 {
		return nil, fmt.Errorf("crawl: the output is elsewhere: give its directories too (--out): %w", state.ErrIncompatible)
	}
	x, err := audit.NewScanner(r, m, &opt.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	w := &repair{Scanner: x, opt: &opt, out: rep, hook: opt.hook, deferred: map[uint8]int64{}, doubled: map[uint64]*doubledKey{}}
	x.Visit = w.noteDoubled
	if err := x.Run(); err != nil {
		return nil, err
	}
	rep.Deep = x.Report
	x.Visit = nil
	w.decide()
	if rep.Nothing() || opt.DryRun {
		return rep, nil
	}
	secret, err := r.OpenSecret(m)
	if err == nil {
		err = r.HealCopies(state.SecretName, state.SecretFile(secret)) // the manifest is written at the end
	}
	if err != nil {
		return nil, err
	}
	return rep, w.run()
}

// openRepair is openAudit that first finishes what an earlier repair has begun, and says what can't be repaired.
func openRepair(opt *Options, rep *Report) (*state.Saved, *state.Manifest, error) {
	opt.Repairing = true
	r, m, err := audit.Open(&opt.Options)
	if r != nil && r.Set.Len() > 0 && !opt.DryRun {
		finished, finishErr := finishRepair(r, opt.hook)
		if finishErr != nil {
			return r, nil, finishErr
		}
		if finished {
			rep.Finished = true
			if err := r.Unlock(); err != nil {
				return nil, nil, err
			}
			r, m, err = audit.Open(&opt.Options)
		}
	}
	if err != nil {
		return r, nil, cantRepair(err)
	}
	if opt.DryRun {
		return r, m, nil
	}
	if err := repairSuffixes(r, m, rep); err != nil {
		return r, nil, err
	}
	return r, m, removeShadow(r)
}

// cantRepair says what the loss of a file means that nothing else holds.
func cantRepair(err error) error {
	var lost *state.LostError
	if errors.Is(err, state.ErrIncompatible) || !errors.As(err, &lost) {
		return err
	}
	why := "without the secret no key can be made again"
	if lost.Name == state.ManifestName {
		why = "the manifest alone says which files belong to the crawl, no copy is whole, and a former one would name files that are gone"
	}
	return fmt.Errorf("crawl: nothing can be done, %s; pages and logs are whole; crawl anew in another directory: %w", why, err)
}

// repairSuffixes writes a lost copy of the public suffix list anew, if the program's own is the same.
func repairSuffixes(r *state.Saved, m *state.Manifest, rep *Report) error {
	err := r.OpenSuffixes(m.Frozen.Private, true)
	if err == nil && r.Suffixes.Digest() == m.Frozen.Suffixes {
		return nil
	}
	own := weburl.NewSuffixes(m.Frozen.Private)
	if own.Digest() != m.Frozen.Suffixes {
		return fmt.Errorf("crawl: %s is damaged, and this program's list is another one; put the list back that the crawl began with: %w",
			r.Set.Path(0, state.SuffixesName), errors.Join(err, state.ErrIncompatible))
	}
	var b strings.Builder
	if _, err := own.WriteTo(&b); err != nil {
		return err
	}
	if err := disk.WriteFileAtomic(r.Set.FS, r.Set.Path(0, state.SuffixesName), []byte(b.String())); err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	rep.Actions = append(rep.Actions, "the public suffix list is written anew: this program's is the same")
	return nil
}

// doubledKey is a key met in more than one place.
type doubledKey struct {
	ended bool // then no place may have it
	kept  bool // a place that was made anew has it
}

// maxDoubled bounds the doubled keys that Repair remembers.
const maxDoubled = 1 << 20

// repair is the work of Repair.
type repair struct {
	*audit.Scanner
	opt  *Options
	out  *Report
	hook func(string)

	rebuild  map[string]bool // structures to be made anew
	doubled  map[uint64]*doubledKey
	inPlaces [state.NumPlaces]bool // that hold doubled keys
	known    bool                  // every ended key is known: a key that is in no place is lost
	deferred map[uint8]int64       // records of later by reason

	gen      uint64
	shadow   disk.Set
	tails    *disk.Tails
	next     state.Manifest
	journal  journal
	newSeen  weburl.Sum // of URLseen's keys
	replaced map[string]bool
}

// noteDoubled remembers the keys that are in a place too many.
func (w *repair) noteDoubled(key uint64, entries []audit.TaggedKey, _ bool) error {
	live, ended := 0, false
	for _, e := range entries {
		if e.Tag < uint8(state.NumPlaces) {
			live++
		} else {
			ended = true
		}
	}
	if live == 0 || live == 1 && !ended || len(w.doubled) >= maxDoubled {
		return nil
	}
	w.doubled[key] = &doubledKey{ended: ended}
	for _, e := range entries {
		if e.Tag < uint8(state.NumPlaces) {
			w.inPlaces[e.Tag] = true
		}
	}
	return nil
}

// structuresOf are the structures that hold the URLs of a place.
func structureOf(p state.Place) string {
	switch p {
	case state.PlaceStar:
		_, indegree := star.Stores(state.NameStar)
		return indegree
	case state.PlaceBeast, state.PlaceFailed:
		return state.NameBeast
	case state.PlaceRobotsCheck:
		return state.NameRobotsCache
	case state.PlaceAwaitRobots:
		return state.NameAwaitRobots
	case state.PlaceReady:
		return state.NameReady
	case state.PlaceHeld:
		return state.NameHeld
	case state.PlaceRAM:
		return state.NameRAM
	case state.PlaceDeferred:
		return state.NameDeferred
	}
	return state.NameURLSeen
}

// decide finds out what is to be done, and says so.
func (w *repair) decide() {
	do := func(format string, args ...any) { w.out.Actions = append(w.out.Actions, fmt.Sprintf(format, args...)) }
	w.rebuild = map[string]bool{}
	for i := range w.Report.Structures {
		s := &w.Report.Structures[i]
		if s.Damages == 0 && s.Lost == 0 {
			continue
		}
		switch s.Name {
		case state.NameWARC, state.NameCrawlLog, state.NameSeedLog, state.NameRobotsLog: // see dropVolumes
			w.out.Left = append(w.out.Left, fmt.Sprintf("%s: %d damaged pieces; the rest of these files can be read", s.Name, s.Damages))
			continue
		}
		w.rebuild[s.Name] = true
		if s.Name == state.NameIdentity {
			do("%d of manifest, secret and their copies are written anew from what is whole", s.Damages)
			continue
		}
		do("%s is made anew: %d damaged pieces, %d records lost%s", s.Name, s.Damages, s.Lost, meaning(s.Name))
	}
	for p := range state.NumPlaces {
		if w.inPlaces[p] && !w.rebuild[structureOf(p)] {
			w.rebuild[structureOf(p)] = true
			do("%s is made anew: it holds URLs that are elsewhere too", structureOf(p))
		}
	}
	if w.rebuild[state.NameRobotsCache] || w.rebuild[state.NameRobotsFetch] || w.rebuild[state.NameRobotsDeferred] || w.rebuild[state.NameJobs] {
		if !w.rebuild[state.NameRobotsRequested] {
			do("%s forgets what was asked: requests that are lost are made again", state.NameRobotsRequested)
		}
		w.rebuild[state.NameRobotsRequested] = true
	}
	k, acc := &w.Report.Keys, &w.Manifest.Accounts
	w.known = w.Fetched == acc.Places[state.PlaceFetched] && w.Refused == acc.Places[state.PlaceRefused]
	ended := acc.Places[state.PlaceFetched].N + acc.Places[state.PlaceRefused].N
	if w.known {
		w.out.Forgotten = k.Nowhere
	} else {
		w.out.Unnamed = max(0, k.Nowhere-(ended-w.Fetched.N-w.Refused.N))
		w.out.Unseen = max(0, (ended-w.Fetched.N-w.Refused.N)-k.Nowhere)
	}
	if w.out.Forgotten > 0 {
		do("%d keys of URLs that are lost are taken out of URLseen", w.out.Forgotten)
	}
	if w.out.Links = w.LostTexts; w.out.Links > 0 {
		do("%d links are lost that URLseen had not judged, or not handed on", w.out.Links)
	}
	if w.out.Links+w.out.Forgotten > 0 {
		do("the seeds are fed again")
	}
	if w.out.Unnamed > 0 {
		do("%d lost URLs can't be told from those that ended, whose keys are not all known: they stay in URLseen, counted as refused (%s)",
			w.out.Unnamed, state.ReasonLost)
	}
	if w.out.Unseen > 0 {
		do("%d keys of ended URLs are lost and not known from output or log: these URLs may be fetched again", w.out.Unseen)
	}
	if k.NotSeen > 0 {
		do("%d keys are put into URLseen again, from places, output and crawl log", k.NotSeen)
	}
	if w.out.Forgotten > 0 || k.NotSeen > 0 || w.rebuild[state.NameURLSeen] {
		w.rebuild[state.NameURLSeen] = true
	}
	w.decideOutput(do)
	if len(w.out.Actions) == 0 && !w.Report.Report.Balanced() {
		do("the accounts are computed anew")
	}
}

// decideOutput looks for files of the output that the crawl could not be opened with.
func (w *repair) decideOutput(do func(string, ...any)) {
	for _, d := range w.badVolumes() {
		do("%s is moved aside: it is shorter than it should be, or its end is lost; what is in it stays fetched", d)
	}
	for _, name := range []string{state.NameCrawlLog, state.NameSeedLog, state.NameRobotsLog} {
		st, err := state.Part[crawllog.State](w.Manifest, name)
		if err != nil || st == nil {
			continue
		}
		if _, err := disk.ReadTail(w.Saved.Set, st.Lines); err != nil {
			do("the last lines of %s are lost", name)
		}
	}
}

// meaning says what the loss of records of a structure means.
func meaning(name string) string {
	edges, indegree := star.Stores(state.NameStar)
	switch name {
	case edges:
		return "; links between these PLDs may count again"
	case indegree:
		return "; these PLDs begin again with in-degree 0"
	case state.NameNames:
		return "; these hosts and PLDs get their names again when a link leads to them"
	case state.NameRobotsCache, state.NameRobotsRequested, state.NameRobotsFetch, state.NameRobotsDeferred, state.NameJobs:
		return "; robots.txt is asked for again"
	case state.NameDelays:
		return "; hosts and servers that rested for long count as just visited"
	case state.NameHosts:
		return "; hosts that failed or refused are known by RobotsCache alone, each origin apart"
	case state.NameScope:
		return "; what redirects of seeds added to --scope is out of scope"
	case state.NameSketches:
		return "; the estimates of distinct hosts and servers begin again"
	}
	return ""
}

// run makes everything new in shadow directories, then puts it in place.
func (w *repair) run() error {
	w.Scanner.Report = &audit.DeepReport{Damaged: map[string]bool{}} // what is read again has been reported
	w.gen = w.Manifest.Gen + 1
	w.shadow = disk.Set{FS: w.Saved.Set.FS}
	for i := range w.Saved.Set.Paths {
		dir := w.Saved.Set.Path(i, state.ShadowDir)
		if err := w.shadow.FS.MkdirAll(dir); err != nil {
			return fmt.Errorf("crawl: repair: %w", err)
		}
		w.shadow.Paths = append(w.shadow.Paths, dir)
	}
	var err error
	if w.tails, err = disk.CreateTails(w.shadow, w.gen); err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	w.next = *w.Manifest
	w.next.Gen, w.next.Time = w.gen, time.Now().Unix()
	w.next.Parts = map[string]json.RawMessage{}
	for name, part := range w.Manifest.Parts {
		if w.next.Parts[name], err = w.copyRefs(part); err != nil {
			return err
		}
	}
	for _, f := range []func() error{w.remakeSeen, w.remakeStar, w.remakeNames, w.remakeBeast, w.remakeRobots, w.remakeQueues,
		w.remakeCalendars, w.remakeRAM, w.dropVolumes, w.writeLost} {
		if err := f(); err != nil {
			return err
		}
		w.hook("repair")
	}
	w.account()
	if err := w.tails.Close(); err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	return w.install()
}

// account makes the accounts those of the files.
func (w *repair) account() {
	a := &w.next.Accounts
	unique := w.newSeen
	if !w.rebuild[state.NameURLSeen] {
		unique = w.Seen
		unique.Remove(w.Files[state.PlaceUnstreamed])
	}
	ended := unique
	for p := range state.NumPlaces {
		if p == state.PlaceFetched || p == state.PlaceRefused {
			continue
		}
		a.Places[p] = w.Files[p]
		if p == state.PlaceUnstreamed {
			a.Places[p] = weburl.Sum{}
			continue
		}
		ended.Remove(w.Files[p])
	}
	a.Unique, a.Names = unique, w.Names
	before := a.Places[state.PlaceRefused].N
	if w.known {
		a.Places[state.PlaceFetched] = w.Fetched
	} else if ended.N < a.Places[state.PlaceFetched].N { // keys of fetched URLs are gone, nobody knows which
		a.Places[state.PlaceFetched] = ended
	}
	refused := ended
	refused.Remove(a.Places[state.PlaceFetched])
	a.Places[state.PlaceRefused] = refused
	if n := refused.N - before; n > 0 {
		a.Refused[state.ReasonLost] += n
	}
	if w.rebuild[state.NameDeferred] {
		clear(a.Deferred[:])
		for reason, n := range w.deferred {
			if int(reason) < len(a.Deferred) {
				a.Deferred[reason] = n
			}
		}
	}
	if w.out.Forgotten+w.out.Links > 0 {
		w.next.Done, w.next.Seeds = "", state.Seeds{}
	}
}

// keep tells whether a record of a place goes into what is made anew.
func (w *repair) keep(p state.Place, data []byte) bool {
	var rec weburl.Record
	if rec.Decode(data) != nil {
		return false
	}
	if p == state.PlaceDeferred {
		w.deferred[rec.Reason]++
	}
	key := w.Saved.Hasher.URLKey(rec.URL)
	d := w.doubled[key]
	if d == nil {
		return true
	}
	if d.ended || d.kept {
		w.Files[p].Sub(key)
		w.out.Doubled++
		return false
	}
	d.kept = true
	return true
}

// removeShadow deletes what a repair left that was cut off before it changed anything.
func removeShadow(r *state.Saved) error {
	for i := range r.Set.Paths {
		if err := removeTree(r.Set.FS, r.Set.Path(i, state.ShadowDir)); err != nil {
			return err
		}
	}
	return nil
}

// removeTree deletes a directory with all that is in it, if it exists.
func removeTree(fsys disk.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("crawl: remove %s: %w", dir, err)
	}
	for _, name := range names {
		path := dir + "/" + name
		if _, err := fsys.List(path); err == nil {
			if err := removeTree(fsys, path); err != nil {
				return err
			}
			continue
		}
		if err := fsys.Remove(path); err != nil {
			return fmt.Errorf("crawl: remove %s: %w", path, err)
		}
	}
	if err := fsys.Remove(dir); err != nil {
		return fmt.Errorf("crawl: remove %s: %w", dir, err)
	}
	return nil
}
