package crawl

import (
	"errors"
	"io"
	"sync"
	"time"

	"drumbeat/internal/bug"
)

const (
	// logQueueBytes bounds the text that waits for its reader: some 20,000 lines. As much is being written.
	logQueueBytes = 4 << 20
	// logPatience is how long the end of a command waits for a reader that has stopped.
	logPatience = 2 * time.Second
)

// errLogFull is returned for text that a logQueue drops.
var errLogFull = errors.New("crawl: the reader of the log has stopped")

// logQueue passes text to a writer that may block, as a full pipe and a terminal after Ctrl-S do, without ever waiting
// for it: a crawl does not stop because nobody reads its log. It is safe for concurrent use.
type logQueue struct {
	out io.Writer

	mu      sync.Mutex    // guards the fields below; not held during output
	text    []byte        // what waits
	written chan struct{} // closed when nothing waits any longer; nil if nothing waits
}

// Write queues all of p, or drops it if the queue is full. It keeps nothing of p.
func (q *logQueue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.text)+len(p) > logQueueBytes {
		return 0, errLogFull
	}
	q.text = append(q.text, p...)
	if q.written == nil {
		q.written = make(chan struct{})
		go q.drain() // bounded: one at a time, until nothing waits
	}
	return len(p), nil
}

// drain writes what waits. A line that cannot be written is no error of the crawl.
func (q *logQueue) drain() {
	defer bug.Fatal()
	for {
		q.mu.Lock()
		text := q.text
		q.text = nil
		if len(text) == 0 {
			close(q.written)
			q.written = nil
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		_, _ = q.out.Write(text)
	}
}

// wait waits until all text has been written, at most logPatience.
func (q *logQueue) wait() {
	q.mu.Lock()
	written := q.written
	q.mu.Unlock()
	if written == nil {
		return
	}
	t := time.NewTimer(logPatience)
	defer t.Stop()
	select {
	case <-written:
	case <-t.C:
	}
}
