package gate

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// robotsYear has RobotsCache and RobotsRequested of a gate, without a crawl.
type robotsYear struct {
	*Requests
	t   *testing.T
	now time.Time
	dir string                       // on the real file system, to separate bytes on disk from the heap
	got map[drum.Key]robots.Decision // verdicts of the last pass
}

func newRobotsYear(t *testing.T, forget time.Duration) *robotsYear {
	y := &robotsYear{t: t, dir: t.TempDir(), now: time.Unix(1_800_000_000, 0), got: map[drum.Key]robots.Decision{},
		Requests: newGate(options.Health{RobotsForget: forget, HostFailures: 10, HostRests: 5, HostRefusals: 1})}
	open := func(name string, shape drum.Options, wire func(*drum.Options)) *drum.Drum {
		shape.Set, shape.Name = disk.Set{FS: disk.OS(), Paths: []string{y.dir}}, name
		shape.Buckets, shape.BufferBytes, shape.BucketBytes = 4, plan.RobotsBufferBytes, 32<<20
		wire(&shape)
		d, err := drum.Open(shape, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	y.Requests.check.RobotsCache = open(state.NameRobotsCache, plan.RobotsShape(), func(o *drum.Options) {
		o.Apply = y.Requests.check.applyRobots
		o.Wanted = func(res *drum.Result) bool { return res.Op == drum.Check }
		o.Emit = func(rs []drum.Result) error {
			for i := range rs {
				y.got[rs[i].Key] = verdict(rs[i].Result).decision()
			}
			return nil
		}
		if forget > 0 {
			o.Expunge = y.Requests.check.forgetRobots
		}
	})
	y.RobotsRequested = open(state.NameRobotsRequested, plan.RequestedShape(), func(o *drum.Options) {
		o.Apply = y.applyRequested
		if forget > 0 {
			o.Expunge = y.forgetRequested
		}
	})
	return y
}

func (y *robotsYear) add(d *drum.Drum, key drum.Key, op drum.Op, value []byte) {
	if err := d.Add([]drum.Tuple{{Key: key, Op: op, Value: value}}); err != nil {
		y.t.Fatal(err)
	}
}

// check submits a URL of the origin to the next pass.
func (y *robotsYear) check(key drum.Key) {
	rec := weburl.Record{URL: []byte("http://a.test/x")}
	y.add(y.Requests.check.RobotsCache, key, drum.Check, rec.Append(nil))
}

// answer records a request for robots.txt and its answer.
func (y *robotsYear) answer(key drum.Key) {
	var asked [16]byte
	binary.LittleEndian.PutUint64(asked[:], uint64(y.now.Unix()))
	y.add(y.RobotsRequested, key, drum.CheckUpdate, asked[:])
	h := robots.Outcome(&robots.HostData{},
		&robots.Fetched{Kind: robots.Answered, Status: 200, Body: []byte("User-agent: *\nDisallow: /no"),
			Addrs: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, 1})}, AddrExpires: y.now.Add(time.Hour)},
		"drumbeat", y.now)
	y.add(y.Requests.check.RobotsCache, key, drum.Update, robots.AppendUpdate(nil, robots.UpdateOutcome, y.now, &h))
}

// event records the outcome of a request to the host.
func (y *robotsYear) event(key drum.Key, e health.Event) {
	y.add(y.Requests.check.RobotsCache, key, drum.Update,
		e.Append(robots.AppendUpdateHead(nil, robots.UpdateEvent, y.now)))
}

func (y *robotsYear) pass() {
	y.Requests.check.roundNow.Store(y.now.Unix())
	y.requestedNow.Store(y.now.Unix())
	for _, d := range []*drum.Drum{y.Requests.check.RobotsCache, y.RobotsRequested} {
		if _, err := d.Pass(context.Background(), true); err != nil {
			y.t.Fatal(err)
		}
		f := d.Freeze() // a checkpoint deletes replaced files
		if _, err := f.Save(nil); err != nil {
			y.t.Fatal(err)
		}
		if err := f.Commit(); err != nil {
			y.t.Fatal(err)
		}
	}
	if err := y.run.Failure(); err != nil {
		y.t.Fatal(err)
	}
}

// robotsSize is the size of the two stores.
type robotsSize struct {
	keys, bytes [2]int64 // of RobotsCache and RobotsRequested; bytes are on disk
	heap        int64
}

func (y *robotsYear) size() (s robotsSize) {
	for i, d := range []*drum.Drum{y.Requests.check.RobotsCache, y.RobotsRequested} {
		s.keys[i] = d.Keys()
		err := filepath.WalkDir(filepath.Join(y.dir, "state", []string{state.NameRobotsCache,
			state.NameRobotsRequested}[i]), func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil {
				s.bytes[i] += info.Size()
			}
			return err
		})
		if err != nil {
			y.t.Fatal(err)
		}
	}
	clear(y.got)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.heap = int64(m.HeapAlloc)
	return s
}

// most sets each value of s to the larger one of s and t.
func (s *robotsSize) most(t robotsSize) {
	for i := range s.keys {
		s.keys[i], s.bytes[i] = max(s.keys[i], t.keys[i]), max(s.bytes[i], t.bytes[i])
	}
	s.heap = max(s.heap, t.heap)
}

