package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// Replace is Resync of a restored node while the others run. It asks each of them over the broker
// (cluster.Replacement), and computes from their answers what Resync computes from audits. The others note the new
// incarnation themselves.
//
// state/REPLACE has the node's identity, so an interrupted replacement continues. It also has the replacements of other
// nodes that this one has accepted meanwhile: several nodes may be restored at once, and each answers the others.

// ReplaceOptions are the options of Replace. Back is the node; Others and DryRun are not used.
type ReplaceOptions struct {
	ResyncOptions
	Transport cluster.Transport // Replace does not close it
	Host      string            // of this machine, for people
	Version   string            // of the program, for people
	// Waits is called every waitsEvery with the nodes that have not answered; nil: nobody is told.
	Waits func(nodes []int)
	// Watches is called before the command watches for a time whether the node still runs, since its last status is
	// recent; nil: nobody is told.
	Watches func(last time.Time, wait time.Duration)
}

// Times of a replacement.
const (
	waitsEvery = 10 * time.Second // between two requests, which the broker may lose
	// aliveAfter is the time in which a running command repeats its request. Another one waits so long before it takes
	// the place of one that was killed.
	aliveAfter = 3 * waitsEvery
	// silentAfter is the time in which a running node writes its status.
	silentAfter = cluster.StatusEvery * 3 / 2
	retryAfter  = time.Second // after an error of the transport
	doneWait    = 10 * time.Second
)

const replaceMagic = "drumbeat-replace"

// replaceForm is the content of state/REPLACE.
type replaceForm struct {
	cluster.Bound
	Others map[int]cluster.Bound `json:"others,omitempty"` // replacements of other nodes that this one has accepted
}

// replacer is the state of one Replace.
type replacer struct {
	*resync
	all      *ReplaceOptions
	backup   int // number of the table of the backup
	form     replaceForm
	revision uint64 // of the request at the broker; 0: none was written
	beaten   bool   // another command wrote its request at the same time
	beat     uint64
	answers  map[int]*cluster.ReplaceAnswer
	told     time.Time // when tell last told
}

// Replace gives the restored node in Options.Dirs its place in the running cluster. It waits without limit for nodes
// that do not answer, until ctx ends. It returns when the node can start.
func Replace(ctx context.Context, all ReplaceOptions) (rep *Report, err error) {
	opt := all.Options
	opt.replacing = true
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if opt.hook == nil {
		opt.hook = func(string) {}
	}
	rep = &Report{Deep: &audit.DeepReport{}}
	r, m, err := openRepair(&opt, rep)
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return rep, err
	}
	w := &replacer{all: &all, answers: map[int]*cluster.ReplaceAnswer{}}
	if w.resync, err = newResync(&all.ResyncOptions, &opt, r, m, rep); err != nil {
		return nil, err
	}
	if w.own.Cluster.Node != w.back {
		return nil, refuseResync("the directories are those of node %d, not of node %d", w.own.Cluster.Node, w.back)
	}
	found, err := w.read()
	if err != nil {
		return nil, err
	}
	if found && m.Intake.BoundOf(w.back) == w.form.Bound {
		rep.Finished = true
		return rep, w.conclude(ctx)
	}
	w.backup = w.table.Moves()
	if err := w.gather(ctx, found); err != nil {
		return nil, err
	}
	if err := w.plan(); err != nil {
		return nil, err
	}
	if err := w.run(); err != nil {
		return nil, err
	}
	return rep, w.conclude(ctx)
}

func (w *replacer) path() string { return w.saved.Set.Path(0, state.ReplaceName) }

// read reads state/REPLACE, if there is one.
func (w *replacer) read() (found bool, _ error) {
	data, err := disk.ReadFile(w.opt.FS, w.path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = state.Unseal(replaceMagic, w.path(), data, &w.form)
	}
	return err == nil, err
}

