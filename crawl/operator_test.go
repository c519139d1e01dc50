package crawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/operate"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// operated is a crawl under test with an operator.
type operated struct {
	t    *testing.T
	web  *simweb.Web
	opt  Options
	ctx  context.Context
	stop context.CancelFunc
	done chan struct{}
	res  *Result
	err  error
}

// operating starts a crawl with a Control. Call it in a bubble.
func operating(t *testing.T, web *simweb.Web, fs disk.FS, change func(*Options)) *operated {
	t.Helper()
	o := &operated{t: t, web: web, opt: simOptions(t, web, fs)}
	small(&o.opt)
	if change != nil {
		change(&o.opt)
	}
	o.start()
	return o
}

// start starts the crawl, again if it has ended.
func (o *operated) start() {
	o.opt.Observe.Control = new(Control)
	o.ctx, o.stop = context.WithCancel(o.t.Context())
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		o.res, o.err = Run(o.ctx, o.opt)
	}()
	synctest.Wait()
}

// end waits for the end of the crawl.
func (o *operated) end() *Result {
	o.t.Helper()
	<-o.done
	o.stop()
	if o.err != nil {
		o.t.Fatal(o.err)
	}
	return o.res
}

// make makes a change that must be accepted.
func (o *operated) make(c changes.Change) {
	o.t.Helper()
	c.Who = "test"
	if _, err := o.opt.Observe.Control.Make(o.t.Context(), c); err != nil {
		o.t.Fatalf("%s: %v", c.Op, err)
	}
}

// requests returns the number of requests at the web, for pages and robots.txt.
func (o *operated) requests() (n int64) {
	for _, h := range o.web.Log().Snapshot().Hosts {
		n += int64(h.Requests)
	}
	return n
}

// await waits until the web has seen n requests.
func (o *operated) await(n int64) {
	o.t.Helper()
	for range 100_000 {
		if o.requests() >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	o.t.Fatalf("the web saw %d requests, want %d", o.requests(), n)
}

// quiet checks that no request begins for a minute.
func (o *operated) quiet(when string) {
	o.t.Helper()
	time.Sleep(2 * time.Second) // requests under way end
	before := o.requests()
	time.Sleep(time.Minute)
	if n := o.requests() - before; n != 0 {
		o.t.Errorf("%s: %d requests in a minute", when, n)
	}
}

// TestPause: no request begins while the operator pauses the crawl, over a restart as well, and afterwards
// it fetches exactly what an undisturbed crawl fetches.
func TestPause(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		o := operating(t, smallWeb(t, nil), memfs.New(*seedFlag), nil)
		o.await(200)
		o.make(changes.Change{Op: changes.OpPause})
		o.quiet("paused")
		s, err := o.opt.Observe.Control.Exact()
		if err != nil || s.Wait.Text != space.PausedByOperator {
			t.Errorf("the crawl waits for %q, %v", s.Wait.Text, err)
		}
		o.stop()
		if res := o.end(); res.Stop != StopCancelled {
			t.Errorf("stopped: %s", res.Stop)
		}
		if _, err := o.opt.Observe.Control.Snapshot(); !errors.Is(err, operate.ErrNotRunning) {
			t.Errorf("a snapshot of a stopped crawl: %v", err)
		}
		o.start()
		o.quiet("started again")
		o.make(changes.Change{Op: changes.OpResume})
		if res := o.end(); res.Stop != StopDone {
			t.Errorf("ended: %s", res.Stop)
		}
		checkFetched(t, o.web, &o.opt)
		checkBalanced(t, o.opt.Disk.FS, o.opt.Disk.Dirs)
	})
}

