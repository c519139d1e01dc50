package crawl

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/objstore/objtest"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
)

// erasing starts a crawl of a web without failures whose hosts have many pages. Its files go to b, unless that is nil.
func erasing(t *testing.T, fs disk.FS, b *objtest.Bucket) *operated {
	t.Helper()
	web := smallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.CrawlDelay, o.Page.ServerError = 3, 12, 500, 0, 0
	})
	return operating(t, web, fs, func(opt *Options) {
		if b != nil {
			withStore(opt, b)
			opt.ObjectStore.PartBytes, opt.Output.WARCFileBytes = 3_000, 20_000
		}
	})
}

// ask asks for a host to be erased, and returns the request and the number of requests that its server had.
func (o *operated) ask(host string, later bool) (*erase.Request, uint64) {
	o.t.Helper()
	r, err := o.opt.Observe.Control.Erase(o.t.Context(), &erase.Ask{Who: "eve", Reason: "a test", Later: later,
		Source: erase.Source{Hosts: []string{host}}})
	if err != nil {
		o.t.Fatalf("erase %s: %v", host, err)
	}
	return r, o.hits(host)
}

// plainHost returns the busiest host, other than one, whose index lines no other host has: www. is not in these.
func (o *operated) plainHost(other string) (host string) {
	most := uint64(0)
	for name, h := range o.web.Log().Snapshot().Hosts {
		if n := uint64(h.Requests); strings.HasPrefix(name, "h") && name != other && n > most {
			host, most = name, n
		}
	}
	return host
}

func (o *operated) hits(host string) uint64 {
	return uint64(o.web.Log().Snapshot().Hosts[host].Requests)
}

// prove checks that a stopped crawl balances, has records of requests, and nothing of the hosts.
func (o *operated) prove(records int, hosts ...string) {
	o.t.Helper()
	checkDeep(o.t, &o.opt)
	opt := erase.ProofOptions{FS: o.opt.Disk.FS, Dirs: o.opt.Disk.Dirs, Source: erase.Source{Hosts: hosts}}
	if s := o.opt.ObjectStore; s != nil {
		opt.OpenStore = lookAt(nil, nil, s.Bucket).OpenStore
	}
	p, err := erase.Prove(opt)
	if err != nil {
		o.t.Fatal(err)
	}
	for _, l := range p.Leftovers {
		// Pages that were fetched later may lead to the hosts and redirect to them, and fields of theirs say so.
		if !strings.HasPrefix(l.Kind, "line ") && !strings.HasPrefix(l.Kind, "field ") &&
			!(strings.HasSuffix(l.File, ".cdxj") && strings.HasPrefix(l.Text, "http")) {
			o.t.Errorf("left of %q: %+v", hosts, l)
		}
	}
	all, err := erase.RecordsOf(o.opt.Disk.FS, o.opt.Disk.Dirs)
	if err != nil || len(all) != records {
		o.t.Errorf("%d records, want %d: %v", len(all), records, err)
	}
	if left, err := erase.RequestsOf(o.opt.Disk.FS, o.opt.Disk.Dirs); err != nil || len(left) > 0 {
		o.t.Errorf("%d requests are left: %v", len(left), err)
	}
}

// TestEraseWhileRunning: the crawl rests, erases and continues by itself. After the answer the host gets no request. A
// request that may wait is served at the end.
func TestEraseWhileRunning(t *testing.T) {
	t.Parallel()
	for _, b := range []*objtest.Bucket{nil, {}} {
		testEraseWhileRunning(t, b)
	}
}