// write makes state/REPLACE durable.
func (w *replacer) write() error {
	w.opt.hook("replace")
	data, err := state.Seal(replaceMagic, &w.form)
	if err == nil {
		err = disk.WriteFileAtomic(w.opt.FS, w.path(), data)
	}
	if err != nil {
		return fmt.Errorf("crawl: replace: %w", err)
	}
	w.opt.hook("replace")
	return nil
}

// raise begins an incarnation above those that anybody is known to have accepted. Answers to an earlier one are void.
func (w *replacer) raise(above uint64) error {
	clear(w.answers)
	w.form.Incarnation = max(w.form.Incarnation, above) + 1
	if err := cluster.CheckIncarnation(w.form.Incarnation); err != nil {
		return err
	}
	if w.form.Identity == 0 {
		w.form.Identity = rand.Uint64() | 1
	}
	return w.write()
}

// conclude tells that the node has its place, and removes state/REPLACE. The broker is told once, at most: the node's
// mark says the same.
func (w *replacer) conclude(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, doneWait)
	defer cancel()
	e := w.all.Transport
	v, err := e.Get(ctx, cluster.BucketCrawl, cluster.ReplaceKey(w.back))
	if err == nil {
		r, bad := cluster.DecodeReplacement(v.Key, v.Data, w.table)
		if bad == nil && r.Bound() == w.form.Bound {
			r.Done = true
			if data, bad := r.Encode(); bad == nil {
				_, _ = e.Update(ctx, cluster.BucketCrawl, v.Key, data, v.Revision)
			}
		}
	}
	for node := range w.own.Cluster.Nodes {
		if err == nil && node != w.back {
			_ = e.Delete(ctx, cluster.BucketCrawl, cluster.AnswerKey(w.back, node), 0)
		}
	}
	w.opt.hook("replace")
	if err := w.opt.FS.Remove(w.path()); err != nil {
		return fmt.Errorf("crawl: replace: %w", err)
	}
	return w.opt.FS.SyncDir(w.saved.Set.Path(0, "state"))
}

