package export

import (
	"context"
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
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	first, last := true, ""
	for {
		stamp, err := state.ManifestStamp(match.Set)
		if err == nil && (first || stamp != last) {
			first, last = false, stamp
			var rep *Report
			if rep, err = Run(ctx, opt); err == nil {
				opt.Token, opt.Begin = rep.Token, nil
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
