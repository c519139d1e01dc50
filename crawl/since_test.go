package crawl

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/warc"
)

// sinceWorld is a web of mirrors whose even pages change between the crawls.
type sinceWorld struct {
	*tinyWeb
	again bool
}

const sinceHosts, sincePages = 3, 150

func newSinceWorld() *sinceWorld {
	w := &sinceWorld{tinyWeb: mirrors(sinceHosts, sincePages)}
	plain := w.Serve
	w.Serve = func(host, path string) answer {
		a := plain(host, path)
		if w.again && strings.HasPrefix(path, "/p") && strings.ContainsAny(path[len(path)-1:], "02468") {
			a.Body += "<p>new"
		}
		return a
	}
	return w
}

// options are those of a crawl in a directory, since others.
func (w *sinceWorld) options(t *testing.T, fs disk.FS, dir string, since ...string) Options {
	opt := tinyOptions(t, w.tinyWeb, fs, "http://m0.test/")
	opt.Disk.Dirs, opt.Disk.CheckpointEvery = []string{dir}, 10*time.Minute
	small(&opt)
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, time.Second
	opt.tests.tune = func(p *plan.Plan) { // the bodies of the earlier crawl need several passes
		p.Content.Buckets, p.Content.BufferBytes, p.Content.BucketBytes = 1, 4<<10, 4<<10
	}
	for _, d := range since {
		opt.Output.Since = append(opt.Output.Since, []string{d})
	}
	return opt
}

// captures returns the captures of pages in a directory: responses and revisits.
func captures(t *testing.T, fs disk.FS, dir string) (responses map[string]string, revisits []warc.Record) {
	t.Helper()
	responses = map[string]string{}
	for _, rec := range storedRecords(t, fs, []string{dir}) {
		switch url := rec.Get("WARC-Target-URI"); {
		case !strings.Contains(url, ".test/p"):
		case rec.Type() == "revisit":
			revisits = append(revisits, rec)
		default:
			responses[url+" "+rec.Get("WARC-Date")] = rec.Get("WARC-Payload-Digest")
		}
	}
	return responses, revisits
}

// check compares what a crawl stored with the truth: no body of the earlier crawls is stored again, each revisit refers
// to a response that has its payload, and each page was captured once.
func (w *sinceWorld) check(t *testing.T, fs disk.FS, dir string, earlier ...string) {
	t.Helper()
	old := map[string]string{}
	known := map[string]bool{}
	for _, d := range earlier {
		responses, _ := captures(t, fs, d)
		for capture, digest := range responses {
			old[capture], known[digest] = digest, true
		}
	}
	responses, revisits := captures(t, fs, dir)
	for capture, digest := range responses {
		if known[digest] {
			t.Errorf("%s: its body is in an earlier crawl", capture)
		}
	}
	toEarlier := 0
	for _, rec := range revisits {
		of := rec.Get("WARC-Refers-To-Target-URI") + " " + rec.Get("WARC-Refers-To-Date")
		digest, in := responses[of]
		if !in {
			digest = old[of]
			toEarlier++
		}
		if digest == "" || digest != rec.Get("WARC-Payload-Digest") {
			t.Errorf("%s refers to %s, which has %q", rec.Get("WARC-Target-URI"), of, digest)
		}
	}
	if len(responses) != sincePages/2 || len(revisits) != sinceHosts*sincePages-sincePages/2 ||
		toEarlier != sinceHosts*sincePages/2 {
		t.Errorf("%d responses, %d revisits, %d of them of earlier crawls", len(responses), len(revisits), toEarlier)
	}
	checkBalanced(t, fs, []string{dir})
}

// runCrashing runs a crawl over so many kills and power cuts, each at a random moment, until it ends.
func runCrashing(t *testing.T, fs *memfs.FS, rng *rand.Rand, crashes int,
	options func(*memfs.FS) Options) (*Result, *memfs.FS) {
	t.Helper()
	for n := 0; ; n++ {
		if n < crashes {
			fs.CrashAfter(1 + rng.IntN(20<<(2*rng.IntN(5))))
		}
		res, err := Run(t.Context(), options(fs))
		if errors.Is(err, state.ErrFinished) { // cut after its last manifest
			err = nil
		}
		if err == nil {
			fs.CrashAfter(0)
			return res, fs
		}
		if !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("after %d crashes: %v", n, err)
		}
		if fs = fs.Crash(); rng.IntN(2) == 0 {
			fs = fs.Kill()
		}
	}
}

