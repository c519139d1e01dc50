package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"drumbeat/crawl/account"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/state"
)

// panicsAt panics for one URL in the part of the crawl named by what.
type panicsAt struct {
	Fetcher
	w         *tinyWeb
	what, url string
}

func (p *panicsAt) reading(what string, url []byte) {
	if what == p.what && string(url) == p.url {
		panic("made up: " + what)
	}
}

func (p *panicsAt) Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error {
	err := p.Fetcher.Do(ctx, req, resp)
	p.reading("answer", []byte("http://"+req.Host+req.PathQuery))
	return err
}

func (p *panicsAt) LookupHost(ctx context.Context, host, pld string) (Lookup, error) {
	p.reading("name", []byte(host))
	return p.w.LookupHost(ctx, host, pld)
}

// crawlWithPanic crawls a small web and returns the requested URLs.
func crawlWithPanic(t *testing.T, what, url string) (asked []string, res *Result, logged string) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: func(host, path string) answer {
			switch {
			case path == "/robots.txt":
				return answer{200, "", "User-agent: *\nDisallow: /no\n"}
			case path == "/":
				return answer{200, "", "<html><a href=/1><a href=/2><a href=http://b.test/1><a href=http://b.test/2>"}
			}
			return answer{200, "", fmt.Sprintf("<html><a href=%sx>", path[:2])}
		}}
		mem := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, mem, "http://a.test/")
		atOnce(&opt)
		p := &panicsAt{Fetcher: opt.Network.Fetcher, w: w, what: what, url: url}
		var log strings.Builder
		opt.Network.Fetcher, opt.Network.Resolver, opt.tests.reading = p, p, p.reading
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		opt.Limits.Linger = 0
		res = mustRun(t, t.Context(), opt)
		logged = log.String()
		for _, q := range w.Pages("") {
			asked = append(asked, q.Host+q.Path)
		}
		slices.Sort(asked)
		checkBalanced(t, mem, opt.Disk.Dirs)
		if res, err := Run(t.Context(), opt); what != "robots" && what != "name" && !errors.Is(err, state.ErrFinished) {
			t.Errorf("the next run: got %+v, %v, want %v", res, err, state.ErrFinished)
		}
	})
	return asked, res, logged
}

// outsideOfTransactions is a log handler at the default level that records the lines written within a
// transaction.
type outsideOfTransactions struct {
	slog.Handler
	mu     sync.Mutex
	within []string
}

func (h *outsideOfTransactions) Handle(_ context.Context, rec slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var buf [64]uintptr
	for frames := runtime.CallersFrames(buf[:runtime.Callers(2, buf[:])]); ; {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "(*Run).Transact") {
			h.within = append(h.within, rec.Message)
		}
		if !more {
			return nil
		}
	}
}

// TestTransactionsWriteNoLog: no transaction may write the log. Otherwise it waits for the log's reader,
// while all other transactions and checkpoints wait for it. It guards against the line "host in back-off or
// given up".
func TestTransactionsWriteNoLog(t *testing.T) {
	notShort(t)
	h := &outsideOfTransactions{Handler: slog.NewTextHandler(io.Discard, nil)}
	_ = newCrawler(Options{}).Transact(func(*account.Tx) error { slog.New(h).Info("here"); return nil })
	if len(h.within) != 1 {
		t.Fatalf("the handler recorded %q for a line within a transaction", h.within)
	}
	h.within = nil
	run := crawlWelcome(t, func(o *Options) { o.Observe.Log = slog.New(h) }, "welcome-failing")
	if run.res.Snapshot.Count(state.CountHostRests) == 0 || run.res.Snapshot.Count(state.CountHostsGivenUp) == 0 {
		t.Errorf("%d back-offs, %d hosts given up: the lines under test are missing",
			run.res.Snapshot.Count(state.CountHostRests), run.res.Snapshot.Count(state.CountHostsGivenUp))
	}
	if len(h.within) > 0 {
		t.Errorf("%d lines within a transaction: %q", len(h.within), h.within)
	}
}

// TestPanicsAreContained: a page that makes a parser panic must end as refused and not end the process. It
// guards against a crawl that panicked again after each restart, since the last checkpoint had the page in
// RAM.
func TestPanicsAreContained(t *testing.T) {
	all, _, _ := crawlWithPanic(t, "", "")
	if len(all) != 9 {
		t.Fatalf("requested %q", all)
	}
	for _, test := range []struct {
		what, url string
		lost      []string // URLs that get no request: links of the page only, or what the rules would allow
		refused   int64
		errors    int64
	}{
		{"page", "http://a.test/1", []string{"a.test/1x"}, 1, 1},
		{"answer", "http://b.test/2", []string{"b.test/2x"}, 1, 1},
		{"rules", "http://a.test/2", []string{"a.test/2", "a.test/2x"}, 1, 0},
		{"robots", "http://b.test:80", []string{"b.test/1", "b.test/1x", "b.test/2", "b.test/2x"}, 0, 1},
		{"name", "b.test", []string{"b.test/1", "b.test/1x", "b.test/2", "b.test/2x"}, 0, 0},
	} {
		t.Run(test.what, func(t *testing.T) {
			asked, res, log := crawlWithPanic(t, test.what, test.url)
			want := slices.DeleteFunc(slices.Clone(all),
				func(url string) bool { return slices.Contains(test.lost, url) })
			if !slices.Equal(asked, want) {
				t.Errorf("requested %q, want %q", asked, want)
			}
			if n := res.Snapshot.Refused["internal-error"]; n != test.refused {
				t.Errorf("refused %d URLs because of a bug, want %d: %v", n, test.refused, res.Snapshot.Refused)
			}
			if n := res.Snapshot.Count(state.CountInternalErrors); n < test.errors || test.errors == 0 && n > 0 {
				t.Errorf("%d internal errors counted, want %d", n, test.errors)
			}
			host := strings.TrimSuffix(strings.TrimPrefix(test.url, "http://"), ":80")
			if n := strings.Count(log, "panicked"); n == 0 || n > account.MaxStacks || !strings.Contains(log, host) ||
				!strings.Contains(log, "contain_test.go") {
				t.Errorf("%d panics logged: %s", n, log)
			}
		})
	}
}

// TestPanicOfAStage: a panic that isn't caused by a site must end the process through Options.Observe.Panicked. The
// disk must have the last checkpoint.
func TestPanicOfAStage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &tinyWeb{Serve: pagesOnly}
		mem := memfs.New(*seedFlag)
		opt := tinyOptions(t, w, mem, "http://a.test/")
		atOnce(&opt)
		ctx, end := context.WithCancel(t.Context())
		told := make(chan string, 1)
		opt.tests.hook = func(place string) {
			if place == "roll" { // within a transaction
				panic("made up")
			}
		}
		opt.Observe.Panicked = func(value any, stack []byte) {
			told <- fmt.Sprint(value, " ", strings.Contains(string(stack), "contain_test.go"))
			end()
			runtime.Goexit() // stands for the end of the process
		}
		mustRun(t, ctx, opt)
		if got := <-told; got != "made up true" {
			t.Errorf("Panicked got %q", got)
		}
		opt.tests.hook, opt.Observe.Panicked = nil, nil
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone || res.Snapshot.Count(state.CountPages) != 1 {
			t.Errorf("the next run: %q, %d pages", res.Stop, res.Snapshot.Count(state.CountPages))
		}
		checkBalanced(t, mem, opt.Disk.Dirs)
	})
}
