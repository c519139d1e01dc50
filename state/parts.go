package state

import (
	"bytes"
	"encoding/json"

	"drumbeat/weburl"
)

// BudgetParts says among which parts of PLDs budgets are divided, by links from other PLDs (package star). It is fixed
// when a crawl begins.
type BudgetParts string

// The parts of a PLD.
const (
	ByPLDs        BudgetParts = "" // budgets are not divided
	ByHosts       BudgetParts = "hosts"
	ByDirectories BudgetParts = "directories" // at the root of each host; a host without the directories is a part, too
)

// UnmarshalJSON reads true as ByHosts, the only parts of earlier manifests.
func (p *BudgetParts) UnmarshalJSON(text []byte) error {
	if string(text) == "true" {
		*p = ByHosts
		return nil
	}
	return json.Unmarshal(text, (*string)(p))
}

// Name names the parts and the option that chooses them.
func (p BudgetParts) Name() string {
	if p == ByPLDs {
		return "PLDs"
	}
	return string(p) + " (--budget " + string(p) + ")"
}

// KeyOf returns the key of the part to which a URL of a host and PLD belongs; path may have a query. main says that
// links to the part are links to the PLD: the part is the host with the PLD's name, with or without "www".
func (p BudgetParts) KeyOf(h *weburl.Hasher, host, pld, path []byte) (key uint64, main bool) {
	host = weburl.TrimDot(host)
	key = h.HostKey(host)
	if p == ByDirectories {
		if dir := RootDirectory(path); dir != nil {
			return h.DirectoryKey(key, dir), false
		}
	}
	return key, weburl.IsMainHost(host, pld)
}

// RootDirectory returns the name of the directory at the root of its host in which a path is: the first segment, if
// a slash follows. It is nil for a path at the root itself.
func RootDirectory(path []byte) []byte {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	if len(path) < 2 {
		return nil
	}
	if i := bytes.IndexByte(path[1:], '/'); i > 0 {
		return path[1 : 1+i]
	}
	return nil
}
