package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// line is one message of a child: progress, an error, or a value.
type line struct {
	Progress string          `json:",omitempty"`
	Error    string          `json:",omitempty"`
	Value    json.RawMessage `json:",omitempty"`
}

// write writes a line.
func write(to io.Writer, l line) error {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = to.Write(append(b, '\n'))
	}
	return err
}

// writeValue writes a value, or err if it isn't nil.
func writeValue(to io.Writer, value any, err error) error {
	var l line
	if err == nil {
		l.Value, err = json.Marshal(value)
	}
	if err != nil {
		l.Error = err.Error()
	}
	return errors.Join(err, write(to, l))
}

const (
	// childGrace is the time for a child to remove its files after a signal.
	childGrace = 20 * time.Second
	// patience bounds the time for an answer of a server, and for its end: it only reads counters or closes
	// connections.
	patience = 30 * time.Second
	// lineBytes bounds a line of a child with a job.
	lineBytes = 1 << 20
	// tailBytes is the number of bytes kept of a child's stderr.
	tailBytes = 4 << 10
)

// Child is the counterpart of Run in a process of its own: it reads a job from in, does it, and writes
// progress and result to out. It has written the error that it returns, which is only for the exit code.
func Child[J, R any](in io.Reader, out io.Writer, do func(job *J, progress func(string)) (R, error)) error {
	var job J
	var result R
	err := json.NewDecoder(in).Decode(&job)
	if err == nil {
		result, err = do(&job, func(what string) { _ = write(out, line{Progress: what}) })
	}
	return writeValue(out, result, err)
}

// Run runs command, which must call Child, with a job. It returns the result, and the memory use if
// limitBytes isn't 0; see Limited. An *UnavailableError means that nothing was started.
func Run[R any](ctx context.Context, command []string, job any, limitBytes int64, progress func(string)) (result R,
	usage Usage, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childGrace
	in, out := io.Pipe()
	defer in.Close()
	var complaint tail
	cmd.Stdout, cmd.Stderr = out, &complaint
	text, err := json.Marshal(job)
	if err != nil {
		return result, usage, err
	}
	cmd.Stdin = &oneRead{b: text}
	ended := make(chan struct{})
	said, done := "", false
	go func() { // ends with the pipe, which is closed below
		defer close(ended)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, lineBytes)
		for lines.Scan() {
			var l line
			if json.Unmarshal(lines.Bytes(), &l) != nil {
				continue // not a message: a crash prints to stderr
			}
			if l.Progress != "" {
				progress(l.Progress)
			}
			if l.Error != "" {
				said = l.Error
			}
			if l.Value != nil {
				done = json.Unmarshal(l.Value, &result) == nil
			}
		}
		_, _ = io.Copy(io.Discard, in) // drain after a line that was too long
	}()
	if limitBytes > 0 {
		usage, err = Limited(cmd, limitBytes)
	} else {
		err = cmd.Run()
	}
	out.Close()
	<-ended
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil && said != "":
		err = errors.New(said)
	case err != nil:
		err = fmt.Errorf("%w%s", err, complaint.behind())
	case !done:
		err = errors.New("the child process exited without a result")
	}
	return result, usage, err
}

// Serve is the counterpart of Start in a process of its own. start gets the options and returns the answer
// to the parent. state answers each further line of input. Serve ends with in or ctx and then calls stop.
func Serve[O any](ctx context.Context, in io.Reader, out io.Writer, start func(opt *O) (hello any, err error),
	state func() any, stop func() error) error {
	lines := json.NewDecoder(in)
	var opt O
	if err := lines.Decode(&opt); err != nil {
		return writeValue(out, nil, err)
	}
	hello, err := start(&opt)
	if err = writeValue(out, hello, err); err != nil {
		return errors.Join(err, stop())
	}
	asked := make(chan error, 1)
	go func() { // ends with the process's input, which is closed when the parent is gone
		for {
			var question any
			if lines.Decode(&question) != nil {
				asked <- nil
				return
			}
			if err := writeValue(out, state(), nil); err != nil {
				asked <- err
				return
			}
		}
	}()
	select {
	case err = <-asked:
	case <-ctx.Done():
	}
	return errors.Join(err, stop())
}

// Server is a child process that serves, as the parent sees it.
type Server struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *json.Decoder
	complaint tail
}

// Start starts command, which must call Serve, with options, and fills in hello when the child serves.
func Start(ctx context.Context, command []string, opt, hello any) (*Server, error) {
	s := &Server{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	s.cmd.WaitDelay, s.cmd.Stderr = childGrace, &s.complaint
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s.out = json.NewDecoder(out)
	if err := s.ask(opt, hello); err != nil {
		return nil, fmt.Errorf("start a server: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

// State asks the server for its state.
func (s *Server) State(state any) error { return s.ask(nil, state) }

// ask writes a line and reads the answer.
func (s *Server) ask(question, answer any) error {
	defer s.bound()()
	var l line
	err := json.NewEncoder(s.in).Encode(question)
	if err == nil {
		err = s.out.Decode(&l)
	}
	switch {
	case err != nil:
	case l.Error != "":
		err = errors.New(l.Error)
	default:
		err = json.Unmarshal(l.Value, answer)
	}
	if err != nil {
		return fmt.Errorf("ask the server: %w%s", err, s.complaint.behind())
	}
	return nil
}

// bound kills a server that exceeds its time, so that a wait for it ends with an error. lift cancels that.
func (s *Server) bound() (lift func()) {
	timer := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	return func() { timer.Stop() }
}

// Close ends the process and waits for it.
func (s *Server) Close() error {
	defer s.bound()()
	s.in.Close() // the process ends with its input
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("server: %w%s", err, s.complaint.behind())
	}
	return nil
}

// oneRead is a reader of a few bytes for which os/exec starts no goroutine that it waits for.
type oneRead struct{ b []byte }

func (r *oneRead) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.b)
	r.b = r.b[n:]
	return n, nil
}

// tail keeps the last bytes written to it.
type tail struct {
	mu sync.Mutex // the child may write stderr during a question
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = append(t.b[:0], t.b[len(t.b)-tailBytes:]...)
	}
	return len(p), nil
}

// behind returns the kept bytes in the form of an error's suffix.
func (t *tail) behind() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.b) == 0 {
		return ""
	}
	return ": " + string(t.b)
}
