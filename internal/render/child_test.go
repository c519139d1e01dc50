package render

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// playEnv has the process play a browser, or a crawler with one, instead of running tests.
const playEnv = "DRUMBEAT_TEST_PLAY"

func TestMain(m *testing.M) {
	role := os.Getenv(playEnv)
	switch role {
	case "":
		os.Exit(m.Run())
	case "crawler":
		l := Launch{Program: os.Args[1], NoSandbox: true, user: "root"}
		c, err := l.Start(context.Background())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(c.group, c.profile)
		select {}
	}
	playBrowser(role)
}

// playBrowser answers as Chromium does, by pipes. After the answers to Dial it waits for its end.
func playBrowser(role string) {
	switch role {
	case "refuses":
		fmt.Fprintln(os.Stderr, "cannot \x1b[2J start:\nno room")
		os.Exit(1)
	case "floods":
		go func() {
			for line := strings.Repeat("x", 4000) + "\n"; ; {
				fmt.Fprint(os.Stderr, line)
			}
		}()
	}
	if os.Getenv("SECRET") != "" {
		os.Exit(3)
	}
	in, out := bufio.NewReader(os.NewFile(3, "in")), os.NewFile(4, "out")
	for {
		data, err := in.ReadBytes(0)
		if err != nil {
			select {} // only a signal ends it
		}
		var m message
		if json.Unmarshal(data[:len(data)-1], &m) != nil {
			os.Exit(2)
		}
		result := "{}"
		switch m.Method {
		case "Browser.getVersion":
			result = `{"product":"Fake/1"}`
		case "Browser.getBrowserCommandLine":
			line, _ := json.Marshal(object{"arguments": os.Args}) // strings
			result = string(line)
		default:
			if role == "dies" {
				os.Exit(1)
			}
		}
		fmt.Fprintf(out, `{"id":%d,"result":%s}%c`, m.ID, result, 0)
	}
}

