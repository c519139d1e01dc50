package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drumbeat/internal/simweb"
)

// TestCrawlOverIPv6: a whole crawl over sockets on [::1], which --allow-net alone opens; without it nothing is connected to.
func TestCrawlOverIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6 loopback: %v", err)
	}
	_ = l.Close()
	web, flags := smallWeb(t, func(o *simweb.Options) { o.IPv6, o.HTTPS, o.IPs = 1, 0.2, 1 })
	flags = append(flags, "--ip=6", "--seeds", seedFile(t, web))
	closed := append(flags, "--dir", filepath.Join(t.TempDir(), "closed")) // --allow-net=127.0.0.0/8 among them
	out, _ := wantExit(t, exitNoSeed, "", closed...)
	if n := len(web.Log().Snapshot().Fetches); n > 0 || !strings.Contains(out, "forbidden-address") {
		t.Errorf("%d URLs fetched from [::1], which no --allow-net names:\n%s", n, out)
	}
	dir := filepath.Join(t.TempDir(), "open")
	wantExit(t, exitDone, "", append(flags, "--dir", dir, "--allow-net=::1")...)
	log := web.Log().Snapshot()
	if err := log.CheckFetched(web.Expected(defaultAgent), 1); err != nil {
		t.Error(err)
	}
	if _, ok := log.Servers["::1"]; len(log.Fetches) == 0 || !ok || len(log.Servers) != 1 {
		t.Errorf("%d URLs fetched from servers %v, want some, all from ::1", len(log.Fetches), log.Servers)
	}
	wantExit(t, exitDone, "", "audit", dir)
}

// TestModes: whatever the umask, nobody else can read what a crawl writes; a wider directory that was there before is
// named in a warning, and left as it is.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	web, flags := smallWeb(t, nil)
	wide := filepath.Join(t.TempDir(), "wide")
	if err := os.Mkdir(wide, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new", "crawl")
	_, errs := wantExit(t, exitDone, strings.Join(web.Seeds(), "\n"), append(flags, "--seeds=-", "--dir", dir, "--out", wide)...)
	for _, root := range []string{filepath.Dir(dir), wide} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == wide {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %o, want %o", path, got, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if want := fmt.Sprintf("directory %s can be read by others (mode 0755)", wide); !strings.Contains(errs, want) {
		t.Errorf("got %q, want a warning that %s", errs, want)
	}
	if info, err := os.Stat(wide); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory that was there before was changed: %v, %v", info, err)
	}
}

// TestOutMode: with --out-mode finished files have that mode whatever the umask, and those whom it lets in can reach them, but nothing
// of the state.
func TestOutMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	web, flags := smallWeb(t, nil)
	dir := filepath.Join(t.TempDir(), "crawl")
	_, errs := wantExit(t, exitDone, strings.Join(web.Seeds(), "\n"), append(flags, "--seeds=-", "--dir", dir, "--out-mode=0660")...)
	if strings.Contains(errs, "can be") {
		t.Errorf("a warning of what was asked for: %s", errs)
	}
	finished := 0
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		switch rel, _ := filepath.Rel(dir, path); {
		case rel == ".":
			want = 0o750
		case rel == "warc" || rel == "log":
			want = 0o770
		case strings.HasPrefix(rel, "warc/") || strings.HasPrefix(rel, "log/"):
			want = 0o660
			finished++
		case d.IsDir():
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	}); err != nil || finished == 0 {
		t.Errorf("%d files of output, %v", finished, err)
	}
	for _, bad := range []string{"0666", "0400", "0750", "rw", "01640"} {
		wantExit(t, exitUsage, "", "crawl", "--seeds=x", "--dir", dir, "--contact=a@example.org", "--out-mode="+bad)
	}
}
