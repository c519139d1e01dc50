package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
)

type topCmd struct {
	File string `arg:"" name:"file"`
	connectFlags
}

const (
	topEvery = 5 * time.Second  // half of cluster.StatusEvery
	topWait  = 10 * time.Second // for the broker
	topTrend = 12               // values of a node's speed: the last minute
)

// Run shows the nodes until q is pressed.
func (c *topCmd) Run(a *term.App) error {
	f, err := read(c.File)
	if err != nil {
		return err
	}
	t := &top{file: f}
	e, err := c.connect(f, func(string) {}) // the screen says what look finds
	if err != nil {
		return err
	}
	t.e = e
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) // restore the screen
	defer release()
	screen, err := a.OpenScreen()
	if errors.Is(err, term.ErrNoTerminal) {
		err = term.Usage(fmt.Errorf("cluster top: %w: drumbeat cluster status prints the same", err))
	}
	if err == nil {
		live := term.Live[topLook]{Every: topEvery, Wait: topWait, Look: t.look, Take: t.take, Lines: t.lines}
		live.Run(ctx, screen)
		screen.Close()
	}
	return errors.Join(err, e.Close())
}

// top is what the screen shows.
type top struct {
	e    *nats.Transport
	file *cluster.File

	report *report      // nil before the first one
	all    term.Trend   // pages per second of all nodes
	nodes  []term.Trend // and of each
	err    error
}

// topLook is what the broker has.
type topLook struct {
	report *report
	err    error
}

func (t *top) look(ctx context.Context) topLook {
	r, err := look(ctx, t.e, t.file)
	return topLook{r, err}
}

func (t *top) take(l topLook) {
	if t.err = l.err; l.err != nil {
		return
	}
	t.report = l.report
	if t.nodes == nil {
		t.nodes = make([]term.Trend, len(l.report.Nodes))
	}
	t.all.Add(l.report.Overview.PagesPerSecond)
	for node, st := range l.report.Nodes {
		rate := 0.0
		if st != nil && st.Ended == "" && st.Heard(l.report.Time) {
			rate = st.PagesPerSecond
		}
		t.nodes[node].Add(rate)
	}
}

// lines returns the text of the screen.
func (t *top) lines(columns int) []string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "drumbeat cluster  %s  q: quit\n", time.Now().Format(time.TimeOnly))
	if t.err != nil {
		fmt.Fprintf(&b, "NO ANSWER: %v\n", t.err)
	}
	if r := t.report; r != nil {
		r.printHead(&b)
		fmt.Fprintf(&b, "pages/s  %s\n", t.all.Spark(max(10, columns-10)))
		_ = r.printNodes(&b, func(node int) string { return t.nodes[node].Spark(topTrend) }) // writes to memory
		_ = r.printLeases(&b)
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}
