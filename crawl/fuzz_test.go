package crawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"testing"
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/observe"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/damage"
	"drumbeat/internal/health"
	"drumbeat/internal/simweb"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// fuzzAllocBytes is the maximum heap that an audit of the fuzz tests' small crawl may allocate.
const fuzzAllocBytes = 512 << 20

// soundCrawl is an undamaged stopped crawl with URLs in every kind of place.
type soundCrawl struct {
	once  sync.Once
	files damage.Files
	dirs  []string
	opt   Options
	body  []byte // of the manifest
}

// make runs the crawl once.
func (s *soundCrawl) make(t *testing.T) {
	s.once.Do(func() {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) {
				o.PLDs, o.Hosts, o.Pages, o.Robots.ServerError, o.Seed = 8, 16, 500, 0.2, 1
			})
			mem := memfs.New(1)
			opt := simOptions(t, web, mem)
			opt.Budgets.QueuePages, opt.Order.StockTarget, opt.Limits.MaxPages = Unlimited, 40, 60
			mustRun(t, t.Context(), opt)
			var err error
			if s.files, err = damage.Read(mem, opt.Disk.Dirs...); err != nil {
				t.Fatal(err)
			}
			s.opt, s.dirs = opt, opt.Disk.Dirs
			_, s.body, _ = bytes.Cut(s.files[opt.Disk.Dirs[0]+"/"+state.ManifestName], []byte("\n"))
		})
	})
	if len(s.body) == 0 {
		t.Fatal("no crawl")
	}
}

// states are the types of the manifest's parts, for edit.
type states struct {
	Manifest *state.Manifest
	URLSeen  *drum.State
	Cache    *drum.State
	Star     *star.State
	Names    *drum.State
	Beast    *beast.State
	Queue    *queue.State
	Later    *queue.CalendarState
	WARC     *warc.State
	Log      *crawllog.State
}

// edit changes the manifest, and then some of its parts, as script says.
func edit(m *state.Manifest, script []byte) error {
	all := states{Manifest: m}
	parts := map[string]any{
		state.NameURLSeen: &all.URLSeen, state.NameRobotsCache: &all.Cache, state.NameStar: &all.Star,
		state.NameNames: &all.Names, state.NameBeast: &all.Beast, state.NameAwaitRobots: &all.Queue,
		state.NameDeferred: &all.Later, state.NameWARC: &all.WARC, state.NameCrawlLog: &all.Log,
	}
	for name, part := range parts {
		if raw, ok := m.Parts[name]; ok {
			if err := json.Unmarshal(raw, part); err != nil {
				return err
			}
		}
	}
	damage.Edit(&all, script)
	if all.Manifest == nil {
		return errors.New("no manifest")
	}
	for name, part := range parts {
		v := reflect.ValueOf(part).Elem()
		if v.IsNil() {
			delete(m.Parts, name)
			continue
		}
		raw, err := json.Marshal(v.Interface())
		if err != nil {
			return err
		}
		m.Parts[name] = raw
	}
	return nil
}

// FuzzManifest: an edited manifest, or one of any content with a correct checksum, must give an error or a
// crawl that an audit can read, without a panic or a large allocation. A manifest with a changed byte must
// be refused.
func FuzzManifest(f *testing.F) {
	var s soundCrawl
	f.Add([]byte(`{}`), []byte{}, uint16(0), byte(0))
	f.Add([]byte(`{"parts":{"urlseen":{"v":3,"buckets":9007199254740992}}}`), []byte{}, uint16(0), byte(0))
	f.Add([]byte(`{"parts":{"beast":null,"later":[]},"accounts":{"places":[]},"ram":{"Len":-1}}`), []byte{},
		uint16(0), byte(0))
	f.Add([]byte{}, []byte{}, uint16(20), byte(1))
	scripts := byte(30)
	if testing.Short() {
		scripts = 8
	}
	for i := range scripts {
		f.Add([]byte{}, []byte{9 * i, i % 3, i, i, 0, 0, 0, 0, 0, 0, 0, 5 * i, 1, 2, i, 0, 0, 0, 0, 0, 0, 0},
			uint16(0), byte(0))
	}
	f.Fuzz(func(t *testing.T, body, script []byte, at uint16, flip byte) {
		s.make(t)
		s.check(t, body, script, int(at), flip)
	})
}

// TestManifests applies each edit of damage.Edit to a manifest, one at a time; without -long only some of
// them.
func TestManifests(t *testing.T) {
	if testing.Short() {
		t.Skip("has one goroutine, so the race detector finds nothing")
	}
	var s soundCrawl
	s.make(t)
	m, err := state.DecodeManifest("x", file(s.body))
	must(t, err)
	all := states{Manifest: m}
	must(t, edit(m, nil))
	for i, script := range damage.Sweep(&all) {
		if *longRuns || i%400 == 0 {
			s.check(t, nil, script, 0, 0)
		}
	}
}

// file returns a manifest file with this body.
func file(body []byte) []byte {
	return append(fmt.Appendf(nil, "%s %s %d %016x\n", state.ManifestMagic, state.ManifestVersion, len(body),
		state.ManifestSum(state.ManifestVersion, body)), body...)
}

