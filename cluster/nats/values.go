package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"drumbeat/cluster"
)

func (e *Transport) bucketName(b cluster.Bucket) string {
	if b == cluster.BucketNet {
		return "DB_" + e.o.Crawl + "_net"
	}
	return "DB_" + e.o.Crawl
}

// bucket returns a bucket. Once in each connection it looks the bucket up, and makes a missing one.
func (e *Transport) bucket(ctx context.Context, b cluster.Bucket) (jetstream.KeyValue, error) {
	if b < 0 || b >= cluster.Buckets {
		panic(fmt.Sprintf("BUG: cluster/nats: bucket %d", b))
	}
	e.mu.Lock()
	kv, conn := e.buckets[b], e.conn
	e.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	name := e.bucketName(b)
	kv, err := e.js.KeyValue(ctx, name)
	if e.o.Observe && errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, jetstream.ErrKeyNotFound
	}
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = e.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, History: 1, MaxBytes: e.limit(b),
			MaxValueSize: maxMessageBytes, Storage: jetstream.FileStorage, Replicas: e.o.Replicas,
			LimitMarkerTTL: markerTime})
		if errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = e.js.KeyValue(ctx, name) // another node was faster
		}
	}
	if err != nil {
		return nil, err
	}
	if !e.o.Observe {
		e.fit(ctx, b)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if conn == e.conn {
		e.buckets[b] = kv
	}
	return kv, nil
}

// withBucket runs f with the bucket, and translates its error.
func (e *Transport) withBucket(ctx context.Context, b cluster.Bucket, what string,
	f func(context.Context, jetstream.KeyValue) error) error {
	ctx, cancel, err := e.call(ctx, callTime)
	if err != nil {
		return err
	}
	defer cancel()
	kv, err := e.bucket(ctx, b)
	if err == nil {
		err = f(ctx, kv)
	}
	var of error
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		of = cluster.ErrNotFound
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists),
		errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		of = cluster.ErrChanged
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrStreamNotFound),
		errors.Is(err, natsgo.ErrNoResponders):
		e.mu.Lock()
		e.buckets[b] = nil // look it up again: it may be lost
		e.mu.Unlock()
	}
	if of != nil {
		return fmt.Errorf("cluster/nats: %s: %w", what, of)
	}
	return e.explain(ctx, what, err)
}

// Get implements cluster.Transport.
func (e *Transport) Get(ctx context.Context, b cluster.Bucket, key string) (v cluster.Value, err error) {
	if err := cluster.CheckKey(key); err != nil {
		return v, err
	}
	err = e.withBucket(ctx, b, "get "+key, func(ctx context.Context, kv jetstream.KeyValue) error {
		entry, err := kv.Get(ctx, key)
		if err == nil {
			v = cluster.Value{Key: key, Data: entry.Value(), Revision: entry.Revision()}
		}
		return err
	})
	return v, err
}

// change checks key and data, and runs f.
func (e *Transport) change(ctx context.Context, b cluster.Bucket, what, key string, data []byte,
	f func(context.Context, jetstream.KeyValue) (uint64, error)) (revision uint64, err error) {
	if err := cluster.CheckKey(key); err != nil {
		return 0, err
	}
	if len(data) > cluster.MaxValueBytes {
		return 0, fmt.Errorf("cluster/nats: %s %s: %d bytes: %w", what, key, len(data), cluster.ErrTooLarge)
	}
	err = e.withBucket(ctx, b, what+" "+key, func(ctx context.Context, kv jetstream.KeyValue) (err error) {
		revision, err = f(ctx, kv)
		return err
	})
	return revision, err
}

// Put implements cluster.Transport.
func (e *Transport) Put(ctx context.Context, b cluster.Bucket, key string, data []byte) (uint64, error) {
	return e.change(ctx, b, "put", key, data, func(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
		return kv.Put(ctx, key, data)
	})
}

// Create implements cluster.Transport.
func (e *Transport) Create(ctx context.Context, b cluster.Bucket, key string, data []byte) (uint64, error) {
	revision, err := e.change(ctx, b, "create", key, data,
		func(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
			if b == cluster.BucketNet && strings.HasPrefix(key, cluster.LeasePrefix) {
				if err := e.leaseRoom(ctx); err != nil {
					return 0, err
				}
			}
			return kv.Create(ctx, key, data)
		})
	if errors.Is(err, cluster.ErrChanged) {
		err = fmt.Errorf("cluster/nats: create %s: %w", key, cluster.ErrExists)
	}
	return revision, err
}

// Update implements cluster.Transport.
func (e *Transport) Update(ctx context.Context, b cluster.Bucket, key string, data []byte,
	revision uint64) (uint64, error) {
	if revision == 0 {
		return 0, fmt.Errorf("cluster/nats: update %s: %w", key, cluster.ErrChanged) // a value has a revision
	}
	return e.change(ctx, b, "update", key, data, func(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
		return kv.Update(ctx, key, data, revision)
	})
}

// Delete implements cluster.Transport. A deletion in BucketNet leaves no marker, which would need room for
// each returned network.
func (e *Transport) Delete(ctx context.Context, b cluster.Bucket, key string, revision uint64) error {
	_, err := e.change(ctx, b, "delete", key, nil, func(ctx context.Context, kv jetstream.KeyValue) (uint64, error) {
		if b == cluster.BucketNet {
			return 0, e.remove(ctx, key, revision)
		}
		opts := []jetstream.KVDeleteOpt{jetstream.PurgeTTL(markerTime)}
		if revision != 0 {
			opts = append(opts, jetstream.LastRevision(revision))
		}
		return 0, kv.Purge(ctx, key, opts...)
	})
	return err
}

// Last implements cluster.Transport.
func (e *Transport) Last(ctx context.Context, b cluster.Bucket) (last uint64, err error) {
	err = e.withBucket(ctx, b, "last revision", func(ctx context.Context, _ jetstream.KeyValue) error {
		s, err := e.js.Stream(ctx, "KV_"+e.bucketName(b))
		if err == nil {
			last = s.CachedInfo().State.LastSeq
		}
		return err
	})
	return last, err
}

// Watch implements cluster.Transport.
func (e *Transport) Watch(ctx context.Context, b cluster.Bucket, pattern string) (cluster.Watcher, error) {
	if err := cluster.CheckPattern(pattern); err != nil {
		return nil, err
	}
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	w := &watcher{prefix: "$KV." + e.bucketName(b) + "."}
	err := e.withBucket(ctx, b, "watch "+pattern, func(ctx context.Context, _ jetstream.KeyValue) error {
		s, err := e.js.Stream(ctx, "KV_"+e.bucketName(b))
		if err != nil {
			return err
		}
		w.feed, err = e.feed(ctx, conn, s, watchAhead, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: w.prefix + pattern})
		return err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

type watcher struct {
	*feed
	prefix string // of subjects; the key follows
	listed bool   // the existing values were delivered
}

func (w *watcher) Next(ctx context.Context) (v cluster.Value, ok bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return v, false, err
		}
		// A value that changes meanwhile is delivered and counted later.
		if !w.listed && (w.last >= w.waiting || w.more == 0) {
			w.listed = true
			return v, false, nil
		}
		msg, meta, err := w.next(ctx)
		if err != nil {
			return v, false, err
		}
		header := msg.Headers()
		v = cluster.Value{Key: strings.TrimPrefix(msg.Subject(), w.prefix), Data: msg.Data(),
			Revision: meta.Sequence.Stream,
			Deleted:  header.Get("KV-Operation") != "" || header.Get("Nats-Marker-Reason") != ""}
		if !v.Deleted || w.listed {
			return v, true, nil
		}
	}
}
