// Package get is the command get: it prints the stored response of a URL from the WARC files of a crawl.
//
// Command is the table of its flags. It reads the last checkpoint, so the crawl may be running: it takes no
// lock and writes nothing, and it sees the captures that the checkpoint covers. The URL is made canonical as
// the crawl does. Package warc bisects the final indexes, which are sorted, and reads the open ones in
// pieces. So the bytes read grow with the number of indexes and the logarithm of their size. A running crawl
// may rename files meanwhile; if something is missing and there is a newer checkpoint, all is read again.
//
// With --rendered the page is that of a browser (warc.Rendered), which has captures of its own.
//
// A URL may have several captures: a page, and exchanges for a robots.txt. The latest counts, or with --at
// the closest; of two at the same distance the page. If the record is a revisit, --body, --text and --markdown take
// the body of the capture that it names.
//
// Package internal/response splits the record into head and body, and removes chunk framing and content codings on
// the way; package internal/pagetext has the visible text of HTML, and internal/maintext the main text. The payload
// digest is verified at the end of the body: a wrong one is reported after the output.
//
// Exit codes: 0; term.ExitUsage (2) for a bad flag or URL, term.ExitDirectory (4) if the directories hold no
// crawl with a checkpoint, term.ExitDamage (5) if an index or the record is damaged, term.ExitFailure (1) if
// the URL is not stored. A closed output is no error.
//
// All runs in the caller's goroutine. Memory: some MB, with windows of zstd and brotli up to 40 MiB; bodies
// are streamed. A text node of HTML has at most 16 MiB.
package get

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Command is the table of get's flags.
type Command struct {
	URL string `arg:"" name:"url"`
	flags.CrawlDirs
	Out      []string `placeholder:"DIR"`
	Body     bool     `xor:"what"`
	Head     bool     `xor:"what"`
	Text     bool     `xor:"what"`
	Markdown bool     `xor:"what"`
	Rendered bool
	Record   bool   `xor:"what"`
	At       string `placeholder:"TIME"`
}

// Run prints the response.
func (c *Command) Run(a *term.App) error {
	err := c.run(a, disk.OS())
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return nil // the reader has seen enough
	}
	return err
}

func (c *Command) run(a *term.App, fsys disk.FS) error {
	at, err := parseTime(c.At)
	if err != nil {
		return term.Usage(fmt.Errorf("get: --at: %w", err))
	}
	if c.Rendered && c.Head {
		return term.Usage(errors.New("get: --head: a rendered page has no header fields; use --record " +
			"for those of its record"))
	}
	f := &finder{fsys: fsys, dirs: flags.Clean(c.Dir), out: flags.Clean(flags.Directories(c.Out)),
		at: at, rendered: c.Rendered}
	if err := f.find(c.URL); err != nil {
		return fmt.Errorf("get: %w", err)
	}
	warn := func(text string) { fmt.Fprintln(a.Stderr, "drumbeat: get: warning: "+term.PlainText(text)) }
	for _, err := range f.damage {
		warn(term.OneLine(err))
	}
	r, err := f.open()
	if err != nil {
		return err
	}
	if url, date, ok := r.Original(); ok && !c.Head && !c.Record {
		if err := r.Close(); err != nil {
			return err
		}
		if r, err = f.original(url, date); err != nil {
			return err
		}
	}
	err = errors.Join(c.print(term.Bytes(a.Stdout), r, warn), r.Close())
	if err == nil && len(f.damage) > 0 {
		err = &term.Ended{Code: term.ExitDamage, Why: "an index is damaged", Quiet: true}
	}
	return err
}

// open opens the record of the best capture.
func (f *finder) open() (*warc.StoredRecord, error) {
	r, err := warc.OpenStored(f.opt, f.best)
	if errors.Is(err, warc.ErrMoved) {
		return nil, fmt.Errorf("get: %w; move it back beside its index", err)
	}
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	return r, nil
}

// original opens the record that has the body of a revisit.
func (f *finder) original(url string, date time.Time) (*warc.StoredRecord, error) {
	of := f.url
	f.at, f.whole = date, true
	err := f.find(url)
	if err != nil && (len(f.damage) > 0 || f.best != nil) {
		return nil, fmt.Errorf("get: the record of %s is a revisit; its body belongs to %s: %w", of, url, err)
	}
	if f.best == nil || !f.best.Time.Equal(date) {
		return nil, fmt.Errorf("get: the record of %s is a revisit; its body belongs to %s at %s, which is in no "+
			"index; if the crawl began with --since, the earlier crawl has it", of, url, date.Format(time.RFC3339))
	}
	return f.open()
}

// layouts are the forms of --at.
var layouts = [...]string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly, "20060102150405"}

// parseTime parses --at; the zero time if it is "".
func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.100q is not a time such as 2026-11-23T10:00:00Z, 2026-11-23 or 20261123100000",
		text)
}

// finder finds the capture of a URL.
type finder struct {
	fsys      disk.FS
	dirs, out []string
	at        time.Time // zero: the latest
	whole     bool      // only captures with a body, and of two at the same time the page
	rendered  bool      // rendered pages

	opt     warc.Options
	url     string // canonical
	best    *warc.Stored
	damage  []error
	noIndex []string // WARC files without index, the first maxListed
	orphans int      // all of them
}

