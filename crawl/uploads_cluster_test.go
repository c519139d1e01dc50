package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster/mem"
	"drumbeat/disk"
	"drumbeat/internal/objstore/objtest"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/warc"
)

// urlsOfObjects returns how often the objects have a response of each URL of the crawl.
func urlsOfObjects(t *testing.T, b *objtest.Bucket) map[string]int {
	t.Helper()
	urls := map[string]int{}
	for key, data := range b.Objects() {
		if !strings.HasSuffix(key, ".warc.gz") {
			continue
		}
		if err := warc.Read(bytes.NewReader(data), 1<<30, func(r *warc.Record) error {
			if url := r.Get("WARC-Target-URI"); r.IsCapture() && !strings.HasSuffix(url, "/robots.txt") {
				urls[url]++
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	return urls
}

// storedCluster is a cluster whose nodes have one object store.
type storedCluster struct {
	*testCluster
	bucket *objtest.Bucket
	finals []*finals
}

func newStoredCluster(t *testing.T, web *simweb.Web, nodes int, faults mem.Faults,
	change func(o *Options)) *storedCluster {
	t.Helper()
	s := &storedCluster{bucket: &objtest.Bucket{}}
	for range nodes {
		s.finals = append(s.finals, newFinals(nil))
	}
	s.testCluster = newCluster(t, web, nodes, faults, func(_ int, o *Options) {
		withStore(o, s.bucket)
		change(o)
	})
	s.over = func(node int, fsys disk.FS) disk.FS { return s.finals[node].on(fsys) }
	return s
}

// checkStore checks that the objects are all finished files of all nodes, under their numbers or that of node
// 0, and that each node reads its own there: an audit that reads all records knows the keys of all URLs.
func (s *storedCluster) checkStore(zero map[int]bool) {
	s.t.Helper()
	files, warcs := 0, 0
	for node := range s.options {
		o := &s.options[node]
		of := fmt.Sprintf("%s/%d", crawlID(s.t, o.Disk.FS, o.Disk.Dirs), node)
		if zero[node] {
			of = strings.TrimSuffix(of, fmt.Sprint(node)) + "0"
		}
		warcs += checkObjectsOf(s.t, s.bucket, s.finals[node].on(o.Disk.FS), of, o.Disk.Dirs)
		files += len(s.finals[node].seen)
		look := lookAt(o.Disk.FS, o.Disk.Dirs, s.bucket)
		look.Remote = audit.RemoteRead
		rep, err := audit.Deep(look)
		if err != nil || !rep.Balanced() || !rep.Output.StoredAll || rep.Output.WARC.Records == 0 {
			s.t.Errorf("node %d: deep audit: %v, %+v", node, err, rep)
		}
	}
	if n := len(s.bucket.Objects()); n != files || warcs < 3 || s.bucket.Pending() != 0 {
		s.t.Errorf("%d objects of %d files, %d WARC files, %d unfinished uploads", n, files, warcs, s.bucket.Pending())
	}
}

// TestClusterObjectStore: the objects of one node, of two and of three are the files that they wrote, byte
// for byte, and have the same URLs, each once.
func TestClusterObjectStore(t *testing.T) {
	notShort(t)
	t.Parallel()
	var one map[string]int
	for _, nodes := range []int{1, 2, 3} {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages = 20, 40, 500 })
			s := newStoredCluster(t, web, nodes, mem.Faults{Delay: 10 * time.Millisecond},
				func(o *Options) { o.Output.WARCFileBytes = 40_000 })
			defer s.close()
			s.check(s.run(t.Context()))
			s.checkStore(nil)
			urls := urlsOfObjects(t, s.bucket)
			for url, n := range urls {
				if n != 1 {
					t.Errorf("%s has %d responses in the store", url, n)
				}
			}
			if one == nil {
				one = urls
			}
			if len(urls) < 300 || !maps.Equal(urls, one) {
				t.Errorf("%d nodes have %d URLs in the store, one has %d", nodes, len(urls), len(one))
			}
			t.Logf("%d nodes: %d objects, %d URLs", nodes, len(s.bucket.Objects()), len(urls))
		})
	}
}

