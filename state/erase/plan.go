package erase

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/extsort"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// volume is a WARC file in which something changes: a line of the file "plan".
type volume struct {
	Dir       int    `json:"dir"`
	Name      string `json:"name"`      // without suffix
	Next      string `json:"next"`      // name of the new file
	Final     bool   `json:"final"`     // the old one is final
	Data      bool   `json:"data"`      // the WARC file is here, not only its index
	File      string `json:"file"`      // with suffix
	NextFile  string `json:"next_file"` //
	IndexFile string `json:"index"`     // final name
	Bytes     int64  `json:"bytes"`     // of both files
	number    uint32 // in the plan, from 0
}

// The tags of keys in the order in which the join reads them.
const (
	tagWaits     = 'a' // a URL that waits
	tagFetched   = 'b' // a URL with a capture, or a line of the crawl log without a reason
	tagRefused   = 'c' // a URL with another line
	tagRequested = 'd' // a URL of the request
)

// plan reads everything and makes the work files durable, and then the journal. If the request is that of
// finished, it leaves the journal nil.
func (x *run) plan(finished *Record) (err error) {
	x.j, x.volumes = nil, nil
	if err := x.removeWork(); err != nil {
		return err
	}
	if err := x.ready(); err != nil {
		return err
	}
	set := x.r.Set
	if err := set.FS.MkdirAll(x.work("")); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	keys := x.sorter("keys.sort")
	defer func() { err = errors.Join(err, keys.Close()) }()
	list, err := disk.Stage(set.FS, x.work("list"))
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer list.Abort()
	j := &journal{Gen: x.m.Gen}
	x.t, err = readTargets(&x.source, x.r.Suffixes, !x.m.Frozen.KeepEscapes, set.FS, x.work("list.sort"),
		func(target string) error {
			if len(j.Targets) < MaxNamed && !x.opt.Hide {
				j.Targets = append(j.Targets, target)
			}
			if !strings.HasPrefix(target, kindHost) && !strings.HasPrefix(target, kindPLD) {
				if x.foreign(x.r.Hasher.URLKey([]byte(target))) && !x.divides([]byte(target)) {
					// Its node bars it, and links to it go there.
				} else if err := x.addKey(keys, []byte(target), tagRequested); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintln(list, target)
			return err
		})
	if err != nil || finished != nil && finished.Digest == x.t.Digest {
		return err
	}
	if err := endStaged(list); err != nil {
		return err
	}
	if err := x.begin(j); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		run  func(keys *extsort.Sorter) error
	}{{"read WARC files", x.planWARC}, {"read logs", x.planLogs}, {"read queues", x.planWaiting},
		{"compare with URLseen", x.planKeys},
		{"read outputs", func(*extsort.Sorter) error { return x.planOutputs() }}} {
		x.opt.Progress(step.name)
		if err := step.run(keys); err != nil {
			x.j = nil
			return err
		}
	}
	if x.opt.DryRun {
		return nil
	}
	for _, step := range []func() error{x.roomForAll, x.mayBar, x.savePlan} {
		if err := step(); err != nil {
			x.j = nil
			return err
		}
	}
	return x.write(phasePlanned)
}

// begin makes j the journal, with the number of the erasure and what is known of it.
func (x *run) begin(j *journal) error {
	j.Time, j.Reason, j.Hidden = x.opt.Now().UTC().Truncate(time.Second), x.opt.Reason, x.opt.Hide
	for i := range x.requests {
		j.Requests = append(j.Requests, x.requests[i].record())
		j.Number = x.requests[i].Number
		j.Hidden = j.Hidden || x.requests[i].Hide // in the blacklist
	}
	if j.Number == 0 {
		var err error
		if j.Number, err = nextNumber(x.r.Set); err != nil {
			return err
		}
	}
	j.Digest, j.Hosts, j.PLDs, j.URLs = x.t.Digest, x.t.Hosts, x.t.PLDs, x.t.URLs
	x.j = j
	return nil
}

