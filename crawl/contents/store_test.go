package contents

import (
	"log/slog"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/plan"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/state"
)

// TestOwnBodyIsNew: a page whose emission was put off, after its value had entered the store, is still the first page
// with its body. Later ones are not.
func TestOwnBodyIsNew(t *testing.T) {
	p := &plan.Plan{}
	p.Content.BucketBytes = 1 << 20
	saved := state.NewSaved(memfs.New(1), []string{"."}, nil)
	c := New(account.New(slog.New(slog.DiscardHandler), nil, nil), saved, Options{Plan: p}, nil, nil, nil)
	if !c.DrumOptions().Yield {
		t.Error("an emission does not yield to checkpoints")
	}
	value := func(url string) []byte {
		v := bodyValue{date: time.Unix(1, 0), url: []byte(url)}
		return v.append(nil)
	}
	a, b := value("http://a.test/"), value("http://b.test/")
	round := func(old []byte, exists bool, values ...[]byte) (items []drum.Item, action drum.Action) {
		c.firsts = c.firsts[:0]
		for _, v := range values {
			items = append(items, drum.Item{Op: drum.CheckUpdate, Value: v})
		}
		_, action = c.apply(1, old, exists, items, nil, nil)
		return items, action
	}
	for _, tt := range []struct {
		what   string
		old    []byte
		values [][]byte
		known  []bool
	}{
		{"none yet", nil, [][]byte{a, b}, []bool{false, true}},
		{"a again after the emission yielded", a, [][]byte{a, b}, []bool{false, true}},
		{"a was emitted, b is left", a, [][]byte{b, a}, []bool{true, true}},
	} {
		items, action := round(tt.old, tt.old != nil, tt.values...)
		for i := range items {
			if known := items[i].Result > 0; known != tt.known[i] || items[i].New == known {
				t.Errorf("%s: page %d: known %v, new %v", tt.what, i, known, items[i].New)
			}
		}
		if want := map[bool]drum.Action{true: drum.Set, false: drum.Keep}[tt.old == nil]; action != want {
			t.Errorf("%s: action %v", tt.what, action)
		}
	}
}
