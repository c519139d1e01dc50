package disk

import "testing"

// TestIdentitySeenAfterKillIsDurable: an identity that was renamed into place, but not synced, when the process was killed,
// was taken for durable by the next run. A power cut then left a directory that no run would take.
func TestIdentitySeenAfterKillIsDurable(t *testing.T) {
	for seed := *seedFlag; seed < *seedFlag+200; seed++ {
		m := NewMem(seed)
		must(t, m.MkdirAll("d"))
		must(t, m.SyncFS("."))
		m.Watch(func(s Step, _ func(uint64) *Mem) {
			if s.Op == OpSyncDir {
				m.crashAt = s.Number // the name is in place, nothing more
			}
		})
		match, err := MatchIdentities(m, []string{"d"}, "crawl")
		must(t, err)
		if _, err := Label(match, "c", "crawl"); err == nil {
			t.Fatal("Label went on beyond the crash")
		}
		m = m.Kill()
		match, err = MatchIdentities(m, []string{"d"}, "crawl")
		must(t, err)
		if match.Set.Len() != 1 {
			t.Fatalf("seed %d: %+v, want the identity that was put in place", seed, match)
		}
		if _, err := Label(match, "c", "crawl"); err != nil {
			t.Fatal(err)
		}
		must(t, m.MkdirAll("d/state"))
		m = m.Crash()
		if _, err := MatchIdentities(m, []string{"d"}, "crawl"); err != nil {
			t.Fatalf("seed %d: after a power cut: %v", seed, err)
		}
	}
}
