package transporttest

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"drumbeat/cluster"
)

func values(t *testing.T, b Broker) {
	s := begin(t, b)
	e, other := s.open(0), s.open(1)
	ctx, bucket := s.ctx, cluster.BucketNet
	_, err := e.Get(ctx, bucket, "a.b")
	s.want("get", err, cluster.ErrNotFound)
	_, err = e.Update(ctx, bucket, "a.b", nil, 1)
	s.want("update of nothing", err, cluster.ErrChanged)
	_, err = e.Update(ctx, bucket, "a.b", nil, 0)
	s.want("update of revision 0", err, cluster.ErrChanged)
	s.want("delete of a revision of nothing", e.Delete(ctx, bucket, "a.b", 7), cluster.ErrChanged)
	s.do("delete of nothing", e.Delete(ctx, bucket, "a.b", 0))

	r1, err := e.Create(ctx, bucket, "a.b", []byte("1"))
	s.do("create after delete", err)
	_, err = other.Create(ctx, bucket, "a.b", []byte("x"))
	s.want("create again", err, cluster.ErrExists)
	r2, err := other.Update(ctx, bucket, "a.b", []byte("2"), r1)
	s.do("update", err)
	_, err = e.Update(ctx, bucket, "a.b", []byte("x"), r1)
	s.want("update of an old revision", err, cluster.ErrChanged)
	s.want("delete of an old revision", e.Delete(ctx, bucket, "a.b", r1), cluster.ErrChanged)
	var v cluster.Value
	s.until("new value", func() bool {
		v, err = e.Get(ctx, bucket, "a.b")
		s.do("get", err)
		return v.Revision == r2 || !b.Lags
	})
	if v.Key != "a.b" || string(v.Data) != "2" || v.Revision != r2 || r2 <= r1 || v.Deleted {
		t.Fatalf("got %+v, want 2 in revision %d, above %d", v, r2, r1)
	}
	r3, err := e.Put(ctx, bucket, "a.b", []byte("3"))
	s.do("put", err)
	last, err := other.Last(ctx, bucket)
	s.do("last", err)
	if last != r3 || r3 <= r2 {
		t.Fatalf("last revision %d, want %d, above %d", last, r3, r2)
	}
	s.do("delete", other.Delete(ctx, bucket, "a.b", r3))
	s.until("end of the value", func() bool {
		_, err = e.Get(ctx, bucket, "a.b")
		return err != nil || !b.Lags
	})
	s.want("get of a deleted value", err, cluster.ErrNotFound)
	r4, err := e.Create(ctx, bucket, "a.b", nil)
	s.do("create after delete", err)
	if last, err = e.Last(ctx, bucket); err != nil || last != r4 || r4 <= r3 {
		t.Fatalf("last revision %d, %v, want %d, above %d", last, err, r4, r3)
	}
	if _, err = e.Get(ctx, cluster.BucketCrawl, "a.b"); !errors.Is(err, cluster.ErrNotFound) {
		t.Fatalf("the other bucket has the key: %v", err)
	}
}