func testEraseWhileRunning(t *testing.T, b *objtest.Bucket) {
	inBubble(t, func(t *testing.T) {
		o := erasing(t, memfs.New(*seedFlag), b)
		rested := false
		o.await(120)
		host := o.plainHost("")
		first, hits := o.ask(host, false)
		for range 10_000 {
			if s, err := o.opt.Observe.Control.Exact(); err == nil && s.Refused[state.ReasonErased.String()] > 0 {
				rested = true
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !rested || first.Number != 1 || len(first.Digest) != 64 {
			t.Fatalf("the crawl is not back: request %+v", first)
		}
		other := o.plainHost(host)
		second, otherHits := o.ask(other, true)
		for _, bad := range []erase.Ask{{Reason: "x"}, {Source: erase.Source{Hosts: []string{host}}},
			{Reason: "x", Source: erase.Source{URLs: []string{"ftp://x/"}}}} {
			if r, err := o.opt.Observe.Control.Erase(t.Context(), &bad); !changes.IsRefused(err) || r != nil {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		s, err := o.opt.Observe.Control.Exact()
		if err != nil || s.Erasures.Waiting != 1 || s.Erasures.Refused != 0 || second.Number != 2 {
			t.Errorf("%+v, %v", s.Erasures, err)
		}
		if res := o.end(); res.Stop != StopDone {
			t.Errorf("ended: %s", res.Stop)
		}
		if n := o.hits(host); n != hits {
			t.Errorf("%s had %d requests at the answer, %d at the end", host, hits, n)
		}
		if n := o.hits(other); n != otherHits {
			t.Errorf("%s had %d requests at the answer, %d at the end", other, otherHits, n)
		}
		o.prove(2, host, other)
		if b != nil && len(b.Objects()) < 10 {
			t.Errorf("%d objects", len(b.Objects()))
		}
	})
}

// TestEraseStoreAway: while the store is away, the crawl fetches, and the request waits. If it goes away in the middle,
// the crawl ends; when it is back, the next start finishes the erasure.
func TestEraseStoreAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		errAway := errors.New("the store is away")
		var away, breaks atomic.Bool
		b := &objtest.Bucket{Before: func(call, _ string) error {
			if away.Load() || call == "Delete" && breaks.Load() {
				away.Store(true)
				return errAway
			}
			return nil
		}}
		o := erasing(t, memfs.New(*seedFlag), b)
		o.await(120)
		host := o.plainHost("")
		away.Store(true)
		_, hits := o.ask(host, false)
		for range 100_000 {
			if s, err := o.opt.Observe.Control.Exact(); err == nil && s.Erasures.Refused == 1 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		o.await(o.requests() + 20)
		breaks.Store(true)
		away.Store(false)
		other := o.plainHost(host)
		_, otherHits := o.ask(other, false)
		<-o.done
		if o.stop(); !errors.Is(o.err, errAway) || !away.Load() {
			t.Errorf("the crawl ended: %v", o.err)
		}
		breaks.Store(false)
		away.Store(false)
		o.start()
		o.end()
		if n, m := o.hits(host), o.hits(other); n != hits || m != otherHits {
			t.Errorf("%d and %d requests at the answers, %d and %d at the end", hits, otherHits, n, m)
		}
		o.prove(2, host, other)
	})
}

// TestEraseRefused: a request that cannot be carried out does not stop the crawl. It waits with the reason, and is
// served at the next start.
func TestEraseRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		o := erasing(t, fs, nil)
		o.await(120)
		host := o.plainHost("")
		damaged := "d0/state/" + state.DamagedDir
		err := errors.Join(fs.MkdirAll(damaged), disk.WriteFileAtomic(fs, damaged+"/x", []byte("x")))
		if err != nil {
			t.Fatal(err)
		}
		_, hits := o.ask(host, false)
		for range 10_000 {
			if s, err := o.opt.Observe.Control.Exact(); err == nil && s.Erasures.Refused == 1 {
				if !strings.Contains(s.Erasures.Why, "repair") {
					t.Errorf("the reason: %s", s.Erasures.Why)
				}
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		requests := o.requests()
		o.await(requests + 20)
		o.make(changes.Change{Op: changes.OpStop})
		o.end()
		if err := fs.Remove(damaged + "/x"); err != nil {
			t.Fatal(err)
		}
		o.start()
		o.end()
		if n := o.hits(host); n != hits {
			t.Errorf("%s had %d requests at the answer, %d at the end", host, hits, n)
		}
		o.prove(1, host)
	})
}

// TestEraseCuts: the power fails, or the process is killed, at any time from a request on, again and again. The request
// is lost only if it had no answer. Each start finishes what is left before it fetches from the host.
func TestEraseCuts(t *testing.T) {
	t.Parallel()
	lives := longOr(60, 6)
	if testing.Short() {
		lives = 3 // the last one with an object store
	}
	for life := range lives {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(*seedFlag, uint64(life)))
			fs := memfs.New(rng.Uint64())
			var b *objtest.Bucket
			if life%3 == 2 {
				b = new(objtest.Bucket)
			}
			o := erasing(t, fs, b)
			o.await(60 + rng.Int64N(100))
			host := o.plainHost("")
			fs.CrashAfter(1 + rng.IntN(600)) // an erasure takes some 400 operations
			hits, answered := uint64(0), false
			if _, err := o.opt.Observe.Control.Erase(t.Context(), &erase.Ask{Reason: "a test",
				Source: erase.Source{Hosts: []string{host}}}); err == nil {
				hits, answered = o.hits(host), true
			}
			for left := rng.IntN(5); ; left-- {
				<-o.done
				o.stop()
				if o.err == nil || errors.Is(o.err, state.ErrFinished) {
					break
				}
				if !errors.Is(o.err, disk.ErrCrashed) {
					t.Fatalf("life %d: %v", life, o.err)
				}
				if rng.IntN(2) == 0 {
					fs = fs.Crash()
				} else {
					fs = fs.Kill()
				}
				if left > 0 {
					fs.CrashAfter(1 + rng.IntN(600))
				}
				o.opt.Disk.FS = fs
				o.start()
			}
			if n := o.hits(host); answered && n != hits {
				t.Errorf("life %d: %s had %d requests at the answer, %d at the end", life, host, hits, n)
			}
			if all, err := erase.RecordsOf(fs, o.opt.Disk.Dirs); answered || len(all) > 0 {
				o.prove(1, host)
			} else if err != nil {
				t.Error(err)
			} else {
				checkDeep(t, &o.opt)
			}
			if t.Failed() {
				t.Fatalf("life %d", life)
			}
		})
	}
}
