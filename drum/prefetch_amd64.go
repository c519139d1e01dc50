//go:build !drumsafe

package drum

// prefetchSets makes the CPU fetch the sets of keys and doesn't wait for them; prefetch_other.go is its twin (build
// tag drumsafe). Loads in its place keep the CPU from going on when a dozen are under way: that costs a third of
// RAMCache's speed.
//
//go:noescape
func prefetchSets(sets []slotSet, keys []Key)
