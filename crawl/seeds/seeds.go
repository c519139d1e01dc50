package seeds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/weburl"
)

// seedsAtOnce is the number of seed lines in one transaction.
const seedsAtOnce = 256

// Options are the options of a Feeder.
type Options struct {
	FS    disk.FS
	File  string   // the seed file; "": the seeds are Lines
	Lines []string // without a file
	Drain bool     // nothing is fed (options.Admission.Drain)
	Links *admit.Policy
}

// Others are the stages that a Feeder calls. SendLinks and Trust are part of a transaction.
type Others struct {
	SendLinks func(b *admit.Batch, tx *account.Tx) error
	Trust     func(plds []uint64)    // the PLDs of seeds, by key
	LogSeed   func(line, why string) // a seed that yields nothing
	Drains    func() bool            // new links are not queued
}

// Feeder feeds seeds. Its goroutine is "seeds".
type Feeder struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	space  *space.Keeper
	others Others

	state state.Seeds // guarded by the transaction lock
	read  atomic.Bool // state.Done
	src   io.ReaderAt
	file  io.Closer // nil without a file
	first []string  // URLs
}

// New returns a Feeder. Wire must give it the other stages before Run.
func New(run *account.Run, saved *state.Saved, opt Options, keeper *space.Keeper) *Feeder {
	return &Feeder{run: run, saved: saved, opt: opt, space: keeper}
}

// Wire gives the Feeder the stages that it calls.
func (f *Feeder) Wire(others Others) { f.others = others }

// Open opens the seed file, compares it with the seeds fed by earlier runs and sets up the scope.
func (f *Feeder) Open(st state.Seeds) error {
	var size int64
	if f.opt.File != "" {
		file, err := f.opt.FS.OpenRead(f.opt.File)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("crawl: seed file %s does not exist: %w", f.opt.File, err)
			}
			return fmt.Errorf("crawl: open seeds: %w", err)
		}
		if size, err = file.Size(); err != nil {
			return errors.Join(fmt.Errorf("crawl: seeds: %w", err), file.Close())
		}
		f.src, f.file = file, file
	} else {
		text := strings.Join(f.opt.Lines, "\n")
		f.src, size = strings.NewReader(text), int64(len(text))
	}
	sum, err := admit.ScanSeeds(io.NewSectionReader(f.src, 0, size), f.opt.Links)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	f.first = admit.FirstSeeds(io.NewSectionReader(f.src, 0, size), state.MaxFirstSeeds)
	if st.Size == size && st.Sum == sum {
		f.state = st
	} else {
		f.state = state.Seeds{Size: size, Sum: sum}
	}
	f.read.Store(f.state.Done)
	return nil
}

// First returns the first seeds of the file.
func (f *Feeder) First() []string { return f.first }

// Close closes the seed file.
func (f *Feeder) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Freeze copies the position in the file.
func (f *Feeder) Freeze() state.Seeds { return f.state }

// Text identifies the content of the file.
func (f *Feeder) Text() string { return fmt.Sprintf("%016x (%d bytes)", f.state.Sum, f.state.Size) }

// Fed reports whether the whole file has been fed. Call it under the transaction lock or before the stages
// start.
func (f *Feeder) Fed() bool { return f.state.Done }

// Read is Fed without the lock, for figures.
func (f *Feeder) Read() bool { return f.read.Load() }

// Run feeds the rest of the file.
func (f *Feeder) Run(ctx context.Context) error {
	if f.state.Done {
		return nil
	}
	lines := admit.NewLineReader(io.NewSectionReader(f.src, f.state.Offset, f.state.Size-f.state.Offset))
	for ctx.Err() == nil && !f.opt.Drain {
		if f.space.Pausing() != "" || f.others.Drains() {
			account.Sleep(ctx, space.Every)
			continue
		}
		l := f.newLot(time.Now())
		l.ownOnly = true // each node of a cluster reads the file
		var bytes int64
		var end error
		for range seedsAtOnce {
			line, n, err := lines.Next()
			if err != nil {
				end = err
				break
			}
			bytes += n
			l.add(line)
		}
		if end != nil && end != io.EOF {
			return fmt.Errorf("crawl: read seeds: %w", end)
		}
		err := f.run.Transact(func(tx *account.Tx) error {
			f.run.Hook("seeds")
			f.state.Offset += bytes
			f.state.Done = end == io.EOF
			f.read.Store(f.state.Done)
			return f.send(tx, l)
		})
		if err != nil || end == io.EOF {
			return err
		}
	}
	return nil
}

// Feed feeds the lines of the operator, which extend the scope. whole is false if ctx ended first.
func (f *Feeder) Feed(ctx context.Context, lines []string) (whole bool, _ error) {
	for some := range slices.Chunk(lines, seedsAtOnce) {
		if ctx.Err() != nil {
			return false, nil
		}
		l := f.newLot(time.Now())
		for _, line := range some {
			if url, _, err := f.opt.Links.ParseSeed([]byte(line)); err == nil && url != "" {
				f.opt.Links.ExtendScope([]byte(url))
			}
			l.add([]byte(line))
		}
		if err := f.run.Transact(func(tx *account.Tx) error {
			f.run.Hook("seeds")
			return f.send(tx, l)
		}); err != nil {
			return false, err
		}
	}
	return true, nil
}

// lot collects the seeds of one transaction.
type lot struct {
	links       *admit.Policy
	batch, bare *admit.Batch // of seeds with a scheme, and without
	seeds       int64
	ownOnly     bool     // count the seeds that other nodes own
	elsewhere   int64    // their number
	plds        []uint64 // of the seeds, by key
	pldKey      func(host []byte) uint64
	bad         [][2]string // lines and reasons
}

func (f *Feeder) newLot(now time.Time) *lot {
	l := &lot{links: f.opt.Links, batch: admit.NewBatch(f.opt.Links), bare: admit.NewBatch(f.opt.Links),
		pldKey: f.saved.PLDKey}
	l.batch.Start(nil, nil, 0, weburl.FlagSeed, now)
	l.bare.Start(nil, nil, 0, weburl.FlagSeed|weburl.FlagSeedFallback, now)
	return l
}

// add adds a line.
func (l *lot) add(line []byte) {
	url, isBare, err := l.links.ParseSeed(line)
	switch {
	case err != nil:
		l.bad = append(l.bad, [2]string{string(line), "bad-seed: " + err.Error()})
		return
	case url == "":
		return
	case l.ownOnly && l.isElsewhere(url):
		l.elsewhere++
		return
	case isBare:
		l.bare.Add([]byte(url))
	default:
		l.batch.Add([]byte(url))
	}
	l.seeds++
	l.plds = append(l.plds, l.pldKey(weburl.Split([]byte(url)).Host))
}

func (l *lot) isElsewhere(url string) bool {
	_, ok := l.links.Elsewhere([]byte(url))
	return ok
}

// send sends the seeds of a lot to URLseen. It is part of a transaction.
func (f *Feeder) send(tx *account.Tx, l *lot) error {
	tx.Count(state.CountSeeds, l.seeds)
	tx.Count(state.CountSeedsBad, int64(len(l.bad)))
	tx.Count(state.CountSeedsElsewhere, l.elsewhere)
	f.others.Trust(l.plds)
	for _, b := range l.bad {
		f.others.LogSeed(b[0], b[1])
	}
	if err := f.others.SendLinks(l.bare, tx); err != nil {
		return err
	}
	return f.others.SendLinks(l.batch, tx)
}
