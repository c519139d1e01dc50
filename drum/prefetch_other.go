//go:build drumsafe || !amd64

package drum

import "math/bits"

// prefetchBuckets loads from the buckets of keys, so that they are in the CPU's cache when they are searched.
func prefetchBuckets(buckets []cuckooBucket, keys []Key) {
	for _, key := range keys {
		i, _ := bits.Mul64(uint64(key), uint64(len(buckets)))
		_ = buckets[i][0].Load()
		_ = buckets[i^(uint64(key)%regionBuckets|1)][0].Load()
	}
}
