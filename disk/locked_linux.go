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

// procLocks lists the locks of all files that processes hold: proc(5), /proc/locks.
const procLocks = "/proc/locks"

func (*osFS) Locked(dir string) (bool, error) {
	var st unix.Stat_t
	err := retryInterrupted(func() error { return unix.Stat(LockPath(dir), &st) })
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, err := os.Open(procLocks)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return holdsLock(f, st.Ino)
}

// holdsLock looks for the flock of an inode: "1: FLOCK  ADVISORY  WRITE 7 08:01:1234 0 EOF". Inodes of other file systems may have the
// number; the device isn't compared, since file systems with subvolumes or layers tell stat another than the kernel's.
func holdsLock(r io.Reader, inode uint64) (bool, error) {
	want := strconv.FormatUint(inode, 10)
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" { // fields[1] is "->" of one that waits
			continue
		}
		if at := strings.LastIndexByte(fields[5], ':'); at >= 0 && fields[5][at+1:] == want {
			return true, nil
		}
	}
	return false, sc.Err()
}
