package nats

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"drumbeat/cluster"
)

// StreamInfo describes the stream of a node.
type StreamInfo struct {
	Node     int       `json:"node"`
	Missing  bool      `json:"missing,omitempty"` // there is none: the node has not started, or the broker has lost it
	Messages uint64    `json:"messages"`
	Bytes    uint64    `json:"bytes"`
	MaxBytes int64     `json:"maxBytes"`
	Last     time.Time `json:"last,omitzero"` // when the newest message came, by the broker's clock
}

// StreamInfo returns the figures of the stream of a node. It does not make a missing stream.
func (e *Transport) StreamInfo(ctx context.Context, node int) (StreamInfo, error) {
	ctx, cancel, err := e.call(ctx, callTime)
	if err != nil {
		return StreamInfo{}, err
	}
	defer cancel()
	s, err := e.js.Stream(ctx, e.streamName(node))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return StreamInfo{Node: node, Missing: true}, nil
	}
	if err != nil {
		return StreamInfo{}, e.explain(ctx, "look at a stream", err)
	}
	info := s.CachedInfo()
	return StreamInfo{Node: node, Messages: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes,
		Last: info.State.LastTime}, nil
}

// Values returns all values of a bucket whose keys match a pattern. A missing bucket has none.
func (e *Transport) Values(ctx context.Context, b cluster.Bucket, pattern string) (list []cluster.Value, err error) {
	w, err := e.Watch(ctx, b, pattern)
	if errors.Is(err, cluster.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for {
		v, ok, err := w.Next(ctx)
		if err != nil || !ok {
			return list, err
		}
		if !v.Deleted {
			list = append(list, v)
		}
	}
}
