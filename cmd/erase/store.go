package erase

import (
	"fmt"
	"io"

	"drumbeat/cmd/term"
	"drumbeat/internal/human"
	"drumbeat/state/erase"
)

// mostLeft is the number of objects whose remains are printed: all have mostly the same reason. The record has all.
const mostLeft = 10

// printStore prints the effects on the object store.
func printStore(w io.Writer, indent string, r *erase.Record) {
	if r.Store == nil {
		return
	}
	fmt.Fprintf(w, "%s%s of %s replaced\n", indent, human.Counted(r.Store.Replaced, "object", "objects"),
		term.PlainText(r.Store.Place))
	printLeft(w, indent, r.Store.Left)
}

// printLeft prints what the object store keeps.
func printLeft(w io.Writer, indent string, left []erase.Left) {
	for i := range left {
		if i == mostLeft {
			fmt.Fprintf(w, "%sand %s more\n", indent, human.Counted(len(left)-i, "object", "objects"))
			break
		}
		l := &left[i]
		what := "may keep versions"
		if l.Versions > 0 {
			what = "keeps " + human.Counted(l.Versions, "version", "versions")
		}
		fmt.Fprintf(w, "%snot deleted: the object store %s of %s: %s\n", indent, what, term.PlainText(l.Key),
			term.PlainText(l.Why))
	}
}

// remains returns the error of an erasure after which the object store keeps something.
func remains(left []erase.Left) error {
	if len(left) == 0 {
		return nil
	}
	return &term.Ended{Code: term.ExitFailure, Why: fmt.Sprintf("the object store still has erased pages, in %s: give "+
		"the credentials the rights, or wait until the locks end, and run drumbeat erase again: it deletes them first",
		human.Counted(len(left), "object", "objects"))}
}
