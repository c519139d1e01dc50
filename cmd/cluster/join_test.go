package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
)

// TestOneCommand: while a join makes its changes, other commands that change the table are refused, with its name, and
// cluster status shows it. With its last change, or if it makes none, it is over.
func TestOneCommand(t *testing.T) {
	r := newStatusRig(t)
	next, err := r.file.Table.Grow()
	must(t, err)
	c := &changer{a: &r.app, e: r.e, f: r.file, file: r.name, table: next,
		last: cluster.NewTableChange(cluster.ChangeGrow, r.file.Table, next, 0, "id")}
	c.last.Command = &cluster.TableCommand{Name: "join", Node: 3, Host: "a\x1bb", Time: time.Unix(1e9, 0)}
	data, err := c.last.Encode()
	must(t, err)
	_, err = r.e.Put(t.Context(), cluster.BucketCrawl, cluster.TableKey, data)
	must(t, err)
	to := connectFlags{Cluster: []string{"nats://" + r.e.Addr().String()}}
	r.app.StopOnSignal = func(ctx context.Context) (context.Context, func()) { return ctx, func() {} }
	const says = "cluster join of node 3 on a"
	for name, run := range map[string]func(*term.App) error{
		"join":    (&joinCmd{File: r.name, connectFlags: to}).Run,
		"leave":   (&leaveCmd{File: r.name, Node: 0, connectFlags: to}).Run,
		"balance": (&balanceCmd{File: r.name, Apply: true, connectFlags: to}).Run,
	} {
		if err := run(&r.app); term.ExitCode(err) != term.ExitUsage || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "continue it with drumbeat cluster join --node 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := another(c.last); !strings.Contains(err.Error(), says) {
		t.Error(err)
	}
	if text := r.status(false, term.ExitFailure); !strings.Contains(text, says) {
		t.Error(text)
	}
	for _, allowed := range []struct {
		name string
		node int
	}{{"join", 3}, {"leave", 3}} {
		if err := c.begin(allowed.name, allowed.node); err != nil || c.command.Name != allowed.name {
			t.Errorf("%v: %v", allowed, err)
		}
	}
	must(t, c.conclude(t.Context()))
	c = &changer{e: r.e, f: r.file, table: r.file.Table}
	must(t, c.read(t.Context()))
	c.last.Kind = cluster.ChangeGive // one that a node got
	if err := c.begin(balanceName, 0); err != nil {
		t.Errorf("after the end: %v", err)
	}
	c.last.Command = c.command
	if c.begin("leave", 0) == nil || c.begin(balanceName, 0) != nil {
		t.Error("during a balance a node may leave, or the balance does not continue")
	}
}

// TestFetches: join --wait waits for a page, or for a node that has nothing to do.
func TestFetches(t *testing.T) {
	r := newStatusRig(t)
	c := &changer{a: &r.app, e: r.e, f: r.file, table: r.file.Table}
	for want, st := range map[string]cluster.Status{
		"node 1 fetches: 7 pages so far":  {Node: 1, Pages: 7, PagesPerSecond: 0.5},
		"node 1 has nothing to fetch yet": {Node: 1, Idle: true},
		"the crawl is over":               {Node: 1, Ended: "done", Queued: 3},
	} {
		r.out.Reset()
		r.put(st)
		if err := c.fetches(t.Context(), 1); err != nil || !strings.Contains(r.out.String(), want) {
			t.Errorf("%q, want %q: %v", r.out.String(), want, err)
		}
	}
}
