package soak

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/cmd/term"
	"drumbeat/internal/simweb"
)

func (s *soak) kill() {
	s.signal(syscall.SIGKILL)
	s.ends(killed)
}

func (s *soak) term() {
	s.signal(syscall.SIGTERM)
	s.ends(alive, term.ExitSignal)
}

// twoSignals stops the crawl cleanly, then at once.
func (s *soak) twoSignals() {
	s.signal(syscall.SIGTERM)
	s.let(2*term.SameSignal, 2*term.SameSignal)
	s.signal(syscall.SIGINT)
	s.ends(alive, term.ExitSignal, term.ExitForced)
}

// freeze stops the process for a while, as a suspended machine does.
func (s *soak) freeze() {
	s.signal(syscall.SIGSTOP)
	s.let(s.unit/2, 2*s.unit)
	s.signal(syscall.SIGCONT)
	s.goesOn(time.Minute)
}

// descriptors limits the process for a while to a few more descriptors than it has. It may continue, or stop
// with a message.
func (s *soak) descriptors() {
	n := s.p.now().descriptors
	if n == 0 {
		return // it has ended
	}
	s.limit(unix.RLIMIT_NOFILE, uint64(max(3, n-4+s.rng.IntN(8))))
	s.let(s.unit, 2*s.unit)
	s.unlimit(unix.RLIMIT_NOFILE)
	s.goesOnOr([]string{"too many open files; raise the limit"}, term.ExitFailure)
}

// fewDescriptors starts the crawl with few descriptors: it uses fewer connections.
func (s *soak) fewDescriptors() {
	s.stop()
	s.descriptorLimit = 100 + s.rng.IntN(200)
	s.start()
	s.descriptorLimit = 0
	s.goesOn(time.Minute)
}

// memory limits the process to little more address space than it has. It may survive; usually the Go runtime
// ends it.
func (s *soak) memory() {
	s.limit(unix.RLIMIT_AS, s.p.now().virtual+uint64(s.rng.IntN(8<<20)))
	s.let(s.unit, 3*s.unit)
	s.unlimit(unix.RLIMIT_AS)
	s.goesOnOr([]string{"memory", "pthread_create failed"}, term.ExitFailure, goThrow)
}

// goThrow is the exit code of a Go program that its runtime aborts.
const goThrow = 2

// goesOnOr asserts that the process continues, or has ended with one of the codes and one of the texts.
func (s *soak) goesOnOr(texts []string, codes ...int) {
	s.t.Helper()
	if !s.p.exited() {
		before, _, _ := s.web.Log().Totals()
		if s.waitFor(time.Minute, func() bool { n, _, _ := s.web.Log().Totals(); return n > before }) {
			return
		}
	}
	p := s.p
	s.ends(alive, codes...)
	said := slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(p.tail.text(), text) })
	if p.code() != term.ExitDone && !said {
		s.t.Errorf("it ended without any of the messages %q:\n%s", texts, p.tail.brief())
	}
}

// diskLimit restarts with a --disk that is already exceeded: the crawl pauses, or stops cleanly.
func (s *soak) diskLimit() {
	s.stop()
	const least = "--disk=4MiB" // below it the start is refused
	if s.rng.IntN(2) == 0 {
		s.start(least, "--when-full=stop")
		s.ends(alive, term.ExitDiskFull)
		return
	}
	s.start(least)
	s.pauses(term.ExitDiskFull) // if a directory lacks its manifest, the start writes it
}

// pauses waits until the crawl logs that it pauses for lack of space, which it may meet while it opens its files, or
// until it ends: done, or with one of the codes.
func (s *soak) pauses(codes ...int) {
	s.t.Helper()
	if !s.waitFor(time.Minute, func() bool {
		text := s.p.tail.text()
		return strings.Contains(text, "fetching pauses until there is more") ||
			strings.Contains(text, "a write found no disk space")
	}) {
		s.ends(alive, codes...)
	}
}

// nearlyFull leaves less free space than --keep-free for a while.
func (s *soak) nearlyFull() { s.fillUp(int64(s.rng.IntN(24 << 20))) }