func (s robotsSize) String() string {
	return fmt.Sprintf("%d and %d records, %d and %d kB on disk, %d kB of heap", s.keys[0], s.keys[1], s.bytes[0]>>10,
		s.bytes[1]>>10, s.heap>>10)
}

// TestRobotsAreForgotten: in a year in which hosts appear, get requests every day for ten days and
// disappear, the robots stores must not grow after the first weeks, in records, on disk and in the heap.
// Hosts that refuse must stay known, and a forgotten host must get a new robots.txt request.
func TestRobotsAreForgotten(t *testing.T) {
	const days, stay, forget = 365, 10, 30
	perDay := 10
	if *testworld.Long {
		perDay = 2740 // a million hosts per year
	}
	y := newRobotsYear(t, forget*aDay)
	key := func(i int) drum.Key { return drum.Key(uint64(i+1) * 0x9e3779b97f4a7c15) }
	unwelcome := key(1 << 30)
	y.answer(unwelcome)
	var weeks [2]robotsSize // maximum of days 43 to 75, once the first hosts are gone; and of all later days
	for day := range days {
		for i := max(0, day-stay+1) * perDay; i < (day+1)*perDay; i++ {
			y.check(key(i))
			y.answer(key(i))
		}
		if day < 40 { // it refuses again after each back-off
			y.event(unwelcome, health.Event{Kind: health.Challenge, Status: 403})
		}
		y.pass()
		y.now = y.now.Add(aDay)
		if day <= 42 || !*testworld.Long && day%7 != 0 {
			continue
		}
		size := y.size()
		if day > 75 {
			weeks[1].most(size)
		} else {
			weeks[0].most(size)
		}
		if *testworld.Long && day%40 == 4 {
			t.Logf("day %d, %d hosts so far: %v", day+1, (day+1)*perDay, size)
		}
	}
	t.Logf("%d hosts; maximum of days 43 to 75: %v; later: %v", days*perDay, weeks[0], weeks[1])
	first, later := weeks[0], weeks[1]
	if flat := int64((forget + stay + 3) * perDay); max(first.keys[0], first.keys[1], later.keys[0],
		later.keys[1]) > flat {
		t.Errorf("more than %d records", flat)
	}
	for i := range first.bytes {
		if later.bytes[i] > first.bytes[i]*11/10+64<<10 {
			t.Errorf("%d bytes on disk, %d before", later.bytes[i], first.bytes[i])
		}
	}
	if later.heap > first.heap*11/10+4<<20 {
		t.Errorf("%d bytes of heap, %d before", later.heap, first.heap)
	}
	y.check(unwelcome)
	y.check(key(0))
	y.pass()
	for _, c := range []struct {
		name string
		key  drum.Key
		want robots.Decision
	}{{"a host that refuses", unwelcome, robots.NotWelcome}, {"a host that disappeared", key(0), robots.Request}} {
		if got := y.got[c.key]; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestWhatIsForgotten: RobotsForget must apply to records that have expired for that long and restrict no
// request.
func TestWhatIsForgotten(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	rules := func(expired time.Duration) robots.HostData {
		return robots.HostData{State: robots.StateNoFile, Fetched: now.Add(-expired - aDay), Expires: now.Add(-expired)}
	}
	with := func(h robots.HostData, change func(*robots.HostData)) robots.HostData { change(&h); return h }
	for _, test := range []struct {
		name  string
		h     robots.HostData
		limit int64
		want  bool
	}{
		{"expired 29 days ago", rules(29 * aDay), 0, false},
		{"expired 31 days ago", rules(31 * aDay), 0, true},
		{"addresses expired yesterday", with(rules(31*aDay), func(h *robots.HostData) {
			h.SetAddrs([]netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, 1})}, now.Add(-aDay))
		}), 0, false},
		{"never answered, due again", robots.HostData{State: robots.StateUnreachable, Failures: 3,
			RetryAt: now.Add(aDay), FailingSince: now.Add(-40 * aDay)}, 0, false},
		{"never answered, long ago", robots.HostData{State: robots.StateUnreachable, Failures: 3,
			RetryAt: now.Add(-31 * aDay), FailingSince: now.Add(-40 * aDay)}, 0, true},
		{"the host backs off", with(rules(31*aDay), func(h *robots.HostData) {
			h.Health = health.State{At: now.Add(-40 * aDay), Until: now.Add(aDay)}
		}), 0, false},
		{"it failed once", with(rules(31*aDay), func(h *robots.HostData) {
			h.Health = health.State{Level: 1, At: now.Add(-40 * aDay)}
		}), 0, true},
		{"not welcome", with(rules(400*aDay), func(h *robots.HostData) {
			h.Health = health.State{End: health.NotWelcome}
		}), 0, false},
		{"given up", with(rules(400*aDay), func(h *robots.HostData) { h.Health = health.State{End: health.GivenUp} }),
			0, false},
		{"pages counted", with(rules(31*aDay), func(h *robots.HostData) { h.Pages = 7 }), 10, false},
		{"pages counted once", with(rules(31*aDay), func(h *robots.HostData) { h.Pages = 7 }), 0, true},
	} {
		k := newGate(options.Health{RobotsForget: 30 * aDay, MaxPagesPerHost: test.limit}).check
		k.roundNow.Store(now.Unix())
		if got := k.forgetRobots(1, test.h.Append(nil)); got != test.want {
			t.Errorf("%s: forgotten %v, want %v", test.name, got, test.want)
		}
	}
}
