//go:build !drumsafe

package drum

// prefetchBuckets makes the CPU fetch the buckets of keys and does not wait for them. It does not change
// keys and buckets. prefetch_other.go is the portable form (build tag drumsafe). Plain loads would stall
// the CPU once about a dozen are in flight, and cost a third of RAMCache's speed.
//
//go:noescape
func prefetchBuckets(buckets []cuckooBucket, keys []Key)
