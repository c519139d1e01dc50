package admin

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of a token that the operator gives, in characters.
const (
	leastToken = 16
	mostToken  = 512
)

// makeToken makes the token of this run and writes it to TokenName. A new one each time means that a token that was
// stolen, or sent to a stranger, ends with the run. With Options.TokenFile the operator's is used.
func (s *Server) makeToken() error {
	token := s.given
	if token == "" {
		var secret [tokenBytes]byte
		_, _ = rand.Read(secret[:]) // never fails
		token = hex.EncodeToString(secret[:])
	}
	if err := writeFile(filepath.Join(s.opt.Dirs[0], TokenName), []byte(token+"\n"), 0o600); err != nil {
		return fmt.Errorf("admin: token: %w", err)
	}
	s.token.Store(&token)
	return nil
}

// ReadToken reads a token from a file. The file must be a regular one of this user or root, which nobody else may
// read or write, and hold 16 to 512 printable characters.
func ReadToken(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return "", fmt.Errorf("%s is a symbolic link: name the file itself", name)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", fmt.Errorf("%s is not a regular file", name)
	case !mayAsk(st.Uid):
		return "", fmt.Errorf("%s belongs to user %d: a token file must belong to you or root", name, st.Uid)
	case st.Mode&0o077 != 0:
		return "", fmt.Errorf("%s has mode %#o, which lets others use it: run chmod 600", name,
			st.Mode&0o7777)
	}
	data, err := io.ReadAll(io.LimitReader(f, 2*mostToken))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < leastToken || len(token) > mostToken ||
		strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s contains no token: want %d to %d printable ASCII characters without spaces", name,
			leastToken, mostToken)
	}
	return token, nil
}

// Address is the content of the file admin.json.
type Address struct {
	URL     string    `json:"url"`
	Socket  string    `json:"socket,omitempty"` // SocketName, an abstract name with "@", or "" if there is none
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// mostAddress is the most bytes of admin.json.
const mostAddress = 4 << 10

// readAddress reads admin.json.
func readAddress(dir string) (at Address, err error) {
	f, err := os.OpenFile(filepath.Join(dir, AddressName), os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return at, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostAddress))
	if err == nil {
		err = json.Unmarshal(data, &at)
	}
	return at, err
}

func (s *Server) writeAddress(socket string) error {
	data, err := json.Marshal(Address{URL: s.url, Socket: socket, PID: os.Getpid(), Started: s.started.UTC()})
	if err == nil {
		err = writeFile(filepath.Join(s.opt.Dirs[0], AddressName), append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("admin: write the address: %w", err)
	}
	return nil
}

// removeFiles removes the address and the socket, unless they are a later crawl's: the directory's lock is free by now.
func (s *Server) removeFiles(socket [2]uint64) error {
	dir := s.opt.Dirs[0]
	var bad error
	remove := func(name string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			bad = errors.Join(bad, fmt.Errorf("admin: %w", err))
		}
	}
	if socket != [2]uint64{} && socketID(dir) == socket {
		remove(SocketName)
	}
	if at, err := readAddress(dir); err == nil && at.PID == os.Getpid() && at.Started.Equal(s.started) {
		remove(AddressName)
	}
	return bad
}

// writeFile replaces a file. It follows no link: what has the temporary name is removed first, and the file is new.
func writeFile(name string, data []byte, mode fs.FileMode) error {
	temp := name + ".tmp"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil { // whatever the umask
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, name)
}