// TestClusterObjectStoreCuts: nodes are killed, or lose their power, at random operations on their disks,
// while requests to the store and answers are lost. The objects have each URL that one node would store, and
// nothing else.
func TestClusterObjectStoreCuts(t *testing.T) {
	notShort(t)
	t.Parallel()
	kills, objects, refetched := 0, 0, 0
	for seed := *seedFlag; seed < *seedFlag+longOr[uint64](30, 3); seed++ {
		inBubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0x73746f7265))
			web := cutWeb(t, seed, nil)
			s := newStoredCluster(t, web, 2+int(seed%2), mem.Faults{Delay: 100 * time.Millisecond}, func(o *Options) {
				small(o)
				o.Drum.BucketBytes, o.Output.WARCFileBytes, o.Output.RollEvery = 4<<10, 8_000, 2*time.Second
				o.ObjectStore.PartBytes = 3_000
			})
			defer s.close()
			calls := rand.New(rand.NewPCG(seed, 1))
			lose := func(string, string) error {
				if calls.IntN(20) == 0 {
					return errors.New("lost")
				}
				return nil
			}
			s.bucket.Before = func(call, key string) error { time.Sleep(20 * time.Millisecond); return lose(call, key) }
			s.bucket.After = lose
			s.lives(atRandom(rng, 4), &kills)
			s.bucket.Before, s.bucket.After = nil, nil
			for node := range s.options { // what a store that lost requests has not taken at the end
				if _, err := s.start(t.Context(), node, s.options[node]); err != nil &&
					!errors.Is(err, state.ErrFinished) {
					t.Errorf("node %d: %v", node, err)
				}
			}
			s.checkStore(nil)
			want := web.Expected("drumbeat").FetchedURLs()
			urls := urlsOfObjects(t, s.bucket)
			n := 0
			for url := range want {
				if n++; urls[url] != 1 {
					t.Errorf("%s has %d responses in the store", url, urls[url])
				}
			}
			if len(urls) != n {
				t.Errorf("%d URLs in the store, want %d", len(urls), n)
			}
			objects += len(s.bucket.Objects())
			for _, n := range web.Log().Snapshot().Fetches {
				refetched += min(1, n-1)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	t.Logf("%d cuts, %d objects, %d URLs fetched again", kills, objects, refetched)
}

// TestObjectStoreOldNode: a node whose objects have the key of node 0, as earlier versions put them, keeps it.
func TestObjectStoreOldNode(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := sizedWeb(t, 10, 20, 300)
		s := newStoredCluster(t, web, 2, mem.Faults{}, func(o *Options) { o.Output.WARCFileBytes = 30_000 })
		defer s.close()
		o := s.options[1]
		o.Limits.MaxTime = 4 * time.Second
		if _, err := s.start(t.Context(), 1, o); err != nil {
			t.Fatal(err)
		}
		set, m, err := lastManifest(o.Disk.FS, o.Disk.Dirs)
		if err != nil || m.Store == nil || m.Store.Node != 1 {
			t.Fatalf("%v, %+v", err, m.Store)
		}
		m.Store.Node = 0
		data, err := state.EncodeManifest(m)
		must(t, err)
		for i := range set.Paths {
			name := set.Path(i, state.ManifestName)
			if _, err := o.Disk.FS.Size(name); err != nil {
				continue
			}
			must(t, disk.WriteFileAtomic(o.Disk.FS, name, data))
		}
		for key, data := range s.bucket.Objects() {
			s.bucket.Remove(key)
			s.bucket.Set(strings.Replace(key, "/1/", "/0/", 1), data)
		}
		s.check(s.run(t.Context()))
		s.checkStore(map[int]bool{1: true})
	})
}
