package crawl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
)

// A crawl with --resume has a directory of this name in each --dir: the crawler's files in resumeState, and in the
// first one the file of its course.
const (
	resumeName  = "drumbeat-bench-crawl"
	resumeState = "crawl"
	courseName  = "course"
)

// The file of the course is a line "drumbeat-bench-course <version> <length> <xxhash64 hex>" and a JSON body. The sum
// covers the version and the body.
const (
	courseMagic   = "drumbeat-bench-course"
	courseVersion = "1"
)

// courseEvery is the interval at which the course is saved: a file of at most 600 KB, with two syncs. A kill loses the
// account of as much.
const courseEvery = 5 * time.Second

// crawlPart describes a part of a resumed crawl: the work of one process.
type crawlPart struct {
	Began time.Time
	Ended string // why; "" while it runs
	// Pages, Unique, Wall and CPU are the part's, without what was lost.
	Pages, Unique int64
	Wall, CPU     time.Duration
	// Lost is the work that a kill has lost after the last checkpoint, as far as the course knows it.
	Lost crawlTenth
	Seen seenSums // of the process, with the work that was lost
}

const endKilled = "kill, or crash of the machine"

// saved is the body of the file: what a crawl with --resume keeps beside the crawler's own files.
type saved struct {
	Flags  map[string]string // flags that must not change, by name
	Course crawlCourse
	Parts  []crawlPart
	Sizes  diskSizes
	Peak   int64   // most bytes of disk so far
	Over   bool    // the crawl has reached its number of pages or URLs
	Result *Result // of the last part that ended in order
	Note   string  // what the report must say of the course
}

// resumed is a crawl with --resume whose directory this process has locked.
type resumed struct {
	saved
	path  string // of the file
	dirs  []string
	lock  io.Closer
	pages int64 // of the crawl at the start of this process
	found int64 // URLs, likewise
}

// flags returns the flags that determine the web and the crawl, with their values.
func (c *Options) flags() map[string]string {
	var dirs []string
	for _, dir := range c.Dirs {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		dirs = append(dirs, dir)
	}
	store := "none"
	if c.store {
		store = "warc"
	}
	w := &c.web
	list := map[string]string{"dir": strings.Join(dirs, ","), "store": store}
	for name, value := range map[string]any{"seed": w.Seed, "hosts": w.Hosts, "seeds": w.Roots, "plds": w.PLDs,
		"addrs": w.Addrs, "page-bytes": w.PageBytes, "links": w.Links, "new": w.New, "new-hosts": w.NewHosts,
		"gzip": w.Gzip, "https": w.HTTPS, "transport": c.Transport, "ram": c.RAMBytes, "drum-disk": c.drumDisk(),
		"connections": c.Connections, "keep-alive": c.KeepAlive} {
		list[name] = fmt.Sprint(value)
	}
	return list
}

