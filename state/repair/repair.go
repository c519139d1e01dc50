package repair

import (
	"errors"
	"fmt"
	"strings"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/human"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/weburl"
)

// Report holds the findings and actions of Run, or the planned actions with DryRun.
type Report struct {
	Deep *audit.DeepReport // of the crawl before the repair
	// Finished means that Run first finished an interrupted repair.
	Finished bool
	Dry      bool
	// Actions describe the steps of the repair in order.
	Actions []string
	// Forgotten and Unnamed count the lost URLs: those that were in a damaged place. Run removes the
	// Forgotten from URLseen, so that a link or the seeds can find them again. The Unnamed can't be told
	// from ended URLs; they stay in URLseen and count as refused with ReasonLost. Those of divided PLDs have their keys
	// at other nodes.
	Forgotten, Unnamed int64
	// Links counts lost texts of links. URLs without other links to them are not found.
	Links int64
	// Lost are the links and edges that Replace has counted as lost.
	Lost cluster.Totals
	// Again counts texts of links added to URLseen again, because its results for them are lost.
	Again int64
	// Unseen counts keys that URLseen lacks and that can't be restored; their URLs may be fetched again.
	Unseen int64
	// Doubled counts the dropped records of URLs that were in two places.
	Doubled int64
	// Left describes damage that stays.
	Left []string
	// Aside is the directory, relative to each of the crawl's, that holds the replaced files; "" if there
	// are none.
	Aside string
}

// Nothing reports whether the crawl needs no repair. Nothing is true when there was nothing to do.
func (r *Report) Nothing() bool { return len(r.Actions) == 0 }

// Options say which crawl Run repairs, and how.
type Options struct {
	audit.Options
	// DryRun reports the actions and losses without changing anything.
	DryRun bool
	// Others are audits of the other nodes of a cluster. Run drops the messages that they have made durable
	// from damaged outboxes.
	Others []audit.Node
	// hook is called where tests simulate a crash.
	hook func(place string)

	replacing bool // of Replace
}

// Run repairs a stopped crawl so that its accounts balance and it can continue. It reads everything, as
// audit.Deep does, rebuilds each damaged structure from its readable part, removes the keys of lost URLs from
// URLseen so that they can be found again, and corrects the accounts. It moves replaced files to
// state/damaged. The crawl does not change until the new files are durable; the next Run finishes an
// interrupted one.
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
		return nil, fmt.Errorf("crawl: the output is in separate directories: give them with --out: %w",
			state.ErrIncompatible)
	}
	x, err := audit.NewScanner(r, m, &opt.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	w := &repair{Scanner: x, opt: &opt, out: rep, hook: opt.hook,
		deferred: map[uint8]int64{}, doubled: map[uint64]*doubledKey{}}
	x.Visit = w.noteKey
	if err := x.Run(); err != nil {
		return nil, err
	}
	rep.Deep = x.Report
	x.Visit = nil
	w.decide()
	if err := w.decideOutboxes(); err != nil {
		return nil, err
	}
	if rep.Nothing() || opt.DryRun {
		return rep, nil
	}
	secret, err := r.OpenSecret(m)
	if err == nil {
		err = r.HealCopies(state.SecretName, state.SecretFile(secret)) // install writes the manifest
	}
	if err != nil {
		return nil, err
	}
	return rep, w.run()
}

