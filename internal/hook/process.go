package hook

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"drumbeat/internal/bug"
)

// process is a running process of a Pool. The goroutine that supervises it owns it.
type process struct {
	heard  chan struct{}          // closed when standard error ends
	said   atomic.Pointer[string] // the last line of it
	pool   *Pool
	cmd    *exec.Cmd
	stdin  *os.File
	output [2]*os.File   // our ends of its standard output and error
	lines  chan []byte   // of standard output; closed at its end
	failed error         // why it ended, once lines is closed
	quit   chan struct{} // closed by end
	exited chan struct{} // closed when the process has ended
	timer  *time.Timer
}

// start is a request to starter.
type start struct {
	cmd  *exec.Cmd
	done chan error
}

// starter starts all processes, from one thread: Linux kills a process with Pdeathsig when the thread that
// started it ends, and Go ends no thread whose goroutine stays locked to it.
func (p *Pool) starter() {
	defer bug.Fatal()
	runtime.LockOSThread()
	for s := range p.starts {
		s.done <- s.cmd.Start()
	}
}

// start starts a process and waits for its greeting.
func (p *Pool) start() (*process, error) {
	x := &process{pool: p, cmd: exec.Command(p.opt.Command[0], p.opt.Command[1:]...), lines: make(chan []byte),
		quit: make(chan struct{}), exited: make(chan struct{}), heard: make(chan struct{}),
		timer: time.NewTimer(p.opt.startTimeout)}
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.opt.Env != nil {
		x.cmd.Env = p.opt.Env()
	}
	if err := x.launch(); err != nil {
		x.closePipes()
		return nil, err
	}
	go func() {
		defer bug.Fatal()
		_ = x.cmd.Wait() // how it ended does not matter: nobody asked it to
		close(x.exited)
	}()
	go x.readLines()
	go x.readErrors()
	if err := x.greet(); err != nil {
		if errors.Is(err, errEnded) { // what it said last is on its way
			select {
			case <-x.heard:
			case <-time.After(endGrace):
			}
		}
		x.end(false)
		if said := x.said.Load(); said != nil {
			err = fmt.Errorf("%w; the last line of its standard error: %q", err, *said)
		}
		return nil, err
	}
	return x, nil
}

// launch makes the pipes and starts the process, which alone has their other ends then.
func (x *process) launch() (err error) {
	var theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				_ = f.Close() // nothing was written to it
			}
		}
	}()
	if theirs[0], x.stdin, err = os.Pipe(); err != nil {
		return err
	}
	for i := range x.output {
		if x.output[i], theirs[1+i], err = os.Pipe(); err != nil {
			return err
		}
	}
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	s := &start{x.cmd, make(chan error, 1)}
	x.pool.starts <- s
	return <-s.done
}

// greet exchanges the first lines.
func (x *process) greet() error {
	o := &x.pool.opt
	line, err := json.Marshal(greeting{Hook: Version, Program: o.Program, Body: o.BodyBytes,
		Timeout: o.Timeout.Milliseconds()})
	if err != nil {
		return err
	}
	answer, err := x.exchange(append(line, '\n'), o.startTimeout)
	if err != nil {
		return err
	}
	w, err := parseGreeting(answer)
	if err != nil {
		return err
	}
	x.pool.wants.Store(&w)
	return nil
}

// serve hands requests to the process until it fails or the pool is closed, which is no error.
func (x *process) serve() (answered bool, _ error) {
	for {
		select {
		case <-x.pool.quit:
			return answered, nil
		case _, ok := <-x.lines:
			if ok {
				return answered, errIdle
			}
			return answered, x.failed
		case a := <-x.pool.asks:
			re, err := x.ask(a)
			a.done <- re
			if err != nil {
				return answered, err
			}
			answered = true
		}
	}
}

// ask makes a request.
func (x *process) ask(a *ask) (reply, error) {
	line, err := x.exchange(a.line, x.pool.opt.Timeout)
	switch {
	case errors.Is(err, errTimeout):
		return reply{outcome: TimedOut}, err
	case err != nil:
		return reply{outcome: Failed}, err
	}
	answer, err := parseAnswer(line, a.id)
	var over *limitError
	if errors.As(err, &over) {
		x.pool.note(true, "refused an answer from the hook", "cause", err)
		return reply{outcome: Refused}, nil
	}
	if err != nil {
		return reply{outcome: Failed}, err
	}
	return reply{answer, Answered}, nil
}

// exchange writes a line and returns the next one, which is valid until the next call.
func (x *process) exchange(line []byte, limit time.Duration) ([]byte, error) {
	x.timer.Reset(limit)
	if err := x.stdin.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	if _, err := x.stdin.Write(line); err != nil {
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errTimeout
		case errors.Is(err, syscall.EPIPE):
			return nil, errEnded
		}
		return nil, fmt.Errorf("write to its standard input: %w", err)
	}
	select {
	case answer, ok := <-x.lines:
		if !ok {
			return nil, x.failed
		}
		return answer, nil
	case <-x.timer.C:
		return nil, errTimeout
	case <-x.pool.quit:
		return nil, errEnded
	}
}

// readLines hands on the lines of standard output. A reader of x.lines sees x.failed once that is closed.
func (x *process) readLines() {
	defer close(x.lines)
	defer bug.Fatal()
	r := bufio.NewReaderSize(x.output[0], 16<<10)
	for {
		line, err := readLine(r, MaxLine)
		if err != nil {
			if x.failed = err; !errors.Is(err, errLong) {
				x.failed = errEnded
			}
			return
		}
		select {
		case x.lines <- line:
		case <-x.quit:
			x.failed = errEnded
			return
		}
	}
}

// readLine returns a line without its newline. It is not part of r's buffer. A last line without newline is none.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			return nil, errLong
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// maxErrorLine is the most bytes of a line of standard error in the log.
const maxErrorLine = 500

// readErrors notes the lines of standard error.
func (x *process) readErrors() {
	defer close(x.heard)
	defer bug.Fatal()
	r := bufio.NewReaderSize(x.output[1], 4<<10)
	for {
		line, err := r.ReadSlice('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 {
			said := string(text[:min(len(text), maxErrorLine)])
			x.said.Store(&said)
			x.pool.note(false, "the hook says", "text", said)
		}
		for err == bufio.ErrBufferFull { // the rest of a long line
			_, err = r.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// end ends the process: gently means to wait for a while once its standard input has ended.
func (x *process) end(gently bool) {
	_ = x.stdin.Close() // nothing is buffered
	if gently {
		x.waitEnd()
	}
	// Also what it has started. The number of a process that has just ended is not in use again.
	_ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL) // fails if nothing is left
	x.waitEnd()
	close(x.quit)
	x.closePipes()
}

// waitEnd waits until the process has ended, at most for endGrace.
func (x *process) waitEnd() {
	t := time.NewTimer(endGrace)
	defer t.Stop()
	select {
	case <-x.exited:
	case <-t.C:
	}
}

func (x *process) closePipes() {
	for _, f := range []*os.File{x.stdin, x.output[0], x.output[1]} {
		if f != nil {
			_ = f.Close() // ends the readers
		}
	}
}
