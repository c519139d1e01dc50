package output

import "slices"

// replaces reports whether a volume replaces objects of its name: it was open in the backup from which the crawl was
// restored. The lost machine has put what it finished. Its later pages are fetched again.
func (u *Uploads) replaces(name string) bool {
	m := u.saved.Manifest
	return m != nil && m.Restored != nil && slices.Contains(m.Restored.Open, name)
}
