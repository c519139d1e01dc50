package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/internal/bug"
)

// Defaults and limits of Options.
const (
	DefaultTimeout   = 5 * time.Second
	DefaultBodyBytes = 1 << 20
	MaxProcs         = 256
	// startTimeout is the longest time to a greeting: a program may load a model first.
	startTimeout = time.Minute
)

const (
	// firstRest and maxRest are the back-off of a process that ends before it has answered once.
	firstRest = time.Second
	maxRest   = time.Minute
	// endGrace is how long a process may continue when its standard input has ended.
	endGrace = 2 * time.Second
	// keepBuffer is the largest buffer that is kept for the next request.
	keepBuffer = 4 << 20
)

// DefaultProcs returns the default of Options.Procs.
func DefaultProcs() int { return min(4, runtime.GOMAXPROCS(0)) }

// Options are the options of a Pool. A zero field means the default.
type Options struct {
	Command   []string      // the program, and its arguments
	Procs     int           // processes; at most MaxProcs
	Timeout   time.Duration // of an answer
	BodyBytes int           // most bytes of Request.Body and Request.Text
	Program   string        // name and version of this program, for the greeting
	// Env returns the environment of a process that starts; nil: that of this process. It must be safe for
	// concurrent use.
	Env func() []string
	// Note receives what happens to the processes, as package log/slog has it; warn says that it is a fault. It
	// may be called from several goroutines, at most about ten times a second.
	Note func(warn bool, message string, args ...any)

	startTimeout, firstRest time.Duration // for tests
}

