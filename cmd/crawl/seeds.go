package crawl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"drumbeat/admit"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/dirs"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/urllist"
	"drumbeat/state"
	"drumbeat/weburl"
)

// SeedsCopy is the name of the copy of standard input, or of the seeds of the command line, in the crawl's first
// directory.
const SeedsCopy = "seeds.txt"

// seedInput returns the seeds to copy: standard input or the command line; nil if --seeds names a file.
func (c *Command) seedInput(stdin io.Reader) io.Reader {
	switch {
	case c.Seeds == "-":
		return stdin
	case len(c.URLs) > 0:
		return strings.NewReader(strings.Join(c.URLs, "\n") + "\n")
	}
	return nil
}

// copySeeds copies seeds that are no file of the user's into the first directory.
func (c *Command) copySeeds(a *term.App, opt *crawl.Options, view *View) (err error) {
	if c.Known != "" {
		opt.Admission.Seeds, err = readList(opt, view, "--known", c.Known, nil)
	} else if in := c.seedInput(a.Stdin); in != nil {
		opt.Admission.Seeds, err = copyInput(opt, view, in)
	} else if isList(c.Seeds) {
		opt.Admission.Seeds, err = readList(opt, view, "--seeds", c.Seeds, nil)
	} else {
		return nil
	}
	if err == nil {
		opt.Disk.New = false // takeSeeds has checked it, and has marked the directory
	}
	return err
}

// checkSeeds returns the first fault in the source of the seeds.
func (c *Command) checkSeeds() error {
	switch {
	case c.Known != "":
		if c.Seeds != "" || len(c.URLs) > 0 {
			return errors.New("give --known FILE, or seeds, not both")
		}
		return nil
	case c.Seeds == "" && len(c.URLs) == 0:
		return errors.New(
			"there are no seeds; give URLs (drumbeat crawl https://example.org/ --contact WHO) or --seeds FILE")
	case len(c.URLs) > 0 && c.Seeds != "":
		return errors.New("give URLs or --seeds FILE, not both")
	case len(c.URLs) > 0:
		return checkURLs(c.URLs)
	case c.Seeds == "-":
		return nil
	}
	return checkSeedFile(c.Seeds)
}

// isList reports whether a file is a list that must be turned into lines with a URL each.
func isList(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false // the crawl says so
	}
	defer f.Close()
	head := make([]byte, urllist.HeadBytes)
	n, _ := io.ReadFull(f, head)
	return urllist.IsList(head[:n])
}

// copyInput copies standard input, or the seeds of the command line, into the crawl's first directory.
func copyInput(opt *crawl.Options, view *View, in io.Reader) (name string, err error) {
	src := bufio.NewReaderSize(in, seedSample)
	if head, _ := src.Peek(urllist.HeadBytes); urllist.IsList(head) {
		return readList(opt, view, "--seeds", "-", src)
	}
	return takeSeeds(opt, src)
}

// readList copies the URLs of a list, whose content in may be, into the crawl's first directory and returns
// the name of the copy.
func readList(opt *crawl.Options, view *View, flag, list string, in io.Reader) (name string, err error) {
	if in == nil {
		f, err := os.Open(list)
		if err != nil {
			return "", term.Usage(fmt.Errorf("%s: %w", flag, err))
		}
		defer f.Close()
		in = f
	}
	urls, err := urllist.NewReader(in)
	if err != nil {
		return "", term.Usage(fmt.Errorf("%s %s: %w", flag, list, err))
	}
	defer urls.Close()
	if name, err = takeSeeds(opt, urls); urls.Err != nil {
		return "", term.Usage(fmt.Errorf("%s %s: %w", flag, list, urls.Err))
	} else if err != nil {
		return "", err
	}
	if urls.URLs == 0 {
		return "", term.Usage(fmt.Errorf("%s %s: it has no URL", flag, list))
	}
	view.Note(fmt.Sprintf("%s: %s, %s without one", list, human.Counted(urls.URLs, "URL", "URLs"),
		human.Counted(urls.Skipped, "line", "lines")))
	return name, nil
}

// SeedURL returns the URL of a seed on the command line. The error says what is wrong with it.
func SeedURL(seed string) (string, error) {
	url, _, err := admit.ParseSeed(seed)
	if err == nil && url != "" && !strings.ContainsAny(seed, "\r\n") {
		return url, nil
	}
	scheme, _, ok := strings.Cut(strings.ToLower(seed), "://")
	if ok && scheme != "http" && scheme != "https" {
		return "", fmt.Errorf("%q: a crawl fetches only URLs of http and https", seed)
	}
	return "", fmt.Errorf("%q is neither a URL nor a host name", seed)
}

// checkURLs returns the first fault of seeds on the command line.
func checkURLs(urls []string) error {
	for _, u := range urls {
		if _, err := SeedURL(u); err != nil {
			return err
		}
		if _, err := os.Stat(u); err == nil {
			return fmt.Errorf("%s is a file: give --seeds %[1]s to read it, or https://%[1]s for a host of that name",
				u)
		}
	}
	return nil
}

// seedSample is the number of bytes of a seed file that are checked before the crawl writes anything.
const seedSample = 64 << 10

// checkSeedFile refuses a file that cannot be read, or that is not text, since each of its lines would be a
// bad seed.
func checkSeedFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("--seeds: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return fmt.Errorf("--seeds %s is a directory", name)
	}
	sample := make([]byte, seedSample)
	n, err := io.ReadFull(f, sample)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("--seeds %s: %w", name, err)
	}
	if sample = sample[:n]; urllist.IsList(sample) {
		return nil
	}
	return textFault("--seeds "+name, sample)
}

