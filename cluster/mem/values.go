package mem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"drumbeat/cluster"
)

// bucket holds values by key.
type bucket struct {
	values map[string]value
	last   uint64 // revision of the last change
	bytes  int
	undo   []change // the last changes, oldest first
	news   map[*watcher]bool
}

type value struct {
	data     []byte
	revision uint64
}

// change undoes a change of a value.
type change struct {
	key string
	was value // revision 0: there was none
}

func newBucket() *bucket { return &bucket{values: map[string]value{}, news: map[*watcher]bool{}} }

func (v value) size(key string) int {
	if v.revision == 0 {
		return 0
	}
	return len(key) + len(v.data) + overhead
}

// set sets a value, or removes it if data is nil, and returns the revision of the change.
func (b *bucket) set(n *Net, key string, data []byte) (uint64, error) {
	was := b.values[key]
	now := value{data, b.last + 1}
	size := b.bytes - was.size(key)
	if data != nil {
		size += now.size(key)
	}
	if data != nil && size > n.o.BucketBytes {
		return 0, cluster.ErrFull
	}
	b.bytes = size
	b.last++
	if len(b.undo) == maxUndo {
		b.undo = slices.Delete(b.undo, 0, 1)
	}
	b.undo = append(b.undo, change{key, was})
	if data == nil {
		delete(b.values, key)
	} else {
		b.values[key] = now
	}
	for w := range b.news {
		// Watchers of BucketNet may miss deletions, so these never get them.
		if cluster.Match(w.pattern, key) && (data != nil || b != n.buckets[cluster.BucketNet]) {
			n.later(n.delay(), func() { w.note(key, now.revision) })
		}
	}
	return b.last, nil
}

// lose undoes the last changes.
func (b *bucket) lose(count int) {
	for ; count > 0 && len(b.undo) > 0; count-- {
		c := b.undo[len(b.undo)-1]
		b.undo = b.undo[:len(b.undo)-1]
		b.bytes += c.was.size(c.key) - b.values[c.key].size(c.key)
		if c.was.revision == 0 {
			delete(b.values, c.key)
		} else {
			b.values[c.key] = c.was
		}
		b.last--
	}
}

// Get implements cluster.Transport.
func (e *Transport) Get(ctx context.Context, b cluster.Bucket, key string) (v cluster.Value, err error) {
	if err := cluster.CheckKey(key); err != nil {
		return v, err
	}
	err = e.call(ctx, func() error {
		of := e.net.buckets[b].values[key]
		if of.revision == 0 {
			return fmt.Errorf("cluster/mem: get %s: %w", key, cluster.ErrNotFound)
		}
		v = cluster.Value{Key: key, Data: bytes.Clone(of.data), Revision: of.revision}
		return nil
	})
	if err != nil {
		return cluster.Value{}, err
	}
	return v, nil
}

