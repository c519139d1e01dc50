package cluster

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NodeLoads are the loads of a node as it tells them, in the value "loads.<node>" of BucketCrawl. Nothing but plans
// (Balance) depends on them.
type NodeLoads struct {
	Node  int
	Time  time.Time // by the node's clock
	Loads Loads     // to within 0.1 %, none below 0
	Heavy []Heavy   // the PLDs with the most responses of the run, those with the most first; at most MaxHeavy
}

// Heavy is a PLD with a large share of the responses of a node.
type Heavy struct {
	PLD       string `json:"pld"`
	Slot      int    `json:"slot"`
	Responses int64  `json:"responses"`
}

// MaxHeavy bounds NodeLoads.Heavy.
const MaxHeavy = 8

// LoadsEvery is the interval at which a node writes its loads. It also writes them when it ends.
const LoadsEvery = time.Minute

// LoadsPattern matches the keys of all loads.
const LoadsPattern = "loads.*"

// LoadsKey returns the key of a node's loads.
func LoadsKey(node int) string { return "loads." + strconv.Itoa(node) }

// maxLoadsBytes bounds a value: the numbers of all slots take 44,376 digits.
const maxLoadsBytes = 64 << 10

// loadsForm is the value: a JSON object.
type loadsForm struct {
	Form
	Node  int       `json:"node"`
	Time  time.Time `json:"time"`
	Since int64     `json:"since,omitempty"`
	// Slots has a bit for each slot, and eight bytes for each slot whose bit is set (short); base64.
	Slots string  `json:"slots"`
	Heavy []Heavy `json:"heavy,omitempty"`
}

// Encode returns the value of the loads.
func (n *NodeLoads) Encode() ([]byte, error) {
	set := make([]byte, Slots/8, Slots/8+8*Slots)
	packed := set
	for slot := range n.Loads.Slots {
		l := &n.Loads.Slots[slot]
		if *l == (Load{}) {
			continue
		}
		set[slot/8] |= 1 << (slot % 8)
		for _, count := range [...]int64{l.Pages, l.Known, l.Waiting, l.Bytes} {
			packed = binary.LittleEndian.AppendUint16(packed, short(count))
		}
	}
	return json.Marshal(&loadsForm{Node: n.Node, Time: n.Time, Since: n.Loads.Since, Heavy: n.Heavy,
		Slots: base64.StdEncoding.EncodeToString(packed)})
}

// DecodeNodeLoads decodes the value of a key in a cluster of nodes. The value is untrusted.
func DecodeNodeLoads(key string, data []byte, nodes int) (*NodeLoads, error) {
	if len(data) > maxLoadsBytes {
		return nil, fmt.Errorf("cluster: %s: %w", key, ErrTooLarge)
	}
	var form loadsForm
	if err := json.Unmarshal(data, &form); err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", key, err)
	}
	if err := form.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	number, err := strconv.Atoi(strings.TrimPrefix(key, "loads."))
	if err != nil || number != form.Node || form.Node < 0 || form.Node >= nodes {
		return nil, fmt.Errorf("cluster: %s is not the value of one of %d nodes", key, nodes)
	}
	packed, err := base64.StdEncoding.DecodeString(form.Slots)
	if err != nil {
		return nil, fmt.Errorf("cluster: %s: %w: %w", key, ErrLoads, err)
	}
	n := &NodeLoads{Node: form.Node, Time: form.Time, Heavy: form.Heavy}
	if len(n.Heavy) > MaxHeavy || slices.ContainsFunc(n.Heavy, func(h Heavy) bool {
		return h.PLD == "" || len(h.PLD) > 255 || h.Slot < 0 || h.Slot >= Slots || h.Responses < 0
	}) {
		return nil, fmt.Errorf("cluster: %s: %w", key, ErrLoads)
	}
	n.Loads.Since = form.Since
	if !n.Loads.unpack(packed) {
		return nil, fmt.Errorf("cluster: %s: %w", key, ErrLoads)
	}
	return n, nil
}

// LoadsOf returns the load of each slot, by the values of all nodes; nil for a node without one. Of a slot that has
// just moved, its owner may tell nothing yet: then the former owner's counts. If PLDs are divided, it also returns,
// behind those of the slots, what each node has of hosts of other owners.
func LoadsOf(t *Table, values []*NodeLoads) []Load {
	all := make([]Load, Slots, Slots+t.Nodes())
	divided := map[int]bool{}
	for _, d := range t.Divisions() {
		divided[d.Slot] = true
		all = all[:Slots+t.Nodes()]
	}
	for slot := range Slots {
		for _, n := range values {
			if n == nil {
				continue
			}
			l := n.Loads.Slots[slot]
			if divided[slot] && n.Node != t.OwnerOf(slot) {
				all[Slots+n.Node].Add(l)
				continue
			}
			if l != (Load{}) && (n.Node == t.OwnerOf(slot) || all[slot] == (Load{})) {
				all[slot] = l
			}
		}
	}
	return all
}

// NameLarge names the PLD of each slot of a list with the most responses, by the value of its node.
func NameLarge(large []Large, values []*NodeLoads) {
	for i := range large {
		l, most := &large[i], int64(0)
		for _, n := range values {
			if n == nil || n.Node != l.Node {
				continue
			}
			for _, h := range n.Heavy {
				if h.Slot == l.Slot && h.Responses > most {
					l.PLD, most = h.PLD, h.Responses
				}
			}
		}
	}
}

// unpack sets the loads of slots from those of a value.
func (l *Loads) unpack(packed []byte) bool {
	if len(packed) < Slots/8 {
		return false
	}
	set, rest := packed[:Slots/8], packed[Slots/8:]
	for slot := range l.Slots {
		if set[slot/8]>>(slot%8)&1 == 0 {
			continue
		}
		s := &l.Slots[slot]
		for _, at := range [...]*int64{&s.Pages, &s.Known, &s.Waiting, &s.Bytes} {
			if len(rest) < 2 {
				return false
			}
			n, ok := long(binary.LittleEndian.Uint16(rest))
			if !ok {
				return false
			}
			*at, rest = n, rest[2:]
		}
	}
	return len(rest) == 0
}

// A count in a value has two bytes: m · 2^e, with m in the lower shortBits and e in the others. Counts below
// 2^shortBits are exact; others are to within 0.1 %. So a node that owns all slots fits in maxLoadsBytes, whatever its
// counts.
const shortBits = 10

// short returns the short form of a count, that of 0 for counts below 0.
func short(n int64) uint16 {
	n = max(n, 0)
	e := max(0, bits.Len64(uint64(n))-shortBits)
	m := n >> e
	if e > 0 && n>>(e-1)&1 == 1 { // to the nearest
		if m++; m == 1<<shortBits {
			m, e = m>>1, e+1
		}
	}
	if e > 63-shortBits {
		m, e = 1<<shortBits-1, 63-shortBits
	}
	return uint16(e<<shortBits | int(m))
}

// long returns the count of a short form; false if it is above math.MaxInt64.
func long(v uint16) (n int64, ok bool) {
	e, m := v>>shortBits, int64(v&(1<<shortBits-1))
	if m > math.MaxInt64>>e {
		return 0, false
	}
	return m << e, true
}