// follow takes the table of the cluster, if it has changed since the backup and the node's slots have not moved: the
// node starts with it. Answers with an earlier one are void. It waits for the broker.
func (w *replacer) follow(ctx context.Context) error {
	var v cluster.Value
	for {
		var err error
		if v, err = w.all.Transport.Get(ctx, cluster.BucketCrawl, cluster.TableKey); err == nil {
			break
		}
		if errors.Is(err, cluster.ErrNotFound) {
			return nil
		}
		w.tell(ctx)
		if sleep(ctx, retryAfter); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	c, table, err := cluster.DecodeTableChange(v.Data)
	if err != nil {
		return refuseResync("the table of owners at the broker: %v", err)
	}
	switch {
	case c.Moves <= w.table.Moves(), c.Refused != "" && c.Before == w.table.Sum():
		return nil
	case table.HasDeparted(w.back):
		return refuseResync("node %d takes part in the cluster no more, by change %d of the table of owners", w.back,
			c.Moves)
	case table.Nodes() < w.table.Nodes():
		return refuseResync("the backup knows %s, and the cluster has %d", human.Counted(w.table.Nodes(), "node",
			"nodes"), table.Nodes())
	case table.Since(w.back) > w.backup:
		return refuseResync("the backup is from change %d of the table of owners, and slots of node %d have moved "+
			"since then, by change %d: only a later backup can take the place; without one, drumbeat cluster "+
			"forget %[2]d",
			w.backup, w.back, table.Since(w.back))
	case c.Refused != "":
		return refuseResync("change %d of the table of owners was refused: first make another one, such as drumbeat "+
			"cluster balance --apply", c.Moves)
	}
	w.table, w.adopt = table, c
	clear(w.answers)
	for node := w.own.Cluster.Nodes; node < table.Nodes(); node++ { // it has joined since the backup
		w.own.Cluster.Pairs = append(w.own.Cluster.Pairs, audit.Pair{Node: node})
	}
	w.own.Cluster.Nodes, w.own.Cluster.Table = table.Nodes(), table.Sum()
	w.do("follow change %d of the table of owners", c.Moves)
	return nil
}

// gather asks all nodes until each that is not abandoned has answered. The table may change meanwhile.
func (w *replacer) gather(ctx context.Context, found bool) error {
	if err := w.follow(ctx); err != nil {
		return err
	}
	if !found {
		if err := w.silent(ctx); err != nil {
			return err
		}
		known, err := w.known(ctx)
		if err != nil {
			return err
		}
		if err := w.raise(known); err != nil {
			return err
		}
	}
	for {
		err := w.request(ctx)
		if err == nil {
			err = w.listen(ctx)
		}
		switch {
		case err == nil && len(w.missing()) == 0:
			return nil
		case err == nil:
			if err := w.follow(ctx); err != nil {
				return err
			}
		case err != nil && (errors.Is(err, state.ErrIncompatible) || !isTransport(err)):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.tell(ctx)
			sleep(ctx, retryAfter)
		}
	}
}

// transportError marks an error after which the command tries again.
type transportError struct{ error }

func (e transportError) Unwrap() error { return e.error }

func isTransport(err error) bool { return errors.As(err, new(transportError)) }

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// silent returns an error if the node still runs, on another machine: its status changes.
func (w *replacer) silent(ctx context.Context) error {
	get := func() (st *cluster.Status, revision uint64) {
		v, err := w.all.Transport.Get(ctx, cluster.BucketCrawl, cluster.StatusKey(w.back))
		if err == nil {
			st, err = cluster.DecodeStatus(v.Key, v.Data, w.own.Cluster.Nodes)
		}
		if err != nil || st.Ended != "" || st.Replacing || !st.Heard(time.Now()) {
			return nil, 0
		}
		return st, v.Revision
	}
	st, revision := get()
	if st == nil {
		return nil
	}
	if w.all.Watches != nil {
		w.all.Watches(st.Time, silentAfter)
	}
	sleep(ctx, silentAfter)
	if st, again := get(); st != nil && again != revision {
		return refuseResync("node %d runs on %s: stop it first", w.back, st.Host)
	}
	return ctx.Err()
}

// known returns the latest incarnation that the manifest or the node's mark has. It waits for the broker.
func (w *replacer) known(ctx context.Context) (uint64, error) {
	known := w.m.Intake.Incarnation
	for {
		v, err := w.all.Transport.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(w.back))
		switch {
		case err == nil:
			if m, err := cluster.DecodeMark(v.Key, v.Data, w.own.Cluster.Nodes); err == nil {
				known = max(known, m.Incarnation)
			}
			return known, nil
		case errors.Is(err, cluster.ErrNotFound):
			return known, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
		w.tell(ctx)
		sleep(ctx, retryAfter)
	}
}

// request writes the request. While another command for this node runs, it is refused; after one that was killed, it
// begins a later incarnation.
func (w *replacer) request(ctx context.Context) error {
	e, key := w.all.Transport, cluster.ReplaceKey(w.back)
	v, err := e.Get(ctx, cluster.BucketCrawl, key)
	switch {
	case errors.Is(err, cluster.ErrNotFound):
		return w.put(ctx, 0)
	case err != nil:
		return transportError{err}
	}
	r, bad := cluster.DecodeReplacement(key, v.Data, w.table)
	if bad != nil || r.Identity == w.form.Identity || r.Done && r.Incarnation < w.form.Incarnation {
		return w.put(ctx, v.Revision)
	}
	if w.revision != 0 || w.beaten {
		return w.errOther(r)
	}
	if err := w.silent(ctx); err != nil {
		return err
	}
	if !r.Done {
		sleep(ctx, aliveAfter)
		again, err := e.Get(ctx, cluster.BucketCrawl, key)
		if err != nil {
			return transportError{err}
		}
		if again.Revision != v.Revision {
			return w.errOther(r)
		}
	}
	if err := w.raise(r.Incarnation); err != nil {
		return err
	}
	return w.put(ctx, v.Revision)
}

func (w *replacer) errOther(r *cluster.Replacement) error {
	return fmt.Errorf("crawl: replace: another drumbeat cluster replace of node %d runs on %s: %w", w.back, r.Host,
		state.ErrIncompatible)
}

// put writes the request over the value of a revision; 0: there is none.
func (w *replacer) put(ctx context.Context, revision uint64) (err error) {
	w.beat++
	r := cluster.Replacement{Node: w.back, Incarnation: w.form.Incarnation, Identity: w.form.Identity,
		Table: w.table.Sum(), Host: w.all.Host, Beat: w.beat}
	data, err := r.Encode()
	if err != nil {
		return err
	}
	if revision == 0 {
		w.revision, err = w.all.Transport.Create(ctx, cluster.BucketCrawl, cluster.ReplaceKey(w.back), data)
	} else {
		w.revision, err = w.all.Transport.Update(ctx, cluster.BucketCrawl, cluster.ReplaceKey(w.back), data, revision)
	}
	if err != nil {
		w.revision, w.beaten = 0, errors.Is(err, cluster.ErrExists) || errors.Is(err, cluster.ErrChanged)
		return transportError{err}
	}
	return nil
}

// missing lists the nodes that have not answered, without those that a node has abandoned.
func (w *replacer) missing() (nodes []int) {
	for node := range w.own.Cluster.Nodes {
		if node != w.back && w.answers[node] == nil && !w.abandoned(node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// abandoned reports whether this node or one that has answered has abandoned a node.
func (w *replacer) abandoned(node int) bool {
	if w.table.HasDeparted(node) || w.own.Cluster.Pair(node).Sent.Abandoned {
		return true
	}
	for _, a := range w.answers {
		if slices.Contains(a.Abandoned, node) {
			return true
		}
	}
	return false
}

// listen takes answers, and answers others, for waitsEvery or until all have answered.
func (w *replacer) listen(ctx context.Context) error {
	w.tell(ctx)
	limited, cancel := context.WithTimeout(ctx, waitsEvery)
	defer cancel()
	watcher, err := w.all.Transport.Watch(limited, cluster.BucketCrawl, cluster.ReplaceAll)
	if err != nil {
		return transportError{err}
	}
	defer watcher.Close()
	for listed := false; !listed || len(w.missing()) > 0; {
		v, ok, err := watcher.Next(limited)
		switch {
		case limited.Err() != nil && ctx.Err() == nil:
			return nil
		case err != nil:
			return transportError{err}
		case !ok:
			listed = true
			continue
		case v.Deleted:
			continue
		}
		if err := w.take(ctx, &v); err != nil {
			return err
		}
	}
	return nil
}

// take takes a value: an answer for this node, or the request of one. It ignores others.
func (w *replacer) take(ctx context.Context, v *cluster.Value) error {
	table := w.table
	if cluster.IsAnswer(v.Key) {
		a, err := cluster.DecodeReplaceAnswer(v.Key, v.Data, table)
		if err != nil || a.Of != w.back {
			return nil
		}
		return w.answered(a)
	}
	r, err := cluster.DecodeReplacement(v.Key, v.Data, table)
	switch {
	case err != nil:
		return nil
	case r.Node != w.back:
		return w.answer(ctx, r)
	case r.Identity != w.form.Identity && v.Revision >= w.revision:
		return w.errOther(r)
	}
	return nil
}

// answered takes an answer for this node.
func (w *replacer) answered(a *cluster.ReplaceAnswer) error {
	switch {
	case slices.Contains(a.Abandoned, w.back):
		return refuseResync("node %d has abandoned node %d", a.Node, w.back)
	case a.Bound == w.form.Bound:
		if a.Own >= w.form.Others[a.Node].Incarnation { // else it was before that node was replaced, too
			w.answers[a.Node] = a
		}
	case a.Incarnation >= w.form.Incarnation && a.Identity != w.form.Identity:
		if err := w.raise(a.Incarnation); err != nil {
			return err
		}
		return transportError{errors.New("another incarnation")} // ask again
	}
	return nil
}

// answer accepts the replacement of another node durably, and answers from the restored manifest.
func (w *replacer) answer(ctx context.Context, r *cluster.Replacement) error {
	if r.Done || w.own.Cluster.Pair(r.Node).Sent.Abandoned {
		return nil
	}
	known := w.form.Others[r.Node]
	known.Incarnation = max(known.Incarnation, w.m.Intake.IncarnationOf(r.Node))
	if r.Incarnation > known.Incarnation {
		if w.form.Others == nil {
			w.form.Others = map[int]cluster.Bound{}
		}
		known = r.Bound()
		w.form.Others[r.Node] = known
		if a := w.answers[r.Node]; a != nil && a.Own < r.Incarnation {
			delete(w.answers, r.Node)
		}
		if err := w.write(); err != nil {
			return err
		}
	}
	p := w.own.Cluster.Pair(r.Node)
	a := &cluster.ReplaceAnswer{Node: w.back, Of: r.Node, Bound: known, Own: w.form.Incarnation, Replacing: true,
		Table: w.table.Sum(), Taken: p.Taken, Last: p.Sent.Last, Out: p.Sent.Out,
		Gone: cluster.Taken{Number: p.Sent.GoneNumber, Totals: p.Sent.Gone}}
	data, err := a.Encode()
	if err != nil {
		return err
	}
	if _, err := w.all.Transport.Put(ctx, cluster.BucketCrawl, cluster.AnswerKey(r.Node, w.back), data); err != nil {
		return transportError{err}
	}
	return nil
}

// tell tells the caller, and cluster status, for which nodes this one waits.
func (w *replacer) tell(ctx context.Context) {
	if time.Since(w.told) < waitsEvery {
		return
	}
	w.told = time.Now()
	missing := w.missing()
	if w.all.Waits != nil {
		w.all.Waits(missing)
	}
	text := fmt.Sprintf("Takes its place again from a backup: waits for the answers of nodes %s.",
		strings.Trim(strings.ReplaceAll(fmt.Sprint(missing), " ", ", "), "[]"))
	st := cluster.Status{Node: w.back, Time: time.Now().UTC().Round(time.Second), Host: w.all.Host,
		Version: w.all.Version, Checkpoint: w.m.Gen, Waits: "the others: it takes its place again from a backup",
		State: "waiting", Level: "warn", Text: text, Replacing: true}
	if data, err := st.Encode(); err == nil {
		_, _ = w.all.Transport.Put(ctx, cluster.BucketCrawl, cluster.StatusKey(w.back), data)
	}
}

// plan decides the actions from the answers.
func (w *replacer) plan() error {
	w.openIntake()
	for _, node := range slices.Sorted(maps.Keys(w.answers)) {
		a := w.answers[node]
		if w.abandoned(node) {
			continue
		}
		if !a.Replacing && a.Own > w.intake.IncarnationOf(node) && w.intake.Taken[node].Number > a.Gone.Number {
			return refuseResync("the backup has messages of node %d from before this node was replaced, which it has "+
				"not confirmed: take a later backup", node)
		}
		if _, err := w.planPair(&peer{Node: node, Incarnation: a.Own, Replacing: a.Replacing,
			Pair: &audit.Pair{Node: w.back, Sent: a.Sent(), Taken: a.Taken, Incarnation: a.Incarnation}}); err != nil {
			return err
		}
		b := w.m.Intake.BoundOf(node)
		if other := w.form.Others[node]; other.Incarnation > b.Incarnation {
			b = other
		}
		if b.Incarnation != a.Own {
			b = cluster.Bound{Incarnation: a.Own}
		}
		w.intake.SetBound(node, b, w.own.Cluster.Nodes)
	}
	w.intake.Incarnation = w.form.Incarnation
	w.intake.SetBound(w.back, w.form.Bound, w.own.Cluster.Nodes)
	w.do("begin incarnation %d of node %d", w.intake.Incarnation, w.back)
	return nil
}