func (o *Options) defaults() {
	if o.Procs == 0 {
		o.Procs = DefaultProcs()
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.BodyBytes == 0 {
		o.BodyBytes = DefaultBodyBytes
	}
	if o.startTimeout == 0 {
		o.startTimeout = startTimeout
	}
	if o.firstRest == 0 {
		o.firstRest = firstRest
	}
	if o.Note == nil {
		o.Note = func(bool, string, ...any) {}
	}
}

// Outcome says what became of a request.
type Outcome int

// The outcomes. Only Answered comes with an Answer.
const (
	Answered  Outcome = iota
	TimedOut          // no answer in time
	Failed            // the process ended or did not keep to the protocol
	Refused           // the answer exceeds a limit
	Unasked           // no process was free in time, or all rest after failures
	Cancelled         // ctx ended
)

// Pool is a set of processes of one command.
type Pool struct {
	opt    Options
	wants  atomic.Pointer[Wants]
	ids    atomic.Uint64
	asks   chan *ask
	starts chan *start
	quit   chan struct{}
	slots  sync.WaitGroup

	resting  atomic.Int64 // processes that wait for their next start
	restarts atomic.Int64
	notes    noteLimit
	buffers  sync.Pool
}

// ask is a request on its way.
type ask struct {
	id   uint64
	line []byte
	done chan reply // has room for the reply
}

type reply struct {
	answer  *Answer
	outcome Outcome
}

// Open starts the processes and waits for their greetings. It fails if one of them fails.
func Open(ctx context.Context, opt Options) (*Pool, error) {
	opt.defaults()
	if opt.Procs < 1 || opt.Procs > MaxProcs || len(opt.Command) == 0 || opt.Timeout < 0 || opt.BodyBytes < 0 {
		return nil, fmt.Errorf("hook: bad options: %d processes, command %q, timeout %v, %d bytes of a body", opt.Procs,
			opt.Command, opt.Timeout, opt.BodyBytes)
	}
	p := &Pool{opt: opt, asks: make(chan *ask), starts: make(chan *start), quit: make(chan struct{})}
	p.buffers.New = func() any { return new(bytes.Buffer) }
	p.wants.Store(&Wants{})
	go p.starter()
	first := make(chan error, opt.Procs)
	for range opt.Procs {
		p.slots.Add(1)
		go p.supervise(first)
	}
	for range opt.Procs {
		select {
		case err := <-first:
			if err != nil {
				p.Close()
				return nil, fmt.Errorf("hook: start %q: %w", opt.Command, err)
			}
		case <-ctx.Done():
			p.Close()
			return nil, fmt.Errorf("hook: start %q: %w", opt.Command, context.Cause(ctx))
		}
	}
	return p, nil
}

// Close ends the processes: those that do not end when their standard input ends are killed. No Ask may be
// under way or follow.
func (p *Pool) Close() {
	close(p.quit)
	p.slots.Wait()
	close(p.starts)
}

// Wants returns the parts of a page that the processes want, as the last greeting has it.
func (p *Pool) Wants() Wants { return *p.wants.Load() }

// BodyBytes returns the most bytes of a body or text in a request.
func (p *Pool) BodyBytes() int { return p.opt.BodyBytes }

// Procs returns the number of processes.
func (p *Pool) Procs() int { return p.opt.Procs }

// TakeRestarts returns how often a process was replaced by another since the last call.
func (p *Pool) TakeRestarts() int64 { return p.restarts.Swap(0) }

// Ask asks a process about a page. It sets r.ID, and does not use r once it has returned.
func (p *Pool) Ask(ctx context.Context, r *Request) (*Answer, Outcome) {
	if p.resting.Load() >= int64(p.opt.Procs) {
		return nil, Unasked
	}
	r.ID = p.ids.Add(1)
	b := p.buffers.Get().(*bytes.Buffer)
	b.Reset()
	if err := appendRequest(b, r); err != nil {
		p.note(true, "could not encode a request to the hook", "url", r.URL, "error", err)
		return nil, Unasked
	}
	a := &ask{id: r.ID, line: b.Bytes(), done: make(chan reply, 1)}
	t := time.NewTimer(p.opt.Timeout)
	defer t.Stop()
	select {
	case p.asks <- a:
	case <-t.C:
		return nil, Unasked
	case <-ctx.Done():
		return nil, Cancelled
	}
	select {
	case re := <-a.done:
		if b.Cap() <= keepBuffer {
			p.buffers.Put(b)
		}
		return re.answer, re.outcome
	case <-ctx.Done():
		return nil, Cancelled
	}
}

// supervise runs one process after the other in one of the slots. first receives whether the first greeted.
func (p *Pool) supervise(first chan<- error) {
	defer p.slots.Done()
	defer bug.Fatal()
	failures := 0 // since the last answer
	for n := 0; ; n++ {
		proc, err := p.start()
		if n == 0 {
			first <- err
		}
		if err == nil {
			answered, failed := proc.serve()
			proc.end(failed == nil)
			if err = failed; err == nil {
				return // p is closed
			}
			if answered {
				failures = 0
			}
		} else if n == 0 {
			return
		}
		select {
		case <-p.quit:
			return
		default:
		}
		rest := p.rest(failures)
		failures++
		p.note(true, "replacing a hook process", "cause", err, "after", rest)
		if rest > 0 && !p.pause(rest) {
			return
		}
		p.restarts.Add(1)
	}
}

// rest returns how long to wait before a process is replaced that had failed so often before.
func (p *Pool) rest(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(maxRest, p.opt.firstRest<<min(failures-1, 10))
}

// pause waits, as a resting process. It returns false if the pool was closed.
func (p *Pool) pause(d time.Duration) bool {
	p.resting.Add(1)
	defer p.resting.Add(-1)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.quit:
		return false
	}
}

// note hands a message on, unless there were too many.
func (p *Pool) note(warn bool, message string, args ...any) {
	lost, ok := p.notes.take(time.Now())
	if !ok {
		return
	}
	if lost > 0 {
		args = append(args, "not_shown_before", lost)
	}
	p.opt.Note(warn, message, args...)
}

// noteLimit lets notesBurst messages through, and after that notesPerSecond.
type noteLimit struct {
	mu   sync.Mutex
	left float64
	last time.Time
	lost int64
}

const (
	notesBurst     = 20
	notesPerSecond = 2
)

// take reports whether a message may pass, and how many did not since the last that did.
func (l *noteLimit) take(now time.Time) (lost int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		l.left = notesBurst
	} else {
		l.left = min(notesBurst, l.left+notesPerSecond*max(0, now.Sub(l.last).Seconds()))
	}
	l.last = now
	if l.left < 1 {
		l.lost++
		return 0, false
	}
	l.left--
	lost, l.lost = l.lost, 0
	return lost, true
}

// Errors of a process.
var (
	errTimeout = errors.New("it did not answer in time")
	errEnded   = errors.New("it exited or closed its standard output")
	errLong    = fmt.Errorf("it wrote a line of more than %d bytes", MaxLine)
	errIdle    = errors.New("it wrote a line before a request")
)
