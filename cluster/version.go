package cluster

import (
	"cmp"
	"errors"
	"fmt"
)

// Nodes of two versions of the program are in one cluster while it is upgraded node by node. One number is the
// version of their protocol: of messages, and of values of the broker. docs/reference/files/cluster.md has the rules.
const (
	// FirstVersion is the first version. Every program reads it, and what names no version is of it.
	FirstVersion = 2
	// Version is the version of this program: it reads all from FirstVersion to this one. Raise it for a new
	// kind or form of record in messages, or a value that older programs must not read.
	Version = 7
	// MovedVersion is the first version with kindMoved, and with marks of nodes of several tables.
	MovedVersion = 3
	// WalkerVersion is the first version with kindWalker.
	WalkerVersion = 4
	// GiversVersion is the first version with several givers in one change of the table.
	GiversVersion = 5
	// VisitVersion is the first version with MovedVisit and MovedOrder.
	VisitVersion = 5
	// DividedVersion is the first version with divided PLDs in tables, and with kindChecked.
	DividedVersion = 6
	// PairsVersion is the first version with heads of marks, and entries on request.
	PairsVersion = 7
	// lastVersion is the last one that the head of a message can have: one digit.
	lastVersion = 9
)

// ErrVersion means that bytes are of a later version than this program reads. It comes wrapped.
var ErrVersion = errors.New("written by a later version of the program")

// Form says in which version a value of the broker is written. Values embed it.
type Form struct {
	V int `json:"v,omitempty"` // 0: FirstVersion
}

// Check returns ErrVersion if this program does not read the form.
func (f Form) Check() error {
	if f.V > Version {
		return fmt.Errorf("cluster: %w: version %d; this one reads %d", ErrVersion, f.V, Version)
	}
	return nil
}

// Reads returns the latest version that the node of the mark reads, at least FirstVersion.
func (m *Mark) Reads() int { return max(FirstVersion, m.ReadsTo) }

// Common returns the version in which a node writes: the latest that all nodes read, given the latest that the node
// itself reads and the last marks of the others (nil: none is known). Abandoned nodes do not count.
func Common(own, node int, marks []*Mark, abandoned []bool) int {
	for other, m := range marks {
		switch {
		case other == node || abandoned[other]:
		case m == nil:
			return FirstVersion
		default:
			own = min(own, m.Reads())
		}
	}
	return own
}

// versionOf returns the version of a message whose head was checked.
func versionOf(msg []byte) int { return int(msg[len(messageMagic)] - '0') }

// readable returns an error if a message of a version is later than reads; 0: Version.
func readable(version, reads int) error {
	if reads = cmp.Or(reads, Version); version > reads {
		return fmt.Errorf("cluster: %w: %w: version %d; this one reads %d", ErrMessage, ErrVersion, version, reads)
	}
	return nil
}
