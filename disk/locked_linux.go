package disk

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// procLocks lists the file locks of all processes; see proc(5).
const procLocks = "/proc/locks"

func (*osFS) Locked(dir string) (bool, error) {
	pid, err := lockHolder(dir)
	return pid != 0, err
}

// lockHolder returns the process that holds the lock of dir, 0 if none does, and -1 if it is in another PID
// namespace.
func lockHolder(dir string) (pid int, err error) {
	var st unix.Stat_t
	err = retryInterrupted(func() error { return unix.Stat(LockPath(dir), &st) })
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	f, err := os.Open(procLocks)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return holderOf(f, st.Ino)
}

// holderOf looks for the flock of an inode: "1: FLOCK  ADVISORY  WRITE 7 08:01:1234 0 EOF". It may find an
// inode of the same number on another file system: it does not compare devices, because on file systems
// with subvolumes or layers stat returns another device than the kernel lists here.
func holderOf(r io.Reader, inode uint64) (pid int, err error) {
	want := strconv.FormatUint(inode, 10)
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" { // fields[1] is "->" for a waiter
			continue
		}
		if at := strings.LastIndexByte(fields[5], ':'); at >= 0 && fields[5][at+1:] == want {
			if pid, err = strconv.Atoi(fields[4]); err != nil || pid <= 0 {
				pid = -1
			}
			return pid, nil
		}
	}
	return 0, sc.Err()
}
