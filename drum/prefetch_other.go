//go:build drumsafe || !amd64

package drum

import "math/bits"

// prefetchSets loads from the sets of keys, so that they are in the CPU's cache when they are searched.
func prefetchSets(sets []slotSet, keys []Key) {
	for _, key := range keys {
		i, _ := bits.Mul64(uint64(key), uint64(len(sets)))
		_ = sets[i][0].Load()
	}
}
