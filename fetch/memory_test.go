package fetch

import (
	"context"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
)

// gate is a connection that replies only once it is opened, with the same page as all others.
type gate struct {
	script
	waiting *sync.WaitGroup
	open    chan struct{}
	once    sync.Once
}

func (g *gate) Read(p []byte) (int, error) {
	g.once.Do(g.waiting.Done)
	<-g.open
	if len(g.rest) == 0 {
		return 0, io.EOF
	}
	return g.script.Read(p)
}

// TestMemoryOfMany measures what exchanges hold while they wait and when all are over. Neither the claimed
// length nor the limits nor the largest page so far may matter.
func TestMemoryOfMany(t *testing.T) {
	const n = 2000
	var waiting, done sync.WaitGroup
	open := make(chan struct{})
	page := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + string(make([]byte, 100_000)))
	c := newTestClient(t, Options{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
		return &gate{script: script{rest: page, piece: 16 << 10}, waiting: &waiting, open: open}, nil
	}})
	before := held()
	waiting.Add(n)
	resps := make([]Response, n)
	for i := range n {
		done.Go(func() {
			if err := c.Do(context.Background(), testRequest(), &resps[i]); err != nil {
				t.Error(err)
			}
			if len(resps[i].Body) != 100_000 || resps[i].Truncated != TruncatedDisconnect {
				t.Errorf("%d bytes, %q", len(resps[i].Body), resps[i].Truncated)
			}
			resps[i].Reset()
		})
	}
	waiting.Wait()
	wait := (held() - before) / n
	close(open)
	done.Wait()
	idle := (held() - before) / n
	t.Logf("%d bytes per exchange waiting, %d per response after it", wait, idle)
	if wait > 32<<10 || idle > 32<<10 {
		t.Errorf("%d bytes per exchange waiting, %d per response after it; want at most 32 KiB", wait, idle)
	}
	runtime.KeepAlive(resps)
}

// held returns the bytes of heap and stacks in use.
func held() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
