package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	mustRun = flag.Bool("browser", false, "run the tests in Chromium")
	shots   = flag.String("shots", "", "`directory` for screenshots; none are kept without it")
)

// limit is the deadline of a test, for a busy machine.
const limit = 5 * time.Minute

// within returns the context of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// chromium is a running Chromium. It reads commands from one pipe and writes answers and events to another,
// each a JSON object with a NUL behind it.
type chromium struct {
	out  *os.File
	done chan struct{} // closed when no more message can come

	mu     sync.Mutex // guards the fields below, and the order of writes to out
	next   int
	calls  map[int]chan message
	events map[string]func(method string, params json.RawMessage) // by session
}

// message is a command, an answer or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

type object = map[string]any

// findChromium returns Chromium's path, or skips the test.
func findChromium(t *testing.T) string {
	t.Helper()
	name := os.Getenv("CHROMIUM")
	if name == "" {
		if name = "chromium"; !*mustRun {
			t.Skip("neither -browser nor CHROMIUM is set")
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("there is no Chromium: %v", err)
	}
	return program
}

// startChromium runs Chromium until the test ends.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	program := findChromium(t)
	in, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	theirIn, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + t.TempDir(), "--no-first-run",
		"--hide-scrollbars", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	var stderr tail
	cmd := exec.Command(program, append(args, "about:blank")...)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its helpers end with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = errors.Join(theirIn.Close(), theirOut.Close())
	c := &chromium{out: out, done: make(chan struct{}), calls: map[int]chan message{},
		events: map[string]func(string, json.RawMessage){}}
	go c.read(in)
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ended, whatever the code
		close(ended)
	}()
	t.Cleanup(func() {
		_ = out.Close() // it ends without its input
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		<-c.done
		if t.Failed() {
			t.Logf("chromium: %s", stderr.String())
		}
	})
	return c
}

// read hands on answers and events until Chromium closes the pipe.
func (c *chromium) read(in *os.File) {
	defer close(c.done)
	defer in.Close()
	for r := bufio.NewReader(in); ; {
		data, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &m) != nil {
			return
		}
		c.mu.Lock()
		answer, event := c.calls[m.ID], c.events[m.SessionID]
		delete(c.calls, m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m
		} else if event != nil && m.ID == 0 {
			event(m.Method, m.Params)
		}
	}
}

// call sends a command and decodes its result into result, unless that is nil.
func (c *chromium) call(ctx context.Context, session, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	m := message{ID: c.next, SessionID: session, Method: method, Params: raw}
	c.calls[m.ID] = answer
	data, err := json.Marshal(m)
	if err == nil {
		_, err = c.out.Write(append(data, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m = <-answer:
	case <-c.done:
		return fmt.Errorf("%s: Chromium has ended", method)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

// tail keeps the last bytes written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write implements io.Writer.
func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p...)
	if most := 16 << 10; len(w.b) > most {
		w.b = append([]byte(nil), w.b[len(w.b)-most:]...)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}

// shot returns the path of a screenshot, or "" if none are kept.
func shot(t *testing.T, name string) string {
	t.Helper()
	if *shots == "" {
		return ""
	}
	if err := os.MkdirAll(*shots, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(*shots, name+".png")
}
