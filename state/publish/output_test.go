package publish

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk/memfs"
)

// TestOutputFails: a file that cannot be made durable or named leaves nothing, so that a full disk gets its room back.
func TestOutputFails(t *testing.T) {
	for _, failing := range []memfs.Op{memfs.OpSync, memfs.OpRename} {
		fs := memfs.New(1)
		j := &job{report: &Report{Name: "name", Time: time.Unix(1, 0)}, opt: &Options{TempDir: "tmp",
			FS: memfs.NewFault(fs, func(op memfs.Op, name string) error {
				if op == failing && strings.Contains(name, "file") {
					return syscall.EIO
				}
				return nil
			})}}
		o, err := j.create("a/file")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Write([]byte("text")); err != nil {
			t.Fatal(err)
		}
		if _, err := o.close(); err == nil {
			t.Fatal("no error")
		}
		if names, err := fs.List("tmp/tree/a"); err != nil || len(names) > 0 {
			t.Errorf("after an error of operation %d: left %q, %v", failing, names, err)
		}
	}
}
