package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/crawl"
)

// asUser calls f on a thread that has another effective user, which the kernel tells the other side of a socket.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to act as another user")
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		if _, _, bad := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); bad != 0 {
			t.Errorf("setresuid: %v", bad)
			return
		}
		f()
	}()
	<-done
}

// TestSocket: the client reads and changes by the socket, without a token, which it never sends. The socket
// has mode 0600 and goes with the crawl.
func TestSocket(t *testing.T) {
	r := newRig(t, nil)
	c := NewClient(r.dir)
	s, err := Get[Status](t.Context(), c, "/api/v1/status")
	if err != nil || s.PID != os.Getpid() {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := c.Do(t.Context(), http.MethodPost, "/api/v1/pause", nil); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(filepath.Join(r.dir, SocketName)); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	r.stop()
	for _, name := range []string{SocketName, SocketName + ".tmp", AddressName} {
		if _, err := os.Lstat(filepath.Join(r.dir, name)); err == nil {
			t.Errorf("%s is left over", name)
		}
	}
	if _, err := c.Do(t.Context(), http.MethodGet, "/api/v1/status", nil); !errors.Is(err, ErrNoServer) {
		t.Errorf("after the end: %v", err)
	}
}

// again starts the crawl of a rig that has ended once more.
func (r *rig) again(change func(*Options)) *rig {
	r.t.Helper()
	r.stop()
	return newRig(r.t, func(o *crawl.Options, a *Options) {
		o.Disk.Dirs, a.Dirs = []string{r.dir}, []string{r.dir}
		if change != nil {
			change(a)
		}
	})
}

// TestTokenIsNew: a token of an earlier run, or one that somebody has planted, changes nothing.
func TestTokenIsNew(t *testing.T) {
	planted := strings.Repeat("ab", 32)
	r := newRig(t, nil)
	first := r.token()
	r = r.again(nil)
	second := r.token()
	r = r.again(func(a *Options) {
		if err := os.WriteFile(filepath.Join(a.Dirs[0], TokenName), []byte(planted), 0o666); err != nil {
			t.Error(err)
		}
	})
	for _, old := range []string{first, second, planted} {
		set := func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+old) }
		if code, _ := r.ask("POST", "/api/v1/pause", "", set); code != http.StatusUnauthorized {
			t.Errorf("an old token: %d", code)
		}
	}
	if info, err := os.Stat(filepath.Join(r.dir, TokenName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if code, body := r.ask("POST", "/api/v1/pause", "", nil); code != http.StatusUnauthorized ||
		strings.Contains(string(body), r.dir) {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := r.ask("POST", "/api/v1/pause", "", r.withToken); code != http.StatusOK {
		t.Errorf("the new token: %d", code)
	}
}

// TestStaleSocket: what a killed crawl has left at the socket's names is replaced, and so is what others
// planted there: a file, links to a file and to a foreign socket. Nothing is followed.
func TestStaleSocket(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	foreign, err := net.Listen("unix", other)
	must(t, err)
	defer foreign.Close()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("precious"), 0o644))
	plant := map[string]func(string) error{
		"nothing": func(string) error { return nil },
		"stale": func(name string) error {
			l, err := net.Listen("unix", name)
			if err == nil {
				l.(*net.UnixListener).SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
		"file":            func(name string) error { return os.WriteFile(name, nil, 0o600) },
		"link":            func(name string) error { return os.Symlink(file, name) },
		"dangling":        func(name string) error { return os.Symlink(file+"x", name) },
		"link to another": func(name string) error { return os.Symlink(other, name) },
		"fifo":            func(name string) error { return unix.Mkfifo(name, 0o600) },
	}
	for what, f := range plant {
		for _, name := range []string{SocketName, SocketName + ".tmp"} {
			dir := t.TempDir()
			must(t, f(filepath.Join(dir, name)))
			if conn, err := dialSocket(t.Context(), dir); err == nil || what == "link to another" &&
				name == SocketName && !strings.Contains(err.Error(), "not a socket") {
				t.Errorf("%s: connected before the crawl listens: %v, %v", what, conn, err)
			}
			l, err := listenSocket(dir)
			if err != nil {
				t.Errorf("%s at %s: %v", what, name, err)
				continue
			}
			conn, err := dialSocket(t.Context(), dir)
			if err != nil {
				t.Errorf("%s at %s: %v", what, name, err)
			} else if err := conn.Close(); err != nil {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the linked file: %q, %v", data, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o644 {
		t.Errorf("the linked file: %v, %v", info.Mode(), err)
	}
	if _, err := os.Lstat(file + "x"); err == nil {
		t.Error("a dangling link was followed")
	}
}

// TestTwoCrawls: each directory's socket leads to its own crawl, and the end of an earlier server leaves a
// later one's alone.
func TestTwoCrawls(t *testing.T) {
	a, b := newRig(t, nil), newRig(t, nil)
	for _, r := range []*rig{a, b} {
		s, err := Get[Status](t.Context(), NewClient(r.dir), "/api/v1/status")
		if err != nil || len(s.Dirs) != 1 || s.Dirs[0] != r.dir {
			t.Errorf("%+v, %v", s.Dirs, err)
		}
	}
	late := &Server{opt: Options{Dirs: []string{a.dir}}, started: time.Now()}
	if err := late.removeFiles([2]uint64{1, 1}); err != nil {
		t.Error(err)
	}
	if _, err := Get[Status](t.Context(), NewClient(a.dir), "/api/v1/status"); err != nil {
		t.Errorf("after the end of another server: %v", err)
	}
	if _, err := os.Stat(filepath.Join(a.dir, AddressName)); err != nil {
		t.Error(err)
	}
}

// TestLongPath: the path of a directory may be longer than the address of a socket.
func TestLongPath(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		dir = filepath.Join(dir, strings.Repeat("d", 100))
	}
	must(t, os.MkdirAll(dir, 0o700))
	r := newRig(t, func(o *crawl.Options, a *Options) { o.Disk.Dirs, a.Dirs = []string{dir}, []string{dir} })
	if _, err := Get[Status](t.Context(), NewClient(r.dir), "/api/v1/status"); err != nil {
		t.Error(err)
	}
}

// TestNoSocketInDirectory: where a directory cannot hold a socket, the server warns and takes one without a
// file, and the client finds it.
func TestNoSocketInDirectory(t *testing.T) {
	var warned []string
	r := newRig(t, nil).again(func(a *Options) {
		a.Warn = func(text string, _ ...any) { warned = append(warned, text) }
		if err := os.MkdirAll(filepath.Join(a.Dirs[0], SocketName+".tmp", "x"), 0o700); err != nil {
			t.Error(err)
		}
	})
	if len(warned) != 1 || !strings.Contains(warned[0], "cannot hold") {
		t.Errorf("warnings: %q", warned)
	}
	if _, err := NewClient(r.dir).Do(t.Context(), http.MethodPost, "/api/v1/pause", nil); err != nil {
		t.Error(err)
	}
	at, err := readAddress(r.dir)
	if err != nil || !strings.HasPrefix(at.Socket, "@") {
		t.Fatalf("%+v, %v", at, err)
	}
	asUser(t, 65534, func() { // the server closes the connection of another user
		c, err := net.Dial("unix", at.Socket)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = c.Write([]byte("GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")) // it may be closed already
		if n, err := c.Read(make([]byte, 1)); n > 0 {
			t.Errorf("another user got an answer: %v", err)
		}
	})
}

// TestForeignServer: the client sends nothing to a process of another user, wherever that listens.
func TestForeignServer(t *testing.T) {
	dir := t.TempDir()
	var l net.Listener
	asUser(t, 65534, func() {
		var err error
		if l, err = listenAbstract(); err != nil {
			t.Error(err)
		}
	})
	if l == nil {
		t.Fatal("no listener")
	}
	defer l.Close()
	got := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer c.Close()
		n, _ := c.Read(make([]byte, 100)) // the number is enough
		got <- n
	}()
	text, err := json.Marshal(Address{URL: "http://127.0.0.1:1", Socket: l.Addr().String()})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, AddressName), text, 0o600))
	if _, err := NewClient(dir).Do(context.Background(), http.MethodPost, "/api/v1/pause", nil); err == nil ||
		!strings.Contains(err.Error(), "sent nothing") {
		t.Errorf("a foreign server: %v", err)
	}
	if n := <-got; n != 0 {
		t.Errorf("it got %d bytes", n)
	}
}

