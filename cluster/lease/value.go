package lease

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/cluster"
	"drumbeat/polite"
)

// nobody is the holder of a returned lease with information for the next holder.
const nobody = -1

// Bounds of a lease's value.
const (
	maxRests = 256 // back-offs: the addresses of a /24
	maxOpen  = 1 << 20
	maxOpens = 32
)

// value is the value of a lease.
type value struct {
	cluster.Form
	Node  int              `json:"node"`            // the holder, or nobody
	Run   uint64           `json:"run,omitempty"`   // of the holder's process
	Open  []open           `json:"open,omitempty"`  // connections of earlier holders that may still be open
	Rests map[string]int64 `json:"rests,omitempty"` // by server: the rest of a back-off, in ms
	Line  []waiter         `json:"wait,omitempty"`  // waiting nodes, the next one first
	// At is the time of Open and Rests if Node wrote the lease; 0 if its last holder did. It is Unix time in
	// ms by Node's clock, for Node alone. Others ignore the time elapsed since.
	At int64 `json:"at,omitempty"`
}

// waiter is a node waiting for a lease.
type waiter struct {
	Node int    `json:"node"`
	Run  uint64 `json:"run"`            // of its process
	Wait uint64 `json:"wait,omitempty"` // identifies the current wait of that process; see entry.wait
}

// takenBy returns the value of the lease after a node has taken it. The node's next process needs it: it may
// start from a checkpoint older than the hand-over.
func (v *value) takenBy(node int, run uint64, now time.Time) value {
	if v.Node == node {
		v.age(now)
	}
	next := value{Node: node, Run: run, Open: v.Open, Rests: v.Rests}
	if next.informs() {
		next.At = now.UnixMilli()
	}
	return next
}

// informs reports whether the lease has information for its next holder.
func (v *value) informs() bool { return len(v.Open) > 0 || len(v.Rests) > 0 }

// age subtracts the time since At.
func (v *value) age(now time.Time) {
	passed := now.UnixMilli() - v.At
	if v.At == 0 || passed <= 0 {
		return
	}
	for i := range v.Open {
		v.Open[i].Left -= passed
	}
	v.Open = slices.DeleteFunc(v.Open, func(o open) bool { return o.Left <= 0 })
	for server, left := range v.Rests {
		if v.Rests[server] = left - passed; left <= passed {
			delete(v.Rests, server)
		}
	}
	v.At += passed
}

// open are connections that end within a time.
type open struct {
	N    int   `json:"n"`
	Left int64 `json:"left"` // ms
}

// heartheartbeat is the value of a node's heartbeat.
type heartbeat struct {
	Run   uint64 `json:"run"`             // of its process
	Count uint64 `json:"count"`           // rises by 1
	Ended bool   `json:"ended,omitempty"` // no exchange is in progress
	Young bool   `json:"y,omitempty"`     // the process has recently begun a new crawl
	Round uint64 `json:"r,omitempty"`     // how many Leases of the process were suspended before
}

const (
	netPrefix        = "net."
	heartbeatPrefix  = "beat."
	heartbeatPattern = heartbeatPrefix + "*"
)

func heartbeatKey(node int) string { return heartbeatPrefix + strconv.Itoa(node) }

// netKey returns the key of a network's lease: 6 or 12 hexadecimal digits.
func netKey(net netip.Addr) string {
	if net.Is4() {
		b := net.As4()
		return netPrefix + hex.EncodeToString(b[:3])
	}
	b := net.As16()
	return netPrefix + hex.EncodeToString(b[:6])
}

