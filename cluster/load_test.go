package cluster

import (
	"encoding/base64"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// someLoads returns loads of some slots, of a size each.
func someLoads(rng *rand.Rand, slots int, most int64) *Loads {
	l := &Loads{Since: rng.Int64N(2) * 1_790_000_000}
	for range slots {
		l.Slots[rng.IntN(Slots)] = Load{Pages: rng.Int64N(most), Known: rng.Int64N(most),
			Waiting: rng.Int64N(most) - most/9, Bytes: rng.Int64N(most)}
	}
	return l
}

// TestLoadsForm: loads survive their form in a tail file; any other bytes are an error, or loads that survive it.
func TestLoadsForm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, slots := range []int{0, 1, 100, 3 * Slots} {
		l := someLoads(rng, slots, 1<<62)
		data := l.Append(nil)
		got, err := DecodeLoads(data)
		if err != nil || *got != *l {
			t.Fatalf("%d slots: %v", slots, err)
		}
		for range 300 {
			bad := slices.Clone(data[:1+rng.IntN(len(data))])
			bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
			if got, err := DecodeLoads(bad); err == nil {
				if again, err := DecodeLoads(got.Append(nil)); err != nil || *again != *got {
					t.Fatalf("% x: %v", bad, err)
				}
			} else if !errors.Is(err, ErrLoads) {
				t.Fatal(err)
			}
		}
	}
	for _, bad := range []string{"", "\x02\x00", "\x01", "\x01\x00\x80", "\x01\x00\x80\x20\x02\x02\x02\x02",
		"\x01\x00\xff\x1f\x02\x02\x02"} {
		if _, err := DecodeLoads([]byte(bad)); !errors.Is(err, ErrLoads) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestLoadsValue: the value of the broker has the loads to within 0.1 %, and fits for a node with all slots, whatever
// its counts. Values of other nodes, later versions and wrong lengths are refused.
func TestLoadsValue(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, slots := range []int{0, 1, 100, 100 * Slots} {
		for _, most := range []int64{2, 1 << 10, 1 << 30, 1<<63 - 1} {
			n := &NodeLoads{Node: 2, Time: time.Unix(1_790_000_000, 0).UTC(), Loads: *someLoads(rng, slots, most)}
			data, err := n.Encode()
			if err != nil || len(data) > maxLoadsBytes {
				t.Fatalf("%d bytes, %v", len(data), err)
			}
			got, err := DecodeNodeLoads("loads.2", data, 3)
			if err != nil || got.Node != 2 || !got.Time.Equal(n.Time) || got.Loads.Since != n.Loads.Since {
				t.Fatalf("%v, %+v", err, got)
			}
			for slot := range n.Loads.Slots {
				a, b := n.Loads.Slots[slot], got.Loads.Slots[slot]
				for _, pair := range [][2]int64{{a.Pages, b.Pages}, {a.Known, b.Known}, {a.Waiting, b.Waiting},
					{a.Bytes, b.Bytes}} {
					want := float64(max(0, pair[0]))
					if d := math.Abs(float64(pair[1]) - want); d > want/1000 || want < 1<<shortBits && d > 0 {
						t.Fatalf("%d became %d", pair[0], pair[1])
					}
				}
			}
			if slots != 100*Slots {
				continue
			}
			for key, nodes := range map[string]int{"loads.1": 3, "loads.": 3, "status.2": 3, "loads.2 ": 3} {
				if _, err := DecodeNodeLoads(key, data, nodes); err == nil {
					t.Errorf("%s of %d nodes is accepted", key, nodes)
				}
			}
			t.Logf("%d slots with counts below %d: %d bytes", Slots, most, len(data))
		}
	}
	packed := func(b []byte) string { return `{"node":0,"slots":"` + base64.StdEncoding.EncodeToString(b) + `"}` }
	one := append([]byte{1}, make([]byte, Slots/8-1)...)
	with := func(counts ...byte) string { return packed(append(slices.Clone(one), counts...)) }
	for _, bad := range []string{"", "[]", "{}", packed(nil), with(), with(1, 0, 1, 0, 1, 0, 1),
		with(1, 0, 1, 0, 1, 0, 1, 0, 0), with(1, 0, 1, 0, 1, 0, 1, 0xff),
		`{"node":0,"v":9,"slots":""}`, `{"node":0,"slots":"*"}`, strings.Repeat(" ", maxLoadsBytes+1)} {
		if _, err := DecodeNodeLoads("loads.0", []byte(bad), 1); err == nil {
			t.Errorf("%.60q is accepted", bad)
		}
	}
	if n, err := DecodeNodeLoads("loads.0", []byte(with(1, 0, 2, 0, 3, 0, 4, 4)), 1); err != nil ||
		n.Loads.Slots[0] != (Load{1, 2, 3, 8}) {
		t.Errorf("%+v, %v", n, err)
	}
}
