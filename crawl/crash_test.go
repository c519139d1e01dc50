package crawl

import (
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"drumbeat/disk"
)

// crashes is how often TestCrash interrupts each crawl, crashCrawls how many crawls there are.
var (
	crashes     = flag.Int("crashes", 12, "interruptions of each crawl of TestCrash")
	crashCrawls = flag.Int("crash-crawls", 4, "crawls of TestCrash")
)

// TestCrash cuts crawls off at random writes, syncs, renames and deletes, as kill -9 and as a power cut do, and resumes
// them. At the end everything was fetched and stored once, and the web saw no delay violated across the cuts.
func TestCrash(t *testing.T) {
	for i := range *crashCrawls {
		seed := *seedFlag + uint64(i)
		inBubble(t, func(t *testing.T) { crashCrawl(t, seed) })
	}
}

func crashCrawl(t *testing.T, seed uint64) {
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	web := smallWeb(t, nil)
	fs := disk.NewMem(seed)
	opt := simOptions(t, web, fs)
	small(&opt)
	opt.CheckpointEvery = 500 * time.Millisecond
	opt.WARCFileBytes = 100_000
	for range *crashes {
		fs.CrashAfter(1 + rng.IntN(1500))
		opt.FS = fs
		_, err := Run(t.Context(), opt)
		if errors.Is(err, ErrFinished) || err == nil {
			break
		}
		if !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if rng.IntN(2) == 0 {
			fs = fs.Kill()
		} else {
			fs = fs.Crash()
		}
		if rep, err := Audit(fs, opt.Dirs); err == nil && !rep.Balanced() {
			t.Fatalf("seed %d: audit: %v", seed, rep.Bad)
		} else if err != nil && !errors.Is(err, ErrIncompatible) {
			t.Fatalf("seed %d: audit: %v", seed, err)
		}
	}
	fs = fs.Kill()
	opt.FS = fs
	if _, err := Run(t.Context(), opt); err != nil && !errors.Is(err, ErrFinished) {
		t.Fatalf("seed %d: %v", seed, err)
	}
	snap := web.Log().Snapshot()
	checkDelays(t, snap, &opt, 0)
	checkStored(t, web, fs, opt.Dirs)
	if t.Failed() {
		t.Fatalf("seed %d failed", seed)
	}
}