// TestReadToken: a token's file is the operator's alone.
func TestReadToken(t *testing.T) {
	dir := t.TempDir()
	good := strings.Repeat("t", 40)
	name := func(i int) string { return filepath.Join(dir, fmt.Sprint(i)) }
	for i, c := range []struct {
		text string
		mode os.FileMode
		ok   bool
	}{{good + "\n", 0o600, true}, {good, 0o400, true}, {good, 0o640, false}, {good, 0o604, false},
		{"short", 0o600, false}, {good + "\x00", 0o600, false}, {strings.Repeat("t", 600), 0o600, false},
		{good + "\nmore", 0o600, false}} {
		must(t, os.WriteFile(name(i), []byte(c.text), 0o600))
		must(t, os.Chmod(name(i), c.mode))
		if token, err := ReadToken(name(i)); (err == nil) != c.ok || c.ok && token != good {
			t.Errorf("%+v: %q, %v", c, token, err)
		}
	}
	must(t, errors.Join(os.Symlink(name(0), name(20)), unix.Mkfifo(name(21), 0o600)))
	for _, i := range []int{20, 21, 22} {
		if _, err := ReadToken(name(i)); err == nil {
			t.Errorf("file %d was accepted", i)
		}
	}
	if os.Geteuid() == 0 {
		must(t, os.Chown(name(0), 65534, -1))
		if _, err := ReadToken(name(0)); err == nil {
			t.Error("a foreign file was accepted")
		}
	}
	if _, err := Listen(Options{Control: new(crawl.Control), Addr: "127.0.0.1:0", Dirs: []string{t.TempDir()},
		TokenFile: name(2)}); err == nil {
		t.Error("the server took the token of a file that others may read")
	}
}

