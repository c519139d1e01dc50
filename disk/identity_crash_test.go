package disk_test

import (
	"flag"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

var seedFlag = flag.Uint64("seed", 1, "seed of the random tests")

// TestIdentitySeenAfterKillIsDurable is a regression test. If the process was killed after it renamed an
// identity into place but before it synced the directory, the next run took the identity for durable. A
// power cut then left a directory that no run accepted.
func TestIdentitySeenAfterKillIsDurable(t *testing.T) {
	for seed := *seedFlag; seed < *seedFlag+200; seed++ {
		named := 0 // the operation that syncs the first identity's name
		label := func(m *memfs.FS) error {
			disk.Must(t, m.MkdirAll("d"))
			disk.Must(t, m.SyncFS("."))
			if named > 0 {
				m.CrashAfter(named - m.Ops())
			}
			match, err := disk.MatchIdentities(m, []string{"d"}, "crawl")
			disk.Must(t, err)
			_, err = disk.Label(match, "c", "crawl")
			return err
		}
		m := memfs.New(seed)
		m.Watch(func(s memfs.Step, _ func(uint64) *memfs.FS) {
			if s.Op == memfs.OpSyncDir && named == 0 {
				named = s.Number
			}
		})
		disk.Must(t, label(m))
		m = memfs.New(seed)
		if label(m) == nil {
			t.Fatal("Label went on beyond the crash")
		}
		m = m.Kill()
		match, err := disk.MatchIdentities(m, []string{"d"}, "crawl")
		disk.Must(t, err)
		if match.Set.Len() != 1 {
			t.Fatalf("seed %d: %+v, want the identity that was put in place", seed, match)
		}
		if _, err := disk.Label(match, "c", "crawl"); err != nil {
			t.Fatal(err)
		}
		disk.Must(t, m.MkdirAll("d/state"))
		m = m.Crash()
		if _, err := disk.MatchIdentities(m, []string{"d"}, "crawl"); err != nil {
			t.Fatalf("seed %d: after a power cut: %v", seed, err)
		}
	}
}
