package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

// place is one directory of --dir or --out. existing is it or its nearest parent that exists, by an absolute
// path without symbolic links.
type place struct {
	path     string
	out      bool
	existing string
	dev      uint64
	st       unix.Statfs_t
}

// places looks at all directories. It leaves out those that do not exist and cannot be created, which
// checkDirectories reports.
func (e *env) places() (list []place, err error) {
	for i, dir := range slices.Concat(e.need.Dirs, e.need.Outs) {
		p := place{path: dir, out: i >= len(e.need.Dirs)}
		if p.existing, err = term.ExistingParent(dir); err != nil {
			continue
		}
		if p.existing, err = filepath.EvalSymlinks(p.existing); err != nil {
			continue
		}
		var st unix.Stat_t
		if err := errors.Join(e.stat(p.existing, &st), e.statfs(p.existing, &p.st)); err != nil {
			return nil, fmt.Errorf("stat %s: %w", p.existing, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		p.dev = st.Dev
		list = append(list, p)
	}
	return list, nil
}

// checkDirectories: each directory exists or can be created, and a file can be written there.
func checkDirectories(_ context.Context, e *env) (list []finding) {
	for _, dir := range slices.Concat(e.need.Dirs, e.need.Outs) {
		r := finding{Check: "directory " + dir, Now: "writable", Need: "a writable directory"}
		existing, err := term.ExistingParent(dir)
		var info fs.FileInfo
		if err == nil {
			info, err = os.Stat(existing)
		}
		switch {
		case err == nil && !info.IsDir():
			err = fmt.Errorf("%s is not a directory", existing)
		case err == nil:
			err = tryWrite(existing)
		}
		if abs, _ := filepath.Abs(dir); err == nil && existing != abs {
			r.Now = "can be created"
		}
		if err != nil {
			r.Now = err.Error()
			r.at(fail, errors.Is(err, fs.ErrPermission),
				"install -d -m 700 -o USER "+shellWord(dir)+" (as root; USER runs the crawl)")
			r.at(fail, true, "another --dir or --out")
		}
		list = append(list, r)
	}
	return list
}

// shellWord quotes a path for the shell if it has other than plain characters.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+", r)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// tryWrite creates a file and removes it.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, "drumbeat-doctor-*")
	if err != nil {
		return cause(err)
	}
	_, err = f.Write([]byte("x"))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// kind is what a type of file system is to a crawl.
type kind struct{ name, fault string }

// The faults of file systems.
const (
	network = "on the network: slower, and locks and syncs may be unreliable"
	inRAM   = "in RAM: lost at a restart"
	layered = "a layer of a container: slow, and lost with it"
	oldFAT  = "files end at 4 GB, no permissions"
)

// kindOf returns the kind of a file system by its magic number (statfs(2)).
func kindOf(magic uint32) kind {
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return kind{"ext4", ""}
	case unix.XFS_SUPER_MAGIC:
		return kind{"xfs", ""}
	case unix.BTRFS_SUPER_MAGIC:
		return kind{"btrfs", ""}
	case unix.F2FS_SUPER_MAGIC:
		return kind{"f2fs", ""}
	case unix.BCACHEFS_SUPER_MAGIC:
		return kind{"bcachefs", ""}
	case 0x2fc12fc1:
		return kind{"zfs", ""}
	case unix.NFS_SUPER_MAGIC:
		return kind{"nfs", network}
	case unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC:
		return kind{"smb", network}
	case unix.V9FS_MAGIC:
		return kind{"9p", network}
	case unix.CEPH_SUPER_MAGIC:
		return kind{"ceph", network}
	case unix.AFS_SUPER_MAGIC:
		return kind{"afs", network}
	case unix.OCFS2_SUPER_MAGIC:
		return kind{"ocfs2", network}
	case 0x0bd00bd0:
		return kind{"lustre", network}
	case unix.FUSE_SUPER_MAGIC:
		return kind{"fuse", "in user space (FUSE), often on the network: slower"}
	case unix.TMPFS_MAGIC:
		return kind{"tmpfs", inRAM}
	case unix.RAMFS_MAGIC:
		return kind{"ramfs", inRAM}
	case unix.OVERLAYFS_SUPER_MAGIC:
		return kind{"overlay", layered}
	case unix.MSDOS_SUPER_MAGIC:
		return kind{"fat", oldFAT}
	case unix.EXFAT_SUPER_MAGIC:
		return kind{"exfat", "no permissions, no journal"}
	}
	return kind{fmt.Sprintf("type %#x", magic), ""}
}

// checkFileSystems: type and mount options of each directory's file system.
func checkFileSystems(_ context.Context, e *env) (list []finding) {
	places, err := e.places()
	if err != nil {
		return cannot("file system", err)
	}
	for _, p := range places {
		k := kindOf(uint32(p.st.Type))
		r := finding{Check: "file system of " + p.path, Now: k.name, Need: "local, on disk"}
		if disk, spins := e.disk(p.dev); disk != "" {
			r.Now += " on " + disk
			if spins {
				r.Now += " (rotational)"
			}
		}
		if k.fault != "" {
			r.Now += ", " + k.fault
			r.at(warn, true, "a --dir on a local ext4 or xfs")
		}
		if p.st.Flags&unix.ST_RDONLY != 0 {
			r.Now += ", read-only"
			r.at(fail, true, "mount -o remount,rw "+shellWord(e.mountPoint(p.existing)))
		}
		if p.st.Flags&unix.ST_SYNCHRONOUS != 0 {
			r.Now += ", mounted with sync"
			r.at(warn, true, "mount -o remount,async "+shellWord(e.mountPoint(p.existing)))
		}
		list = append(list, r)
	}
	return list
}

// disk returns the name of the disk that a device is on, and whether it rotates; "" if the device is on none
// or on several (RAM, network, btrfs, overlay).
func (e *env) disk(dev uint64) (name string, spins bool) {
	device := fmt.Sprintf("sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev))
	link, err := fs.ReadLink(e.root, device)
	if err != nil {
		return "", false
	}
	if _, err := fs.Stat(e.root, device+"/partition"); err == nil {
		link = path.Dir(link)
	}
	name = path.Base(link)
	rotates, _ := e.text("sys/block/" + name + "/queue/rotational")
	return name, rotates == "1"
}

// mountPoint returns the mount point of a path.
func (e *env) mountPoint(file string) string {
	text, _ := e.text("proc/self/mountinfo")
	best := "/"
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 4 && len(f[4]) > len(best) && (file == f[4] || strings.HasPrefix(file, f[4]+"/")) {
			best = f[4]
		}
	}
	return best
}

// checkDevices: each --dir has its own disk, and so has each --out.
func checkDevices(_ context.Context, e *env) []finding {
	places, err := e.places()
	if err != nil {
		return cannot("devices", err)
	}
	if len(places) < 2 {
		return nil
	}
	shared, disks := []string(nil), map[string][]string{}
	for _, p := range places {
		key := fmt.Sprintf("device %d:%d", unix.Major(p.dev), unix.Minor(p.dev))
		if disk, _ := e.disk(p.dev); disk != "" {
			key = disk
		}
		if disks[key] = append(disks[key], p.path); len(disks[key]) == 2 {
			shared = append(shared, key)
		}
	}
	r := finding{Check: "devices",
		Now: fmt.Sprintf("%s on %s", human.Counted(len(places), "directory", "directories"),
			plural(int64(len(disks)), "disk")),
		Need: "a disk for each"}
	for _, key := range shared {
		r.Now += fmt.Sprintf("; %s on %s", strings.Join(disks[key], ", "), key)
	}
	r.at(warn, len(shared) > 0, "one --dir for each disk; --out on a separate disk, or none")
	return []finding{r}
}

// fileSystem is what the directories on one file system need together.
type fileSystem struct {
	place
	paths string
	need  int64 // bytes
	held  int64 // bytes that the crawl has there already
}

// fileSystems groups the directories by their file system.
func (e *env) fileSystems() (list []*fileSystem, err error) {
	places, err := e.places()
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		i := slices.IndexFunc(list, func(f *fileSystem) bool { return f.dev == p.dev })
		if i < 0 {
			i = len(list)
			list = append(list, &fileSystem{place: p, need: e.need.KeepFreeBytes})
		} else {
			list[i].paths += ", "
		}
		f := list[i]
		bytes, _ := e.need.share(p.out)
		f.paths, f.need, f.held = f.paths+p.path, f.need+bytes, f.held+term.TreeBytes(p.path)
	}
	return list, nil
}

