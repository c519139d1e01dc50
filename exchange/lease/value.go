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

	"drumbeat/exchange"
	"drumbeat/polite"
)

// nobody is the holder of a lease that was given back, but that says something to the next holder.
const nobody = -1

// Bounds of what a lease says.
const (
	maxRests = 256 // back-offs: a /24 has no more addresses
	maxOpen  = 1 << 20
	maxOpens = 32
)

// value is the value of a lease.
type value struct {
	Node  int              `json:"node"`            // the holder, or nobody
	Run   uint64           `json:"run,omitempty"`   // of the holder's process; 0: it was handed over, and is not taken yet
	Open  []open           `json:"open,omitempty"`  // connections of earlier holders that may be open
	Rests map[string]int64 `json:"rests,omitempty"` // by server: what is left of a back-off, in ms
	Line  []int            `json:"line,omitempty"`  // nodes that wait, the next one first
	// At is when Open and Rests were so, if Node has taken the lease: Unix time in ms by that node's clock. It is for that
	// node alone. Others take what is left as if no time had passed.
	At int64 `json:"at,omitempty"`
}

// takenBy returns the value of the lease once a node has taken it, for the next process of the node, which does not know
// what this one was told: the checkpoint that it begins with may be older.
func (v *value) takenBy(node int, run uint64, now time.Time) value {
	if v.Node == node {
		v.age(now)
	}
	next := value{Node: node, Run: run, Open: v.Open, Rests: v.Rests}
	if next.tells() {
		next.At = now.UnixMilli()
	}
	return next
}

// tells reports whether the next holder must know more than that it may take the lease.
func (v *value) tells() bool { return len(v.Open) > 0 || len(v.Rests) > 0 }

// age takes off the time that has passed since At.
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

// open are connections that must have ended after a time.
type open struct {
	N    int   `json:"n"`
	Left int64 `json:"left"` // ms
}

// beat is the value of a node's beat.
type beat struct {
	Run   uint64 `json:"run"`             // of its process
	Count uint64 `json:"count"`           // rises by 1
	Ended bool   `json:"ended,omitempty"` // nothing is in progress any more
}

const (
	netPrefix   = "net."
	beatPrefix  = "beat."
	beatPattern = beatPrefix + "*"
)

func beatKey(node int) string { return beatPrefix + strconv.Itoa(node) }

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
	return netip.Addr{}, fmt.Errorf("exchange/lease: %.40q is not the key of a network", key)
}

var errValue = errors.New("exchange/lease: not the value of a lease")

// decode decodes a lease in a cluster of nodes. It comes from outside.
func decode(data []byte, nodes int) (*value, error) {
	var v value
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("%w: %w", errValue, err)
	}
	if v.Node < nobody || v.Node >= nodes || len(v.Open) > maxOpens || len(v.Rests) > maxRests || len(v.Line) > nodes {
		return nil, errValue
	}
	for _, node := range v.Line {
		if node < 0 || node >= nodes {
			return nil, errValue
		}
	}
	return &v, nil
}

// holding returns what the value says to its next holder.
func (v *value) holding() (h polite.Holding) {
	for _, o := range v.Open {
		h.Open = append(h.Open, polite.Open{N: max(0, min(o.N, maxOpen)), Left: time.Duration(min(o.Left, maxRest)) * time.Millisecond})
	}
	for server, left := range v.Rests {
		if a, err := netip.ParseAddr(server); err == nil && left > 0 {
			h.Rests = append(h.Rests, polite.Rest{Server: a, Left: time.Duration(min(left, maxRest)) * time.Millisecond})
		}
	}
	return h
}

// maxRest is the longest back-off that a lease can hand over, in ms: polite bounds what it takes.
const maxRest = int64(1000 * 24 * time.Hour / time.Millisecond)

// bring sets what the value says to the next holder.
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

// encode encodes a value or a beat.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil || len(data) > exchange.MaxValueBytes {
		panic("BUG: exchange/lease: a value cannot be encoded") // its parts are bounded
	}
	return data
}

// Requests of kind askKind between nodes: an operation and the key of a lease. The answer is one byte.
const (
	askKind = "lease"

	opWant = 'w' // the sender wants the lease: put it into the line
	opHand = 'h' // the lease was handed to the receiver

	answerLine = 'l' // the sender is in the line, or the receiver looks after its lease
	answerNo   = 'n' // the receiver does not hold the lease, or did not understand
)

func request(op byte, key string) []byte { return append([]byte{op}, key...) }

func parseRequest(data []byte) (op byte, key string, net netip.Addr, err error) {
	if len(data) < 1 || len(data) > exchange.MaxKeyBytes {
		return 0, "", net, errValue
	}
	key = string(data[1:])
	net, err = parseNet(key)
	return data[0], key, net, err
}
