//go:build !drumsafe

package drum

// prefetchNests makes the CPU fetch the nests of keys and doesn't wait for them; prefetch_other.go is its twin
// (build tag drumsafe). Loads in its place keep the CPU from going on when a dozen are under way, which costs a third
// of RAMCache's speed. keys and nests are only looked at.
//
//go:noescape
func prefetchNests(nests []nest, keys []Key)