// full leaves no free space, not even for a checkpoint.
func (s *soak) full() { s.fillUp(0) }

// fullAndKilled kills the crawl while the disk is full, and restarts it before space is available.
func (s *soak) fullAndKilled() {
	free := s.fill(s.disks.small, 0)
	s.pauses()
	if s.p != nil {
		s.kill()
	}
	s.audit() // with a full disk
	if len(s.dirs) > 0 {
		s.start()
		s.let(s.unit, 4*s.unit)
	}
	free()
	if s.p != nil {
		s.goesOn(time.Minute)
	}
}

// fillUp fills a disk for a while except for leave bytes. The crawl pauses, and continues when space is
// available.
func (s *soak) fillUp(leave int64) {
	s.t.Helper()
	free := s.fill(s.disks.small, leave)
	s.pauses()
	s.let(0, 2*s.unit)
	free()
	if s.p != nil {
		s.goesOn(time.Minute)
	}
}

// outage cuts off the network, the name servers or half of the hosts for a while: no failure counts against
// a site.
func (s *soak) outage() {
	o := simweb.Outage{}
	switch s.rng.IntN(3) {
	case 0:
		o.All = true
	case 1:
		o.DNS = true
	default:
		o.Hosts = s.web.Hosts()[:len(s.web.Hosts())/2]
	}
	s.web.SetOutage(o)
	s.let(2*s.unit, 6*s.unit)
	s.web.SetOutage(simweb.Outage{})
	count := func(text string) int { return strings.Count(s.p.tail.text(), text) }
	over := func() bool { return count("outage: fetching slows") <= count("the outage is over") }
	if s.waitFor(2*time.Minute, over) && !s.p.exited() {
		s.goesOn(time.Minute)
	}
}

// slowDisk limits the write speed of a disk for a while.
func (s *soak) slowDisk() {
	s.disks.slow(s.t, 200_000)
	s.let(2*s.unit, 5*s.unit)
	s.disks.slow(s.t, 0)
	s.goesOn(2 * time.Minute)
}

// refused runs the command, which must end with an error about directories that contains text.
func (s *soak) refused(dirs []string, text string) {
	s.t.Helper()
	out := s.run(term.ExitDirectory, s.args(dirs)...)
	if !strings.Contains(out, text) {
		s.t.Errorf("the error lacks %q:\n%s", text, out)
	}
}

// missing hides one directory: the crawl must not create it again.
func (s *soak) missing() {
	s.stop()
	dir := s.dirs[s.rng.IntN(len(s.dirs))]
	away := dir + ".away"
	must(s, os.Rename(dir, away))
	s.refused(s.dirs, "missing")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		s.t.Errorf("%s was created again: %v", dir, err)
	}
	must(s, os.Mkdir(dir, 0o700)) // like the mount point of a missing disk
	s.refused(s.dirs, "missing")
	must(s, os.RemoveAll(dir))
	must(s, os.Rename(away, dir))
}

// leftOut omits one directory.
func (s *soak) leftOut() {
	s.stop()
	i := s.rng.IntN(len(s.dirs))
	s.refused(slices.Delete(slices.Clone(s.dirs), i, i+1), "missing")
}

// swapped gives the directories in another order, which must not matter.
func (s *soak) swapped() {
	s.stop()
	s.rng.Shuffle(len(s.dirs), func(i, j int) { s.dirs[i], s.dirs[j] = s.dirs[j], s.dirs[i] })
	s.start()
	s.goesOn(time.Minute)
}

// moved renames a directory: its identity file counts, not its path.
func (s *soak) moved() {
	s.stop()
	i := s.rng.IntN(len(s.dirs))
	to := strings.TrimSuffix(s.dirs[i], ".moved")
	if to == s.dirs[i] {
		to += ".moved"
	}
	must(s, os.Rename(s.dirs[i], to))
	s.dirs[i] = to
	s.start()
	s.goesOn(time.Minute)
}

