// Package rendertest runs Chromium for the tests of rendering.
//
// Start runs a program such as Debian's chromium, with a profile of its own. Tests pass the environment variable
// CHROMIUM; without it they are skipped: go test ./... needs no browser, and scripts/browser.sh has one.
//
// The browser listens at a port of loopback. If it chooses the port itself, it writes it to a file of its profile.
// Chromium.URL is the value for crawl --render. Kill ends the browser as a crash does, with its helpers, which are in
// its process group; the end of the test does the same.
//
// Run as root, as in containers, Chromium refuses to start with its sandbox, so it runs without it. Only tests do this:
// docs/how-it-works/rendering.md tells operators to run it as a user of its own.
//
// One goroutine waits for the process, and ends with it.
//
// The profile is in the test's temporary directory, and Chromium takes some 200 MB
// of RAM. A Chromium is not safe for concurrent use.
package rendertest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Chromium is a running browser.
type Chromium struct {
	URL string // ws://127.0.0.1:PORT

	pid   int
	ended chan struct{}
}

// startTime is how long Chromium may take to start, on a busy machine.
const startTime = time.Minute

// Start runs the program name with flags until the test ends, and skips the test if name is "". With a port other than
// 0 the browser listens there.
func Start(t *testing.T, name, port string, flags []string) *Chromium {
	t.Helper()
	if name == "" {
		t.Skip("CHROMIUM is not set: scripts/browser.sh runs this test in Chromium")
	}
	program, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("there is no Chromium: %v", err)
	}
	profile := t.TempDir()
	args := []string{"--headless=new", "--remote-debugging-port=" + port, "--user-data-dir=" + profile,
		"--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	args = append(args, flags...)
	cmd := exec.Command(program, append(args, "about:blank")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its helpers end with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &Chromium{pid: cmd.Process.Pid, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // ended, whatever the code
		close(c.ended)
	}()
	t.Cleanup(func() {
		c.Kill()
		for range 50 { // helpers may still write to the profile
			if os.RemoveAll(profile) == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	for began := time.Now(); time.Since(began) < startTime; time.Sleep(20 * time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		at, _, ok := strings.Cut(string(data), "\n")
		if port != "0" { // of its own choice alone it writes the file
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if at, ok = port, err == nil; ok {
				_ = conn.Close()
			}
		} else if err != nil {
			ok = false
		}
		if ok {
			c.URL = "ws://127.0.0.1:" + at
			return c
		}
		select {
		case <-c.ended:
			t.Fatal("Chromium has ended at its start")
		default:
		}
	}
	t.Fatalf("Chromium has not started within %v", startTime)
	return nil
}

// Kill ends the browser and its helpers at once.
func (c *Chromium) Kill() {
	_ = syscall.Kill(-c.pid, syscall.SIGKILL) // it may have ended
	<-c.ended
}
