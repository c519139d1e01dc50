package cluster

import (
	"fmt"

	"drumbeat/disk"
	"drumbeat/queue"
)

// EachUntaken calls fn for each whole message of an outbox whose number is above after, in no particular
// order. The queues of the outbox are in set under name. msg is valid during the call. It changes nothing.
func EachUntaken(set disk.Set, name string, st *OutboxState, after uint64, fn func(h *Header, msg []byte) error) error {
	queues := st.Queues(name)
	for _, part := range []string{name + "/sent", name + "/pending"} {
		if queues[part] == nil {
			continue
		}
		if _, err := queue.Scan(set, part, queues[part], func(msg []byte) error {
			h, err := ReadHeader(msg)
			if err != nil {
				return fmt.Errorf("cluster: %s: %w", part, err)
			}
			if h.Number <= after {
				return nil
			}
			return fn(&h, msg)
		}, nil); err != nil {
			return err
		}
	}
	return nil
}
