package export

import (
	"context"
	"errors"
	"time"

	"drumbeat/disk"
	"drumbeat/state"
)

// followEvery is the time between two looks at the manifest.
const followEvery = time.Second

// Follow writes changes to opt.Stream as the crawl makes checkpoints, until ctx is done, and then returns its cause.
// After each checkpoint it calls each with the report of the rows that this one added. The crawl need not run. A crash
// of the crawl takes no row back, since a checkpoint has it.
func Follow(ctx context.Context, opt Options, each func(*Report)) error {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	match, err := disk.MatchIdentities(opt.FS, opt.Dirs, state.KindState)
	if err != nil {
		return state.MatchError(err)
	}
	if match.Set.Len() == 0 {
		return state.NoCrawl(opt.Dirs[0])
	}
	if !opt.Texts { // which need all bodies, for revisits
		opt.carry = new(carry)
		defer func() {
			// An error leaves files that the next export removes.
			_ = opt.carry.close()
			_ = opt.FS.Remove(opt.TempDir)
		}()
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	first, last := true, ""
	for {
		stamp, err := state.ManifestStamp(match.Set)
		if err == nil && (first || stamp != last) {
			var rep *Report
			rep, err = Run(ctx, opt)
			switch {
			case errors.Is(err, state.ErrErasing): // it is about to end, or the next start of the crawl ends it
				err = nil
			case err == nil:
				first, last, opt.Token, opt.Begin = false, stamp, rep.Token, nil
				each(rep)
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