// textFault refuses data with a zero byte.
func textFault(what string, sample []byte) error {
	if i := bytes.IndexByte(sample, 0); i >= 0 {
		return fmt.Errorf("%s is not text (byte %d is 0); give one URL or host per line, in UTF-8, "+
			"or a list that --known takes", what, i)
	}
	return nil
}

// takeSeeds copies the input into the crawl's first directory, so the same command can resume the crawl, and
// returns the name of the copy. A resumed crawl keeps its old seeds: new input is appended, unless the copy
// already ends with it. Empty input changes nothing.
func takeSeeds(opt *crawl.Options, in io.Reader) (string, error) {
	src := bufio.NewReaderSize(in, 1<<20)
	sample, err := src.Peek(seedSample)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("read seeds: %w", err)
	} else if err := textFault("standard input", sample); err != nil {
		return "", term.Usage(err)
	}
	set, free, err := takeDirs(opt, "copy seeds")
	if err != nil {
		return "", err
	}
	defer free()
	name := set.Path(0, SeedsCopy)
	if err := mergeSeeds(opt.Disk.FS, name, src); err != nil {
		return "", fmt.Errorf("copy seeds to %s: %w", name, err)
	}
	return name, nil
}

// takeDirs locks the directories of a crawl, which it creates and marks if they are new. doing begins its errors.
func takeDirs(opt *crawl.Options, doing string) (set disk.Set, _ func(), err error) {
	var locks []io.Closer
	free := func() {
		for _, l := range locks {
			_ = l.Close()
		}
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	if err := dirs.Check(opt.Disk); err != nil { // before it creates any directory
		return set, nil, err
	}
	for _, dir := range opt.Disk.Dirs {
		if err := opt.Disk.FS.MkdirAll(dir); err != nil {
			return set, nil, fmt.Errorf("cannot create the directory %s: %w", dir, err)
		}
		lock, err := opt.Disk.FS.Lock(dir)
		if err != nil {
			return set, nil, fmt.Errorf("%s: directory %s: %w", doing, dir, err)
		}
		locks = append(locks, lock)
	}
	m, err := disk.MatchIdentities(opt.Disk.FS, opt.Disk.Dirs, state.KindState)
	if err != nil { // the directories changed after dirs.Check
		return set, nil, fmt.Errorf("%s: %w", doing, err)
	}
	if opt.Disk.New && m.Crawl != "" {
		return set, nil, fmt.Errorf("%s: %w (leave out --new to resume it)", opt.Disk.Dirs[0], state.ErrExists)
	}
	id := m.Crawl
	if id == "" {
		secret, err := weburl.NewSecret() // as a random name
		if err != nil {
			return set, nil, err
		}
		id = secret.Hex()
	}
	if set, err = disk.Label(m, id, state.KindState); err != nil {
		return set, nil, fmt.Errorf("%s: %w", doing, err)
	}
	return set, free, nil
}

// mergeSeeds appends src to the file name. It replaces the file atomically.
func mergeSeeds(fsys disk.FS, name string, src *bufio.Reader) error {
	if _, err := src.Peek(1); err != nil && err != io.EOF {
		return err
	} else if err == io.EOF {
		if _, err := fsys.Size(name); err == nil {
			return nil
		}
	}
	old, err := fsys.OpenRead(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp := name + ".tmp"
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, closeFile(old))
	}
	dst, err := fsys.Create(tmp)
	if err != nil {
		return errors.Join(err, closeFile(old))
	}
	same, err := writeSeeds(dst, old, src)
	if err = errors.Join(err, closeFile(old)); err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return err
	}
	if same {
		return fsys.Remove(tmp)
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	dir, _, _ := bytes.Cut([]byte(name), []byte("/"+SeedsCopy))
	return fsys.SyncDir(string(dir))
}

func closeFile(f disk.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// writeSeeds writes old and then in to dst. same is true if old ends with in.
func writeSeeds(dst, old disk.File, in io.Reader) (same bool, err error) {
	var size int64
	if old != nil {
		if size, err = old.Size(); err != nil {
			return false, err
		}
		if _, err := io.Copy(io.NewOffsetWriter(dst, 0), io.NewSectionReader(old, 0, size)); err != nil {
			return false, err
		}
	}
	start := size
	if size > 0 {
		if _, err := dst.WriteAt([]byte("\n"), size); err != nil {
			return false, err
		}
		start++
	}
	n, err := io.Copy(io.NewOffsetWriter(dst, start), in)
	if err != nil || old == nil || n > size {
		return false, err
	}
	return equalRanges(dst, start, old, size-n, n)
}

// equalRanges compares n bytes of two files.
func equalRanges(a io.ReaderAt, aOff int64, b io.ReaderAt, bOff, n int64) (bool, error) {
	x, y := make([]byte, 256<<10), make([]byte, 256<<10)
	for done := int64(0); done < n; {
		k := min(int64(len(x)), n-done)
		if _, err := a.ReadAt(x[:k], aOff+done); err != nil && err != io.EOF {
			return false, err
		}
		if _, err := b.ReadAt(y[:k], bOff+done); err != nil && err != io.EOF {
			return false, err
		}
		if !bytes.Equal(x[:k], y[:k]) {
			return false, nil
		}
		done += k
	}
	return true, nil
}