// TestBlockAndUnblock: no request to a blocked host begins after Make has returned, over a restart as well,
// and links to it are accepted again after it was unblocked.
func TestBlockAndUnblock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		o := operating(t, smallWeb(t, allPages), memfs.New(*seedFlag), nil)
		o.await(200)
		var busiest string
		hosts := o.web.Log().Snapshot().Hosts
		for _, name := range slices.Sorted(maps.Keys(hosts)) {
			if busiest == "" || hosts[name].Requests > hosts[busiest].Requests {
				busiest = name
			}
		}
		rule := changes.Change{Op: changes.OpBlock, Rule: "host " + busiest}
		o.make(rule)
		time.Sleep(time.Second) // a request that began before may be on its way
		blocked := func() int64 { return int64(o.web.Log().Snapshot().Hosts[busiest].Requests) }
		before := blocked()
		o.await(o.requests() + 100)
		o.stop()
		o.end()
		o.start()
		o.await(o.requests() + 100)
		if n := blocked() - before; n != 0 {
			t.Errorf("%d requests to %s after it was blocked", n, busiest)
		}
		// Links to the host are dropped, and URLs of it that are queued are refused when their turn comes.
		if s, err := o.opt.Observe.Control.Exact(); err != nil ||
			s.Refused["blocked"]+s.Count(state.CountLinksBlocked) == 0 {
			t.Errorf("nothing was blocked: refused %v, %v", s.Refused, err)
		}
		rule.Op, rule.Rule = changes.OpUnblock, "- host "+busiest
		o.make(rule)
		o.make(changes.Change{Op: changes.OpSeeds, Seeds: []string{"http://" + busiest + ":8080/never-seen-before"}})
		o.end()
		if blocked() == before {
			t.Errorf("no request to %s after it was unblocked", busiest)
		}
		checkBalanced(t, o.opt.Disk.FS, o.opt.Disk.Dirs)
	})
}

// changeOf is the i-th change of a life.
func changeOf(life, i int, seed string, pages []string) changes.Change {
	c := changes.Change{Op: changes.OpHostDelay, Host: fmt.Sprintf("h%d-%d.example", life, i),
		Delay: 1, Who: "test"}
	if i%5 == 0 {
		c = changes.Change{Op: changes.OpSeeds, Who: "test",
			Seeds: []string{fmt.Sprintf("http://%s/s%d-%d",
				strings.TrimSuffix(strings.TrimPrefix(seed, "http://"), "/"), life, i)}}
	}
	if i%4 == 3 { // pages that wait, or were fetched, or are not known yet, or do not exist
		c = changes.Change{Op: changes.OpEnqueue, Who: "test",
			Seeds: []string{pages[(life*31+i*7)%len(pages)]}}
		if i%8 == 7 {
			c.Seeds[0] = fmt.Sprintf("%se%d-%d", seed, life, i)
		}
	}
	if i%7 == 3 {
		c = changes.Change{Op: changes.OpFunction, Who: "test"}
		if i%2 == 0 {
			c.Function = &changes.Function{Name: "equal", Default: uint32(1 + i%5), Max: 10}
		}
	}
	return c
}

// checkAccepted: what was accepted is in the journal, or was fed.
func checkAccepted(t *testing.T, seed uint64, mem *memfs.FS, web *simweb.Web, accepted *sync.Map) {
	t.Helper()
	journal, err := changes.Open(mem, "d0/"+state.ChangesName, 1<<60)
	must(t, err)
	settings := journal.Settings()
	fetches := web.Log().Snapshot()
	delays, fed := 0, 0
	accepted.Range(func(name, op any) bool {
		if op == changes.OpHostDelay {
			delays++
			if settings.HostDelays[name.(string)] != 1 {
				t.Errorf("world %d: the delay of %s is lost", seed, name)
			}
			return true
		}
		fed++
		if fetches.Wrong[name.(string)] == 0 && fetches.Fetches[name.(string)] == 0 {
			t.Errorf("world %d: the seed %s is lost", seed, name)
		}
		return true
	})
	if delays == 0 || fed == 0 {
		t.Errorf("world %d: only %d delays and %d seeds were accepted", seed, delays, fed)
	}
}

