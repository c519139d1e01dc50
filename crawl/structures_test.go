package crawl

import (
	"slices"
	"testing"

	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// TestStructuresAreNamed: the table that opens structures must have exactly those that each manifest must
// have, and those that manifests of older versions lack: the store of contents, the pages to render, the
// enqueued keys, the log of a random walk.
func TestStructuresAreNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		c := openCrawler(t, simOptions(t, web, memfs.New(*seedFlag)))
		var names []string
		for _, name := range c.checkpointer.Structures() {
			if name != state.NameRender && name != state.NameOrdered && name != state.NameObjects &&
				name != state.NameWalkLog {
				names = append(names, name)
			}
		}
		if want := append([]string{state.NameContent}, state.Structures[:]...); !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", names, want)
		}
	})
}
