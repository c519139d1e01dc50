package mutate

// edit replaces a text that the file contains exactly once.
type edit struct{ old, new string }

// mutant is a change of one file.
type mutant struct {
	name  string
	file  string
	edits []edit
	// ci mutants are tried with -long, as in CI.
	ci bool
	// test in package pkg must fail; "" means the crash simulation.
	pkg, test string
}

const (
	checkpointFile = "crawl/checkpoint/checkpoint.go"
	inRAMFile      = "crawl/inram.go"
	runFile        = "crawl/run.go"
	atomicFile     = "disk/atomic.go"
	intakeFile     = "crawl/node/intake.go"
)

// mutants are the changes, grouped by what they omit or do too early. Two are missing since they have no effect:
// without the sync of the directory after an output file gets its final name, the manifest names the file
// until a later checkpoint, whose sync covers the name, is durable, and a run that finds it under the old
// name renames it again. And a node of a cluster may purge its stream before its mark, even before its manifest:
// whoever sent a message keeps it in the outbox until the mark covers it, and sends it again.
var mutants = []mutant{
	// Missing syncs.
	{name: "temp-not-synced", file: atomicFile, edits: []edit{{"		err = f.Sync()\n", "		err = nil\n"}}},
	{name: "rename-not-synced", file: atomicFile, edits: []edit{{"fsys.SyncDir(path.Dir(name))",
		"func(string) error { return nil }(path.Dir(name))"}}},
	{name: "checkpoint-not-synced", file: checkpointFile, ci: true, edits: []edit{{"fsys.SyncFS(dir)",
		"func(string) error { return nil }(dir)"}}},
	{name: "checkpoint-syncs-one-disk", file: checkpointFile, edits: []edit{{"range dirs {", "range dirs[:1] {"}}},
	{name: "sync-not-awaited", file: checkpointFile, pkg: "./crawl/checkpoint", test: "TestSyncAll", edits: []edit{
		{"	wg.Wait()\n	return errors.Join(errs...)\n", "	return errors.Join(errs...)\n"}}},
	{name: "output-not-synced", file: checkpointFile,
		edits: []edit{{"slices.Concat(dirs, k.saved.Out.Paths)", "slices.Concat(dirs)"}}},
	{name: "found-manifest-not-synced", file: "state/copies.go",
		edits: []edit{{`s.Set.FS.SyncDir(s.Set.Path(i, "state"))`,
			`func(string) error { return nil }(s.Set.Path(i, "state"))`}}},

	{name: "change-not-synced", file: "state/changes/journal.go", ci: true, pkg: "./state/changes",
		test: "TestSurvivesCrash", edits: []edit{{"		err = j.file.Sync()\n", "		err = nil\n"}}},
	{name: "moved-queue-not-saved", file: "beast/checkpoint.go", pkg: "./beast", test: "TestModel",
		edits: []edit{{"	for _, m := range b.moved {\n		f.state",
			"	for _, m := range b.moved[:0] {\n		f.state"}}},

	// Order of manifest, sync and deletion.
	{name: "manifest-before-sync", file: checkpointFile, edits: []edit{
		{"	if err := syncAll(k.saved.Set.FS, dirs); err != nil {\n",
			"	if err := syncAll(k.saved.Set.FS, dirs[:0]); err != nil {\n"},
		{"	k.gen = gen\n", "	if err := syncAll(k.saved.Set.FS, k.saved.Set.Paths); err != nil {\n		" +
			"return nil, err\n	}\n	k.gen = gen\n"}}},
	{name: "commit-before-manifest", file: checkpointFile, ci: true, edits: []edit{
		{"	data, err := state.EncodeManifest(m)\n",
			"	for _, p := range mo.parts {\n		if err := p.commit(); err != nil {\n			return " +
				"nil, err\n		}\n	}\n	data, err := state.EncodeManifest(m)\n"},
		{"	k.run.Hook(\"checkpoint\")\n	for _, p := range mo.parts {\n",
			"	k.run.Hook(\"checkpoint\")\n	for _, p := range mo.parts[:0] {\n"}}},
	{name: "tails-removed-before-manifest", file: checkpointFile, edits: []edit{
		{"	data, err := state.EncodeManifest(m)\n", "	if err := disk.RemoveTails(k.saved.Set, " +
			"func(g uint64) bool { return g == gen }); err != nil {\n		return nil, err\n	}\n	data, " +
			"err := state.EncodeManifest(m)\n"}}},
	{name: "drum-file-deleted-early", file: "drum/files.go",
		edits: []edit{{"if epoch != fs.freezes {", "if false && epoch != fs.freezes {"}}},
	{name: "buffers-deleted-early", file: "drum/state.go", edits: []edit{
		{"			f.doomed = append(f.doomed, doomedFile{name: d.opt.path(dir, buffersName(bf.gen)), " +
			"size: bf.written})\n",
			"			_ = d.fs().Remove(d.opt.path(dir, buffersName(bf.gen)))\n"}}},
	{name: "buffers-half-saved", file: "drum/state.go", edits: []edit{
		{"		s.saved = fb.n - bucketHeaderBytes\n", "		s.saved = cap(s.buf)\n"}}},
	{name: "segment-deleted-early", file: "queue/peek.go",
		edits: []edit{{"	q.retired = append(q.retired, q.segments[0])\n",
			"	_ = q.opt.Set.FS.Remove(segmentPath(q.opt.Set, q.opt.Name, q.segments[0]))\n"}}},
	{name: "beast-queue-deleted-early", file: "beast/beast.go",
		edits: []edit{{"			b.retire(q)\n", "			_ = q.Destroy()\n"}}},
	{name: "failed-queue-deleted-early", file: "beast/scan.go",
		edits: []edit{{"	b.retire(b.old)\n", "	_ = b.old.Destroy()\n"}}},
	{name: "unsifted-not-saved", file: "beast/checkpoint.go", pkg: "./beast", test: "TestSift", edits: []edit{
		{"			list[j].Unsifted = f.unsifted[i]\n", ""}}},
	{name: "slot-deleted-early", file: "queue/calendar.go", edits: []edit{{"		c.dead = append(c.dead, s)\n",
		"		_ = s.queue.Destroy()\n"}}},

	// Cursors that advance too early.
	{name: "queue-cursor-ahead", file: "queue/freeze.go", edits: []edit{
		{"			f.st.Offset, f.st.Block, f.st.Skip = q.headOff, q.headSeq, q.headRead\n",
			"			_ = q.headRead\n"}}},
	{name: "queue-skips-one-more", file: "queue/freeze.go", edits: []edit{
		{"= q.headOff, q.headSeq, q.headRead\n", "= q.headOff, q.headSeq, q.headRead+1\n"}}},
	{name: "queue-head-not-saved", file: "queue/freeze.go", edits: []edit{
		{"tails.Write(f.st.NextDir, f.head)", "tails.Write(f.st.NextDir, f.head[:0])"}}},
	{name: "queue-tail-not-saved", file: "queue/freeze.go", edits: []edit{
		{"tails.Write(f.st.NextDir, f.tail)", "tails.Write(f.st.NextDir, f.tail[:0])"}}},
	{name: "beast-reader-ahead", file: "crawl/budgets/budgets.go", edits: []edit{
		{"		if err := b.run.Transact(func(tx *account.Tx) error {\n			rec := weburl.Record{}\n",
			"		b.Beast.Advance()\n		b.run.Hook(\"ahead\")\n		if err := " +
				"b.run.Transact(func(tx *account.Tx) error {\n			rec := weburl.Record{}\n"},
		{"			b.Beast.Advance()\n			b.stock.NoteFresh()\n			return nil\n",
			"			b.stock.NoteFresh()\n			return nil\n"}}},
	{name: "scan-ahead", file: "crawl/budgets/scans.go", edits: []edit{
		{"		if err := b.run.Transact(func(tx *account.Tx) error { return b.scanSome(",
			"		b.Beast.ScanAdvance()\n		b.run.Hook(\"ahead\")\n		if err := b.run.Transact(func(tx " +
				"*account.Tx) error { return b.scanSome("},
		{"	b.Beast.ScanAdvance()\n	return nil\n", "	return nil\n"}}},
	{name: "deferred-ahead", file: "crawl/deferred/deferred.go", edits: []edit{
		{"	return d.run.Transact(func(tx *account.Tx) error {\n		var rec weburl.Record\n		if err := " +
			"rec.Decode(data); err != nil {\n			return fmt.Errorf(\"crawl: record from deferred URLs",
			"	d.Deferred.Advance(class)\n	d.run.Hook(\"ahead\")\n	return d.run.Transact(" +
				"func(tx *account.Tx) error {\n		var rec weburl.Record\n		if err := " +
				"rec.Decode(data); err != nil " +
				"{\n			return fmt.Errorf(\"crawl: record from deferred URLs"},
		{"		d.Deferred.Advance(class)\n		return nil\n", "		return nil\n"}}},
	{name: "output-cursor-ahead", file: "warc/outfile/checkpoint.go", edits: []edit{
		{"StreamState{Size: st.size, Form", "StreamState{Size: st.size + int64(len(st.buf)), Form"}}},
	{name: "seeds-cursor-ahead", file: "crawl/seeds/seeds.go",
		edits: []edit{{"		f.state = st\n", "		f.state = st\n		f.state.Done = true\n"}}},
	{name: "removed-before-the-manifest", file: "crawl/output/uploads.go", pkg: "./crawl",
		test: "TestObjectStoreKilled", edits: []edit{
			{"if v.state == volumeNamed && (v.log", "if v.state != volumeWaits && (v.log"}}},
	{name: "uploads-left-open", file: "internal/objstore/upload.go", pkg: "./internal/objstore",
		test: "TestPutKilled", edits: []edit{
			{"range old {", "range old[:0] {"}}},

	// State that is only in RAM.
	{name: "ram-not-saved", file: inRAMFile, ci: true,
		edits: []edit{{"c.polite.Snapshot(), dumpItems", "nil, dumpItems"}}},
	{name: "ram-not-restored", file: runFile,
		edits: []edit{{`state.EachRecord("URLs in RAM", ram,`, `state.EachRecord("URLs in RAM", ram[:0],`}}},
	{name: "robots-jobs-not-saved", file: "crawl/gate/requests.go",
		edits: []edit{{"return q.robotsJobs.snapshot()", "return nil"}}},
	{name: "robots-jobs-not-restored", file: "crawl/gate/requests.go",
		edits: []edit{{`state.EachRecord("robots requests in RAM", jobs,`,
			`state.EachRecord("robots requests in RAM", jobs[:0],`}}},
	{name: "releases-not-restored", file: "crawl/gate/requests.go",
		edits: []edit{{"	q.waiting.restore(n, q.robotsJobs.issued())\n", "	_ = n\n"}}},
	{name: "delays-not-saved", file: inRAMFile,
		edits: []edit{{"c.polite.Delays(time.Now())", "c.polite.Delays(time.Now())[:0]"}}},
	{name: "delays-not-restored", file: "crawl/dispatch/dispatcher.go",
		edits: []edit{{"	d.heaps.Restore(now, delays)\n", ""}}},
	{name: "visits-forgotten", file: "crawl/dispatch/dispatcher.go",
		edits: []edit{{"opt.Visited, opt.Recent = time.Now()", "opt.Visited, opt.Recent = time.Time{}"}}},
	{name: "star-checks-forgotten", file: "star/checkpoint.go",
		edits: []edit{{"s.checks.Store(st.Checks)", "s.checks.Store(0)"}}},
	{name: "log-lines-not-saved", file: "internal/crawllog/log.go",
		edits: []edit{{"tails.Write(0, f.lines)", "tails.Write(0, f.lines[:0])"}}},
	{name: "warc-tail-not-saved", file: "warc/outfile/checkpoint.go",
		edits: []edit{{"tails.Write(0, b.bytes)", "tails.Write(0, b.bytes[:0])"}}},

	// Transactions that are not atomic. The test hook "ahead" of some mutants lets other goroutines run.
	{name: "transaction-without-lock", file: "crawl/account/transaction.go",
		edits: []edit{{"	r.TxLock.RLock()\n	defer r.TxLock.RUnlock()\n", ""}}},
	{name: "accounts-of-later", file: checkpointFile,
		edits: []edit{{"Accounts: mo.accounts,", "Accounts: k.run.Accounts.Copy(),"}}},
	{name: "no-pause", file: checkpointFile,
		edits: []edit{{"	pauseAll(pausable)\n", ""}, {"		p.Resume()\n", "		_ = p\n"}}},
	{name: "stored-before-the-transaction", file: "crawl/visit/commit.go", edits: []edit{
		{"	err = s.settle(g, result, func(tx *account.Tx) error { return s.commit(tx, w, page, is, now) })\n",
			"	var at warc.Location\n	if s.opt.Output.Store {\n		if at, err = s.reads.Store(w, now); " +
				"err != nil {\n			return err\n		}\n		s.run.Hook(\"ahead\")\n	}\n	err = " +
				"s.settle(g, result, func(tx *account.Tx) error { return s.commit(tx, w, page, is, now, at) })\n"},
		{"page *arrival, is Found, now time.Time) error {\n",
			"page *arrival, is Found, now time.Time, at warc.Location) error {\n"},
		{"	var at warc.Location\n	if s.opt.Output.Store && !waits {\n", "	if false {\n"}}},
	{name: "stream-attached-at-once", file: "warc/stream.go", pkg: "./warc", test: "TestCrashes", edits: []edit{
		{"	return s, nil\n", "	return s, files.Attach()\n"},
		{"	if err := s.files.Attach(); err != nil {\n", "	if err := error(nil); err != nil {\n"}}},

	// Omitted steps of recovery.
	{name: "output-not-cut", file: "warc/outfile/store.go",
		edits: []edit{{"			if err := cut(f, want.Size); err != nil {\n",
			"			if err := cut(f, want.Size); false && err != nil {\n"},
			{"		err = f.Truncate(want)\n", ""}}},
	{name: "content-filter-empty", file: "crawl/contents/fill.go", edits: []edit{{"\t\t\tc.filter.Add(key)\n", ""}}},
	{name: "output-not-cleared", file: "warc/outfile/store.go", edits: []edit{{"|| named[name] ||", "|| true ||"}}},
	{name: "spools-not-cleared", file: "crawl/fetcher/spool.go", pkg: "./crawl",
		test: "TestLargeBodyIsCut", edits: []edit{
			{"range s.saved.Out.Paths {", "range s.saved.Out.Paths[:0] {"}}},
	{name: "drum-not-cleared", file: "drum/files.go",
		edits: []edit{{"if _, ok := want[name]; !ok {", "if _, ok := want[name]; false && !ok {"}}},
	{name: "slots-not-cleared", file: "queue/calendar.go",
		edits: []edit{{"		if keep[name] {\n", "		if keep[name] || true {\n"}}},
	{name: "queues-not-cleared", file: "beast/checkpoint.go",
		edits: []edit{{"if !named[name] {", "if false && !named[name] {"}}},
	{name: "segment-not-cut", file: "queue/files.go", edits: []edit{{"		err = f.Truncate(s.Size)\n", ""}}},

	// What crosses between nodes.
	{name: "published-before-durable", file: "cluster/outbox.go", pkg: "./cluster", test: "TestOutbox", edits: []edit{
		{"h.Number, h.Number <= durable, nil", "h.Number, h.Number <= durable || true, nil"}}},
	{name: "dropped-when-published", file: "cluster/outbox.go", pkg: "./crawl", test: "TestClusterCuts", edits: []edit{
		{"	msg, ok, err := o.pending.Peek()\n	if err != nil || !ok {\n		return errors.Join(err, " +
			"errNoMessage)\n	}\n	if err := o.sent.Append(msg); err != nil {\n		return err\n	}\n",
			"	msg, ok, err := o.pending.Peek()\n	if err != nil || !ok {\n		return errors.Join(err, " +
				"errNoMessage)\n	}\n	_ = msg\n"}}},
	{name: "mark-before-manifest", file: checkpointFile, pkg: "./crawl", test: "TestClusterCutsInTurn", edits: []edit{
		{"	m, err := k.saveMoment(mo, clean, done)\n", `	early := &state.Manifest{Gen: k.gen + 1}
	for _, c := range mo.ram {
		if c.Durable != nil && c.Durable(early) != nil {
			return nil
		}
	}
	m, err := k.saveMoment(mo, clean, done)
`}}},
	// That the two are not one transaction shows if a checkpoint comes between them, so the mutant waits for one.
	{name: "taken-outside-of-transaction", file: intakeFile, pkg: "./crawl",
		test: "TestClusterCutsInTurn|TestClusterCuts$", edits: []edit{
			{"	return s.run.Transact(func(tx *account.Tx) error {\n		s.run.Hook(\"intake\")\n",
				`	if verdict == cluster.Take {
		if err := s.run.Transact(func(tx *account.Tx) error {
			s.in.Taken[h.From] = cluster.Taken{Number: h.Number, Totals: h.After}
			return nil
		}); err != nil {
			return err
		}
		time.Sleep(3 * time.Second)
	}
	return s.run.Transact(func(tx *account.Tx) error {
		s.run.Hook("intake")
`}, {"	s.in.Taken[h.From] = cluster.Taken{Number: h.Number, Totals: h.After}\n	s.taken", "	s.taken"}}},
	{name: "skipped-by-sequence", file: intakeFile, pkg: "./crawl", test: "TestClusterCuts$", edits: []edit{
		{"		verdict, err = s.in.Judge(&h, s.opt.Crawl, s.opt.Node)\n", `		verdict = cluster.Take
		if msg.Seq <= s.in.Seq {
			verdict = cluster.Skip
		}
`}}},
	{name: "edge-to-the-owner-of-its-source", file: "admit/batch.go", pkg: "./crawl",
		test: "TestCluster$", edits: []edit{
			{"	if node == b.p.Node {\n", "	if true {\n"}}},
	{name: "handed-out-and-kept", file: "crawl/seen/seen.go", pkg: "./crawl", test: "TestDivide$", edits: []edit{
		{"			} else if sent {\n				continue\n",
			"			} else if sent {\n				_ = sent\n"}}},
	{name: "requests-of-hosts-that-left", file: "state/move/urls.go", pkg: "./crawl", test: "TestDivideCuts",
		edits: []edit{{" && (!moves.HasKey(key) || n.keptJobs[key])", " && (true || moves.HasKey(key))"}}},
	{name: "whole-budget-at-each-visitor", file: "star/star.go", pkg: "./star", test: "TestShare$", edits: []edit{
		{"	return nominal, shareOf(pages, s.share(key))\n", "	return nominal, pages\n"}}},
	{name: "pld-pace-at-each-visitor", file: "polite/delay.go", pkg: "./polite", test: "TestPLDShare", edits: []edit{
		{"int64(float64(delay) / o.PLDShare(p.key))", "delay"}}},
	{name: "gap-overlooked", file: "cluster/mark.go", pkg: "./cluster", test: "TestOutbox", edits: []edit{
		{"		return Hole, nil\n", "		return Take, nil\n"}}},
	{name: "taken-again", file: "cluster/mark.go", pkg: "./cluster", test: "TestOutbox", edits: []edit{
		{"	case h.Number <= t.Number:\n", "	case h.Number <= t.Number && h.Number%2 == 0:\n"}}},
	{name: "intake-not-saved", file: "crawl/node/node.go", pkg: "./crawl", test: "TestClusterCuts", edits: []edit{
		{"m.PageSlots, m.Leaving = mo.intake,", "m.PageSlots, m.Leaving = nil,"}}},
	{name: "pause-ends-sifting", file: "crawl/budgets/sift.go", pkg: "./crawl/budgets", test: "TestSift", edits: []edit{
		{"		account.Sleep(ctx, space.Every)\n		return false, nil\n",
			"		_ = space.Every\n		return true, nil\n"}}},
	{name: "leaving-not-saved", file: "crawl/node/node.go", pkg: "./crawl", test: "TestGiveWhileRunning|TestGiveCuts",
		edits: []edit{{"n.shares.slots, mo.leaving\n", "n.shares.slots, nil\n"}}},
	// Blocks that move, and indexes of blocks.
	{name: "block-moved-with-what-was-read", file: "queue/move.go", pkg: "./queue", test: "TestMoveTo", edits: []edit{
		{"		if q.headRead == 0 && r.end", "		if r.end"}}},
	{name: "moved-but-not-passed", file: "queue/move.go", pkg: "./queue", test: "TestMoveTo", edits: []edit{
		{"	q.headRead += r.records\n", ""}}},
	{name: "moved-but-not-counted", file: "queue/move.go", pkg: "./queue", test: "TestMoveTo", edits: []edit{
		{"	q.in.records += int64(b.records)\n", ""}}},
	{name: "index-of-a-part-that-is-gone", file: "drum/probe.go", pkg: "./drum", test: "TestManyLateKeys",
		edits: []edit{
			{"	if of.gen != r.part.gen || of.off != r.part.off {\n", "	if of.gen == 0 {\n"}}},
	{name: "late-keys-not-asked", file: "drum/probe.go", pkg: "./drum", test: "TestManyLateKeys|TestLateKeys",
		edits: []edit{
			{"		_, found := slices.BinarySearch(m.old.late, key)\n", "		found := false\n"}}},
	// Leases of networks.
	{name: "holder-without-delay", file: "polite/lease.go", pkg: "./polite", test: "TestLeases", edits: []edit{
		{"	n.next = max(n.next, now+max(int64(ns.opt.ServerDelay), ns.window))\n", ""}}},
	{name: "rests-not-handed-over", file: "polite/lease.go", pkg: "./polite", test: "TestLeases", edits: []edit{
		{"	if n.restUntil > at {\n", "	if false {\n"}}},
	{name: "handed-over-with-requests-to-begin", file: "cluster/lease/steps.go", pkg: "./cluster/lease",
		test: "TestNodes|TestFaults", edits: []edit{
			{"	if state.Pending > 0 || state.Flights > 0 && l.now()-e.left < l.short(endTimeout) {\n",
				"	if state.Pending < 0 {\n"}}},
	{name: "leases-kept-without-beats", file: "cluster/lease/heartbeats.go", pkg: "./cluster/lease",
		test: "TestSilent", edits: []edit{
			{"return l.heartbeats.heard.Load() && ", "return l.heartbeats.heard.Load() || "}}},
	{name: "brought-rests-not-kept", file: "cluster/lease/value.go", pkg: "./cluster/lease",
		test: "TestRestsOutliveKills", edits: []edit{
			{"	next := value{Node: node, Run: run, Open: v.Open, Rests: v.Rests}\n",
				"	next := value{Node: node, Run: run, Open: v.Open}\n"}}},
	{name: "leases-not-claimed-again", file: "cluster/lease/heartbeats.go", pkg: "./cluster/lease",
		test: "TestFaults", edits: []edit{
			{"	b.guard()\n	b.l.claimAll()\n", "	b.guard()\n"}}},
	{name: "server-visited-again-in-the-next-run", file: "polite/recent.go", pkg: "./polite",
		test: "TestRecentPlaces", edits: []edit{
			{"s.heaps.servers.delay(is.key, at, next)", "_ = next"}}},
	{name: "leases-opened-early", file: "cluster/lease/heartbeats.go", pkg: "./cluster/lease",
		test: "TestLoss", edits: []edit{
			{"n.since >= sureHeartbeats, ", "n.since >= 0, "}}},
	{name: "late-hand-over-accepted", file: "cluster/lease/lease.go", pkg: "./cluster/lease",
		test: "TestLateHandOver", edits: []edit{
			{"e.wait == 0 || e.wait != r.Wait ||", "e.wait == 0 ||"}}},
	{name: "loss-seen-in-newer-leases", file: "cluster/lease/heartbeats.go", pkg: "./cluster/lease",
		test: "TestLateLast", edits: []edit{
			{"|| last < highest {", "|| last < b.highest.Load() && highest < 1<<63 {"}}},
	{name: "silence-ends-now", file: "cluster/lease/heartbeats.go", pkg: "./cluster/lease",
		test: "TestFrozen", edits: []edit{
			{"b.proved-n.last > b.l.o.TTL)", "b.l.now()-n.last > b.l.o.TTL)"}}},
	{name: "lost-lease-to-be-claimed", file: "cluster/lease/steps.go", pkg: "./cluster/lease",
		test: "TestLostLease", edits: []edit{
			{"	l.enter(e, gone)\n	l.noteOverdue(e.net)\n	l.settle(e)\n",
				"	l.enter(e, gone)\n	l.noteOverdue(e.net)\n"}}},
	{name: "large-bodies-not-told", file: "cluster/lease/open.go", pkg: "./cluster/lease",
		test: "TestLargeBodies", edits: []edit{
			{"	for ctx.Err() == nil {\n", "	for false {\n"}}},
	{name: "hanging-node-asked", file: "cluster/lease/heartbeats.go", pkg: "./cluster/lease",
		test: "TestHangingNode", edits: []edit{
			{"b.l.now()-n.last >= aliveHeartbeats*b.every()\n}", "b.l.now() < 0\n}"}}},
	{name: "leases-of-the-living-collected", file: "cluster/lease/room.go", pkg: "./cluster/lease",
		test: "TestCollect", edits: []edit{
			{"return n.heartbeat.Ended || b.proved-n.last > b.l.o.TTL+longest", "return true"}}},
	{name: "rounds-wait-by-a-timer", file: "crawl/budgets/budgets.go", pkg: "./crawl",
		test: "TestNoTimerHoldsURLs", edits: []edit{
			{"	for b.kept.Load() {\n		b.wakeBeast.Raise()\n		<-b.moved\n	}\n",
				"	if b.Beast.AtEnd() && b.Beast.Waiting() == beast.Ready {\n		time.Sleep(5 * " +
					"time.Millisecond)\n	}\n"}}},
	{name: "scan-takes-what-hosts-cannot-use", file: "crawl/budgets/scans.go", pkg: "./crawl",
		test: "TestGlutSlowsNoOther", edits: []edit{
			{"		return glutted\n", "		return glutted && false\n"}}},
	{name: "false-mark-ends-a-node", file: "crawl/node/marks.go", pkg: "./crawl",
		test: "TestClusterForgedMark", edits: []edit{
			{"return false, s.doubts.doubted(m.Node, doubtMark, m.Revision, err)", "return false, err"}}},
	{name: "unreadable-message-dropped", file: "crawl/node/quarantine.go", pkg: "./crawl",
		test: "TestClusterQuarantine$", edits: []edit{
			{"return s.quarantine.Append(msg.Data)", "return nil"}}},
	{name: "later-version-written-early", file: "cluster/version.go", pkg: "./crawl", test: "TestClusterUpgrade$",
		edits: []edit{{"own = min(own, m.Reads())", "own = max(own, m.Reads())"}}},
	{name: "later-version-sent-to-older-node", file: "cluster/publisher.go", pkg: "./cluster",
		test: "TestPublisherOlder", edits: []edit{
			{"version <= FirstVersion || m != nil && version",
				"version <= FirstVersion || m == nil || version > 0 || version"}}},
	{name: "version-of-open-message-forgotten", file: "cluster/outbox.go", pkg: "./cluster",
		test: "TestMessageVersions", edits: []edit{{"f.st.Version = o.version", "f.st.Version = 0"}}},
	{name: "message-of-later-version-asked-for-again", file: "cluster/message.go", pkg: "./crawl",
		test: "TestClusterUpgradeQuarantine", edits: []edit{
			{"versionOf(msg) > lastVersion", "versionOf(msg) > Version"}}},
	{name: "ended-node-does-not-rejoin", file: "crawl/run.go", pkg: "./crawl", test: "TestClusterGoesOn", edits: []edit{
		{"	if finished && !rejoined {\n", "	if _ = rejoined; finished {\n"}}},
	{name: "rejoining-node-waits-for-none", file: "crawl/node/rejoin.go", pkg: "./crawl",
		test: "TestClusterGoesOn", edits: []edit{
			{"	if e.rejoined.IsZero() {\n		return 0", "	if e.rejoined.Unix() != 1 {\n		return 0"}}},
	{name: "end-without-what-was-sent-since", file: "crawl/node/end.go", pkg: "./crawl",
		test: "TestClusterOldEnd", edits: []edit{
			{"p.Taken.Totals.Records(); left != 0 {", "p.Taken.Totals.Records(); left < 0 {"}}},
	{name: "end-by-other-sums", file: "cluster/over.go", pkg: "./cluster", test: "TestOverModel", edits: []edit{
		{"m.Done || m.AgreedTo == all:", "m.Done || m.AgreedTo != 0 || all == 0:"}}},
	{name: "term-kept-with-other-sums", file: "crawl/node/end.go", pkg: "./crawl/node", test: "TestTerms",
		edits: []edit{{" || sums.Received != e.received || sums.Sent != e.sent", ""}}},
	{name: "term-kept-when-work-comes", file: "crawl/node/end.go", pkg: "./crawl/node", test: "TestTerms",
		edits: []edit{{"e.idle && !m.Idle || ", ""}}},
	{name: "end-of-an-earlier-round", file: "cluster/over.go", pkg: "./cluster", test: "TestOver", edits: []edit{
		{" && m.Round >= round", ""}}},
	{name: "open-message-not-saved", file: "cluster/outbox.go", pkg: "./cluster", test: "TestOutbox", edits: []edit{
		{"tails.Write(0, f.open)", "tails.Write(0, f.open[:0])"}}},
	// The browser as a child.
	{name: "browser-outlives-its-crawler", file: "internal/render/child.go", pkg: "./internal/render",
		test: "TestLaunchKilled", edits: []edit{{", Pdeathsig: syscall.SIGKILL}", "}"}}},
	{name: "profile-in-use-removed", file: "internal/render/child.go", pkg: "./internal/render", test: "TestLaunch",
		edits: []edit{{"if lock, err := lockDir(name)", "if lock, err := os.Open(name)"}}},
	{name: "browser-started-at-once", file: "crawl/render/render.go", pkg: "./crawl/render",
		test: "TestRenderEveryPage", edits: []edit{{"r.retryAt = time.Now().Add(r.retry)", "r.retryAt = time.Now()"}}},
	{name: "no-rules-no-rendering", file: "crawl/render/render.go", pkg: "./crawl/render",
		test: "TestRenderEveryPage", edits: []edit{{"return r.all || ", "return "}}},
	// The parts of rendered pages.
	{name: "parts-keep-to-scope", file: "admit/batch.go", pkg: "./crawl/render", test: "TestRenderParts",
		edits: []edit{{" && !(b.asset && b.anywhere)", ""}}},
	{name: "imports-without-end", file: "admit/batch.go", pkg: "./crawl/render", test: "TestRenderPartsBounds",
		edits: []edit{{"maxAssetSteps = 8", "maxAssetSteps = 200"}}},
	{name: "part-rendered", file: "crawl/visit/pages.go", pkg: "./crawl/render", test: "TestRenderParts",
		edits: []edit{{" && !w.Links.OnlyPart(rec.URL)", ""}}},
	{name: "parts-without-limit", file: "crawl/render/parts.go", pkg: "./crawl/render",
		test: "TestRenderPartsBounds", edits: []edit{{"if added == most {", "if added < 0 {"}}},
	{name: "answers-not-stored", file: "crawl/render/parts.go", pkg: "./crawl/render", test: "TestRenderParts",
		edits: []edit{{"f.kept = append(f.kept, a)", "_ = append(f.kept, a)"}}},
	{name: "script-fetched-twice", file: "crawl/render/parts.go", pkg: "./crawl/render", test: "TestRenderParts",
		edits: []edit{{"known := f.answered()", "known := map[uint64]struct{}{}"}}},
	// The texts of a crawl.
	{name: "seed-names-no-crawl", file: "crawl/run.go", pkg: "./cmd", test: "TestAbout", edits: []edit{
		{"run.FirstSeeds, run.Earlier = c.seeds.First(), ", "run.Earlier = "}}},
	// The statements of sites about the use of their pages.
	{name: "statement-not-carried", file: "crawl/gate/check.go", pkg: "./crawl/visit", test: "TestRights",
		edits: []edit{{"	sum.SetStatement(&l, buf[:0])\n", "	_ = buf\n"}}},
	{name: "statement-of-another-url", file: "crawl/gate/check.go", pkg: "./crawl/visit", test: "TestRights",
		edits: []edit{{"s.last != nil && s.statement == l", "s.last != nil"}}},
	{name: "refused-use-kept", file: "crawl/visit/record.go", pkg: "./crawl/visit", test: "TestRights",
		edits: []edit{{"		w.stores, w.meta.refused = state.ArchiveDrop, refused\n",
			"		w.meta.refused = refused\n"}}},
	{name: "least-restrictive-wins", file: "robots/signals.go", pkg: "./robots", test: "TestSignals",
		edits: []edit{{"	slices.Sort(codes) // of",
			"	slices.SortFunc(codes, func(a, b byte) int { return int(a^7) - int(b^7) }) // of"}}},
	{name: "cut-bots-allowed", file: "robots/bots.go", pkg: "./robots", test: "TestBotsCut",
		edits: []edit{{"	if cut = class&p.botsCut != 0; cut {",
			"	if cut = class&p.botsCut != 0; cut && false {"}}},
	// The condition of the crawl.
	{name: "back-off-is-a-choice", file: "state/condition/condition.go", pkg: "./state/condition", test: "TestWorlds",
		edits: []edit{{"	case w.Kind == snapshot.WaitBackoff:\n", "	case w.Kind > snapshot.WaitLinks:\n"}}},
	{name: "silence-is-work", file: "state/condition/condition.go", pkg: "./state/condition", test: "TestWorlds",
		edits: []edit{{"	return v.quiet >= Patience\n", "	return false\n"}}},
	{name: "space-not-shown", file: "crawl/run.go", pkg: "./state/condition", test: "TestSpaceBeforeARun",
		edits: []edit{{"	c.opt.Observe.Control.Show(c.running())\n", ""}}},
}