// checkSpace compares bytes and inodes of each file system with the plan's forecast.
func checkSpace(_ context.Context, e *env) (list []finding) {
	e.say("drumbeat doctor: adding up the files of the directories")
	systems, err := e.fileSystems()
	if err != nil {
		return cannot("disk space", err)
	}
	n := e.need
	pages := human.Rough(n.Pages)
	smaller := fmt.Sprintf("plan for at most %s pages (--pages)", human.Rough(n.MostPages))
	for _, f := range systems {
		free := int64(f.st.Bavail) * f.st.Bsize
		r := finding{Check: "space for " + f.paths, Now: human.Bytes(free) + " free",
			Need: fmt.Sprintf("%s for %s pages, %s of it kept free", human.Bytes(f.need), pages,
				human.Bytes(n.KeepFreeBytes))}
		if f.held > 0 {
			r.Now += ", " + human.Bytes(f.held) + " in use by the crawl"
		}
		r.at(fail, free < n.KeepFreeBytes, "free "+human.Bytes(n.KeepFreeBytes-free)+": the crawl pauses at once",
			"a larger disk")
		r.at(fail, free+f.held < f.need, smaller, "more or larger disks: --dir, --out",
			"move finished WARC files away during the crawl (docs/howto/run/move-output.md)")
		inodes := finding{Check: "inodes for " + f.paths, Now: comma(int64(f.st.Ffree)) + " free",
			Need: comma(n.Inodes)}
		if f.st.Files == 0 { // btrfs and others have no limit
			inodes.Now = "no limit"
		} else {
			inodes.at(fail, int64(f.st.Ffree) < n.Inodes,
				"delete small files, or make the file system with more inodes (mkfs.ext4 -N)")
		}
		list = append(list, r, inodes)
	}
	if n.Disk > 0 {
		need := n.StateBytes + n.OutputBytes
		r := finding{Check: "--disk", Now: human.Bytes(n.Disk), Need: human.Bytes(need) + " for " + pages + " pages"}
		r.at(fail, n.Disk < need, smaller, "a larger --disk")
		list = append(list, r)
	}
	return list
}

