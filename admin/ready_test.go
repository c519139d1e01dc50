package admin

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"

	"drumbeat/crawl"
	"drumbeat/disk"
)

// fullFS is the machine's file system, without free space once full is set.
type fullFS struct {
	disk.FS
	full atomic.Bool
}

func (f *fullFS) Space(dir string) (free, total int64, err error) {
	if free, total, err = f.FS.Space(dir); f.full.Load() {
		free = 0
	}
	return free, total, err
}

// TestReady: /readyz and /healthz say how the crawl does. A fault that lets no page through makes /readyz answer 503;
// /healthz answers 200 then, too, since no restart helps. The command that helps names the crawl's directory.
func TestReady(t *testing.T) {
	t.Parallel()
	fs := &fullFS{FS: disk.OS()}
	r := newRig(t, func(o *crawl.Options, _ *Options) { o.Disk.FS = fs })
	if code, body := r.ask("GET", "/readyz", "", nil); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, body)
	}
	fs.full.Store(true)
	r.await("a full disk", func() bool { return get[Status](r, "/api/v1/status").Health.Level == "bad" })
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/healthz": http.StatusOK} {
		if code, body := r.ask("GET", path, "", nil); code != want || !bytes.Contains(body, []byte("disk")) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	s := &Server{opt: Options{Dirs: []string{"/a", "/b"}}}
	for command, want := range map[string]string{"drumbeat ctl hosts": "drumbeat ctl hosts --dir /a", "df -h": "df -h",
		"drumbeat report": "drumbeat report --dir /a", "": ""} {
		if got := s.named(command); got != want {
			t.Errorf("%q: got %q, want %q", command, got, want)
		}
	}
}
