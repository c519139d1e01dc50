package hook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/hook"
	"drumbeat/state"
)

// TestHookProcess: a crawl with a program as its hook, which ends at each third page, fetches all pages.
// The processes end with the crawl.
func TestHookProcess(t *testing.T) {
	const program = `trap 'echo "$$ ends" >> "$0"' EXIT
read -r greeting
echo '{"hook":1,"want":["text"]}'
n=0
while read -r line; do
	n=$((n + 1))
	[ $n = 3 ] && exit 1
	id=${line#*:}
	echo "{\"id\":${id%%,*},\"keep\":false}"
done`
	w := &testworld.Web{Serve: func(_, path string) testworld.Answer {
		if path == "/robots.txt" {
			return testworld.NoRobots
		}
		var links strings.Builder
		for i := range 30 {
			fmt.Fprintf(&links, "<a href=/%d>x</a>", i)
		}
		return testworld.Answer{200, "", "<html>" + links.String()}
	}}
	opt := crawltest.WebOptions(t, w, memfs.New(*testworld.Seed), "http://a.test/")
	crawltest.AtOnce(&opt)
	lives := filepath.Join(t.TempDir(), "lives")
	opt.Hook = &hook.Options{Command: []string{"/bin/sh", "-c", program, lives}, Procs: 2, Timeout: time.Minute}
	res := crawltest.MustRun(t, t.Context(), opt)
	s := &res.Snapshot
	answered, failed := s.Count(state.CountHookAnswers), s.Count(state.CountHookFailures)
	if s.Count(state.CountPages) != 31 || answered+failed != 31 || failed < 9 || failed > 10 ||
		s.Count(state.CountHookDropped) != answered {
		t.Errorf("%d pages, %d answered for, %d failed, %d dropped", s.Count(state.CountPages), answered, failed,
			s.Count(state.CountHookDropped))
	}
	// The last failure may still be under way when the crawl ends.
	if n := s.Count(state.CountHookRestarts); n < failed-2 || n > failed {
		t.Errorf("%d restarts, %d failures", n, failed)
	}
	text, err := os.ReadFile(lives)
	if n := int64(strings.Count(string(text), "ends")); err != nil || n < failed || n > failed+2 {
		t.Errorf("%d processes have ended by themselves: %v", n, err)
	}
	opt.Disk.FS, opt.Hook.Command = memfs.New(*testworld.Seed), []string{"/bin/sh", "-c", "echo no >&2"}
	if _, err := crawl.Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "hook: start") {
		t.Errorf("a hook that does not start: %v", err)
	}
}
