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

	"drumbeat/crawl/outage"
	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/internal/walk"
)

// overQuota is a trouble that the worlds of TestCutsAtRandom can have in addition to another.
const overQuota trouble = "writes exceed a quota that statfs doesn't show, for a while"

// walking is a world without trouble, whose crawls are random walks.
const walking trouble = "a random walk"

// killWorlds are the troubles of TestKill's crawls. A passing trouble comes once for each child. It can
// outlast the process or end while the process lives. The parent causes some troubles and the child the
// others.
var killWorlds = []trouble{noTrouble, overQuota, noNames, noDescriptors, noWay, bannedLast, networkResets, walking}

// window is the time of a passing trouble.
type window struct{ From, Until time.Time }

func (w window) now() bool { now := time.Now(); return now.After(w.From) && now.Before(w.Until) }

// trouble arranges the passing trouble for the next child.
func (k *killTest) trouble() {
	if k.world != overQuota && k.world != noNames && k.world != noDescriptors {
		return
	}
	job := &k.job
	if now := time.Now(); now.After(job.Window.Until) {
		from := now
		switch { // the trouble of noNames must come while the child looks names up, at its start
		case k.world == noNames && k.rounds > 0 && !k.met: // a child may take longer to start
			from = now.Add(time.Duration(k.rng.IntN(300*(1+k.more))) * time.Millisecond)
		case k.world != noNames || k.rounds > 0:
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

// breakOff causes an outage in a window. It ends at the latest when the child has ended.
func (k *killTest) breakOff(o simweb.Outage, w window) {
	web := k.web
	begin := time.AfterFunc(time.Until(w.From), func() { web.SetOutage(o) })
	end := time.AfterFunc(time.Until(w.Until), func() { web.SetOutage(simweb.Outage{}) })
	k.calm = func() { begin.Stop(); end.Stop(); web.SetOutage(simweb.Outage{}) }
}

// meet records that the child met the trouble.
func (j *childJob) meet() {
	if err := os.WriteFile(j.Met, nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// inTrouble sets the options that the world's trouble requires.
func (j *childJob) inTrouble(opt *Options) {
	opt.Network.Resolver = metNames{troubledNames{opt.Network.Resolver, j.World}, j}
	// These waits are to an outage of one or two seconds what the defaults are to the outages of the
	// simulation.
	opt.tests.tuneWaits = func(w *retryWaits) {
		*w = retryWaits{Waits: outage.Waits{Confirm: 700 * time.Millisecond, ConfirmOutage: time.Second,
			Patience: 3 * time.Second}, ourFault: 200 * time.Millisecond}
	}
	switch j.World {
	case overQuota:
		fs := opt.Disk.FS
		if fs == nil {
			fs = disk.OS()
		}
		opt.Disk.FS = memfs.NewFault(fs, func(op memfs.Op, name string) error {
			if (op == memfs.OpWrite || op == memfs.OpCreate || op == memfs.OpPreallocate) && j.Window.now() {
				j.meet()
				return &os.PathError{Op: op.String(), Path: name, Err: j.Errno}
			}
			return nil
		})
	case walking:
		opt.Order.Strategy, opt.Order.Walk = strategy.RandomWalk, walk.Options{Walkers: 10, URLs: j.WalkURLs}
	case bannedLast, networkResets:
		opt.Health.HostFailures, opt.Health.HostRests, opt.Health.BackoffMax, opt.Limits.Linger = 3, 1,
			200*time.Millisecond, 2500*time.Millisecond
		opt.tests.tunePolicy = func(p *health.Policy) { p.LongRest, p.LongRestMax = 500*time.Millisecond, time.Second }
	}
}

// fetchOptions returns the options of the child's client. They have a Dial hook only where the trouble
// needs it, since the hook replaces the client's own way to connect.
func (j *childJob) fetchOptions() fetch.Options {
	opt := fetch.Options{
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: ports.Of(8080),
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
	case a.Addr().Is6(): // never over the machine's own network
		err = [...]syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL}[a.Addr().As16()[5]%3]
	default:
		return (&net.Dialer{}).DialContext(ctx, "tcp", a.String())
	}
	j.meet()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
}

// metNames records when a name doesn't exist; every name that the crawl looks up does exist.
type metNames struct {
	outage.Resolver
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

// strangersServers are the servers of strangers that get into permanent trouble, over sockets.
type strangersServers struct {
	web       tinyWeb
	listeners []net.Listener
	left      atomic.Int64 // pages to serve before the trouble
	met       atomic.Bool
	running   sync.WaitGroup
}

// startStrangers listens on the strangers' addresses at the web's port. It returns nil if the world has no
// strangers.
func startStrangers(t *testing.T, world trouble, port uint16) *strangersServers {
	t.Helper()
	if world != bannedLast && world != networkResets {
		return nil
	}
	s := &strangersServers{}
	s.web.Serve, s.web.Raw = pagesOnly, func(c net.Conn, _, path string) bool { return s.raw(world, c, path) }
	hosts := map[string]bool{}
	for _, url := range world.strangers() {
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		hosts[host] = true
	}
	s.left.Store(int64(len(world.strangers()) / 2))
	for host := range hosts {
		l, err := net.Listen("tcp", netip.AddrPortFrom(world.address(host), port).String())
		must(t, err)
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
			s.running.Go(func() { s.web.Handle(c) })
		}
	}
}

// raw leaves a request without an answer or resets its connection, once the server has served enough pages.
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
