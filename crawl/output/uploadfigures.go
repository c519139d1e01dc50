package output

import (
	"time"

	"drumbeat/state/snapshot"
)

// noteFault counts a failed attempt. It reports whether it is time to log one, with the figures.
func (u *Uploads) noteFault(err error) (log bool, f snapshot.Uploads) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.figures.Faults++
	u.figures.Failing = err.Error()
	if log = now.Sub(u.loggedAt) >= uploadLogEvery; log {
		u.loggedAt = now
	}
	u.bound()
	return log, u.figures
}

// noteStored counts a file that the store has taken. It reports whether the store had failed before.
func (u *Uploads) noteStored(v *volume, bytes int64) (again bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.figures.Files++
	u.figures.Bytes += bytes
	if v.failed = 0; u.figures.Failing != "" && !u.failing() {
		u.figures.Failing, u.loggedAt = "", time.Time{}
		return true
	}
	return false
}

// failing reports whether the store has refused a file that waits. u.mu must be held.
func (u *Uploads) failing() bool {
	for _, v := range u.volumes {
		if v.state == volumeWaits && v.failed > 0 {
			return true
		}
	}
	return false
}

// Show adds the figures to a snapshot.
func (u *Uploads) Show(s *snapshot.Snapshot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.Uploads = u.figures
}
