package audit_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// TestAuditFindsKeysInURLseen: an audit must find an extra key in URLseen.
func TestAuditFindsKeysInURLseen(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := crawltest.StoppedCrawl(t)
		testworld.Tamper(t, fs, opt.Disk.Dirs, func(set disk.Set, m *state.Manifest, tails *disk.Tails) error {
			return testworld.AddSeen(t.Context(), set, m, tails, 12345)
		})
		rep, err := audit.Run(fs, opt.Disk.Dirs)
		if err != nil {
			t.Fatal(err)
		}
		if rep.Balanced() || !strings.Contains(strings.Join(rep.Bad, ";"), "URLseen") {
			t.Errorf("an extra key in URLseen: audit reports %v", rep.Bad)
		}
	})
}

// TestDamageIsFoundAndNamed: audit and crawl must report a damaged manifest and name its file.
func TestDamageIsFoundAndNamed(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := crawltest.StoppedCrawl(t)
		path := disk.Set{FS: fs, Paths: opt.Disk.Dirs}.Path(0, state.ManifestName)
		for _, dir := range opt.Disk.Dirs { // damage the copy too
			testworld.Spoil(t, rand.New(rand.NewPCG(1, 1)), fs, dir+"/"+state.ManifestName, 1)
		}
		for name, try := range map[string]func() error{
			"audit": func() error { _, err := audit.Run(fs, opt.Disk.Dirs); return err },
			"crawl": func() error { _, err := crawl.Run(t.Context(), opt); return err },
		} {
			err := try()
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s of a damaged manifest: got %v, want an error that names %s", name, err, path)
			}
		}
	})
}