// races: of many that create a key one succeeds, also after a Delete, and no update is lost.
func races(t *testing.T, b Broker) {
	s := begin(t, b)
	const transports, keys, each = 8, 10, 10
	var list []cluster.Transport
	for node := range transports {
		list = append(list, s.open(node))
	}
	for _, round := range []string{"new", "deleted"} {
		var won [keys]atomic.Int32
		var wg sync.WaitGroup
		for node, e := range list {
			wg.Go(func() {
				for k := range keys {
					_, err := e.Create(s.ctx, cluster.BucketNet, fmt.Sprint("net.", k),
						strconv.AppendInt(nil, int64(node), 10))
					if err == nil {
						won[k].Add(1)
					} else if !errors.Is(err, cluster.ErrExists) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for k := range keys {
			if n := won[k].Load(); n != 1 {
				t.Errorf("%d nodes created a %s key", n, round)
			}
			s.do("delete", list[0].Delete(s.ctx, cluster.BucketNet, fmt.Sprint("net.", k), 0))
		}
	}
	_, err := list[0].Create(s.ctx, cluster.BucketCrawl, "count", []byte("0"))
	s.do("create", err)
	var wg sync.WaitGroup
	for _, e := range list {
		wg.Go(func() {
			for done := 0; done < each; {
				v, err := e.Get(s.ctx, cluster.BucketCrawl, "count")
				if err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(string(v.Data))
				_, err = e.Update(s.ctx, cluster.BucketCrawl, "count",
					strconv.AppendInt(nil, int64(n+1), 10), v.Revision)
				if err == nil {
					done++
				} else if !errors.Is(err, cluster.ErrChanged) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if v, err := list[0].Get(s.ctx, cluster.BucketCrawl, "count"); err != nil ||
		string(v.Data) != fmt.Sprint(transports*each) {
		t.Fatalf("count is %q, %v, want %d", v.Data, err, transports*each)
	}
}

// all collects the existing values of a Watcher.
func (s *suite) all(w cluster.Watcher) map[string]string {
	s.Helper()
	got := map[string]string{}
	for {
		v, ok, err := w.Next(s.ctx)
		s.do("next value", err)
		if !ok {
			return got
		}
		set(got, v)
	}
}

func set(got map[string]string, v cluster.Value) {
	if v.Deleted {
		delete(got, v.Key)
	} else {
		got[v.Key] = string(v.Data)
	}
}

// merge reads one change into got.
func (s *suite) merge(w cluster.Watcher, got map[string]string) {
	s.Helper()
	v, ok, err := w.Next(s.ctx)
	s.do("next value", err)
	if !ok {
		s.Fatal("a second report that all values were delivered")
	}
	set(got, v)
}

func (s *suite) watch(e cluster.Transport, b cluster.Bucket, pattern string) cluster.Watcher {
	s.Helper()
	w, err := e.Watch(s.ctx, b, pattern)
	s.do("watch", err)
	s.Cleanup(w.Close)
	return w
}

// change reads one change.
func (s *suite) change(w cluster.Watcher, want cluster.Value) {
	s.Helper()
	v, ok, err := w.Next(s.ctx)
	s.do("next value", err)
	if !ok || v.Key != want.Key || string(v.Data) != string(want.Data) || v.Deleted != want.Deleted {
		s.Fatalf("got %+v (%v), want %+v", v, ok, want)
	}
}

func watch(t *testing.T, b Broker) {
	s := begin(t, b)
	e, other := s.open(0), s.open(1)
	bucket := cluster.BucketCrawl
	empty := s.watch(e, bucket, ">")
	if got := s.all(empty); len(got) != 0 {
		t.Fatalf("an empty bucket has %v", got)
	}
	put := func(key, data string) {
		s.Helper()
		_, err := other.Put(s.ctx, bucket, key, []byte(data))
		s.do("put", err)
		s.change(empty, cluster.Value{Key: key, Data: []byte(data)})
	}
	put("want.x.1", "old")
	put("want.x.1", "a")
	put("want.y.2", "b")
	put("want.z.1", "gone")
	put("net.x", "c")
	s.do("delete", other.Delete(s.ctx, bucket, "want.z.1", 0))
	s.change(empty, cluster.Value{Key: "want.z.1", Deleted: true})

	for pattern, want := range map[string]map[string]string{
		">":        {"want.x.1": "a", "want.y.2": "b", "net.x": "c"},
		"want.>":   {"want.x.1": "a", "want.y.2": "b"},
		"want.*.1": {"want.x.1": "a"},
		"net.x":    {"net.x": "c"},
		"none.>":   {},
	} {
		w := s.watch(e, bucket, pattern)
		got := s.all(w)
		for b.Lags && !maps.Equal(got, want) {
			s.merge(w, got)
		}
		if !maps.Equal(got, want) {
			t.Errorf("watch of %s has %v, want %v", pattern, got, want)
		}
	}
	w := s.watch(e, bucket, "want.*.1")
	for got := s.all(w); b.Lags && got["want.x.1"] != "a"; {
		s.merge(w, got)
	}
	put("net.x", "d")
	put("want.x.1", "e")
	s.change(w, cluster.Value{Key: "want.x.1", Data: []byte("e")})
	v, err := other.Get(s.ctx, bucket, "want.x.1")
	s.do("get", err)
	s.do("delete", other.Delete(s.ctx, bucket, "want.x.1", v.Revision))
	s.change(w, cluster.Value{Key: "want.x.1", Deleted: true})
	s.watchMany(e, other)
	w.Close()
	w.Close()
	if _, _, err := w.Next(s.ctx); err == nil {
		t.Fatal("a closed watcher delivers")
	}
}

// watchMany changes many values while they are delivered: the last state arrives.
func (s *suite) watchMany(e, other cluster.Transport) {
	s.Helper()
	for i := range 300 {
		_, err := other.Put(s.ctx, cluster.BucketCrawl, fmt.Sprint("k.", i), []byte("old"))
		s.do("put", err)
	}
	many := s.watch(e, cluster.BucketCrawl, "k.*")
	for i := range 20 {
		_, err := other.Put(s.ctx, cluster.BucketCrawl, fmt.Sprint("k.", i), []byte("new"))
		s.do("put", err)
	}
	got := s.all(many)
	if len(got) < 280 && !s.b.Lags {
		s.Fatalf("%d values, want 280, and those that change at once or later", len(got))
	}
	isNew := func() (n int) {
		for _, data := range got {
			if data == "new" {
				n++
			}
		}
		return n
	}
	for len(got) != 300 || isNew() != 20 {
		s.merge(many, got)
	}
}

// bad: invalid keys, patterns, kinds and nodes are refused, and change nothing.
func bad(t *testing.T, b Broker) {
	s := begin(t, b)
	e := s.open(0)
	for _, key := range []string{"", ".a", "a b", "a.*", ">", "a:b"} {
		_, errGet := e.Get(s.ctx, cluster.BucketCrawl, key)
		_, errPut := e.Put(s.ctx, cluster.BucketCrawl, key, nil)
		_, errCreate := e.Create(s.ctx, cluster.BucketCrawl, key, nil)
		_, errUpdate := e.Update(s.ctx, cluster.BucketCrawl, key, nil, 1)
		errDelete := e.Delete(s.ctx, cluster.BucketCrawl, key, 0)
		for _, err := range []error{errGet, errPut, errCreate, errUpdate, errDelete} {
			if err == nil || errors.Is(err, cluster.ErrNotFound) {
				t.Errorf("key %q is accepted: %v", key, err)
			}
		}
	}
	_, errWatch := e.Watch(s.ctx, cluster.BucketCrawl, "a.>.b")
	_, errKind := e.Ask(s.ctx, 0, "a.b", nil)
	_, errAnswer := e.Answer("*", nil)
	_, errNode := e.Ask(s.ctx, -1, "a", nil)
	_, errRead := e.Read(s.ctx, cluster.MaxNodes, 1)
	for i, err := range []error{errWatch, errKind, errAnswer, errNode, errRead, e.Purge(s.ctx, -1, 0),
		e.Purge(s.ctx, -1, 2), <-e.Publish(s.ctx, -1, 0, "", nil), <-e.Publish(s.ctx, 0, cluster.MaxNodes, "", nil)} {
		if err == nil {
			t.Errorf("bad argument %d is accepted", i)
		}
	}
	if last, err := e.Last(s.ctx, cluster.BucketCrawl); err != nil || last != 0 {
		t.Errorf("last revision %d, %v, want 0", last, err)
	}
}