// backups returns the place of the backups of the current crawl.
func (s *soak) backups() string { return filepath.Join(s.tmp, fmt.Sprintf("backups%d", s.crawls)) }

// lost deletes all directories, and restores the last backup. The crawl must continue there.
func (s *soak) lost() {
	if _, err := os.Stat(filepath.Join(s.backups(), "latest")); err != nil {
		return // killed before the first one
	}
	s.stop()
	args := []string{"restore", "--from=" + s.backups()}
	for _, dir := range s.dirs {
		must(s, os.RemoveAll(dir))
		args = append(args, "--dir="+dir)
	}
	s.run(term.ExitDone, args...)
	s.run(term.ExitDone, append([]string{"audit"}, s.dirs...)...)
	s.start()
	s.goesOn(time.Minute)
}

// foreign replaces a directory by another crawl's, then by one that is not a crawl's.
func (s *soak) foreign() {
	s.stop()
	i := s.rng.IntN(len(s.dirs))
	dirs := slices.Clone(s.dirs)
	dirs[i] = s.other
	s.refused(dirs, "belongs to crawl")
	s.run(term.ExitDone, "audit", s.other)
	dirs[i] = filepath.Join(s.tmp, "thesis")
	must(s, os.MkdirAll(dirs[i], 0o700))
	must(s, os.WriteFile(filepath.Join(dirs[i], "thesis.tex"), []byte("x"), 0o600))
	s.refused(dirs, "is not empty")
	if names, err := os.ReadDir(dirs[i]); err != nil || len(names) != 1 {
		s.t.Errorf("the foreign directory holds %v, %v", names, err)
	}
}

// unmounted unmounts a disk between two runs.
func (s *soak) unmounted() {
	s.stop()
	s.disks.unmountLoop(s.t)
	s.refused(s.dirs, "missing")
	if names, err := os.ReadDir(s.disks.loop); err != nil || len(names) != 0 {
		s.t.Errorf("the mount point of the unmounted disk holds %v, %v", names, err)
	}
	s.disks.mountLoop(s.t)
}

// fill writes a file that leaves the given number of bytes free. The returned function removes it.
func (s *soak) fill(dir string, leave int64) func() {
	s.t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	must(s, err)
	piece := make([]byte, 1<<20)
	for {
		var st unix.Statfs_t
		must(s, unix.Statfs(dir, &st))
		n := int64(st.Bavail)*st.Bsize - leave
		if n <= 0 {
			break
		}
		if _, err := f.Write(piece[:min(n, int64(len(piece)))]); err != nil {
			break // full
		}
	}
	must(s, f.Close())
	return func() { must(s, os.Remove(name)) }
}

// limit sets a soft limit of the process.
func (s *soak) limit(resource int, to uint64) {
	s.t.Helper()
	old, err := s.limits(resource)
	if err == nil {
		err = unix.Prlimit(s.p.cmd.Process.Pid, resource, &unix.Rlimit{Cur: to, Max: old.Max}, nil)
	}
	if err != nil && !s.p.exited() {
		s.t.Errorf("limit %d of the process: %v", resource, err)
	}
}

func (s *soak) limits(resource int) (old unix.Rlimit, err error) {
	err = unix.Prlimit(s.p.cmd.Process.Pid, resource, nil, &old)
	return old, err
}

// unlimit raises the soft limit to the hard limit.
func (s *soak) unlimit(resource int) {
	if old, err := s.limits(resource); err == nil {
		s.limit(resource, old.Max)
	}
}

func must(s *soak, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// now samples the process; the result is zero if it has ended.
func (p *process) now() (sm sample) {
	dir := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	f, err := os.Open(dir + "status")
	if err != nil {
		return sm
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, value, _ := strings.Cut(sc.Text(), ":")
		var n int64
		if _, err := fmt.Sscan(value, &n); err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			sm.rss = n << 10
		case "VmSize":
			sm.virtual = uint64(n) << 10
		case "Threads":
			sm.threads = int(n)
		}
	}
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		return sample{}
	}
	sm.descriptors = len(fds)
	return sm
}
