package soak

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// soakDisks are the file systems of a soak: the machine's own and, for root, a small one in memory and a
// loop device that can be unmounted and slowed down.
type soakDisks struct {
	plain, small, loop string
	image              string
	mounted            bool
	throttle           string // the loop device's number, if this machine can slow it down
}

// smallBytes is the size of the file system in memory, which faults fill up.
const smallBytes = 512 << 20

// blkio is the directory of cgroup v1 with the I/O limits of devices.
const blkio = "/sys/fs/cgroup/blkio/"

// mount mounts the file systems below dir, and unmounts them at the end of the test. If that is impossible,
// it logs why.
func (d *soakDisks) mount(t *testing.T, dir string, really bool) {
	t.Helper()
	d.plain, d.small, d.loop = filepath.Join(dir, "plain"), filepath.Join(dir, "small"), filepath.Join(dir, "loop")
	for _, p := range []string{d.plain, d.small, d.loop} {
		if err := os.MkdirAll(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if !really {
		return
	}
	if os.Geteuid() != 0 {
		t.Log("not root: no file systems of its own, so no full, slow or unmounted disk")
		return
	}
	if err := unix.Mount("tmpfs", d.small, "tmpfs", 0, fmt.Sprintf("size=%d", smallBytes)); err != nil {
		t.Logf("no tmpfs, so no full, slow or unmounted disk: %v", err)
		return
	}
	t.Cleanup(func() { unmount(t, d.small) })
	d.image = filepath.Join(dir, "image")
	err := os.WriteFile(d.image, nil, 0o600)
	if err == nil {
		err = os.Truncate(d.image, 2<<30)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Logf("no ext4, so no full, slow or unmounted disk: %v: %s", err, out)
		return
	}
	if err := d.tryLoop(); err != nil {
		t.Logf("no loop device, so no full, slow or unmounted disk: %v", err)
		return
	}
	d.mounted = true
	t.Cleanup(func() {
		d.slow(t, 0)
		unmount(t, d.loop)
	})
	d.slow(t, 0) // finds out whether it is possible
}

func (d *soakDisks) tryLoop() error {
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.loop).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// mountLoop mounts the loop device again.
func (d *soakDisks) mountLoop(t *testing.T) {
	t.Helper()
	if err := d.tryLoop(); err != nil {
		t.Fatal(err)
	}
	d.slow(t, 0)
}

// unmountLoop unmounts the loop device, as if the operator had forgotten to mount it.
func (d *soakDisks) unmountLoop(t *testing.T) {
	t.Helper()
	if err := unix.Unmount(d.loop, 0); err != nil {
		t.Fatalf("unmount %s: %v", d.loop, err)
	}
}

// unmount detaches a file system, even if it is in use. It ignores one that is not mounted.
func unmount(t *testing.T, dir string) {
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
		t.Errorf("unmount %s: %v", dir, err)
	}
}

// slow limits the loop device to a number of bytes written per second; 0 is no limit.
func (d *soakDisks) slow(t *testing.T, bytes int) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(d.loop, &st); err != nil {
		t.Errorf("stat %s: %v", d.loop, err)
		return
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	err := os.WriteFile(blkio+"blkio.throttle.write_bps_device", fmt.Appendf(nil, "%s %d", device, bytes), 0)
	switch {
	case err == nil:
		d.throttle = device
	case bytes > 0:
		t.Errorf("slow the loop device down: %v", err)
	case d.throttle == "":
		t.Logf("no slow disk: %v", err)
	}
}

// directories returns the directories of a new crawl, one on each disk.
func (d *soakDisks) directories(t *testing.T, number int) (dirs []string) {
	t.Helper()
	for _, disk := range []string{d.plain, d.small, d.loop} {
		dirs = append(dirs, filepath.Join(disk, fmt.Sprintf("crawl%d", number)))
	}
	return dirs
}
