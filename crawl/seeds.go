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

// seedStep is how many seed lines go into one transaction.
const seedStep = 256

// seedFeeder reads the seed file. One goroutine.
type seedFeeder struct {
	r     *crawler
	state state.Seeds // guarded by the transaction lock: changed inside of transactions, copied under the exclusive lock
	src   io.ReaderAt
	close func() error
}

// openSeeds opens the seed file, compares it with what was fed before and fills the scope from it.
func (c *crawler) openSeeds(st state.Seeds) (*seedFeeder, error) {
	f := &seedFeeder{r: c, close: func() error { return nil }}
	var size int64
	if c.opt.Seeds != "" {
		file, err := c.opt.FS.OpenRead(c.opt.Seeds)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("crawl: seed file %s does not exist: %w", c.opt.Seeds, err)
			}
			return nil, fmt.Errorf("crawl: open seeds: %w", err)
		}
		if size, err = file.Size(); err != nil {
			return nil, errors.Join(fmt.Errorf("crawl: seeds: %w", err), file.Close())
		}
		f.src, f.close = file, file.Close
	} else {
		text := strings.Join(c.opt.SeedLines, "\n")
		f.src, size = strings.NewReader(text), int64(len(text))
	}
	sum, err := admit.ScanSeeds(io.NewSectionReader(f.src, 0, size), c.links)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	if st.Size == size && st.Sum == sum {
		f.state = st
	} else {
		f.state = state.Seeds{Size: size, Sum: sum}
	}
	c.seedsDone.Store(f.state.Done)
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
		bare.Start(nil, nil, 0, weburl.FlagSeed|weburl.FlagSeedFallback, now)
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
		err := f.r.transact(func(tx *transaction) error {
			f.r.testHook("seeds")
			tx.count(state.CountSeeds, seeds)
			tx.count(state.CountSeedsBad, int64(len(bad)))
			for _, b := range bad {
				f.r.logSeed(b[0], b[1])
			}
			f.state.Offset += bytes
			f.state.Done = end == io.EOF
			f.r.seedsDone.Store(f.state.Done)
			if err := f.r.sendLinks(bare, tx); err != nil {
				return err
			}
			return f.r.sendLinks(batch, tx)
		})
		if err != nil || end == io.EOF {
			return err
		}
	}
	return nil
}