// openResumed locks the directory of a crawl with --resume, and reads its course or begins it.
func (c *Options) openResumed() (r *resumed, err error) {
	r = &resumed{}
	for _, dir := range c.Dirs {
		r.dirs = append(r.dirs, filepath.Join(dir, resumeName))
	}
	r.path = filepath.Join(r.dirs[0], courseName)
	for _, dir := range r.dirs {
		for _, name := range []string{dir, filepath.Join(dir, resumeState)} {
			if err := os.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("bench: crawl: %w", err)
			}
		}
	}
	lock, err := disk.OS().Lock(r.dirs[0])
	if err != nil {
		return nil, fmt.Errorf("bench: crawl: another process may be running this crawl: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	r.lock = lock
	m, _, err := state.ReadManifest(disk.Set{FS: disk.OS(), Paths: r.states()})
	if err != nil {
		return nil, fmt.Errorf("bench: crawl: %s: %w", r.dirs[0], err)
	}
	if m != nil { // else nothing has been crawled, whatever the file says
		r.pages, r.found = m.Accounts.Counters[state.CountPages], m.Accounts.Unique.N
		if err := r.read(); err != nil {
			return nil, err
		}
	}
	if r.Flags == nil {
		r.Flags = c.flags()
	}
	if err := r.sameFlags(c.flags()); err != nil {
		return nil, err
	}
	r.begin()
	return r, r.save()
}

// read reads the file.
func (r *resumed) read() error {
	data, err := disk.ReadFile(disk.OS(), r.path)
	if errors.Is(err, fs.ErrNotExist) {
		r.Note = fmt.Sprintf("The file of the course was missing after %s: the times, CPU and flags before "+
			"that are unknown.", human.Counted(r.pages, "page", "pages"))
		return nil
	}
	if err != nil {
		return fmt.Errorf("bench: crawl: %w", err)
	}
	return r.decode(data)
}

// states returns the directories of the crawler.
func (r *resumed) states() (dirs []string) {
	for _, dir := range r.dirs {
		dirs = append(dirs, filepath.Join(dir, resumeState))
	}
	return dirs
}

// sameFlags returns an error that names the flags with other values.
func (r *resumed) sameFlags(now map[string]string) error {
	var other []string
	for name, value := range now {
		if was, ok := r.Flags[name]; ok && was != value {
			other = append(other, fmt.Sprintf("--%s %s (now %s)", name, was, value))
		}
	}
	if len(other) == 0 {
		return nil
	}
	slices.Sort(other)
	return fmt.Errorf("bench: crawl: the crawl in %s began with %s, given or derived from --pages and "+
		"--urls: repeat its flags, or remove that directory to begin another "+
		"crawl", r.dirs[0], strings.Join(other, "; "))
}

// begin ends the account of a part that was killed and begins that of this process.
func (r *resumed) begin() {
	if r.Over && r.Result != nil {
		return
	}
	lost := r.Course.goBack(r.pages, r.found)
	if n := len(r.Parts); n > 0 {
		p := &r.Parts[n-1]
		if p.Ended == "" {
			p.Ended = endKilled
		}
		p.Lost = lost
		r.account(p, r.Course.last())
	}
	r.Parts = append(r.Parts, crawlPart{Began: time.Now().Round(time.Second)})
}

// account sets the work of the last part so that all parts add up to the sums at a point.
func (r *resumed) account(p *crawlPart, at crawlTenth) {
	p.Pages, p.Unique, p.Wall, p.CPU = at.Pages, at.Unique, at.Wall, at.CPU
	for i := range r.Parts[:len(r.Parts)-1] {
		q := &r.Parts[i]
		p.Pages, p.Unique, p.Wall, p.CPU = p.Pages-q.Pages, p.Unique-q.Unique, p.Wall-q.Wall, p.CPU-q.CPU
	}
}

// end records why this process ends, and saves.
func (r *resumed) end(why string) error {
	p := &r.Parts[len(r.Parts)-1]
	p.Ended = why
	r.account(p, r.Course.last())
	return r.save()
}

// save replaces the file.
func (r *resumed) save() error {
	body, err := json.Marshal(&r.saved)
	if err == nil {
		head := fmt.Sprintf("%s %s %d %016x\n", courseMagic, courseVersion, len(body), courseSum(courseVersion, body))
		err = disk.WriteFileAtomic(disk.OS(), r.path, append([]byte(head), body...))
	}
	if err != nil {
		return fmt.Errorf("bench: crawl: save the course: %w", err)
	}
	return nil
}

func courseSum(version string, body []byte) uint64 {
	return xxhash.Sum64(append([]byte(version+"\n"), body...))
}

// decode reads the content of the file.
func (r *resumed) decode(data []byte) error {
	damaged := func(what string) error {
		return fmt.Errorf(
			"bench: crawl: %s is damaged: %s. Remove this file to continue the crawl with a new course, or "+
				"remove %s to begin another crawl", r.path, what, r.dirs[0])
	}
	head, body, ok := bytes.Cut(data, []byte("\n"))
	fields := strings.Split(string(head), " ")
	if !ok || len(fields) != 4 || fields[0] != courseMagic {
		return damaged("it does not begin with " + courseMagic)
	}
	if n, err := strconv.Atoi(fields[2]); err != nil || n != len(body) {
		return damaged(fmt.Sprintf("it has %d bytes, want %s", len(body), fields[2]))
	}
	if sum := fmt.Sprintf("%016x", courseSum(fields[1], body)); sum != fields[3] {
		return damaged(fmt.Sprintf("its checksum is %s, want %s", sum, fields[3]))
	}
	if fields[1] != courseVersion {
		return fmt.Errorf("bench: crawl: %s has version %s, and this program reads %s: use the program that "+
			"wrote it",
			r.path, fields[1], courseVersion)
	}
	if err := json.Unmarshal(body, &r.saved); err != nil {
		return damaged(err.Error())
	}
	return nil
}

// close unlocks the directory, and removes all of the crawl's files if remove is set.
func (r *resumed) close(remove bool) error {
	var errs []error
	if remove {
		for _, dir := range r.dirs {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(append(errs, r.lock.Close())...)
}
