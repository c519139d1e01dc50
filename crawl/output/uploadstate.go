package output

import (
	"slices"

	"drumbeat/internal/objstore"
)

// replaces reports whether a volume replaces objects of its name: it was open in the backup from which the crawl was
// restored. The lost machine has put what it finished. Its later pages are fetched again.
func (u *Uploads) replaces(name string) bool {
	m := u.saved.Manifest
	return m != nil && m.Restored != nil && slices.Contains(m.Restored.Open, name)
}

// note keeps the state of an upload for the next checkpoint.
func (u *Uploads) note(key string, now objstore.Upload) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.ID == "" {
		delete(u.uploads, key)
	} else {
		u.uploads[key] = now
	}
}
