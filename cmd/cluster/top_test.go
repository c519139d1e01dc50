//go:build !noembed

package cluster

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// commands is the table for the tests.
type commands struct {
	Cluster Command `cmd:""`
}

// TestTop: the screen shows all nodes with their sums, and ends by a key. Without a terminal the command fails.
func TestTop(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("LC_ALL", "C.UTF-8")
	r := newStatusRig(t)
	r.put(cluster.Status{Node: 0, Time: time.Now(), Host: "a", Pages: 1200, PagesPerSecond: 7, Level: "warn",
		State: "slow", Text: "It is slow."}, cluster.Status{Node: 1, Time: time.Now(), Pages: 34})
	args := []string{"cluster", "top", r.name, "--cluster", "nats://" + r.e.Addr().String()}
	keyboard, terminal := cmdtest.Terminal(t, 120, 20)
	ended := make(chan int)
	go func() { ended <- flags.Run(term.NewApp(terminal, terminal, io.Discard), new(commands), args) }()
	shown := ""
	readUntil(t, keyboard, &shown, "1,234", "slow.", "minute", "█") // spaces are not drawn again
	if _, err := keyboard.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != term.ExitDone {
		t.Errorf("exit code %d", code)
	}
	_, text := cmdtest.WantExit[commands](t, term.ExitUsage, "", args...)
	if !strings.Contains(text, "not a terminal") {
		t.Errorf("without a terminal: %s", text)
	}
}

// readUntil reads a screen until it has shown all words.
func readUntil(t *testing.T, screen *os.File, shown *string, words ...string) {
	t.Helper()
	buf := make([]byte, 4096)
	for _, word := range words {
		for !strings.Contains(*shown, word) {
			n, err := screen.Read(buf)
			if *shown += string(buf[:n]); err != nil {
				t.Fatalf("no %q: %v; the screen: %q", word, err, *shown)
			}
		}
	}
}

// TestTopWithoutBroker: the screen keeps the last state when the broker does not answer. A node that is silent has no
// speed.
func TestTopWithoutBroker(t *testing.T) {
	r := newStatusRig(t)
	r.put(cluster.Status{Node: 0, Time: time.Now(), PagesPerSecond: 7},
		cluster.Status{Node: 1, Time: time.Now().Add(-time.Hour), PagesPerSecond: 9})
	shown := top{e: r.e, file: r.file}
	shown.take(shown.look(t.Context()))
	shown.take(topLook{err: errors.New("gone")})
	text := strings.Join(shown.lines(200), "\n")
	for _, want := range []string{"NO ANSWER: gone", " 7.0 pages/s", "Node 2 has never reported",
		"pages/s  █\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
	if shown.nodes[0][0] != 7 || shown.nodes[1][0] != 0 {
		t.Errorf("%v", shown.nodes)
	}
}
