package crawl

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/linktrace"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// traced returns the links of a trace and the summary of its heads.
func traced(t *testing.T, fs disk.FS, name string) ([]uint64, linktrace.Summary) {
	t.Helper()
	r, err := linktrace.Open(fs, name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	keys := make([]uint64, r.Summary().Links)
	if n, err := r.Read(keys); err != nil || n != len(keys) {
		t.Fatalf("read %d of %d links: %v", n, len(keys), err)
	}
	return keys, r.Summary()
}

// TestTraceHasEveryLink: the trace must have the links that the crawl looked up in the RAM cache, or sent
// to URLseen if there is no cache, over two runs. Seeds must not be in it.
func TestTraceHasEveryLink(t *testing.T) {
	for _, cache := range []int64{0, Unlimited} { // the default, none
		inBubble(t, func(t *testing.T) {
			web, fs := smallWeb(t, nil), memfs.New(*seedFlag)
			opt := simOptions(t, web, fs)
			opt.Drum.CacheRAMBytes, opt.Observe.TraceLinks = cache, "links.trace"
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			first, err := Run(ctx, opt)
			if err != nil {
				t.Fatal(err)
			}
			before, _ := traced(t, fs, opt.Observe.TraceLinks)
			opt.Disk.New = false
			res, err := Run(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			checkFetched(t, web, &opt)
			s := &res.Snapshot
			keys, sum := traced(t, fs, opt.Observe.TraceLinks)
			seeds := int64(len(opt.Admission.SeedLines))
			if want := s.Count(state.CountLinksCached) + s.Count(state.CountLinksChecked) - seeds; sum.Links != want {
				t.Errorf("the trace has %d links, the counters say %d", sum.Links, want)
			}
			if first.Stop != StopCancelled || len(before) == 0 || len(before) == len(keys) || sum.Generations != 2 {
				t.Errorf("the first run ended by %q with %d of %d links, generations %d: too few for this test",
					first.Stop, len(before), len(keys), sum.Generations)
			}
			distinct := map[uint64]bool{}
			for _, k := range keys {
				distinct[k] = true
			}
			if n := int64(len(distinct)); n > s.Unique || n < s.Unique-seeds {
				t.Errorf("%d distinct keys for %d unique URLs, %d of them seeds", n, s.Unique, seeds)
			}
		})
	}
}

// failingTrace is a file system on which writes to the trace fail.
type failingTrace struct {
	disk.FS
	name string
}

type failingFile struct{ disk.File }

func (f failingTrace) Create(name string) (disk.File, error) {
	file, err := f.FS.Create(name)
	if name == f.name && err == nil {
		file = failingFile{file}
	}
	return file, err
}

func (f failingFile) WriteAt(p []byte, off int64) (int, error) {
	if off > 0 {
		return 0, errors.New("the trace's disk is broken")
	}
	return f.File.WriteAt(p, off)
}

// TestTraceFaults: a trace that can't begin must stop the crawl before it starts. When a trace fails or is
// full, the crawl must log it and continue to its end.
func TestTraceFaults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, mem := smallWeb(t, nil), memfs.New(*seedFlag)
		opt := simOptions(t, web, mem)
		opt.Observe.TraceLinks = "no/such/directory/links.trace"
		if _, err := Run(t.Context(), opt); !errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(err.Error(), "trace of links") {
			t.Fatalf("got %v", err)
		}
		opt.Observe.TraceLimit = 1
		if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "trace limit of 1 bytes") {
			t.Fatalf("got %v", err)
		}
		var log bytes.Buffer
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		opt.Disk.FS, opt.Observe.TraceLinks, opt.Observe.TraceLimit = failingTrace{mem, "links.trace"}, "links.trace", 0
		if _, err := Run(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		checkFetched(t, web, &opt)
		if n := strings.Count(log.String(), "trace of links ends"); n != 1 ||
			!strings.Contains(log.String(), "the trace's disk is broken") ||
			!strings.Contains(log.String(), "some are missing") {
			t.Errorf("logged %d times in\n%s", n, log.String())
		}
	})
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.LinksPerPage = 60 })
		mem := memfs.New(*seedFlag)
		opt := simOptions(t, web, mem)
		var log bytes.Buffer
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		opt.Observe.TraceLinks, opt.Observe.TraceLimit = "links.trace", linktrace.MinLimitBytes
		if _, err := Run(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		checkFetched(t, web, &opt)
		if _, sum := traced(t, mem, opt.Observe.TraceLinks); sum.Links < 8192 ||
			strings.Count(log.String(), "has reached its limit") != 1 {
			t.Errorf("got %d links and\n%s", sum.Links, log.String())
		}
	})
}
