package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/weburl"
)

// seedStep is how many seed lines go into one step.
const seedStep = 256

// seedFeeder reads the seed file. One goroutine.
type seedFeeder struct {
	r     *ring
	state state.Seeds // guarded by the step lock: changed inside of steps, copied under the exclusive lock
	src   io.ReaderAt
	close func() error
}

// openSeeds opens the seed file, compares it with what was fed before and fills the scope from it.
func (r *ring) openSeeds(st state.Seeds) (*seedFeeder, error) {
	f := &seedFeeder{r: r, close: func() error { return nil }}
	var size int64
	if r.opt.Seeds != "" {
		file, err := r.opt.FS.OpenRead(r.opt.Seeds)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("crawl: seed file %s does not exist: %w", r.opt.Seeds, err)
			}
			return nil, fmt.Errorf("crawl: open seeds: %w", err)
		}
		if size, err = file.Size(); err != nil {
			return nil, errors.Join(fmt.Errorf("crawl: seeds: %w", err), file.Close())
		}
		f.src, f.close = file, file.Close
	} else {
		text := strings.Join(r.opt.SeedLines, "\n")
		f.src, size = strings.NewReader(text), int64(len(text))
	}
	sum, err := admit.ScanSeeds(io.NewSectionReader(f.src, 0, size), r.links)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	if st.Size == size && st.Sum == sum {
		f.state = st
	} else {
		f.state = state.Seeds{Size: size, Sum: sum}
	}
	r.seedsDone.Store(f.state.Done)
	return f, nil
}

// run feeds the rest of the file.
func (f *seedFeeder) run(ctx context.Context) error {
	if f.state.Done {
		return nil
	}
	lines := admit.NewLineReader(io.NewSectionReader(f.src, f.state.Offset, f.state.Size-f.state.Offset))
	batch, bare := admit.NewBatch(f.r.links), admit.NewBatch(f.r.links)
	for ctx.Err() == nil && !f.r.opt.Drain {
		if f.r.space.why() != "" || f.r.draining.Load() {
			sleep(ctx, spaceEvery)
			continue
		}
		now := time.Now()
		batch.Start(nil, nil, 0, weburl.FlagSeed, now)
		bare.Start(nil, nil, 0, weburl.FlagSeed|weburl.FlagSeedTwin, now)
		var bytes, seeds int64
		var bad [][2]string
		var end error
		for range seedStep {
			line, n, err := lines.Next()
			if err != nil {
				end = err
				break
			}
			bytes += n
			url, isBare, err := f.r.links.ParseSeed(line)
			if err != nil {
				bad = append(bad, [2]string{string(line), "bad-seed: " + err.Error()})
				continue
			}
			if url == "" {
				continue
			}
			seeds++
			if isBare {
				bare.Add([]byte(url))
			} else {
				batch.Add([]byte(url))
			}
		}
		if end != nil && end != io.EOF {
			return fmt.Errorf("crawl: read seeds: %w", end)
		}
		err := f.r.inStep(func(d *delta) error {
			f.r.at("seeds")
			d.count(state.CountSeeds, seeds)
			d.count(state.CountSeedsBad, int64(len(bad)))
			for _, b := range bad {
				f.r.logSeed(b[0], b[1])
			}
			f.state.Offset += bytes
			f.state.Done = end == io.EOF
			f.r.seedsDone.Store(f.state.Done)
			if err := f.r.sendLinks(bare, d); err != nil {
				return err
			}
			return f.r.sendLinks(batch, d)
		})
		if err != nil || end == io.EOF {
			return err
		}
	}
	return nil
}
