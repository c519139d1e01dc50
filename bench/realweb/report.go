package main

import (
	"fmt"
	"maps"
	"slices"
)

// print prints the figures of the walk.
func (k *walk) print() {
	seen := len(k.fetched) + len(k.left)
	fmt.Printf("walk: %d URLs to fetch, %d of them pages; %d links, %d different URLs (%.2f %%); %d excluded:\n",
		len(k.fetched), k.pages, k.links, seen, 100*float64(seen)/float64(k.links), len(k.left))
	byClass := map[class]int{}
	for _, c := range k.left {
		byClass[c]++
	}
	for _, c := range slices.Sorted(maps.Keys(byClass)) {
		fmt.Printf("  %6d %s\n", byClass[c], c)
	}
	for _, c := range slices.Sorted(maps.Keys(k.refused)) {
		fmt.Printf("  %6d references, including repeated ones: %s\n", k.refused[c], c)
	}
	for _, f := range k.unread {
		fmt.Printf("  the reference parser refuses %s\n", f)
	}
}
