package report

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/state/export"
	"drumbeat/state/report"
)

// addPayments adds the hosts that asked for payment most often, from the crawl log. Without --fast, that is.
func (c *Command) addPayments(a *term.App, r *report.Report) {
	const where = "The hosts that asked for payment are left out; drumbeat export hosts lists them"
	if c.Fast {
		r.Incomplete = append(r.Incomplete, where+" (--fast).")
		return
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	most := &mostPayments{top: int(c.Top)}
	_, err := export.Run(ctx, export.Options{FS: disk.Shared(), Dirs: flags.Clean(c.Dir), Kind: export.Payments,
		Format: "jsonl", Stream: most, RAMBytes: 1, // the least
		TempDir: filepath.Join(os.TempDir(), fmt.Sprintf("drumbeat-report-%d", os.Getpid()))})
	if err != nil {
		r.Incomplete = append(r.Incomplete, fmt.Sprintf("%s (%v).", where, err))
		return
	}
	r.Payments = most.list
}

// mostPayments takes rows of export.Payments as JSON lines, and keeps the hosts with the most responses.
type mostPayments struct {
	top  int
	list []report.Payment
	part []byte // of a line
}

// Write implements io.Writer.
func (m *mostPayments) Write(b []byte) (int, error) {
	m.part = append(m.part, b...)
	for {
		line, rest, ok := bytes.Cut(m.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		var row struct {
			Host      string `json:"host"`
			Responses int64  `json:"payment_responses"`
			Price     string `json:"payment_price"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return 0, fmt.Errorf("report: row of a host that asked for payment: %w", err)
		}
		p := report.Payment(row)
		m.part = append(m.part[:0], rest...)
		at, _ := slices.BinarySearchFunc(m.list, p, func(x, p report.Payment) int {
			return cmp.Or(cmp.Compare(p.Responses, x.Responses), cmp.Compare(x.Host, p.Host))
		})
		m.list = slices.Insert(m.list, at, p)
		m.list = m.list[:min(len(m.list), m.top)]
	}
}
