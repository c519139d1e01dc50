package crawl

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/state"
)

// TestKillNear: a crawl that looks for near-duplicates is killed at chosen places, among them the verdicts. Each page
// is stored once, each note names a capture with a body, and no pair is kept twice, though a kill takes back what the
// lists learned since the last checkpoint.
func TestKillNear(t *testing.T) {
	t.Parallel()
	notShort(t)
	const n, ip = 20, "127.77.1.11"
	web, tmp, rng := newNearWeb(n), t.TempDir(), rand.New(rand.NewPCG(*seedFlag, 78))
	job := childJob{Dirs: []string{filepath.Join(tmp, "a"), filepath.Join(tmp, "b")},
		Seeds: filepath.Join(tmp, "seeds"), DNS: ip + ":1", HTTP: web.Listen(t, ip), RAMBytes: 128 << 20, Small: true,
		Near: state.NearDuplicates{KeepOne: true, Bits: state.NearBits}}
	must(t, os.WriteFile(job.Seeds, []byte("http://"+ip+"/\n"), 0o600))
	places, ended := []string{"content", "checkpoint", "fill", "random"}, false
	for round := 0; round < longOr(40, 8) && !ended; round++ {
		job.KillAt, job.KillOn = places[round%len(places)], 1+rng.IntN(4)
		limit := 4 * time.Second
		if job.KillAt == "random" {
			limit = time.Duration(300+rng.IntN(900)) * time.Millisecond
		}
		ended = runChild(t, &job, limit) == "ended"
	}
	job.KillAt = ""
	if got := runChild(t, &job, 2*time.Minute); got != "ended" {
		t.Fatalf("the last run: %s", got)
	}
	near, whole, heads := nearOf(t, disk.OS(), job.Dirs)
	for i := range n {
		for _, kind := range "apltas" {
			url := fmt.Sprintf("http://%s/%c%d", ip, kind, i)
			if whole[url]+heads[url] != 1 || heads[url] == 1 && near[url] == "" {
				t.Errorf("%s: %d records, and %d without a body, of %q", url, whole[url], heads[url], near[url])
			}
		}
	}
	if len(near) != n {
		t.Errorf("%d copies, want %d: %v", len(near), n, near)
	}
	checkBalanced(t, disk.OS(), job.Dirs)
}
