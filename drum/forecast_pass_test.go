package drum

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestPassCost compares what passes move with what is predicted for them, for a store with values that are
// checked and updated: a few tuples, some for each bucket, and full buckets.
func TestPassCost(t *testing.T) {
	for _, batch := range []int{3, 200, 20_000} {
		rng := rand.New(rand.NewPCG(uint64(batch), 1))
		opt := Options{Set: disk.Set{FS: memfs.New(1), Paths: []string{"d"}}, Name: "s", Buckets: 32, BufferBytes: 4096,
			BucketBytes: 256 << 10, ValueBytes: 16, MaxValueBytes: 16, Codec: Rice,
			Emit: func([]Result) error { return nil },
			Apply: func(_ Key, old []byte, exists bool, run []Item, _ *Arena, dst []byte) ([]byte, Action) {
				for i := range run {
					if run[i].Op&Update != 0 {
						return append(dst, run[i].Value...), Set
					}
				}
				return dst, Keep
			}}
		d, err := Open(opt, nil)
		must(t, err)
		value := make([]byte, 16)
		add := func(n int, known uint64) {
			for range n {
				// Hashes of a bounded set, so that checks find entries.
				key := Key(rng.Uint64N(known) * 0x9e3779b97f4a7c15)
				tuple := Tuple{Key: key, Op: Check, Aux: make([]byte, 60)}
				if rng.IntN(3) == 0 {
					binary.LittleEndian.PutUint64(value, rng.Uint64())
					tuple = Tuple{Key: key, Op: Update, Value: value}
				}
				must(t, d.Add([]Tuple{tuple}))
			}
			if _, err := d.Pass(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		add(60_000, 100_000)
		start := d.Stats()
		for range 20 {
			add(batch, 100_000)
		}
		end := d.Stats()
		moved, predicted := float64(end.IOBytes()-start.IOBytes()), end.PredictedIO-start.PredictedIO
		t.Logf("%d tuples a pass: %.0f bytes, predicted %.0f", batch, moved, predicted)
		if moved < 0.85*predicted || moved > 1.15*predicted {
			t.Errorf("%d tuples a pass: %.0f bytes, predicted %.0f", batch, moved, predicted)
		}
		must(t, d.Close())
	}
}
