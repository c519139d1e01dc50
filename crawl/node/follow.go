package node

import (
	"context"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
)

// follow calls value for each value of the crawl's bucket that a pattern matches, and again when it changes or is
// deleted. It calls listed when it has passed on all that were there; empty says that there were none. After an error
// of the broker it begins again. It returns an error of value, or nil when ctx ends.
func follow(ctx context.Context, broker cluster.Transport, pattern string, listed func(empty bool),
	value func(*cluster.Value) error) error {
	for ctx.Err() == nil {
		if w, err := broker.Watch(ctx, cluster.BucketCrawl, pattern); err == nil {
			err = followOne(ctx, w, listed, value)
			w.Close()
			if err != nil {
				return err
			}
		}
		account.Sleep(ctx, transportRetry)
	}
	return nil
}

// followOne is follow until the first error of the broker.
func followOne(ctx context.Context, w cluster.Watcher, listed func(empty bool),
	value func(*cluster.Value) error) error {
	empty := true
	for {
		v, ok, err := w.Next(ctx)
		if err != nil {
			return nil
		}
		if !ok {
			listed(empty)
			continue
		}
		empty = empty && v.Deleted
		if err := value(&v); err != nil {
			return err
		}
	}
}

// put writes a value of the crawl's bucket.
func (o *Options) put(ctx context.Context, key string, v interface{ Encode() ([]byte, error) }) error {
	data, err := v.Encode()
	if err == nil {
		_, err = o.Transport.Put(ctx, cluster.BucketCrawl, key, data)
	}
	return err
}
