package crawl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/weburl"
)

// seedStep is how many seed lines go into one step.
const seedStep = 256

// maxSeedLine bounds a line of the seed file, in bytes; longer ones are refused and counted.
const maxSeedLine = 64 << 10

// seedState is the feeder's place in the manifest. A file whose length or content changed is read again from its start:
// URLseen drops what was fed before, so only new lines count.
type seedState struct {
	Offset int64  `json:"offset"` // bytes fed
	Size   int64  `json:"size"`
	Sum    uint64 `json:"sum"` // xxhash64 of the whole file
	Done   bool   `json:"done"`
}

// seedFeeder reads the seed file. One goroutine.
type seedFeeder struct {
	r     *ring
	state seedState // guarded by the step lock: changed inside of steps, copied under the exclusive lock
	src   io.ReaderAt
	close func() error
}

// openSeeds opens the seed file, compares it with what was fed before and fills the scope from it.
func (r *ring) openSeeds(st seedState) (*seedFeeder, error) {
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
	sum, err := f.scan(size)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	if st.Size == size && st.Sum == sum {
		f.state = st
	} else {
		f.state = seedState{Size: size, Sum: sum}
	}
	r.seedsDone.Store(f.state.Done)
	return f, nil
}

// scan reads the whole file once: its checksum, and the sites that --scope needs.
func (f *seedFeeder) scan(size int64) (uint64, error) {
	h := xxhash.New()
	src := io.TeeReader(io.NewSectionReader(f.src, 0, size), h)
	if f.r.opt.Scope == ScopeAll {
		if _, err := io.Copy(io.Discard, src); err != nil {
			return 0, fmt.Errorf("crawl: read seeds: %w", err)
		}
		return h.Sum64(), nil
	}
	lines := newLineReader(src)
	for {
		line, _, err := lines.next()
		if err == io.EOF {
			return h.Sum64(), nil
		}
		if err != nil {
			return 0, fmt.Errorf("crawl: read seeds: %w", err)
		}
		url, _, err := f.r.parseSeed(line)
		if err != nil || url == "" {
			continue
		}
		host := weburl.Split([]byte(url)).Host
		if err := f.r.scope.include(host, f.r.pldKey(host)); err != nil {
			return 0, err
		}
	}
}

// lineReader cuts lines and counts bytes; an overlong line comes back empty with its length.
type lineReader struct {
	br   *bufio.Reader
	line []byte
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{br: bufio.NewReaderSize(r, 128<<10)} }

// next returns a line without its end, and the bytes that it took in the file.
func (l *lineReader) next() (line []byte, n int64, err error) {
	l.line = l.line[:0]
	long := false
	for {
		part, err := l.br.ReadSlice('\n')
		n += int64(len(part))
		if !long && len(l.line)+len(part) <= maxSeedLine {
			l.line = append(l.line, part...)
		} else {
			long = true
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || n == 0) {
			return nil, n, err
		}
		if long {
			return []byte("line-too-long"), n, nil
		}
		return bytes.TrimRight(l.line, "\r\n"), n, nil
	}
}

// urlOptions are those of the URLs that the crawl takes up.
func (r *ring) urlOptions() weburl.Options {
	return weburl.Options{MaxBytes: r.opt.MaxURLBytes, Fold: !r.opt.KeepEscapes}
}

// parseSeed is ParseSeed with the crawl's spelling of escapes.
func (r *ring) parseSeed(line []byte) (url string, bare bool, err error) {
	if url, bare, err = ParseSeed(string(line)); err == nil && !r.opt.KeepEscapes {
		url = string(weburl.FoldEscapes([]byte(url)))
	}
	return url, bare, err
}

// ParseSeed reads one line of a seed file: "" for a blank line or comment; the canonical URL otherwise. bare is true
// for a host name without a scheme: https is tried first, then http.
func ParseSeed(line string) (url string, bare bool, err error) {
	err = contained(func() (err error) {
		url, bare, err = parseSeed(line)
		return err
	})
	return url, bare, err
}

func parseSeed(line string) (url string, bare bool, err error) {
	line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
	if i := strings.Index(line, " #"); i >= 0 {
		line = strings.TrimSpace(line[:i])
	}
	if line == "" || line[0] == '#' {
		return "", false, nil
	}
	if !hasScheme(line) {
		bare = true
		line = "https://" + line
	}
	url, err = weburl.Canonical(line)
	if err != nil {
		return "", false, err
	}
	return url, bare, nil
}

// hasScheme tells "mailto:x" and "http://host" from "host:8080/path".
func hasScheme(line string) bool {
	scheme, rest, ok := strings.Cut(line, ":")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#[") || rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return false
	}
	return strings.HasPrefix(rest, "//") || !strings.Contains(scheme, ".")
}

// run feeds the rest of the file.
func (f *seedFeeder) run(ctx context.Context) error {
	if f.state.Done {
		return nil
	}
	lines := newLineReader(io.NewSectionReader(f.src, f.state.Offset, f.state.Size-f.state.Offset))
	batch, bare := newLinkBatch(f.r), newLinkBatch(f.r)
	for ctx.Err() == nil && !f.r.opt.Drain {
		if f.r.space.why() != "" || f.r.draining.Load() {
			sleep(ctx, spaceEvery)
			continue
		}
		now := time.Now()
		batch.start(nil, nil, 0, weburl.FlagSeed, now)
		bare.start(nil, nil, 0, weburl.FlagSeed|weburl.FlagSeedTwin, now)
		var bytes, seeds int64
		var bad [][2]string
		var end error
		for range seedStep {
			line, n, err := lines.next()
			if err != nil {
				end = err
				break
			}
			bytes += n
			url, isBare, err := f.r.parseSeed(line)
			if err != nil {
				bad = append(bad, [2]string{string(line), "bad-seed: " + err.Error()})
				continue
			}
			if url == "" {
				continue
			}
			seeds++
			if isBare {
				bare.add([]byte(url))
			} else {
				batch.add([]byte(url))
			}
		}
		if end != nil && end != io.EOF {
			return fmt.Errorf("crawl: read seeds: %w", end)
		}
		err := f.r.inStep(func(d *delta) error {
			f.r.at("seeds")
			d.count(CountSeeds, seeds)
			d.count(CountSeedsBad, int64(len(bad)))
			for _, b := range bad {
				f.r.logSeed(b[0], b[1])
			}
			f.state.Offset += bytes
			f.state.Done = end == io.EOF
			f.r.seedsDone.Store(f.state.Done)
			if err := bare.send(d); err != nil {
				return err
			}
			return batch.send(d)
		})
		if err != nil || end == io.EOF {
			return err
		}
	}
	return nil
}
