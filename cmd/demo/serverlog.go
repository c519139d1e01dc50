package demo

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// serverLog is the file of --server-log. It is not buffered, so a kill loses no line. It keeps the first
// error, since the servers ignore errors.
type serverLog struct {
	file *os.File

	mu  sync.Mutex // guards err
	err error
}

// openServerLog opens the file for appending. It returns nil if there is no name.
func openServerLog(name string) (*serverLog, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("demo: --server-log: %w", err)
	}
	return &serverLog{file: file}, nil
}

// Write implements io.Writer.
func (l *serverLog) Write(line []byte) (int, error) {
	n, err := l.file.Write(line)
	if err != nil {
		l.mu.Lock()
		if l.err == nil {
			l.err = fmt.Errorf("demo: --server-log: %w", err)
		}
		l.mu.Unlock()
	}
	return n, err
}

// close closes the file and returns the first error. l may be nil.
func (l *serverLog) close() error {
	if l == nil {
		return nil
	}
	err := l.file.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, err)
}
