package admin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// SocketName is the Unix socket in a crawl's first directory. Only the crawl's user and root may connect to it, so
// it needs no token.
const SocketName = "admin.sock"

// socketMode is the mode of the socket.
const socketMode = 0o600

// abstractPrefix begins the name of a socket that no directory holds. The system's form of it begins with "@".
const abstractPrefix = "@drumbeat-"

// openDir opens a directory to reach the names in it: by inDir they fit into the 108 bytes of a socket's address,
// however long the path of the directory is.
func openDir(dir string) (*os.File, error) {
	return os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// inDir returns a short path of a name in an open directory.
func inDir(d *os.File, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name) }

// listenSocket makes the socket in a directory and replaces the one that a killed crawl has left. The caller holds
// the directory's lock. Whatever else has the name is replaced too, but never followed.
func listenSocket(dir string) (*net.UnixListener, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd := int(d.Fd())
	const temp = SocketName + ".tmp"
	if err := unix.Unlinkat(fd, temp, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, &fs.PathError{Op: "remove", Path: filepath.Join(dir, temp), Err: err}
	}
	// The mode of the descriptor becomes that of the name, so that no moment is without it.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var bad error
		err := c.Control(func(s uintptr) { bad = unix.Fchmod(int(s), socketMode) })
		return errors.Join(err, bad)
	}}
	bound, err := config.Listen(context.Background(), "unix", inDir(d, temp))
	if err != nil {
		return nil, err
	}
	l := bound.(*net.UnixListener)
	l.SetUnlinkOnClose(false) // by then the path may lead elsewhere: removeSocket
	var st unix.Stat_t
	err = unix.Fstatat(fd, temp, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Mode&0o7777 != socketMode || st.Uid != uint32(os.Geteuid()):
		err = fmt.Errorf("it has the mode %#o and the owner %d", st.Mode, st.Uid)
	default:
		err = unix.Renameat(fd, temp, fd, SocketName)
	}
	if err != nil {
		_ = unix.Unlinkat(fd, temp, 0) // the next start removes it otherwise
		return nil, errors.Join(&fs.PathError{Op: "listen", Path: filepath.Join(dir, SocketName), Err: err}, l.Close())
	}
	return l, nil
}

// listenAbstract makes a socket for a directory that cannot hold one. Any local process may connect to it: both
// sides ask the kernel who the other one is.
func listenAbstract() (*net.UnixListener, error) {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	l, err := net.Listen("unix", abstractPrefix+hex.EncodeToString(name[:]))
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// socketID identifies the socket in a directory; the zero value is none.
func socketID(dir string) (id [2]uint64) {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(dir, SocketName), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		id = [2]uint64{st.Dev, st.Ino}
	}
	return id
}

// peerUID returns the user at the other end of a Unix socket.
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var bad error
	err = raw.Control(func(fd uintptr) { cred, bad = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, bad); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// mayAsk reports whether a user may use the socket of this process.
func mayAsk(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// dialSocket connects to the crawl in dir. It sends nothing to a process of another user than this one, root or the
// owner of the directory. Errors for which no crawl runs are ErrNoServer.
func dialSocket(ctx context.Context, dir string) (net.Conn, error) {
	d, err := openDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s does not exist", ErrNoServer, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	defer d.Close()
	name := filepath.Join(dir, SocketName)
	path, owner, err := socketPath(d, dir)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("%w: nothing listens on %s: the crawl was killed or is about to start",
			ErrNoServer, name)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("admin: only the crawl's user (%d) and root may use %s", owner, name)
	case err != nil:
		return nil, fmt.Errorf("admin: connect to %s: %w", name, err)
	}
	uid, err := peerUID(conn.(*net.UnixConn))
	if err == nil && uid != owner && !mayAsk(uid) {
		err = fmt.Errorf("the process that listens there runs as user %d, neither the directory's owner (%d) nor "+
			"root: sent nothing", uid, owner)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("admin: %s: %w", name, err), conn.Close())
	}
	return conn, nil
}

// socketPath finds the socket of the crawl in an open directory, and the directory's owner.
func socketPath(d *os.File, dir string) (path string, owner uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), "", &st, unix.AT_EMPTY_PATH); err != nil {
		return "", 0, fmt.Errorf("admin: %s: %w", dir, err)
	}
	owner = st.Uid
	err = unix.Fstatat(int(d.Fd()), SocketName, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK:
		return inDir(d, SocketName), owner, nil
	case err == nil: // a link could lead to another program
		return "", 0, fmt.Errorf("admin: %s is not a socket; the next start of the crawl replaces it",
			filepath.Join(dir, SocketName))
	case !errors.Is(err, unix.ENOENT):
		return "", 0, &fs.PathError{Op: "stat", Path: filepath.Join(dir, SocketName), Err: err}
	}
	at, err := readAddress(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, fmt.Errorf("%w: %s does not exist: the crawl is stopped, or runs with --admin none", ErrNoServer,
			filepath.Join(dir, SocketName))
	case err != nil:
		return "", 0, fmt.Errorf("admin: read the address: %w", err)
	case strings.HasPrefix(at.Socket, abstractPrefix):
		return at.Socket, owner, nil
	}
	return "", 0, fmt.Errorf(
		"%w: %s has no socket. If you mean the crawl at %s, add --url %[3]s, and --token-file for changes",
		ErrNoServer, dir, at.URL)
}
