package simweb

import (
	"net"
	"sync"
	"time"
)

// Conns are the listeners and connections of a server. Each has a goroutine, which Close ends and waits for. Conns is
// safe for concurrent use.
type Conns struct {
	stop chan struct{}
	wait sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	listeners []net.Listener
	open      map[net.Conn]struct{}
	shut      bool
}

// NewConns returns Conns without a listener.
func NewConns() *Conns { return &Conns{stop: make(chan struct{}), open: map[net.Conn]struct{}{}} }

// Stopped is closed when Halt or Close begins.
func (s *Conns) Stopped() <-chan struct{} { return s.stop }

// Serve accepts connections of l, and calls serve in a goroutine of each; it closes the connection afterwards. serve
// must return soon after its connection is closed and Stopped is. Do not call Serve after Halt.
func (s *Conns) Serve(l net.Listener, serve func(net.Conn)) {
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	s.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err == nil {
				s.start(c, serve)
				continue
			}
			select {
			case <-s.stop:
				return
			case <-time.After(10 * time.Millisecond): // out of descriptors, or the client has closed
			}
		}
	})
}

// start starts the goroutine of a connection, if the server is not closing.
func (s *Conns) start(c net.Conn, serve func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		c.Close()
		return
	}
	s.open[c] = struct{}{}
	s.wait.Go(func() {
		serve(c)
		c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	})
}

// Hangup closes all connections.
func (s *Conns) Hangup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}

// Halt closes all listeners and connections. Only the first call has an effect.
func (s *Conns) Halt() {
	s.mu.Lock()
	shut := s.shut
	s.shut = true
	for _, l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	if !shut {
		close(s.stop)
		s.Hangup()
	}
}

// Close is Halt, and waits for all goroutines.
func (s *Conns) Close() {
	s.Halt()
	s.wait.Wait()
}