// TestSince: bodies that an earlier crawl has stored become revisit records that refer to it, over kills and power cuts
// at any moment from the start on.
func TestSince(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seedFlag, 36))
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		inBubble(t, func(t *testing.T) {
			w, fs := newSinceWorld(), memfs.New(*seedFlag)
			mustRun(t, t.Context(), w.options(t, fs, "a"))
			w.again = true
			_, fs = runCrashing(t, fs, rng, round, func(fs *memfs.FS) Options { return w.options(t, fs, "b", "a") })
			w.check(t, fs, "b", "a")
		})
	}
}

// TestSinceTwice: a third crawl refers to both crawls before it.
func TestSinceTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := newSinceWorld(), memfs.New(*seedFlag)
		mustRun(t, t.Context(), w.options(t, fs, "a"))
		w.again = true
		mustRun(t, t.Context(), w.options(t, fs, "b", "a"))
		mustRun(t, t.Context(), w.options(t, fs, "c", "a", "b"))
		if responses, revisits := captures(t, fs, "c"); len(responses) > 0 || len(revisits) != sinceHosts*sincePages {
			t.Errorf("%d responses, %d revisits", len(responses), len(revisits))
		}
		mustRun(t, t.Context(), w.options(t, fs, "d", "b")) // b has the bodies of a
		if responses, _ := captures(t, fs, "d"); len(responses) > 0 {
			t.Errorf("%d responses", len(responses))
		}
	})
}

// TestSinceOut: the output directories of the earlier crawl may be named for its bodies, but need not.
func TestSinceOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := newSinceWorld(), memfs.New(*seedFlag)
		a := w.options(t, fs, "a")
		a.Disk.Out = []string{"out"}
		mustRun(t, t.Context(), a)
		for dir, since := range map[string][]string{"b": {"a"}, "c": {"out", "a"}} {
			opt := w.options(t, fs, dir)
			opt.Output.Since = [][]string{since}
			mustRun(t, t.Context(), opt)
			responses, revisits := captures(t, fs, dir)
			if len(responses) > 0 || len(revisits) != sinceHosts*sincePages {
				t.Errorf("since %v: %d responses, %d revisits", since, len(responses), len(revisits))
			}
		}
	})
}

// TestSinceRefuses: crawls with other keys, no crawl, and a crawl that began without the flag.
func TestSinceRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, fs := newSinceWorld(), memfs.New(*seedFlag)
		mustRun(t, t.Context(), w.options(t, fs, "a"))
		mustRun(t, t.Context(), w.options(t, fs, "other"))
		refused := func(opt Options, want string) {
			t.Helper()
			if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		refused(w.options(t, fs, "b", "a", "other"), "has other keys")
		refused(w.options(t, fs, "b", "none"), "none")
		refused(w.options(t, fs, "other", "a"), "this one began without")
		out := w.options(t, fs, "out")
		out.Disk.Out = []string{"files"}
		mustRun(t, t.Context(), out)
		known := w.options(t, fs, "b", "out")
		known.Output.SinceKnown = options.KnownSkip
		refused(known, "name these directories, too (--since out,OUT)")
		known.Output.Since[0] = []string{"files"}
		refused(known, "all of these are output directories")
		known.Output.Since[0] = []string{"files", "a"}
		refused(known, "so files is of another crawl")
		known.Output.Since = nil
		refused(known, "need the earlier crawls")
		skip := w.options(t, fs, "b", "a")
		skip.Output.ContentSeen = state.ContentSkip
		refused(skip, "writes revisit records")
		skip.Output.ContentSeen, skip.Output.Store = "", false
		refused(skip, "writes revisit records")
		begun := w.options(t, fs, "b", "a")
		begun.Limits.MaxPages = 20
		mustRun(t, t.Context(), begun)
		mustRun(t, t.Context(), w.options(t, fs, "b")) // the flag is for the beginning
		if _, err := Run(t.Context(), w.options(t, fs, "b", "a")); !errors.Is(err, state.ErrFinished) {
			t.Errorf("the same command again: %v", err)
		}
	})
}