// change sets a value if may accepts the current one (revision 0: none).
func (e *Transport) change(ctx context.Context, b cluster.Bucket, what, key string, data []byte,
	may func(value) error) (uint64, error) {
	if err := cluster.CheckKey(key); err != nil {
		return 0, err
	}
	if len(data) > cluster.MaxValueBytes {
		return 0, fmt.Errorf("cluster/mem: %s %s: %w", what, key, cluster.ErrTooLarge)
	}
	data = bytes.Clone(data)
	var revision uint64
	err := e.call(ctx, func() error {
		bucket := e.net.buckets[b]
		err := may(bucket.values[key])
		if err == nil {
			revision, err = bucket.set(e.net, key, data)
		}
		if err != nil {
			return fmt.Errorf("cluster/mem: %s %s: %w", what, key, err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return revision, nil
}

// some returns data, which is not nil.
func some(data []byte) []byte { return append([]byte{}, data...) }

// Put implements cluster.Transport.
func (e *Transport) Put(ctx context.Context, b cluster.Bucket, key string, data []byte) (uint64, error) {
	return e.change(ctx, b, "put", key, some(data), func(value) error { return nil })
}

// Create implements cluster.Transport.
func (e *Transport) Create(ctx context.Context, b cluster.Bucket, key string, data []byte) (uint64, error) {
	return e.change(ctx, b, "create", key, some(data), func(v value) error {
		if v.revision != 0 {
			return cluster.ErrExists
		}
		room := cluster.Room{Bytes: int64(e.net.buckets[b].bytes), Limit: int64(e.net.o.BucketBytes)}
		if b == cluster.BucketNet && strings.HasPrefix(key, cluster.LeasePrefix) && room.Above(cluster.LeaseRoom) {
			return cluster.ErrFull
		}
		return nil
	})
}

// Update implements cluster.Transport.
func (e *Transport) Update(ctx context.Context, b cluster.Bucket, key string, data []byte,
	revision uint64) (uint64, error) {
	return e.change(ctx, b, "update", key, some(data), func(v value) error {
		if v.revision == 0 || v.revision != revision {
			return cluster.ErrChanged
		}
		return nil
	})
}

// Delete implements cluster.Transport.
func (e *Transport) Delete(ctx context.Context, b cluster.Bucket, key string, revision uint64) error {
	_, err := e.change(ctx, b, "delete", key, nil, func(v value) error {
		if revision != 0 && v.revision != revision {
			return cluster.ErrChanged
		}
		return nil
	})
	return err
}

// Last implements cluster.Transport.
func (e *Transport) Last(ctx context.Context, b cluster.Bucket) (last uint64, err error) {
	err = e.call(ctx, func() error {
		last = e.net.buckets[b].last
		return nil
	})
	if err != nil {
		return 0, err
	}
	return last, nil
}

// Room implements cluster.Transport.
func (e *Transport) Room(ctx context.Context, b cluster.Bucket) (room cluster.Room, err error) {
	err = e.call(ctx, func() error {
		room = cluster.Room{Bytes: int64(e.net.buckets[b].bytes), Limit: int64(e.net.o.BucketBytes)}
		return nil
	})
	return room, err
}

// Watch implements cluster.Transport.
func (e *Transport) Watch(ctx context.Context, b cluster.Bucket, pattern string) (cluster.Watcher, error) {
	if err := cluster.CheckPattern(pattern); err != nil {
		return nil, err
	}
	var w *watcher
	err := e.call(ctx, func() error {
		of := e.net.buckets[b]
		w = &watcher{feed: e.feed(of), b: of, pattern: pattern, pending: map[string]uint64{},
			seen: map[string]uint64{}, changed: make(chan struct{})}
		for key, v := range of.values {
			if cluster.Match(pattern, key) {
				w.order = append(w.order, key)
				w.pending[key] = v.revision
			}
		}
		slices.SortFunc(w.order, func(a, b string) int { return cmp.Compare(w.pending[a], w.pending[b]) })
		w.first = len(w.order)
		of.news[w] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// watcher has a list of changed keys. Next delivers their current values.
type watcher struct {
	*feed
	b       *bucket
	pattern string

	// Guarded by the Net's lock.
	order   []string          // keys to deliver
	pending map[string]uint64 // the same, with the revision of their last change
	seen    map[string]uint64 // revisions delivered
	first   int               // how many keys of order existed at the beginning; -1: the end of the list was reported
	changed chan struct{}     // closed when order grows
}

// note notes that a key changed.
func (w *watcher) note(key string, revision uint64) {
	if w.err != nil {
		delete(w.b.news, w)
		return
	}
	if revision <= w.seen[key] {
		return // delayed: a later change was delivered
	}
	if _, there := w.pending[key]; !there {
		w.order = append(w.order, key)
	}
	w.pending[key] = max(w.pending[key], revision)
	close(w.changed)
	w.changed = make(chan struct{})
}

// Next implements cluster.Watcher.
func (w *watcher) Next(ctx context.Context) (v cluster.Value, ok bool, err error) {
	err = w.wait(ctx, func() (bool, <-chan struct{}) {
		for {
			if w.first == 0 {
				w.first = -1
				return true, nil
			}
			if len(w.order) == 0 {
				return false, w.changed
			}
			key := w.order[0]
			w.order = w.order[1:]
			revision := w.pending[key]
			delete(w.pending, key)
			existed := w.first > 0
			if existed {
				w.first--
			}
			of := w.b.values[key]
			if of.revision == 0 && existed {
				continue
			}
			ok = true
			v = cluster.Value{Key: key, Revision: revision, Deleted: true}
			if of.revision != 0 {
				v = cluster.Value{Key: key, Data: bytes.Clone(of.data), Revision: of.revision}
			}
			w.seen[key] = v.Revision
			return true, nil
		}
	})
	return v, ok, err
}

// Close implements cluster.Watcher.
func (w *watcher) Close() {
	w.feed.Close()
	w.e.net.mu.Lock()
	defer w.e.net.mu.Unlock()
	delete(w.b.news, w)
}
