package state

import (
	"slices"

	"drumbeat/weburl"
)

// Restored says from which backup a crawl was restored last.
type Restored struct {
	Backup int64  `json:"backup"` // number
	Gen    uint64 `json:"gen"`    // checkpoint that it has
	Time   int64  `json:"time"`   // of the restore, Unix seconds
	// Open are the names, without suffix, of the output files that were not finished then. An object store may have
	// files of these names, which the lost machine finished later.
	Open []string `json:"open,omitempty"`
}

// maxLineage bounds the names of a lineage. A backup place whose last backup is of an older name is refused.
const maxLineage = 16

// NewLineage begins a time in which the first bytes of files do not change: only checkpoints write them. Repairs,
// erasures, moves of slots and restores write other bytes under old names, so a backup copies all files after them.
func (m *Manifest) NewLineage(name string) {
	m.Lineage = append(slices.Clone(m.Lineage), name)
	m.Lineage = m.Lineage[max(0, len(m.Lineage)-maxLineage):]
}

// LineageName returns the present name; "" in crawls of earlier versions.
func (m *Manifest) LineageName() string {
	if len(m.Lineage) == 0 {
		return ""
	}
	return m.Lineage[len(m.Lineage)-1]
}

// RandomLineage returns a name that no other crawl, and no other copy of this one, has.
func RandomLineage() (string, error) {
	id, err := weburl.NewSecret()
	return id.Hex(), err
}