// openRepair opens the crawl as audit.Open does. It first finishes an interrupted repair. Its error says if
// the crawl can't be repaired.
func openRepair(opt *Options, rep *Report) (*state.Saved, *state.Manifest, error) {
	opt.Repairing = true
	r, m, err := audit.Open(&opt.Options)
	if r != nil && r.Set.Len() > 0 {
		err := errors.Join(r.RefuseMoving(), r.RefuseErasing())
		if !opt.replacing {
			err = errors.Join(err, r.RefuseReplacing())
		}
		if err != nil {
			return r, nil, err
		}
	}
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

// cantRepair adds to the loss of an irreplaceable file why it prevents a repair.
func cantRepair(err error) error {
	var lost *state.LostError
	if errors.Is(err, state.ErrIncompatible) || !errors.As(err, &lost) {
		return err
	}
	why := "without the secret the keys can't be computed"
	if lost.Name == state.ManifestName {
		why = "only the manifest names the crawl's files, no copy of it is whole, " +
			"and an older one would name files that are deleted"
	}
	return fmt.Errorf("crawl: repair is impossible: %s; "+
		"pages and logs are whole; start a new crawl in another directory: %w", why, err)
}

// repairSuffixes rewrites a lost public suffix list if the program's built-in list is the same.
func repairSuffixes(r *state.Saved, m *state.Manifest, rep *Report) error {
	err := r.OpenSuffixes(m.Frozen.Private, true)
	if err == nil && r.Suffixes.Digest() == m.Frozen.Suffixes {
		return nil
	}
	own := weburl.NewSuffixes(m.Frozen.Private)
	if own.Digest() != m.Frozen.Suffixes {
		return fmt.Errorf("crawl: %s is damaged and this program's list differs; "+
			"restore the list that the crawl started with: %w",
			r.Set.Path(0, state.SuffixesName), errors.Join(err, state.ErrIncompatible))
	}
	var b strings.Builder
	if _, err := own.WriteTo(&b); err != nil {
		return err
	}
	if err := disk.WriteFileAtomic(r.Set.FS, r.Set.Path(0, state.SuffixesName), []byte(b.String())); err != nil {
		return fmt.Errorf("crawl: repair: %w", err)
	}
	rep.Actions = append(rep.Actions, "rewrite the public suffix list: this program's list is the same")
	return nil
}

// doubledKey is a key that is in more than one place, or in a place though its URL has ended.
type doubledKey struct {
	ended bool // no place may keep it
	kept  bool // a rebuilt place has it
}

// maxDoubled limits the doubled keys that a repair keeps in RAM.
const maxDoubled = 1 << 20

// repair is the state of one Run.
type repair struct {
	*audit.Scanner
	opt  *Options
	out  *Report
	hook func(string)

	rebuild  map[string]bool // structures to rebuild
	doubled  map[uint64]*doubledKey
	inPlaces [state.NumPlaces]bool // places that hold doubled keys
	unseen   int64                 // keys in a place or ended that are not in URLseen, those of enqueued URLs too
	named    bool                  // output and crawl log have the keys of all URLs that ended here
	known    bool                  // all ended keys are known, so a key in no place is lost
	deferred map[uint8]int64       // deferred records by reason
	outboxes []outboxRepair
	stored   storedFiles

	*Shadow
	newSeen weburl.Sum // of URLseen's keys
}

// noteKey records the keys that are in more than one place or ended, and counts those that are not in URLseen.
func (w *repair) noteKey(key uint64, entries []audit.TaggedKey, seen bool) error {
	if !seen && anywhere(entries) && !w.Elsewhere(key) {
		w.unseen++
	}
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

// structureOf returns the structure that holds the URLs of a place.
func structureOf(p state.Place) string {
	switch p {
	case state.PlaceStar:
		_, indegree := star.Stores(state.NameStar)
		return indegree
	case state.PlaceBeast, state.PlaceOverBudget:
		return state.NameBeast
	case state.PlaceRobotsCheck:
		return state.NameRobotsCache
	case state.PlaceAwaitRobots:
		return state.NameAwaitRobots
	case state.PlaceReady:
		return state.NameReady
	case state.PlaceHeld:
		return state.NameHeld
	case state.PlaceContent:
		return state.NameContent
	case state.PlaceRAM:
		return state.NameRAM
	case state.PlaceDeferred:
		return state.NameDeferred
	}
	return state.NameURLSeen
}

// decide fills in rebuild and describes what the repair does.
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
			left := fmt.Sprintf("%s: %s; the rest is readable", s.Name,
				human.Counted(s.Damages, "damaged piece", "damaged pieces"))
			w.out.Left = append(w.out.Left, left)
			continue
		}
		// See decideOutboxes and decideStore.
		if strings.HasPrefix(s.Name, state.OutboxPrefix) || s.Name == audit.NameStore {
			continue
		}
		w.rebuild[s.Name] = true
		if s.Name == state.NameIdentity {
			do("rewrite %d of manifest, secret and their copies from a whole one", s.Damages)
			continue
		}
		do("rebuild %s: %s, %s lost%s", s.Name, human.Counted(s.Damages, "damaged piece", "damaged pieces"),
			human.Counted(s.Lost, "record", "records"), meaning(s.Name))
	}
	for p := range state.NumPlaces {
		if w.inPlaces[p] && !w.rebuild[structureOf(p)] {
			w.rebuild[structureOf(p)] = true
			do("rebuild %s: it has URLs that are in another place too", structureOf(p))
		}
	}
	if w.rebuild[state.NameRobotsCache] || w.rebuild[state.NameRobotsFetch] ||
		w.rebuild[state.NameRobotsDeferred] || w.rebuild[state.NameJobs] {
		if !w.rebuild[state.NameRobotsRequested] {
			do("clear %s, so that lost requests are made again", state.NameRobotsRequested)
		}
		w.rebuild[state.NameRobotsRequested] = true
	}
	w.rebuild[state.NameWalk] = w.rebuild[state.NameWalk] || w.rebuild[state.NameWalkLog] // they are one walk
	w.decideKeys(do)
	w.decideOutput(do)
	w.decideStore(do)
	if len(w.out.Actions) == 0 && !w.Report.Report.Balanced() {
		do("recompute the accounts")
	}
}