// endStaged makes a work file durable.
func endStaged(f *disk.Staged) error {
	if err := f.End(); err != nil {
		return err
	}
	return f.Rename()
}

func (x *run) sorter(dir string) *extsort.Sorter {
	return extsort.New(extsort.Options{FS: x.r.Set.FS, Dir: x.work(dir), RAMBytes: x.opt.RAMBytes / 4})
}

func (x *run) addKey(keys *extsort.Sorter, url []byte, tag byte) error {
	if keys == nil { // of files that are not the crawl's
		return nil
	}
	return keys.Add(append(binary.BigEndian.AppendUint64(nil, x.r.Hasher.URLKey(url)), tag))
}

// judgement is what becomes of a record.
type judgement struct {
	drop, changes bool
	fields        []warc.Field // of a metadata record that changes
	refers        bool         // a revisit record refers to a target
}

// judge decides by the record alone.
func (x *run) judge(p *warc.Piece) (j judgement) {
	if x.t.Text(p.URL) {
		j.drop = true
		return j
	}
	if p.Record == nil {
		return j
	}
	switch p.Type {
	case "metadata":
		fields := warc.MetaFields(p.Record.Block)
		j.fields = make([]warc.Field, 0, len(fields))
		for _, f := range fields {
			if !warc.NamesTarget(f.Name) || !x.t.Text(f.Value) {
				j.fields = append(j.fields, f)
			}
		}
		j.changes = len(j.fields) < len(fields)
	case "revisit":
		j.refers = x.t.Text(p.Record.Get("WARC-Refers-To-Target-URI"))
		j.changes = j.refers
	}
	return j
}

var erasedName = regexp.MustCompile(`-e([0-9]{1,9})$`)

// nextName returns the name of a rewritten file: that of the old one, and the number of the erasure, in place of an
// earlier one. Time and serial stay.
func nextName(name string, number int) string {
	if m := erasedName.FindStringSubmatch(name); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n < number {
			name = strings.TrimSuffix(name, m[0])
		}
	}
	return fmt.Sprintf("%s-e%d", name, number)
}

// planWARC finds the files to rewrite, and what becomes of the revisits that refer to targets.
func (x *run) planWARC(keys *extsort.Sorter) (err error) {
	bodies := x.sorter("bodies.sort") // captures that go, and revisits that refer to one, by digest
	refs := x.sorter("refs.sort")
	defer func() { err = errors.Join(err, bodies.Close(), refs.Close()) }()
	st, err := x.warcState()
	if err != nil || x.r.Out.Len() == 0 || st.V == 0 {
		return err
	}
	if x.j.Erased.Absent, err = absent(x, st); err != nil {
		return err
	}
	opened := map[uint32]*warc.Volume{}
	if err := warc.EachVolume(x.r.WARCFiles(), st, func(v *warc.Volume) error {
		return x.planVolume(v, keys, bodies, opened)
	}); err != nil {
		return err
	}
	if err := bodies.Sort(); err != nil {
		return err
	}
	to, err := disk.Stage(x.r.Set.FS, x.work("bodies"))
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer to.Abort()
	if err := x.joinBodies(bodies, refs, opened, to); err != nil {
		return err
	}
	if err := refs.Sort(); err != nil || x.opt.DryRun {
		return err
	}
	if err := endStaged(to); err != nil {
		return err
	}
	return x.writeSorted("refs", refs)
}

// absent returns the number of WARC files that are not here.
func absent(x *run, st *warc.State) (int64, error) {
	there := int64(0)
	err := warc.EachVolume(x.r.WARCFiles(), st, func(v *warc.Volume) error {
		if v.HasData() {
			there++
		}
		return nil
	})
	return max(0, int64(st.Files.Serial-st.Files.Unused)-there), err
}

