package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/internal/simweb"
)

// overQuota is a trouble that the worlds of the simulation have beside another one.
const overQuota trouble = "a quota that statfs doesn't show is reached for a while"

// killWorlds are those of TestKill's crawls. What comes for a while in them comes again and again: it outlives the process that it
// befalls, or ends while that lives. Both the parent and the child bring it about.
var killWorlds = []trouble{noTrouble, overQuota, noNames, noDescriptors, noWay, bannedLast, networkResets}

// window is when the trouble of a world is there, if it isn't for good.
type window struct{ From, Until time.Time }

func (w window) now() bool { now := time.Now(); return now.After(w.From) && now.Before(w.Until) }

// trouble brings about what comes for a while, for the next child.
func (k *killTest) trouble() {
	if k.world != overQuota && k.world != noNames && k.world != noDescriptors {
		return
	}
	job := &k.job
	if now := time.Now(); now.After(job.Window.Until) {
		from := now
		if k.world != noNames || k.rounds > 0 { // which must be met while names are looked up
			from = now.Add(time.Duration(100+k.rng.IntN(1000)) * time.Millisecond)
		}
		job.Window = window{from, from.Add(time.Duration(300+k.rng.IntN(1200)) * time.Millisecond)}
		errnos := []syscall.Errno{syscall.EMFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS}
		if k.world == overQuota {
			errnos = []syscall.Errno{syscall.EDQUOT, syscall.ENOSPC}
		}
		job.Errno = errnos[k.rng.IntN(len(errnos))]
	}
	if k.world == noNames && job.KillAt != "outage" {
		k.breakOff(simweb.Outage{NoNames: true}, job.Window)
	}
}

// breakOff has an outage in a window, until the child has ended.
func (k *killTest) breakOff(o simweb.Outage, w window) {
	web := k.web
	begin := time.AfterFunc(time.Until(w.From), func() { web.SetOutage(o) })
	end := time.AfterFunc(time.Until(w.Until), func() { web.SetOutage(simweb.Outage{}) })
	k.calm = func() { begin.Stop(); end.Stop(); web.SetOutage(simweb.Outage{}) }
}

// meet notes that the trouble has befallen the child.
func (j *childJob) meet() {
	if err := os.WriteFile(j.Met, nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// inTrouble gives the child's options what its world asks for.
func (j *childJob) inTrouble(opt *Options) {
	opt.Resolver = metNames{troubledNames{opt.Resolver, j.World}, j}
	// Outages and faults of a second or two are to these what those of the simulation's worlds are to the defaults.
	opt.tuneWaits = func(w *waits) {
		*w = waits{confirm: 700 * time.Millisecond, confirmOutage: time.Second, ourFault: 200 * time.Millisecond,
			patience: 3 * time.Second}
	}
	switch j.World {
	case overQuota:
		fs := opt.FS
		if fs == nil {
			fs = disk.OS()
		}
		opt.FS = disk.NewFault(fs, func(op disk.Op, name string) error {
			if (op == disk.OpWrite || op == disk.OpCreate || op == disk.OpPreallocate) && j.Window.now() {
				j.meet()
				return &os.PathError{Op: op.String(), Path: name, Err: j.Errno}
			}
			return nil
		})
	case bannedLast, networkResets:
		opt.HostFailures, opt.HostRests, opt.BackoffMax, opt.Linger = 3, 1, 200*time.Millisecond, 2500*time.Millisecond
		opt.tunePolicy = func(p *health.Policy) { p.LongRest, p.LongRestMax = 500*time.Millisecond, time.Second }
	}
}

// fetchOptions are those of the child's client. A Dial hook takes the place of the client's own way to connect, so there is one only
// where it must be.
func (j *childJob) fetchOptions() fetch.Options {
	opt := fetch.Options{
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []uint16{8080},
		MapPort: func(p uint16) uint16 {
			if p == 443 {
				return j.HTTPS
			}
			return j.HTTP
		},
	}
	switch j.World {
	case bannedLast:
		opt.Limits.FirstByte = time.Second
	case noWay, noDescriptors:
		opt.Dial = j.dial
	}
	return opt
}

func (j *childJob) dial(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	err := error(nil)
	switch {
	case j.World == noDescriptors && j.Window.now():
		err = j.Errno
	case a.Addr().Is6(): // never by the machine's own network
		err = [...]syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL}[a.Addr().As16()[5]%3]
	default:
		return (&net.Dialer{}).DialContext(ctx, "tcp", a.String())
	}
	j.meet()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
}

// metNames notes when a name doesn't exist: all that the crawl asks for do.
type metNames struct {
	Resolver
	job *childJob
}

func (m metNames) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	l, err := m.Resolver.LookupHost(ctx, host, pld)
	var le *LookupError
	if errors.As(err, &le) && le.NotFound {
		m.job.meet()
	}
	return l, err
}

// strangersServers are where hosts beside the web are that come to be in trouble for good, over sockets.
type strangersServers struct {
	web       tinyWeb
	listeners []net.Listener
	left      atomic.Int64 // pages that are served before the trouble
	met       atomic.Bool
	running   sync.WaitGroup
}

// startStrangers listens on the strangers' addresses at the web's port; nil if the world has none.
func startStrangers(t *testing.T, world trouble, port uint16) *strangersServers {
	t.Helper()
	if world != bannedLast && world != networkResets {
		return nil
	}
	s := &strangersServers{}
	s.web.serve, s.web.raw = pagesOnly, func(c net.Conn, _, path string) bool { return s.raw(world, c, path) }
	hosts := map[string]bool{}
	for _, url := range world.strangers() {
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		hosts[host] = true
	}
	s.left.Store(int64(len(world.strangers()) / 2))
	for host := range hosts {
		l, err := net.Listen("tcp", netip.AddrPortFrom(world.address(host), port).String())
		if err != nil {
			t.Fatal(err)
		}
		s.listeners = append(s.listeners, l)
		s.running.Go(func() { s.accept(l) })
	}
	return s
}

func (s *strangersServers) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err == nil {
			s.running.Go(func() { s.web.handle(c) })
		}
	}
}

// raw leaves a request without an answer, or resets its connection, once enough pages have been served.
func (s *strangersServers) raw(world trouble, c net.Conn, path string) bool {
	if path == "/robots.txt" && s.left.Load() > 0 || path != "/robots.txt" && s.left.Add(-1) >= 0 {
		return false
	}
	s.met.Store(true)
	if world == networkResets {
		_ = c.(*net.TCPConn).SetLinger(0) // closed with RST
	} else {
		_, _ = io.Copy(io.Discard, c)
	}
	return true
}

func (s *strangersServers) close() {
	if s == nil {
		return
	}
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.running.Wait()
}