// speedTime bounds writing, and reading, in each directory.
const speedTime = 2500 * time.Millisecond

// checkSpeed measures all directories at once, since a crawl uses them so.
func checkSpeed(ctx context.Context, e *env) (list []finding) {
	places, err := e.places()
	if err != nil {
		return cannot("disk speed", err)
	}
	if e.diskTest == 0 {
		return []finding{{Check: "disk speed", Now: "not measured: --disk-test 0", Status: unknown}}
	}
	var dirs []string
	for _, p := range places {
		if !slices.Contains(dirs, p.existing) {
			dirs = append(dirs, p.existing)
		}
	}
	e.say("drumbeat doctor: writing and reading " + human.Bytes(e.diskTest) + " in " + strings.Join(dirs, ", "))
	speeds := e.speeds(ctx, dirs, e.diskTest, speedTime)
	for _, p := range places {
		v := speeds[slices.Index(dirs, p.existing)]
		if v.Err != nil {
			list = append(list, cannot("speed of "+p.path, v.Err)...)
			continue
		}
		_, need := e.need.share(p.out)
		got := (v.Write + v.Read) / 2
		if p.out {
			got = v.Write
		}
		r := finding{Check: "speed of " + p.path,
			Now:  fmt.Sprintf("writes %s, reads %s", speed(v.Write), speed(v.Read)),
			Need: fmt.Sprintf("%s for %s pages/s", speed(need), number(e.need.Rate))}
		if !v.Direct {
			r.Now += " (page cache)"
		}
		r.at(warn, got < need, "more or faster disks: this one allows "+number(e.need.Rate*got/need)+" pages/s")
		list = append(list, r)
	}
	return list
}
