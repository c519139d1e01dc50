package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"drumbeat/disk/memfs"
	"drumbeat/internal/linktrace"
	"drumbeat/state/changes"
)

// locker is a sync.Mutex or a sync.RWMutex.
type locker interface {
	TryLock() bool
	Unlock()
}

// locksOf finds all mutexes of this program that can be reached from v, by name. It looks at no maps.
func locksOf(v reflect.Value, name string, seen map[unsafe.Pointer]bool, found map[string]locker) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			locksOf(v.Elem(), name, seen, found)
		}
	case reflect.Array, reflect.Slice:
		for i := range min(v.Len(), 8) {
			locksOf(v.Index(i), fmt.Sprintf("%s[%d]", name, i), seen, found)
		}
	case reflect.Struct:
		if !v.CanAddr() || v.NumField() == 0 || seen[v.Addr().UnsafePointer()] && v.Field(0).Kind() != reflect.Struct {
			return
		}
		switch at := v.Addr().UnsafePointer(); v.Type() {
		case reflect.TypeFor[sync.Mutex]():
			found[name] = (*sync.Mutex)(at)
			return
		case reflect.TypeFor[sync.RWMutex]():
			found[name] = (*sync.RWMutex)(at)
			return
		default:
			if path := v.Type().PkgPath(); path != "" && !strings.HasPrefix(path, "drumbeat/") {
				return
			}
			seen[at] = true
		}
		for i := range v.NumField() {
			locksOf(v.Field(i), v.Type().String()+"."+v.Type().Field(i).Name, seen, found)
		}
	}
}

// lockedLog is a log that finds out under which locks its lines are written.
type lockedLog struct {
	slog.Handler
	turn  chan struct{} // guards the fields below; unlike a mutex, it lets virtual time pass for those who wait
	locks map[string]locker
	lines map[string]bool // messages
	held  map[string]bool // messages with a lock
}

func (*lockedLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler. What other goroutines hold they release while it sleeps.
func (l *lockedLog) Handle(_ context.Context, r slog.Record) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.lines[r.Message] = true
	for name, lock := range l.locks {
		free := lock.TryLock()
		for n := 0; !free && n < 20; n++ {
			time.Sleep(time.Millisecond)
			free = lock.TryLock()
		}
		if free {
			lock.Unlock()
		} else {
			l.held[fmt.Sprintf("%q is logged under %s", r.Message, name)] = true
		}
	}
	return nil
}

// busyWeb has pages of a thousand links, and a host that is always busy.
func busyWeb() *tinyWeb {
	return &tinyWeb{Serve: func(host, path string) answer {
		switch {
		case path == "/robots.txt":
			return noRobots
		case host == "busy0.test":
			return answer{503, "", ""}
		}
		var links strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&links, "<a href=/%d.gif>", i)
		}
		return answer{200, "", "<html>" + links.String()}
	}}
}

// TestLogLinesAreWrittenWithoutLocks: whatever a crawl logs, it holds no lock meanwhile that others may need. A log
// whose reader has stopped would stop them.
func TestLogLinesAreWrittenWithoutLocks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		web := busyWeb()
		opt := tinyOptions(t, web, fs, append(urls("busy", 1, 3), urls("a", 1, 400)...)...)
		writeRules(t, fs, "sites.toml", "[[site]]\nhost = \"a0.test\"\ndelay = \"5s\"\n")
		writeRules(t, fs, "rules", "- surt (test,other,\n")
		writeRules(t, fs, "trusted", "a0.test\n")
		opt.Admission.Sites, opt.Admission.Rules, opt.Budgets.Trusted, opt.Observe.TraceLinks, opt.Observe.TraceLimit =
			"sites.toml", []string{"rules"}, "trusted", "trace", linktrace.MinLimitBytes
		log := &lockedLog{Handler: slog.DiscardHandler, turn: make(chan struct{}, 1), lines: map[string]bool{},
			held: map[string]bool{}}
		opt.Observe.Log, opt.Observe.Control, opt.Politeness.HostDelay = slog.New(log), new(Control), time.Second
		opt.Health.HostFailures = 2
		opt.defaults()
		c, err := open(opt)
		must(t, err)
		log.locks = map[string]locker{}
		locksOf(reflect.ValueOf(c), "", map[unsafe.Pointer]bool{}, log.locks)
		for _, name := range []string{"account.Run.TxLock", "operate.Operator.mu", "operate.Control.mu",
			"checkpoint.Maker.mu", "drum.Drum.gate", "polite.Scheduler.mu", "space.Keeper.mu"} {
			if log.locks[name] == nil {
				t.Errorf("the test does not know the lock %s", name)
			}
		}
		ended := make(chan error)
		go func() {
			_, err := c.crawl(t.Context(), 0)
			opt.Observe.Control.Attach(nil)
			ended <- err
		}()
		<-opt.Observe.Control.Started()
		change := func(c changes.Change) {
			if _, err := opt.Observe.Control.Make(t.Context(), c); err != nil {
				t.Errorf("%s: %v", c.Op, err)
			}
			time.Sleep(time.Second)
		}
		change(changes.Change{Op: changes.OpCheckpoint})
		reload := func() {
			if _, _, err := opt.Observe.Control.Reload(t.Context(), "test", false); err != nil {
				t.Error(err)
			}
		}
		reload()
		change(changes.Change{Op: changes.OpReload})
		time.Sleep(2 * time.Minute) // busy0.test has failed meanwhile
		change(changes.Change{Op: changes.OpEnqueue, Seeds: urls("a", 1, 400)[300:]})
		change(changes.Change{Op: changes.OpBlock, Rule: "net 127.0.0.0/8"})
		change(changes.Change{Op: changes.OpStop})
		if err := errors.Join(<-ended, c.close()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for _, want := range []string{"change by the operator", "rules and blacklist reloaded",
			"site settings reloaded", "trusted PLDs reloaded", "checkpoint", "an enqueued URL was refused",
			"host in back-off or given up", "the link trace has reached its limit and ends; the crawl continues"} {
			if !log.lines[want] {
				t.Errorf("no line %q", want)
			}
		}
		for _, line := range slices.Sorted(maps.Keys(log.held)) {
			t.Error(line)
		}
		t.Logf("%d locks, %d messages", len(log.locks), len(log.lines))
	})
}
