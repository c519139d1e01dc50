package lease

import (
	"testing"
	"time"
)

// FuzzRequest: no request and no value of a lease from outside does harm.
func FuzzRequest(f *testing.F) {
	f.Add(encode(request{Op: opWant, Key: "net.0a0001", Run: 3, Wait: 1}))
	f.Add(encode(request{Op: opHand, Key: "net.20010db80001", Rev: 7, Wait: 1, Value: &value{Node: 1, Run: 2}}))
	f.Add(encode(value{Node: 1, Open: []open{{2, 700}}, Rests: map[string]int64{"10.0.0.1": 5000},
		Line: []waiter{{Node: 0, Run: 5}}}))
	f.Add(encode(value{Node: 1, Run: 3, Open: []open{{2, -1 << 63}}, Rests: map[string]int64{"10.0.0.1": 5000},
		At: -1 << 63}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, net, err := parseRequest(data, 4); err == nil && netKey(net) != r.Key {
			t.Errorf("%q: network %v has the key %q", data, net, netKey(net))
		}
		if v, err := decode(data, 4); err == nil {
			v.holding()
			for _, mine := range []value{*v, v.takenBy(max(v.Node, 0), 7, time.Unix(1e9, 0))} {
				if _, err := decode(encode(mine), 4); err != nil {
					t.Errorf("%q: %v", data, err)
				}
			}
		}
	})
}