// TestWriteFile: a link at the temporary name is not followed.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	victim, name := filepath.Join(dir, "victim"), filepath.Join(dir, "name")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o644), os.Symlink(victim, name+".tmp"),
		os.Symlink(victim, name)); err != nil {
		t.Fatal(err)
	}
	must(t, writeFile(name, []byte("new"), 0o600))
	data, err := os.ReadFile(victim)
	info, err2 := os.Lstat(name)
	if err != nil || err2 != nil || string(data) != "precious" || info.Mode() != 0o600 {
		t.Errorf("%q, %v, %v, %v", data, info.Mode(), err, err2)
	}
}

// TestResumedAfterKill: a process that took the port of a killed crawl gets no request of the client, and its
// address is not where the resumed crawl says that it is.
func TestResumedAfterKill(t *testing.T) {
	r := newRig(t, nil)
	r.stop()
	asked := 0
	squatter := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer squatter.Close()
	text, err := json.Marshal(Address{URL: squatter.URL, Socket: SocketName, PID: 1})
	must(t, err)
	l, err := net.Listen("unix", filepath.Join(r.dir, SocketName))
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, errors.Join(l.Close(), os.WriteFile(filepath.Join(r.dir, AddressName), text, 0o644)))
	if _, err := NewClient(r.dir).Do(t.Context(), http.MethodPost, "/api/v1/pause", nil); !errors.Is(err, ErrNoServer) {
		t.Errorf("before the restart: %v", err)
	}
	if err := NewClient(r.dir).WaitStopped(t.Context()); err != nil {
		t.Errorf("a killed crawl has stopped: %v", err)
	}
	r = r.again(func(a *Options) { a.Addr = squatter.Listener.Addr().String() })
	if r.url == squatter.URL || !r.moved {
		t.Errorf("the server is at %s, moved: %t", r.url, r.moved)
	}
	if _, err := NewClient(r.dir).Do(t.Context(), http.MethodPost, "/api/v1/pause", nil); err != nil {
		t.Error(err)
	}
	if at, err := readAddress(r.dir); err != nil || at.URL != r.url || asked != 0 {
		t.Errorf("%+v, %v; the squatter got %d requests", at, err, asked)
	}
}