// TestChangesSurviveCuts: after a power cut at any point every change that Make has returned is in force, all seeds
// of accepted changes and all enqueued URLs are fetched in the end, and every record is in exactly one place.
func TestChangesSurviveCuts(t *testing.T) {
	notShort(t)
	t.Parallel()
	for seed := range uint64(longOr(100, 6)) {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.IPs = 3, 6, 80, 4 })
			mem := memfs.New(seed)
			seeds := web.Seeds()
			o := &operated{t: t, web: web, opt: simOptions(t, web, mem)}
			small(&o.opt)
			o.opt.Admission.SeedLines, o.opt.Order.StockTarget, o.opt.Budgets.Default, o.opt.Budgets.Max = seeds[:1],
				10, 2, 5
			pages := slices.Sorted(web.Expected("drumbeat").FetchedURLs())
			var accepted sync.Map
			reloads, moved := 0, int64(0)
			for life := range 4 {
				settings := func(i int) error {
					return disk.WriteFileAtomic(mem, "sites.toml", []byte(ownSites(web, 3, fmt.Sprintf(
						"budget = %d\ndelay = '%dms'\nowner = true\nconnections = %d\nmax-depth = %d", 1+i%4,
						100+100*(i%3), 1+i%3, 3+i%9))))
				}
				must(t, settings(life))
				o.opt.Admission.Sites = "sites.toml"
				mem.CrashAfter(150 + int(seed*37)%300 + life*40)
				o.opt.Disk.FS = mem
				o.start()
				for i := 0; ; i++ {
					c := changeOf(life, i, seeds[0], pages)
					if i%6 == 4 && settings(i) == nil {
						if r, _, err := o.opt.Observe.Control.Reload(t.Context(), "test", i%12 == 4); err == nil {
							reloads++
							moved += r.Replaced + int64(r.Evicted+r.Terms+r.Budgets)
						}
					}
					if _, err := o.opt.Observe.Control.Make(t.Context(), c); err == nil && c.Op != changes.OpFunction {
						accepted.Store(c.Host+strings.Join(c.Seeds, ""), c.Op)
					}
					select {
					case <-o.done:
					case <-time.After(100 * time.Millisecond):
						continue
					}
					break
				}
				o.stop()
				mem = mem.Crash()
				o.opt.Disk.FS = mem
				checkDeep(t, &o.opt)
			}
			o.start()
			<-o.done
			o.stop()
			if o.err != nil && !errors.Is(o.err, state.ErrFinished) {
				t.Fatal(o.err)
			}
			checkAccepted(t, seed, mem, web, &accepted)
			if reloads == 0 || moved == 0 {
				t.Errorf("world %d: %d reloads moved nothing", seed, reloads)
			}
			checkDeep(t, &o.opt)
		})
	}
}

// TestExplainKnowsChanges: explain applies what the operator changed: blocks, delays, budgets and the
// function.
func TestExplainKnowsChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		o := operating(t, web, memfs.New(*seedFlag), nil)
		o.await(300)
		top, err := o.opt.Observe.Control.TopPLDs(star.ByIndegree, 2)
		must(t, err)
		x := explainer(t, o.opt.Disk.FS, o.opt.Disk.Dirs)
		o.make(changes.Change{Op: changes.OpCheckpoint})
		names, err := x.Names([]uint64{top[0].PLD, top[1].PLD})
		if err != nil || len(names) != 2 {
			t.Fatalf("names %v, %v", names, err)
		}
		pld, other := names[top[0].PLD], names[top[1].PLD]
		o.make(changes.Change{Op: changes.OpBudget, PLD: pld, Budget: 77})
		o.make(changes.Change{Op: changes.OpFunction, Function: &changes.Function{Name: "equal", Default: 33, Max: 33}})
		o.make(changes.Change{Op: changes.OpHostDelay, Host: "www." + pld, Delay: 123})
		o.make(changes.Change{Op: changes.OpBlock, Rule: "pld " + other})
		o.make(changes.Change{Op: changes.OpCheckpoint})
		plds, _, err := x.PLDs([]string{pld, other})
		if err != nil || plds[0].Budget != 77 || !plds[0].Pinned || plds[1].Budget != 33 || plds[1].Pinned {
			t.Errorf("%+v, %+v, %v", plds[0], plds[1], err)
		}
		hosts, err := x.Hosts([]string{"www." + pld + ":8080"})
		if err != nil || len(hosts[0].Origins) == 0 || hosts[0].Origins[0].Delay != 123 {
			t.Errorf("%+v, %v", hosts[0].Origins, err)
		}
		urls, err := x.URLs([]string{"http://www." + other + ":8080/"})
		if err != nil || urls[0].Link == nil || !urls[0].Link.Blocked {
			t.Errorf("%+v, %v", urls[0], err)
		}
		o.stop()
		o.end()
	})
}
