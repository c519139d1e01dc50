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

// seedsAtOnce is the number of seed lines in one transaction.
const seedsAtOnce = 256

// seedFeeder reads the seed file. Its goroutine is "seeds".
type seedFeeder struct {
	*engine
	output *output
	seen   *seenStage
	space  *space

	state state.Seeds // guarded by the transaction lock
	src   io.ReaderAt
	close func() error
}

// open opens the seed file, compares it with the seeds fed by earlier runs and sets up the scope.
func (f *seedFeeder) open(st state.Seeds) error {
	var size int64
	if f.opt.Seeds != "" {
		file, err := f.opt.FS.OpenRead(f.opt.Seeds)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("crawl: seed file %s does not exist: %w", f.opt.Seeds, err)
			}
			return fmt.Errorf("crawl: open seeds: %w", err)
		}
		if size, err = file.Size(); err != nil {
			return errors.Join(fmt.Errorf("crawl: seeds: %w", err), file.Close())
		}
		f.src, f.close = file, file.Close
	} else {
		text := strings.Join(f.opt.SeedLines, "\n")
		f.src, size = strings.NewReader(text), int64(len(text))
	}
	sum, err := admit.ScanSeeds(io.NewSectionReader(f.src, 0, size), f.links)
	if err != nil {
		return errors.Join(err, f.close())
	}
	if st.Size == size && st.Sum == sum {
		f.state = st
	} else {
		f.state = state.Seeds{Size: size, Sum: sum}
	}
	f.seedsDone.Store(f.state.Done)
	return nil
}

// freeze copies the position in the file.
func (f *seedFeeder) freeze(m *moment) { m.seeds = f.state }

// fed reports whether the whole file has been fed. Call it under the transaction lock or before the stages
// start.
func (f *seedFeeder) fed() bool { return f.state.Done }

// run feeds the rest of the file.
func (f *seedFeeder) run(ctx context.Context) error {
	if f.state.Done {
		return nil
	}
	lines := admit.NewLineReader(io.NewSectionReader(f.src, f.state.Offset, f.state.Size-f.state.Offset))
	batch, bare := admit.NewBatch(f.links), admit.NewBatch(f.links)
	for ctx.Err() == nil && !f.opt.Drain {
		if f.space.why() != "" || f.draining.Load() {
			sleep(ctx, spaceEvery)
			continue
		}
		now := time.Now()
		batch.Start(nil, nil, 0, weburl.FlagSeed, now)
		bare.Start(nil, nil, 0, weburl.FlagSeed|weburl.FlagSeedFallback, now)
		var bytes, seeds int64
		var bad [][2]string
		var end error
		for range seedsAtOnce {
			line, n, err := lines.Next()
			if err != nil {
				end = err
				break
			}
			bytes += n
			url, isBare, err := f.links.ParseSeed(line)
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
		err := f.transact(func(tx *transaction) error {
			f.testHook("seeds")
			tx.count(state.CountSeeds, seeds)
			tx.count(state.CountSeedsBad, int64(len(bad)))
			for _, b := range bad {
				f.output.logSeed(b[0], b[1])
			}
			f.state.Offset += bytes
			f.state.Done = end == io.EOF
			f.seedsDone.Store(f.state.Done)
			if err := f.seen.sendLinks(bare, tx); err != nil {
				return err
			}
			return f.seen.sendLinks(batch, tx)
		})
		if err != nil || end == io.EOF {
			return err
		}
	}
	return nil
}
