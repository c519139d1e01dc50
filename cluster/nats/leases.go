package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"drumbeat/cluster"
)

// The bucket of leases has the most writes, and must always have room to give a lease back.

// Bounds of a transport's checks of the room for leases. With leastCreates, 128 nodes together overshoot by
// 128·16·180 B, some 400 kB.
const (
	mostCreates  = 1024        // between two checks
	leastCreates = 16          // the same, near the bound
	roomNodes    = 128         // nodes that may create leases at once
	fullFor      = time.Second // a full bucket is not checked again for so long
)

// leaseRoom is a transport's view of the room for leases. Transport.mu guards it.
type leaseRoom struct {
	creates int       // that may be made before the next check
	full    time.Time // until then, there is no room
}

// leaseRoom returns cluster.ErrFull if no lease may be created now.
func (e *Transport) leaseRoom(ctx context.Context) error {
	e.mu.Lock()
	full := time.Now().Before(e.leases.full)
	e.leases.creates--
	enough := e.leases.creates >= 0
	e.mu.Unlock()
	if full {
		return cluster.ErrFull
	}
	if enough {
		return nil
	}
	room, err := e.room(ctx, cluster.BucketNet)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if room.Above(cluster.LeaseRoom) {
		e.leases = leaseRoom{full: time.Now().Add(fullFor)}
		return cluster.ErrFull
	}
	left := int64(cluster.LeaseRoom*float64(room.Limit)) - room.Bytes
	e.leases.creates = int(max(leastCreates, min(mostCreates, left/cluster.LeaseBytes/roomNodes)))
	return nil
}

// Room implements cluster.Transport.
func (e *Transport) Room(ctx context.Context, b cluster.Bucket) (room cluster.Room, err error) {
	err = e.withBucket(ctx, b, "room", func(ctx context.Context, _ jetstream.KeyValue) error {
		room, err = e.room(ctx, b)
		return err
	})
	return room, err
}

func (e *Transport) room(ctx context.Context, b cluster.Bucket) (cluster.Room, error) {
	s, err := e.js.Stream(ctx, "KV_"+e.bucketName(b))
	if err != nil {
		return cluster.Room{}, err
	}
	info := s.CachedInfo()
	return cluster.Room{Bytes: int64(info.State.Bytes), Limit: max(0, info.Config.MaxBytes)}, nil
}

// fit raises the copies and the room of a bucket to those of the options. An
// earlier release, or a node with other options, may have made the bucket with less.
func (e *Transport) fit(ctx context.Context, b cluster.Bucket) {
	s, err := e.js.Stream(ctx, "KV_"+e.bucketName(b))
	if err != nil {
		return // the caller's own call fails in the same way
	}
	e.replicate(ctx, s, "the nodes' values")
	e.widen(ctx, b)
}

// limit is the room of a bucket by the options.
func (e *Transport) limit(b cluster.Bucket) int64 {
	if b == cluster.BucketNet {
		return e.o.LeasesBytes
	}
	return crawlBytes
}

// widen raises the room of a bucket to that of the options. It never lowers it, so nodes with different options, or of
// an earlier version, do not undo each other's changes.
func (e *Transport) widen(ctx context.Context, b cluster.Bucket) {
	s, err := e.js.Stream(ctx, "KV_"+e.bucketName(b))
	if err != nil {
		return
	}
	conf := s.CachedInfo().Config
	was := conf.MaxBytes
	if was <= 0 || was >= e.limit(b) {
		return
	}
	conf.MaxBytes = e.limit(b)
	if _, err = e.js.UpdateStream(ctx, conf); err != nil {
		what := "the nodes' values"
		if b == cluster.BucketNet {
			what = "leases of networks (--cluster-leases)"
		}
		e.warn(fmt.Sprintf("the broker keeps %d bytes for %s, not %d: %v", was, what, conf.MaxBytes, err))
	}
}

// purgeRequest and purgeAnswer are those of JetStream's API.
type purgeRequest struct {
	Filter string `json:"filter"`
	// Seq is the sequence below which messages are purged: the one after the revision, so that a newer value
	// stays.
	Seq uint64 `json:"seq,omitempty"`
}

type purgeAnswer struct {
	Error  *jetstream.APIError `json:"error,omitempty"`
	Purged uint64              `json:"purged"`
}

// remove removes a value without a marker, if its revision is revision (0: any). The client's own call does
// not report whether it removed the value.
func (e *Transport) remove(ctx context.Context, key string, revision uint64) error {
	name := e.bucketName(cluster.BucketNet)
	request := purgeRequest{Filter: "$KV." + name + "." + key}
	if revision != 0 {
		request.Seq = revision + 1
	}
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	msg, err := e.nc.RequestWithContext(ctx, "$JS.API.STREAM.PURGE.KV_"+name, data)
	if err != nil {
		return err
	}
	var answer purgeAnswer
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return errors.Join(jetstream.ErrStreamNotFound, answer.Error)
	case answer.Error != nil:
		return answer.Error
	case answer.Purged == 0 && revision != 0:
		return jetstream.ErrKeyRevisionMismatch
	}
	return nil
}
