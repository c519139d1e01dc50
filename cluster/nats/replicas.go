package nats

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// replicate raises the copies of a stream, or of a bucket's stream, to those of the options. A node with a
// lower option may have made it. replicate never removes copies, so nodes with different options do not undo
// each other's changes; the node with fewer warns. what names the stream in messages.
func (e *Transport) replicate(ctx context.Context, s jetstream.Stream, what string) {
	conf := s.CachedInfo().Config
	was := max(1, conf.Replicas)
	switch {
	case e.o.Observe || was == e.o.Replicas:
		return
	case was > e.o.Replicas:
		e.fewer.Do(func() {
			e.warn(
				fmt.Sprintf("the broker keeps %d copies of %s, but this node has --cluster-replicas %d: "+
					"start all nodes with "+
					"--cluster-replicas %[1]d, or streams that this node creates have too few copies",
					was, what, e.o.Replicas))
		})
		return
	}
	conf.Replicas = e.o.Replicas
	_, err := e.js.UpdateStream(ctx, conf)
	if err == nil {
		return
	}
	if now, again := e.js.Stream(ctx, conf.Name); again == nil && now.CachedInfo().Config.Replicas >= e.o.Replicas {
		return // another node was faster
	}
	e.warn(fmt.Sprintf("the broker keeps %d copies of %s, not %d (--cluster-replicas): %v", was, what,
		e.o.Replicas, err))
}
