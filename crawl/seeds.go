package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/output"
	"drumbeat/crawl/space"
	"drumbeat/state"
	"drumbeat/weburl"
)

// seedsAtOnce is the number of seed lines in one transaction.
const seedsAtOnce = 256

// seedFeeder reads the seed file. Its goroutine is "seeds".
type seedFeeder struct {
	*engine
	output  *output.Writer
	seen    *seenStage
	space   *space.Keeper
	budgets *budgetStage

	state state.Seeds // guarded by the transaction lock
	src   io.ReaderAt
	close func() error
}

// open opens the seed file, compares it with the seeds fed by earlier runs and sets up the scope.
func (f *seedFeeder) open(st state.Seeds) error {
	var size int64
	if f.opt.Admission.Seeds != "" {
		file, err := f.opt.Disk.FS.OpenRead(f.opt.Admission.Seeds)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("crawl: seed file %s does not exist: %w", f.opt.Admission.Seeds, err)
			}
			return fmt.Errorf("crawl: open seeds: %w", err)
		}
		if size, err = file.Size(); err != nil {
			return errors.Join(fmt.Errorf("crawl: seeds: %w", err), file.Close())
		}
		f.src, f.close = file, file.Close
	} else {
		text := strings.Join(f.opt.Admission.SeedLines, "\n")
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
func (f *seedFeeder) freeze() state.Seeds { return f.state }

// text identifies the content of the file.
func (f *seedFeeder) text() string { return fmt.Sprintf("%016x (%d bytes)", f.state.Sum, f.state.Size) }

// fed reports whether the whole file has been fed. Call it under the transaction lock or before the stages
// start.
func (f *seedFeeder) fed() bool { return f.state.Done }

// run feeds the rest of the file.
func (f *seedFeeder) run(ctx context.Context) error {
	if f.state.Done {
		return nil
	}
	lines := admit.NewLineReader(io.NewSectionReader(f.src, f.state.Offset, f.state.Size-f.state.Offset))
	for ctx.Err() == nil && !f.opt.Admission.Drain {
		if f.space.Pausing() != "" || f.drains() {
			account.Sleep(ctx, space.Every)
			continue
		}
		lot := f.newLot(time.Now())
		lot.ownOnly = true // each node of a cluster reads the file
		var bytes int64
		var end error
		for range seedsAtOnce {
			line, n, err := lines.Next()
			if err != nil {
				end = err
				break
			}
			bytes += n
			lot.add(line)
		}
		if end != nil && end != io.EOF {
			return fmt.Errorf("crawl: read seeds: %w", end)
		}
		err := f.Transact(func(tx *account.Tx) error {
			f.Hook("seeds")
			f.state.Offset += bytes
			f.state.Done = end == io.EOF
			f.seedsDone.Store(f.state.Done)
			return f.send(tx, lot)
		})
		if err != nil || end == io.EOF {
			return err
		}
	}
	return nil
}

// seedLot collects the seeds of one transaction.
type seedLot struct {
	links       *admit.Policy
	batch, bare *admit.Batch // of seeds with a scheme, and without
	seeds       int64
	ownOnly     bool     // count the seeds that other nodes own
	elsewhere   int64    // their number
	plds        []uint64 // of the seeds, by key
	pldKey      func(host []byte) uint64
	bad         [][2]string // lines and reasons
}

func (f *seedFeeder) newLot(now time.Time) *seedLot {
	l := &seedLot{links: f.links, batch: admit.NewBatch(f.links), bare: admit.NewBatch(f.links), pldKey: f.PLDKey}
	l.batch.Start(nil, nil, 0, weburl.FlagSeed, now)
	l.bare.Start(nil, nil, 0, weburl.FlagSeed|weburl.FlagSeedFallback, now)
	return l
}

// add adds a line. It returns the URL, "" if the line has none.
func (l *seedLot) add(line []byte) (url string) {
	url, isBare, err := l.links.ParseSeed(line)
	switch {
	case err != nil:
		l.bad = append(l.bad, [2]string{string(line), "bad-seed: " + err.Error()})
		return ""
	case url == "":
		return ""
	case l.ownOnly && l.isElsewhere(url):
		l.elsewhere++
		return url
	case isBare:
		l.bare.Add([]byte(url))
	default:
		l.batch.Add([]byte(url))
	}
	l.seeds++
	l.plds = append(l.plds, l.pldKey(weburl.Split([]byte(url)).Host))
	return url
}

func (l *seedLot) isElsewhere(url string) bool {
	_, ok := l.links.Elsewhere([]byte(url))
	return ok
}

// send sends the seeds of a lot to URLseen. It is part of a transaction.
func (f *seedFeeder) send(tx *account.Tx, l *seedLot) error {
	tx.Count(state.CountSeeds, l.seeds)
	tx.Count(state.CountSeedsBad, int64(len(l.bad)))
	tx.Count(state.CountSeedsElsewhere, l.elsewhere)
	f.budgets.trust(l.plds)
	for _, b := range l.bad {
		f.output.LogSeed(b[0], b[1])
	}
	if err := f.sendBatch(tx, l.bare); err != nil {
		return err
	}
	return f.sendBatch(tx, l.batch)
}

// sendBatch sends URLs to URLseen. It is part of a transaction.
func (f *seedFeeder) sendBatch(tx *account.Tx, b *admit.Batch) error { return f.seen.sendLinks(b, tx) }
