package ctl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"drumbeat/admin"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

// enqueuedAtOnce is the most URLs of one change.
const enqueuedAtOnce = 256

type enqueueCmd struct {
	Page []string `arg:"" name:"url"`
}

// Run enqueues the URLs and prints a line for each.
func (c enqueueCmd) Run(a *term.App, w *Where) error {
	for lot := range slices.Chunk(c.Page, enqueuedAtOnce) {
		err := call(a, w, http.MethodPost, "/api/v1/enqueue", admin.Enqueue{URLs: lot},
			func(answer json.RawMessage) error {
				var taken admin.EnqueueTaken
				if err := json.Unmarshal(answer, &taken); err != nil {
					return err
				}
				for i := range taken.URLs {
					fmt.Fprintln(a.Stdout, enqueuedText(&taken.URLs[i]))
				}
				return nil
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// enqueuedText is the line about an enqueued URL.
func enqueuedText(e *admin.Enqueued) string {
	if e.Refused != "" {
		return "refused: " + e.Line + ": " + e.Refused
	}
	when := "at once"
	if e.Wait >= 1 {
		when = "in about " + human.Duration(time.Duration(e.Wait*float64(time.Second)).Round(time.Second))
	}
	if e.Because != "" {
		when += " (" + e.Because + ")"
	}
	return e.URL + ": " + when
}

type reloadCmd struct {
	atDir
	Requeue bool
}

// Run reloads the files and prints what changed.
func (c reloadCmd) Run(a *term.App, w *Where) error {
	return call(a, w, http.MethodPost, "/api/v1/reload", admin.Reload{Requeue: c.Requeue},
		func(answer json.RawMessage) error {
			var r admin.Reloaded
			if err := json.Unmarshal(answer, &r); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout,
				"reloaded: %s and PLDs with URLs in RAM have other delays or connections, %s "+
					"another fixed budget\n", human.Counted(r.Terms, "host", "hosts"),
				human.Counted(r.Budgets, "PLD", "PLDs"))
			for _, m := range []struct {
				n    int64
				what string
			}{{int64(r.Evicted), "URLs went back to disk, because their host has fewer connections"},
				{int64(r.Priorities), "tables of sites have another priority, for URLs that are placed from now on"},
				{int64(r.Cut), "exchanges were cut off by the blacklist"},
				{int64(r.Swept), "URLs left RAM because of the blacklist"},
				{r.Moves, "queued URLs are placed again"}} {
				if m.n > 0 {
					fmt.Fprintf(a.Stdout, "%s %s\n", count(m.n), m.what)
				}
			}
			return nil
		})
}