// decideKeys compares URLseen with the URLs in places and outputs, and adds the actions for lost URLs and keys.
func (w *repair) decideKeys(do func(string, ...any)) {
	k, acc := &w.Report.Keys, &w.Manifest.Accounts
	fetched := acc.Places[state.PlaceFetched]
	fetched.Remove(w.FetchedOrdered)
	// Of URLs that ended on other nodes, before their slots were moved here, only URLseen has the keys.
	moved := w.Away.N - acc.Moved.N
	w.named = w.Fetched == fetched && w.Refused == acc.Places[state.PlaceRefused]
	w.known = w.named && moved == 0
	ended := fetched.N + acc.Places[state.PlaceRefused].N + moved
	if w.known {
		w.out.Forgotten = k.Nowhere
	} else {
		w.out.Unnamed = max(0, k.Nowhere-(ended-w.Fetched.N-w.Refused.N))
		w.out.Unseen = max(0, (ended-w.Fetched.N-w.Refused.N)-k.Nowhere)
	}
	if w.out.Forgotten > 0 {
		do("remove %s of lost URLs from URLseen", human.Counted(w.out.Forgotten, "key", "keys"))
	}
	if w.out.Links = w.LostTexts; w.out.Links > 0 {
		do("%s lost that URLseen had not checked or not passed on",
			human.Counted(w.out.Links, "link is", "links are"))
	}
	if w.out.Links+w.out.Forgotten > 0 {
		do("read the seeds again")
	}
	if n := min(w.out.Unnamed, k.Nowhere); n > 0 {
		do("keep %s in URLseen as refused (%s): not all keys of done URLs are known, so they may be done",
			human.Counted(n, "lost URL", "lost URLs"), state.ReasonLost)
	}
	if n := w.out.Unnamed - k.Nowhere; n > 0 {
		do("%s lost whose keys other nodes have: they count as known there, and are not fetched",
			human.Counted(n, "URL is", "URLs are"))
	}
	if w.out.Unseen > 0 {
		do("%s lost, and neither output nor log has them: these URLs may be fetched again",
			human.Counted(w.out.Unseen, "key of a done URL is", "keys of done URLs are"))
	}
	if w.unseen > 0 {
		do("add %s to URLseen again, from places, output and crawl log",
			human.Counted(w.unseen, "key", "keys"))
	}
	if w.out.Forgotten > 0 || w.unseen > 0 || w.rebuild[state.NameURLSeen] {
		w.rebuild[state.NameURLSeen] = true
	}
}

