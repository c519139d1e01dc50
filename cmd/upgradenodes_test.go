package cmd

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// oldCommit is the commit of this repository whose program TestUpgradeNodes upgrades: the last one before nodes told
// each other's version. It has the flags of fleets.
const oldCommit = "46779849849fecb69bdf0308140885066fb70613"

// buildOld builds the program of oldCommit, from the history of this repository.
func buildOld(t *testing.T) string {
	t.Helper()
	if err := exec.Command("git", "-C", "..", "cat-file", "-e", oldCommit+"^{commit}").Run(); err != nil {
		t.Skipf("commit %s is not here, as in an exported tree or a shallow clone (git fetch --unshallow): %v",
			oldCommit, err)
	}
	dir := t.TempDir()
	archive, source := filepath.Join(dir, "source.tar.gz"), filepath.Join(dir, "source")
	cmd := exec.Command("git", "-C", "..", "archive", "--prefix=source/", "-o", archive, oldCommit)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git archive: %v: %s", err, out)
	}
	unpack(t, archive, dir)
	return build(t, source, filepath.Join(dir, "old"), "")
}

// build builds the program in a directory as name; version "": that of no release.
func build(t *testing.T, dir, name, version string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-X drumbeat/cmd/term.release="+version, "-o", name, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v: %s", dir, err, out)
	}
	return name
}

// TestUpgradeNodes: three nodes crawl with the program of an earlier commit, the first one with the broker in its
// process. Each is stopped in order and started with this program, of another version, while the others crawl. Nothing
// is refused on the way, and together they fetch each URL once.
func TestUpgradeNodes(t *testing.T) {
	notShort(t)
	t.Parallel()
	before := buildOld(t)
	after := build(t, "..", filepath.Join(t.TempDir(), "new"), "v9.9.9")
	web, webArgs := fleetWeb(t)
	f := newFleet(t, web, webArgs, "--host-delay=20ms", "--server-delay=1ms", "--cluster-lease=6s")
	flags := [fleetNodes][]string{f.embed(), join(f.listen), join(f.listen)}
	var all []*process
	start := func(node int, program string) *process {
		f.program = program
		p := f.start(node, flags[node]...)
		all = append(all, p)
		return p
	}
	for node := range fleetNodes {
		start(node, before)
	}
	for node := range fleetNodes {
		f.requests(200 * (node + 1)) // of 1,500; the crawl does not end while a node is stopped
		f.stop(node)
		start(node, after)
		f.ready(node)
	}
	if !f.wait() {
		return
	}
	for i, p := range all {
		for line := range strings.Lines(p.said.String()) {
			if strings.Contains(line, "refused") || strings.Contains(line, "quarantine") {
				t.Errorf("process %d: %s", i, line)
			}
		}
	}
	f.check(outsideLimits{host: 20 * time.Millisecond})
}

// ready waits until a node answers ctl.
func (f *fleet) ready(node int) {
	f.t.Helper()
	for code := -1; code != term.ExitDone; <-time.After(20 * time.Millisecond) {
		select {
		case <-f.processes[node].ended:
			f.t.Fatalf("node %d ended: %s", node, f.processes[node].said.String())
		case <-f.ctx.Done():
			f.t.Fatalf("node %d is not ready in time", node)
		default:
		}
		code, _, _ = cmdtest.Run[commands](f.t, "", "ctl", "--dir="+f.nodeDir(node), "status")
	}
}

// stop stops a node that runs in order.
func (f *fleet) stop(node int) {
	f.t.Helper()
	p := f.processes[node]
	must(f.t, p.Process.Signal(syscall.SIGTERM))
	if <-p.ended; p.ProcessState.ExitCode() != term.ExitSignal {
		f.t.Fatalf("node %d: %v: %s", node, p.err, p.said.String())
	}
	f.processes[node] = nil
}