// maxListed bounds the faults that are kept. maxReads bounds how often get starts over when a running crawl
// makes checkpoints meanwhile.
const (
	maxListed = 20
	maxReads  = 5
)

// find sets best to the capture that the user wants.
func (f *finder) find(url string) error {
	for n := 1; ; n++ {
		gen, err := f.read(url)
		if err == nil && f.best != nil && len(f.damage) == 0 {
			return nil
		}
		if gen > 0 && n < maxReads {
			now, _, bad := state.ReadManifest(f.opt.State)
			if bad == nil && now != nil && now.Gen != gen {
				continue // files were renamed, and the newer checkpoint may have more
			}
		}
		switch {
		case err != nil || f.best != nil:
			return err
		case len(f.damage) > 0:
			return fmt.Errorf("%s is in no readable index: %w", f.url, f.damage[0])
		}
		return f.unknown()
	}
}

// unknown returns the error that says that the URL is not stored.
func (f *finder) unknown() error {
	asked := strings.Join(f.dirs, " --dir ")
	if f.orphans > 0 {
		return fmt.Errorf("%s is in no index, but %s without one, as %s: move back its .cdxj file, "+
			"which may list the URL", f.url, human.Counted(f.orphans, "WARC file is", "WARC files are"),
			f.noIndex[0])
	}
	if f.rendered {
		return fmt.Errorf("%s is not stored as a rendered page: it matched no rule of --render-rules, or could "+
			"not be rendered", f.url)
	}
	return fmt.Errorf("%s is not stored; to learn why, run drumbeat explain url --dir %s %s", f.url,
		asked, quote(f.url))
}

// quote quotes a URL for a shell.
func quote(url string) string { return "'" + strings.ReplaceAll(url, "'", `'\''`) + "'" }

// read searches the crawl as of its last checkpoint, whose number it returns.
func (f *finder) read(url string) (gen uint64, err error) {
	f.best, f.damage, f.noIndex, f.orphans = nil, nil, nil, 0
	r := state.NewSaved(f.fsys, f.dirs, f.dirs)
	match, err := disk.MatchIdentities(r.Meter, f.dirs, state.KindState)
	if err != nil {
		return 0, state.MatchError(err)
	}
	if match.Set.Len() == 0 {
		return 0, state.NoCrawl(f.dirs[0])
	}
	m, _, err := state.ReadManifest(match.Set)
	if err == nil && m == nil {
		err = fmt.Errorf("crawl: %s holds a crawl without a checkpoint: nothing is stored yet: %w",
			f.dirs[0], state.ErrIncompatible)
	}
	if err == nil {
		err = r.Take(match, m, f.out)
	}
	if err != nil {
		return 0, err
	}
	f.opt = r.WARCFiles()
	if r.Out.Len() == 0 {
		return m.Gen, term.Usage(errors.New("the output of the crawl is in separate directories: name them with --out"))
	}
	resolver := weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: !m.Frozen.KeepEscapes})
	canonical, err := resolver.AppendResolve(nil, nil, []byte(url))
	if err != nil {
		return m.Gen, term.Usage(fmt.Errorf("URL %.200q: %w", url, err))
	}
	st, err := state.Part[warc.State](m, state.NameWARC)
	if err == nil && st == nil {
		err = fmt.Errorf("crawl: the manifest has no state of %s: %w", state.NameWARC, state.ErrIncompatible)
	}
	if err != nil {
		return m.Gen, err
	}
	f.url = string(canonical)
	target := f.url
	if f.rendered {
		target = warc.RenderedPrefix + target
	}
	return m.Gen, warc.FindAll(f.opt, st, target, f.take, f.orphan, f.damaged)
}

// take keeps the better capture.
func (f *finder) take(x *warc.Stored) error {
	if f.whole && x.IsRevisit() {
		return nil
	}
	if f.best == nil || f.better(x, f.best) {
		f.best = x
	}
	return nil
}

func (f *finder) better(x, y *warc.Stored) bool {
	switch {
	case x.Time.Equal(y.Time):
		return x.Kind == warc.KindPage && y.Kind != warc.KindPage
	case f.at.IsZero():
		return x.Time.After(y.Time)
	}
	return x.Time.Sub(f.at).Abs() < y.Time.Sub(f.at).Abs()
}

func (f *finder) orphan(name string) {
	if f.orphans++; len(f.noIndex) < maxListed {
		f.noIndex = append(f.noIndex, name)
	}
}

func (f *finder) damaged(err error) error {
	var known *disk.CorruptError
	if !errors.As(err, &known) {
		err = &damagedIndex{err}
	}
	if len(f.damage) < maxListed {
		f.damage = append(f.damage, err)
	}
	return nil
}

// damagedIndex is an index that can't be read; its exit code is that of damage.
type damagedIndex struct{ err error }

func (e *damagedIndex) Error() string { return e.err.Error() }

// Unwrap makes it a *disk.CorruptError too.
func (e *damagedIndex) Unwrap() []error {
	return []error{e.err, &disk.CorruptError{Got: e.err.Error()}}
}
