package ctl

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"drumbeat/admin"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

type eraseCmd struct {
	Page   []string `arg:"" name:"url" optional:""`
	Host   []string `placeholder:"HOST"`
	PLD    []string `name:"pld" placeholder:"PLD"`
	List   string   `placeholder:"FILE"`
	Reason string   `placeholder:"TEXT"`
	Hide   bool
	Later  bool
	Report bool

	order string // random: each node of a cluster carries the request out once, whoever gives it to it
}

// AfterApply makes the number of the order.
func (c *eraseCmd) AfterApply() error {
	var id [6]byte          // 12 digits; the number of a part of the list follows
	_, _ = rand.Read(id[:]) // never fails
	c.order = hex.EncodeToString(id[:])
	return nil
}

const (
	// listBytes is the most bytes of a list in one request. The crawl bounds the targets, which may become longer when
	// they are made canonical.
	listBytes = 512 << 10
	// eraseTries bounds the attempts to give a request to a crawl that is erasing others: an hour, one each second.
	eraseTries = 3600
)

// Run asks the crawl to erase pages.
func (c eraseCmd) Run(a *term.App, w *Where) error {
	if c.Report {
		return call(a, w, http.MethodGet, "/api/v1/erase", nil, printer(a, printErasures))
	}
	parts, err := c.lists(a)
	if err != nil {
		return err
	}
	for i, part := range parts {
		in := admin.Erase{List: part, Reason: c.Reason, Hide: c.Hide, Later: c.Later || i < len(parts)-1}
		if i == 0 {
			in.Hosts, in.PLDs, in.URLs = c.Host, c.PLD, c.Page
		}
		if err := c.send(a, w, fmt.Sprintf("%s%04x", c.order, i), &in); err != nil {
			return err
		}
	}
	return nil
}

// lists returns the list in parts of at most listBytes; one empty part without a list.
func (c eraseCmd) lists(a *term.App) (parts []string, err error) {
	if c.List == "" {
		return []string{""}, nil
	}
	in := a.Stdin
	if c.List != "-" {
		f, err := os.Open(c.List)
		if err != nil {
			return nil, term.Usage(fmt.Errorf("--list: %w", err))
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxListBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.List, err)
	}
	if len(text) > maxListBytes {
		return nil, term.Usage(fmt.Errorf("--list: more than %s: stop the crawl, and use drumbeat erase",
			human.Bytes(maxListBytes)))
	}
	var part strings.Builder
	for line := range strings.Lines(string(text)) {
		if part.Len() > 0 && part.Len()+len(line) > listBytes {
			parts = append(parts, part.String())
			part.Reset()
		}
		part.WriteString(line)
	}
	return append(parts, part.String()), nil
}

// maxListBytes bounds a list; the requests that wait may have as much.
const maxListBytes = 64 << 20

// send sends a request, when the crawl is not busy erasing.
func (c eraseCmd) send(a *term.App, w *Where, order string, in *admin.Erase) error {
	for try := 0; ; try++ {
		err := call(a, w, http.MethodPost, "/api/v1/erase?order="+order, in, func(answer json.RawMessage) error {
			var taken admin.EraseTaken
			if err := json.Unmarshal(answer, &taken); err != nil {
				return err
			}
			when := "the crawl pauses now, erases, and continues"
			if in.Later {
				when = "it waits until the crawl ends or starts"
			}
			_, err := fmt.Fprintf(a.Stdout, "request %d, digest %s: %s; %s\n", taken.Number, taken.Digest,
				erasedTargets(&taken), when)
			return err
		})
		var p *admin.Problem
		if !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable || try == eraseTries {
			return err
		}
		if try == 0 {
			fmt.Fprintln(a.Stderr, "the crawl takes no request now; trying again each second")
		}
		<-time.After(time.Second)
	}
}

// erasedTargets counts the targets of a request.
func erasedTargets(t *admin.EraseTaken) string {
	return fmt.Sprintf("%s, %s, %s", human.Counted(t.Hosts, "host", "hosts"), human.Counted(t.PLDs, "PLD", "PLDs"),
		human.Counted(t.URLs, "URL", "URLs"))
}

// printErasures prints the requests.
func printErasures(out io.Writer, r *admin.EraseReport) {
	if len(r.Waiting)+len(r.Done) == 0 {
		fmt.Fprintln(out, "nothing was erased")
		return
	}
	fmt.Fprintln(out, "request\ttime\ttargets\tstate\tdigest\t")
	row := func(e *admin.EraseRow, state string) {
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t\n", e.Number, e.Time.Local().Format(time.DateTime),
			erasedTargets(&e.EraseTaken), state, e.Digest)
	}
	for i := range r.Waiting {
		e, state := &r.Waiting[i], "waits"
		switch {
		case e.Error != "":
			state = "waits, could not be carried out: " + e.Error
		case e.Later:
			state = "waits until the crawl ends or starts"
		}
		row(e, state)
	}
	for i := range r.Done {
		e := &r.Done[i]
		state := human.Counted(e.Captures, "capture", "captures") + " removed"
		if e.With > 0 {
			state = fmt.Sprintf("removed with request %d", e.With)
		}
		row(e, state)
	}
}
