//go:build !drumsafe

package drum

// prefetchBuckets makes the CPU fetch the buckets of keys and doesn't wait for them; prefetch_other.go is its portable form
// (build tag drumsafe). Loads in its place keep the CPU from going on when a dozen are under way, which costs a third
// of RAMCache's speed. keys and buckets are only looked at.
//
//go:noescape
func prefetchBuckets(buckets []cuckooBucket, keys []Key)