// planVolume reads a file, and adds it to the plan if something in it changes.
func (x *run) planVolume(v *warc.Volume, keys, bodies *extsort.Sorter, opened map[uint32]*warc.Volume) error {
	number, c, touched := uint32(len(x.volumes)), &x.j.Erased, false
	found := func(p *warc.Piece) error {
		j := x.judge(p)
		if j.drop || j.changes || x.t.Text(p.Redirect) {
			touched = true
		}
		switch {
		case j.drop:
			c.Records++
			c.Bytes += p.Length
			page := p.Kind == warc.KindPage && p.IsCapture() || p.Type == "metadata"
			if p.IsCapture() {
				c.Captures++
				x.countKind(p.Kind)
			}
			if p.Type == "response" && p.Digest != "" && v.HasData() {
				if err := bodies.Add(bodyRow(p, 0, number, "")); err != nil {
					return err
				}
			}
			if page && !strings.HasPrefix(p.URL, "dns:") {
				return x.addKey(keys, []byte(p.URL), tagFetched)
			}
		case j.refers:
			c.Changed++
			return bodies.Add(bodyRow(p, 1, number, p.URL))
		case j.changes:
			c.Changed++
		}
		return nil
	}
	var err error
	if v.HasData() {
		err = v.Sift(found)
	} else if v.HasIndex() {
		err = v.EachLine(func(l *warc.Indexed) error {
			p := warc.Piece{Offset: l.Offset, Type: "response", URL: strings.TrimPrefix(l.URL, warc.RenderedPrefix),
				Kind: l.Kind, Time: l.Time, Redirect: l.Redirect}
			return found(&p)
		})
	}
	if err != nil || !touched {
		return err
	}
	if !v.HasData() && x.remote.listed(v.Dir, v.IndexFile()) {
		return refused("the list of objects has %s without its WARC file: run drumbeat audit --deep, and "+
			"drumbeat repair", v.IndexFile())
	}
	n := volume{Dir: v.Dir, Name: v.Name, Final: v.Final, Data: v.HasData(), File: v.File(), IndexFile: v.IndexFile(),
		Bytes: v.Size(), number: number}
	if n.Next = v.Name; n.Data {
		n.Next = nextName(v.Name, x.j.Number)
		c.Files++
	}
	n.NextFile = n.Next + strings.TrimPrefix(n.File, n.Name)
	x.volumes = append(x.volumes, n)
	opened[number] = v
	return nil
}

func (x *run) countKind(kind string) {
	c := &x.j.Erased
	switch kind {
	case warc.KindRobots:
		c.Robots++
	case warc.KindDNS:
		c.DNS++
	case warc.KindRendered:
		c.Rendered++
	case warc.KindScript:
		c.Answers++
	}
}

// bodyRow is a row of the join of bodies: digest, kind (0 a capture that goes, 1 a revisit that stays), time, file,
// offset, URL of the revisit.
func bodyRow(p *warc.Piece, kind byte, number uint32, url string) []byte {
	row := append(append([]byte(p.Digest), '\n'), kind)
	row = binary.BigEndian.AppendUint64(row, uint64(p.Time.Unix()))
	row = binary.BigEndian.AppendUint32(row, number)
	row = binary.BigEndian.AppendUint64(row, uint64(p.Offset))
	return append(row, url...)
}