// fake returns a program that plays a browser.
func fake(t *testing.T, role string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "browser")
	script := fmt.Sprintf("#!/bin/sh\n%s=%s exec '%s' \"$@\"\n", playEnv, role, self)
	if err := os.WriteFile(name, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// gone waits until a process has ended.
func gone(pid int) bool {
	for range 1000 {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, state, _ := strings.Cut(string(data), ") "); err != nil || strings.HasPrefix(state, "Z") {
			return true
		}
		<-time.After(10 * time.Millisecond)
	}
	return false
}

// launch returns a Launch of a fake browser, of the user of the tests: no other one may enter their directories.
func launch(t *testing.T, role string) *Launch {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("SECRET", "s")
	return &Launch{Program: fake(t, role), NoSandbox: true, user: "root"}
}

func TestLaunch(t *testing.T) {
	for _, role := range []string{"works", "floods"} {
		l := launch(t, role)
		c, err := l.Start(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		if c.Product() != "Fake/1" {
			t.Errorf("%s: product %q", role, c.Product())
		}
		if info, err := os.Stat(c.profile); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: profile %v %v", role, info, err)
		}
		removeProfiles(os.TempDir(), time.Now().Add(2*StartTime))
		if _, err := os.Stat(c.profile); err != nil {
			t.Errorf("%s: a profile in use: %v", role, err)
		}
		c.Close()
		if !gone(c.group) {
			t.Errorf("%s: the browser outlives Close", role)
		}
		if _, err := os.Stat(c.profile); !os.IsNotExist(err) {
			t.Errorf("%s: the profile outlives Close: %v", role, err)
		}
	}
}

// TestLaunchRefused: an error has the reason, in one line.
func TestLaunchRefused(t *testing.T) {
	_, err := launch(t, "refuses").Start(t.Context())
	if err == nil || !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "its output: cannot") ||
		!strings.Contains(err.Error(), "start: no room") || strings.ContainsAny(err.Error(), "\n\x1b") {
		t.Errorf("got %v", err)
	}
	if _, err = (&Launch{Program: "/no/browser"}).Start(t.Context()); err == nil {
		t.Error("a program that does not exist starts")
	}
	t.Setenv("PATH", t.TempDir())
	_, err = new(Launch).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no Chromium found") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(os.TempDir() + "/" + profilePrefix + "*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestLaunchDies: a browser that ends with a page is lost, and nothing of it is left.
func TestLaunchDies(t *testing.T) {
	c, err := launch(t, "dies").Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Render(t.Context(), htmlPage("<p>"), refuser{}, testLimits())
	if !errors.Is(err, ErrLost) {
		t.Errorf("got %v, want %v", err, ErrLost)
	}
	<-c.Done()
	c.Close()
	if left, _ := filepath.Glob(os.TempDir() + "/" + profilePrefix + "*"); len(left) > 0 || !gone(c.group) {
		t.Errorf("left: %q", left)
	}
}

// TestLaunchTooLarge: a browser above its limit ends, and its connection says so.
func TestLaunchTooLarge(t *testing.T) {
	l := launch(t, "works")
	told := make(chan int64, 1)
	l.TooLarge = func(n int64) { told <- n }
	l.Bytes, l.ram = 1<<20, func(group int) int64 {
		if groupRAM(group) == 0 {
			t.Error("a browser of 0 bytes")
		}
		return 1<<20 + 1
	}
	c, err := l.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if n := <-told; n != 1<<20+1 {
		t.Errorf("told of %d bytes", n)
	}
	c.Close()
	if !gone(c.group) {
		t.Error("the browser is still there")
	}
}

// TestLaunchKilled: a crawler that is killed takes its browser with it, and the next one removes its profile.
func TestLaunchKilled(t *testing.T) {
	l := launch(t, "works")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	crawler := exec.Command(self, l.Program)
	crawler.Env = append(os.Environ(), playEnv+"=crawler")
	out, err := crawler.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := crawler.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	number, profile, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err2 := strconv.Atoi(number)
	if err != nil || err2 != nil {
		t.Fatalf("the crawler says %q %v", line, err)
	}
	if err := syscall.Kill(crawler.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = crawler.Wait() // killed
	if !gone(pid) {
		t.Error("the browser outlives its crawler")
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if _, err := os.Stat(profile); err != nil {
		t.Fatalf("the profile: %v", err)
	}
	removeProfiles(os.TempDir(), time.Now())
	if _, err := os.Stat(profile); err != nil {
		t.Errorf("a new profile: %v", err)
	}
	removeProfiles(os.TempDir(), time.Now().Add(2*StartTime))
	if _, err := os.Stat(profile); !os.IsNotExist(err) {
		t.Errorf("the profile is still there: %v", err)
	}
}

// TestRenderLaunch renders in a Chromium that Start has started: with its sandbox if it can have one.
func TestRenderLaunch(t *testing.T) {
	name := os.Getenv("CHROMIUM")
	if name == "" {
		t.Skip("CHROMIUM is not set: scripts/browser.sh runs this test in Chromium")
	}
	l := Launch{Program: name, Bytes: 4 << 30, Path: os.Getenv("PATH"), Debug: func(s string) { t.Log(s) }}
	c, err := l.Start(t.Context())
	if err != nil {
		t.Logf("with its sandbox: %v", err)
		l.NoSandbox = true
		if c, err = l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	defer c.Close()
	page := htmlPage(`<script>document.body.append("made by a " + "script")</script>`)
	r, err := c.Render(t.Context(), page, refuser{}, testLimits())
	if err != nil || !strings.Contains(string(r.HTML), "made by a script") {
		t.Errorf("got %v, %v", r, err)
	}
	t.Logf("%s: %d bytes of RAM", c.Product(), groupRAM(c.group))
	if n := groupRAM(c.group); n < 10<<20 {
		t.Errorf("a browser of %d bytes", n)
	}
}