// parseNet returns the network of a key.
func parseNet(key string) (netip.Addr, error) {
	digits, ok := strings.CutPrefix(key, netPrefix)
	b, err := hex.DecodeString(digits)
	if ok && err == nil && strings.ToLower(digits) == digits {
		switch len(b) {
		case 3:
			return netip.AddrFrom4([4]byte{b[0], b[1], b[2]}), nil
		case 6:
			if a := netip.AddrFrom16([16]byte(append(b, make([]byte, 10)...))); !a.Is4In6() {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("cluster/lease: %.40q is not the key of a network", key)
}

var errValue = errors.New("cluster/lease: not the value of a lease")

// decode decodes a lease in a cluster of nodes. The data are untrusted.
func decode(data []byte, nodes int) (*value, error) {
	var v value
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("%w: %w", errValue, err)
	}
	return &v, v.check(nodes)
}

// check checks an untrusted value.
func (v *value) check(nodes int) error {
	if err := v.Form.Check(); err != nil {
		return fmt.Errorf("%w: %w", errValue, err)
	}
	if v.Node < nobody || v.Node >= nodes || len(v.Open) > maxOpens || len(v.Rests) > maxRests || len(v.Line) > nodes {
		return errValue
	}
	for _, w := range v.Line {
		if w.Node < 0 || w.Node >= nodes {
			return errValue
		}
	}
	return nil
}

// holding returns the value's information for its next holder.
func (v *value) holding() (h polite.Holding) {
	for _, o := range v.Open {
		h.Open = append(h.Open,
			polite.Open{N: max(0, min(o.N, maxOpen)), Left: time.Duration(min(o.Left, maxRest)) * time.Millisecond})
	}
	for server, left := range v.Rests {
		if a, err := netip.ParseAddr(server); err == nil && left > 0 {
			h.Rests = append(h.Rests,
				polite.Rest{Server: a, Left: time.Duration(min(left, maxRest)) * time.Millisecond})
		}
	}
	return h
}

// maxRest is the longest back-off that a lease can hand over, in ms. polite has the same bound.
const maxRest = int64(1000 * 24 * time.Hour / time.Millisecond)

// bring sets the value's information for the next holder.
func (v *value) bring(h polite.Holding) {
	for _, o := range h.Open {
		v.Open = append(v.Open, open{o.N, o.Left.Milliseconds() + 1})
	}
	if len(h.Rests) > 0 {
		v.Rests = map[string]int64{}
	}
	for _, r := range h.Rests {
		v.Rests[r.Server.String()] = r.Left.Milliseconds() + 1
	}
}

// encode encodes a value or a heartbeat. It pads short ones with spaces, so that a longer count in a
// heartbeat, or a new holder of a lease, needs no more room.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil || len(data) > cluster.MaxValueBytes {
		panic("BUG: cluster/lease: a value cannot be encoded") // its parts are bounded
	}
	least := 0
	switch v.(type) {
	case heartbeat:
		least = heartbeatBytes
	case value, *value:
		least = valueBytes
	}
	for len(data) < least {
		data = append(data, ' ')
	}
	return data
}

// Least sizes of values, enough for the largest numbers.
const (
	heartbeatBytes = len(`{"run":18446744073709551615,"count":18446744073709551615,"ended":true}`)
	valueBytes     = len(`{"node":4095,"run":18446744073709551615}`)
)

// request is a request of kind askKind between nodes. The answer is one byte.
type request struct {
	Op   string `json:"op"`
	Key  string `json:"key"`            // of the lease
	Run  uint64 `json:"run,omitempty"`  // want: of the sender's process
	Wait uint64 `json:"wait,omitempty"` // want: of the sender; hand: of the receiver, from its own request
	Open int    `json:"open,omitempty"` // open: exchanges of the sender in the network
	// Of opHand: the lease written for the receiver.
	Rev   uint64 `json:"rev,omitempty"`
	Value *value `json:"value,omitempty"`
}

const (
	askKind = "lease"

	opWant = "want" // the sender wants the lease: add it to the queue
	opHand = "hand" // the lease was handed to the receiver
	opOpen = "open" // exchanges of the sender in a network of the receiver outlast the time in its lease

	answerLine = 'l' // the sender is in the queue, or the receiver will check its lease
	answerNo   = 'n' // the receiver does not hold the lease, or did not understand
)

// parseRequest parses a request in a cluster of nodes. The data are untrusted.
func parseRequest(data []byte, nodes int) (r request, net netip.Addr, err error) {
	if len(data) > cluster.MaxValueBytes {
		return r, net, errValue
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, net, fmt.Errorf("%w: %w", errValue, err)
	}
	switch {
	case r.Op != opWant && r.Op != opHand && r.Op != opOpen:
		return r, net, errValue
	case r.Value != nil:
		if err := r.Value.check(nodes); err != nil {
			return r, net, err
		}
	}
	net, err = parseNet(r.Key)
	return r, net, err
}