// ref says what a revisit record becomes.
type ref struct {
	URL    string `json:"url,omitempty"` // of the capture to which it refers from now on
	Time   int64  `json:"time,omitempty"`
	Whole  bool   `json:"whole,omitempty"` // it gets the body itself
	Offset int64  `json:"offset,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// nowhere is the target of a revisit record whose body is gone.
const nowhere = "urn:drumbeat:erased"

// joinBodies gives the body of a capture that goes to the first revisit that stays; later ones refer to that one.
func (x *run) joinBodies(bodies, refs *extsort.Sorter, opened map[uint32]*warc.Volume, to *disk.Staged) error {
	var digest string
	var from *warc.Volume // has the body
	var at int64
	var first *ref // the revisit that gets it
	for {
		row, err := bodies.Next()
		if err != nil || row == nil {
			return err
		}
		head, rest, _ := strings.Cut(string(row), "\n")
		if head != digest {
			digest, from, first = head, nil, nil
		}
		seconds := int64(binary.BigEndian.Uint64([]byte(rest[1:])))
		number := binary.BigEndian.Uint32([]byte(rest[9:]))
		offset, url := binary.BigEndian.Uint64([]byte(rest[13:])), rest[21:]
		if rest[0] == 0 {
			if from == nil {
				from, at = opened[number], int64(offset)
			}
			continue
		}
		var r ref
		switch {
		case from == nil || digest == "":
			x.j.Erased.Bodiless++
			r = ref{URL: nowhere, Time: seconds}
		case first == nil:
			x.j.Erased.Moved++
			r = ref{Whole: true, Offset: to.Size(), Digest: digest}
			first = &ref{URL: url, Time: seconds}
			if !x.opt.DryRun {
				if err := from.CopyPayload(at, to); err != nil {
					return err
				}
				r.Bytes = to.Size() - r.Offset
			}
		default:
			r = *first
		}
		text, err := json.Marshal(&r)
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		key := binary.BigEndian.AppendUint32(nil, number)
		if err := refs.Add(append(binary.BigEndian.AppendUint64(key, offset), text...)); err != nil {
			return err
		}
	}
}

// writeSorted writes the records of a sorter to a work file, each after its length.
func (x *run) writeSorted(name string, from *extsort.Sorter) error {
	to, err := disk.Stage(x.r.Set.FS, x.work(name))
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer to.Abort()
	for {
		rec, err := from.Next()
		if err != nil {
			return err
		}
		if rec == nil {
			return endStaged(to)
		}
		if _, err := to.Write(append(binary.AppendUvarint(nil, uint64(len(rec))), rec...)); err != nil {
			return err
		}
	}
}

// logs are the logs of a crawl: names in the manifest, and prefixes of their files.
var logs = [...]struct{ part, prefix string }{{state.NameCrawlLog, "crawl"}, {state.NameSeedLog, "seeds"},
	{state.NameRobotsLog, "robots"}}

// rewriteLogs calls crawllog.Rewrite for each log.
func (x *run) rewriteLogs(dry bool, change func(crawl bool, e *crawllog.Entry) crawllog.Change,
	done func(part string, opt crawllog.Options, out *crawllog.Rewritten) error) error {
	for _, l := range logs {
		st, err := state.Part[crawllog.State](x.m, l.part)
		if err != nil || st == nil {
			return err
		}
		opt := crawllog.Options{Set: x.r.Set, Prefix: l.prefix}
		r := crawllog.Rewriting{Dry: dry, Change: func(e *crawllog.Entry) crawllog.Change {
			return change(l.part == state.NameCrawlLog, e)
		}}
		if x.remote != nil && !dry {
			r.Final = x.remote.log
		}
		out, err := crawllog.Rewrite(opt, st, r)
		if err == nil {
			err = done(l.part, opt, out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// planLogs counts the lines that go and change, and finds the URLs that have ended.
func (x *run) planLogs(keys *extsort.Sorter) error {
	var failed error
	c := &x.j.Erased
	return errors.Join(x.rewriteLogs(true, func(crawl bool, e *crawllog.Entry) crawllog.Change {
		if x.t.Text(e.URL) {
			c.LogLines++
			if tag := byte(tagFetched); crawl && !e.Order && failed == nil {
				if e.Reason != "" {
					tag = tagRefused
				}
				failed = x.addKey(keys, []byte(e.URL), tag)
			}
		} else if x.clearLine(e) {
			c.LogNamed++
		}
		return crawllog.Keep
	}, func(string, crawllog.Options, *crawllog.Rewritten) error { return nil }), failed)
}

// clearLine removes from a line the URLs that are targets. It reports whether there was one.
func (x *run) clearLine(e *crawllog.Entry) (changed bool) {
	for _, at := range []*string{&e.Via, &e.Canonical, &e.Refresh, &e.Redirect, &e.DuplicateOf,
		&e.NearDuplicateOf} {
		if x.t.Text(*at) {
			*at, changed = "", true
		}
	}
	if changed && e.Via == "" {
		e.Parent = 0
	}
	return changed
}

// planWaiting finds the URLs that wait.
func (x *run) planWaiting(keys *extsort.Sorter) error {
	// Enqueued URLs with a record beside the one that URLseen knows; package orders bounds them.
	seconds := map[uint64]bool{}
	if err := x.eachOrder(func(o *state.Order, _ []byte) {
		seconds[o.Key] = !o.Own && !o.Done
	}); err != nil {
		return err
	}
	visit := func(at state.Spot, data []byte) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return fmt.Errorf("erase: %s: %w", at.Place, err)
		}
		erased := x.t.URL(rec.URL)
		if at.Place == state.PlaceContent && (erased || x.t.Via(rec.AppendVia(nil))) {
			return refused("a page to erase, or a page that it led to, waits for the comparison of its body: resume "+
				"the crawl and run drumbeat ctl stop, which completes the comparisons (%.200s)", rec.URL)
		}
		if !erased {
			return nil
		}
		// Both records go, so it does not matter which of them is the second one.
		if key := x.r.Hasher.URLKey(rec.URL); seconds[key] {
			delete(seconds, key)
			x.j.Orders.Add(key)
			return nil
		}
		x.j.Erased.Waiting++
		return x.addKey(keys, rec.URL, tagWaits)
	}
	return x.r.ScanURLs(x.m, state.URLScan{Places: state.WaitingPlaces[:], Visit: visit})
}

// savePlan writes the list of files, and makes all work files durable.
func (x *run) savePlan() error {
	for _, dir := range []string{shiftsDir, swapsDir} { // the end of plan syncs their names
		if err := x.r.Set.FS.MkdirAll(x.work(dir)); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	to, err := disk.Stage(x.r.Set.FS, x.work("plan"))
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	defer to.Abort()
	enc := json.NewEncoder(to)
	for i := range x.volumes {
		if err := enc.Encode(&x.volumes[i]); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
	}
	if err := endStaged(to); err != nil {
		return err
	}
	return x.r.Set.FS.SyncDir(x.r.Set.Path(0))
}

// loadPlan reads the work files of an interrupted erasure.
func (x *run) loadPlan() error {
	list, err := x.openWork("list")
	if err != nil {
		return err
	}
	x.t, err = readTargets(&Source{List: list, ListName: x.work("list")}, x.r.Suffixes, !x.m.Frozen.KeepEscapes,
		x.r.Set.FS, x.work("list.sort"), func(string) error { return nil })
	if err = errors.Join(err, list.Close()); err != nil {
		return err
	}
	if x.t.Digest != x.j.Digest {
		return &disk.CorruptError{Path: x.work("list"), Want: x.j.Digest, Got: x.t.Digest}
	}
	plan, err := x.openWork("plan")
	if err != nil {
		return err
	}
	defer plan.Close()
	dec := json.NewDecoder(plan)
	for {
		n := volume{number: uint32(len(x.volumes))}
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || n.Dir < 0 || n.Dir >= x.r.Out.Len() || path.Base(n.File) != n.File {
			return &disk.CorruptError{Path: x.work("plan"), Want: "a file of the plan", Got: fmt.Sprint(err)}
		}
		x.volumes = append(x.volumes, n)
	}
}

// workFile is a work file, open for reading from its beginning.
type workFile struct {
	*bufio.Reader
	disk.File
}

func (f *workFile) Read(p []byte) (int, error) { return f.Reader.Read(p) }

func (x *run) openWork(name string) (*workFile, error) {
	f, err := x.r.Set.FS.OpenRead(x.work(name))
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &workFile{bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 256<<10), f}, nil
}
