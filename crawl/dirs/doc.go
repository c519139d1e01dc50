// Package dirs is a room of the running crawl: it decides whether the given directories are those of the
// crawl, and whether the crawl is still the same.
//
// Take locks the directories, matches them with their identities and labels new ones. Open reads the
// manifest, the secret and the suffix list, or creates them, and compares the settings that are fixed when a
// crawl begins with those of this run. Both set fields of state.Saved. The paper has one directory and no
// restart.
//
// # Contract
//
// Nothing is created before everything was checked: nothing may appear in a directory whose disk is not
// mounted, and foreign files stay unchanged. The secret is durable before the first key exists. All copies of
// manifest and secret are equal before anything is deleted. An error that wraps state.ErrIncompatible leaves
// the crawl as it was.
//
// # Concurrency
//
// One goroutine opens a crawl; no stage runs yet.
//
// # Memory and disk
//
// The manifest in RAM. Files: the identity of each directory, state/secret, state/suffixes, and the copies of
// the manifest (docs/reference/files/_index.md).
//
// Files: dirs.go (the directories), identity.go (the identity of the crawl).
package dirs
