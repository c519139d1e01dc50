// Package options has the options of a crawl in groups, one type a theme: Disk, Identity, Admission, Links,
// Network, Politeness, Health, Budgets, Order, Drum, Limits and Output.
//
// crawl.Options has a field for each group, and names their types (crawl.DiskOptions is options.Disk). The
// groups stand here, below the crawl, so that a part of the crawl, a room, can take the one group that it
// needs and import nothing of the running crawl. Observe stays in crawl, because its values (the log, the
// control) belong to the running crawl, and so do the unexported groups. Options with a type of their own,
// such as the hook or the browser, are fields of crawl.Options, nil for none.
//
// # Contract
//
// A zero field means the default in its comment unless the comment says otherwise. Defaults sets the zero
// fields of a group, after Validate has found no fault in it. Keep writes what the manifest keeps of a run.
// crawl.Options checks what concerns several groups or needs the crawl's own code. Units end a name
// (RAMBytes) or are the type's (time.Duration). Bytes are binary where flags say MiB.
//
// # Resources
//
// Values only: no goroutines, no files, and no memory but the values' own. Options are not changed after the
// crawl has taken them, so goroutines may share them; functions and channels in them say who calls them.
package options

import (
	"cmp"
	"fmt"
	"time"
)

// Unlimited disables a limit.
const Unlimited = -1

// setDefault sets a zero field.
func setDefault[T comparable](field *T, value T) { *field = cmp.Or(*field, value) }

// named is a duration with its name in errors.
type named struct {
	name string
	v    time.Duration
}

// negatives returns an error for each negative duration.
func negatives(list ...named) (faults []error) {
	for _, d := range list {
		if d.v < 0 {
			faults = append(faults, fmt.Errorf("crawl: %s %v is negative", d.name, d.v))
		}
	}
	return faults
}