// decideOutput adds the actions for output files that the crawl can't open.
func (w *repair) decideOutput(do func(string, ...any)) {
	for _, d := range w.badVolumes() {
		do("move %s aside: it is too short or its end is damaged; its URLs stay fetched", d)
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

// meaning returns the consequence of lost records of a structure, or "".
func meaning(name string) string {
	edges, indegree := star.Stores(state.NameStar)
	switch name {
	case edges:
		return "; links between these PLDs may count twice"
	case indegree:
		return "; these PLDs start again with in-degree 0"
	case state.NameHostLinks:
		return "; links to these hosts are counted again when a page has them"
	case state.NameNames:
		return "; these hosts and PLDs get their names again when a link leads to them"
	case state.NameContent:
		return "; pages that waited for the check of their content are fetched again, and known bodies " +
			"may be stored again"
	case state.NameRobotsCache, state.NameRobotsRequested, state.NameRobotsFetch, state.NameRobotsDeferred,
		state.NameJobs:
		return "; robots.txt is requested again"
	case state.NameDelays:
		return "; hosts and servers in a long back-off count as just visited"
	case state.NameHosts:
		return "; failures and refusals are known only per origin, from RobotsCache"
	case state.NameScope:
		return "; sites that redirects of seeds added to --scope are out of scope"
	case state.NameTraps:
		return "; the trap scores of hosts start again"
	case state.NameLoads:
		return "; the loads of slots (cluster balance) count from now on"
	case state.NameRender, state.NameRenders:
		return "; these pages stay without rendering"
	case state.NameOrdered:
		return "; audits cannot tell which URLs were enqueued, and take several responses of any URL"
	case state.NameObjects:
		return "; these files stay in the object store, but no command reads them there"
	case state.NameQuarantine:
		return "; the links of these messages of other nodes are lost"
	case state.NameWalk, state.NameWalkLog:
		return "; the random walk cannot continue, and its sample is lost"
	case state.NameSketches:
		return "; the estimates of distinct hosts and servers start again"
	}
	return ""
}

// run writes the new files to the shadow directories, then installs them.
func (w *repair) run() error {
	w.Scanner.Report = &audit.DeepReport{Damaged: map[string]bool{}} // the same damage is read again
	var err error
	if w.Shadow, err = newShadow(w.Saved, w.Manifest, w.opt.RAMBytes, ignore); err != nil {
		return err
	}
	for _, f := range []func() error{w.mendStored, w.remakeSeen, w.remakeStar, w.remakeNames, w.remakeContent,
		w.remakeHostLinks,
		w.remakeBeast, w.remakeRobots, w.remakeQueues, w.remakeCalendars, w.remakeOutboxes, w.remakeRAM,
		w.dropVolumes, w.writeLost} {
		if err := f(); err != nil {
			return err
		}
		w.hook("repair")
	}
	w.account()
	return w.install()
}

// account sets the accounts from the new files.
func (w *repair) account() {
	a := &w.Next.Accounts
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
	// An enqueued URL has one record like all others from now on: a second one is in w.doubled.
	a.Orders, w.Next.Orders = weburl.Sum{}, disk.Ref{}
	before := a.Places[state.PlaceRefused].N
	fetched := &a.Places[state.PlaceFetched]
	if w.known {
		*fetched = w.Fetched
	} else {
		fetched.Remove(w.FetchedOrdered)
	}
	if w.rebuild[state.NameURLSeen] { // it has their keys now
		fetched.Merge(w.FetchedUnseen)
	}
	if w.named && !w.known { // some of the URLs that were moved here may be lost: the sum of those that remain follows
		a.Moved = *fetched
		a.Moved.Merge(a.Places[state.PlaceRefused])
		a.Moved.Remove(ended)
	}
	ended.Merge(a.Moved)
	if !w.known && ended.N < fetched.N { // unknown keys of fetched URLs are lost
		*fetched = ended
	}
	refused := ended
	refused.Remove(*fetched)
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
		w.Next.Done, w.Next.Seeds = "", state.Seeds{}
	}
}

// keep reports whether a rebuilt place takes a record.
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