func (s *soundCrawl) check(t *testing.T, body, script []byte, at int, flip byte) {
	if len(body) == 0 {
		body = s.body
	}
	data := file(body)
	m, err := state.DecodeManifest("x", data)
	if err != nil {
		if bytes.Equal(body, s.body) {
			t.Fatal(err)
		}
		return
	}
	if flip != 0 {
		data[at%len(data)] ^= flip
		if _, err := state.DecodeManifest("x", data); err == nil {
			t.Fatalf("byte %d changed by %x: no error", at%len(data), flip)
		}
		return
	}
	if edit(m, script) != nil {
		return
	}
	if data, err = state.EncodeManifest(m); err != nil {
		t.Fatal(err)
	}
	again, err := state.DecodeManifest("x", data)
	must(t, err)
	if second, err := state.EncodeManifest(again); err != nil || !bytes.Equal(second, data) {
		t.Fatalf("%s\ndecodes and encodes to %s, %v", data, second, err)
	}
	mem, err := s.files.Write(s.dirs...)
	must(t, err)
	must(t, disk.WriteFileAtomic(mem, s.dirs[0]+"/"+state.ManifestName, data))
	n := damage.Allocated(func() { s.use(t, mem) })
	if n > fuzzAllocBytes {
		t.Fatalf("%d bytes allocated", n)
	}
}

// use runs the operations of a user on the crawl.
func (s *soundCrawl) use(t *testing.T, mem *memfs.FS) {
	if rep, err := audit.Run(mem, s.dirs); err == nil {
		rep.Write(io.Discard)
	}
	if rep, err := audit.Deep(audit.Options{FS: mem, Dirs: s.dirs, RAMBytes: 1 << 20}); err == nil {
		rep.Write(io.Discard)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opt := s.opt
	opt.Disk.FS = mem
	Run(ctx, opt)
}

// FuzzInRAM: any bytes given to the decoders of the RAM state in a checkpoint must give an error or a value
// that encodes to the same bytes.
func FuzzInRAM(f *testing.F) {
	s := observe.NewSketches()
	for i := range 3000 {
		s.AddHost(fmt.Appendf(nil, "host%d", i))
		if i == 0 || i == 100 || i == 2999 {
			b, err := s.Encode()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b[:min(len(b), 3000)])
		}
	}
	rec := weburl.Record{URL: []byte("https://example.org:443/a")}
	coded := rec.Append(nil)
	f.Add(append([]byte{byte(len(coded))}, coded...))
	job := robots.Job{Origin: []byte("https://example.org:443"), AddrsOnly: true}
	coded = job.Append(nil)
	f.Add(append([]byte{byte(len(coded))}, coded...))
	ill := health.State{Failures: 3, Last: health.TooFast, Status: 503, At: time.Unix(1795262400, 0).UTC()}
	f.Add(health.DumpHosts([]health.Entry{{Key: 1, State: ill}, {Key: 2, State: ill}}))
	event := health.Event{Kind: health.TooFast, Status: 429, RetryAfter: time.Hour}
	f.Add(event.Append(robots.AppendUpdateHead(nil, robots.UpdateEvent, time.Unix(1795262400, 0))))
	data := robots.HostData{State: robots.StateNoFile, Health: ill, Pages: 7}
	f.Add(robots.AppendUpdate(nil, robots.UpdateOutcome, time.Unix(1795262400, 0), &data))
	f.Fuzz(func(t *testing.T, b []byte) {
		state.EachRecord("x", b, func(data []byte) error {
			var rec weburl.Record
			if err := rec.Decode(data); err == nil && !bytes.Equal(rec.Append(nil), data) {
				t.Fatalf("record %x encodes to %x", data, rec.Append(nil))
			}
			var job robots.Job
			if err := job.Decode(data); err == nil && !bytes.Equal(job.Append(nil), data) {
				t.Fatalf("job %x encodes to %x", data, job.Append(nil))
			}
			return nil
		})
		var hosts []health.Entry
		if health.EachHost(b, func(key uint64, s health.State) {
			hosts = append(hosts, health.Entry{Key: key, State: s})
		}) == nil &&
			!bytes.Equal(health.DumpHosts(hosts), b) {
			t.Fatalf("hosts %x encode to %x", b, health.DumpHosts(hosts))
		}
		if u, err := robots.DecodeUpdate(b); err == nil {
			again := u.Data.Append(robots.AppendUpdateHead(nil, u.Kind, u.At))
			if u.Kind == robots.UpdateEvent {
				again = u.Event.Append(robots.AppendUpdateHead(nil, u.Kind, u.At))
			}
			if !bytes.Equal(again, b) {
				t.Fatalf("update %x encodes to %x", b, again)
			}
		}
		s := observe.NewSketches()
		n := damage.Allocated(func() {
			if s.Decode(b) == nil {
				s.Show(&Snapshot{})
				s.AddHost([]byte("x"))
				s.Encode()
			}
		})
		if n > 64<<20 {
			t.Fatalf("%d bytes allocated", n)
		}
	})
}
