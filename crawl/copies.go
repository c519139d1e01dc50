package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"drumbeat/disk"
	"drumbeat/weburl"
)

// The manifest and the secret are the two files that nothing else could make again. So the first directories have a copy each: numCopies
// in all, fewer if there are fewer directories.
//
// The first directory's is the one that counts. If it is damaged or gone, the copy with the highest generation does; of the
// secret, the one that the manifest's check fits.
//
// Order: a checkpoint writes the first manifest, then the copies one after the other, then deletes what they don't name. A crash in
// between leaves copies of the generation before, all of whose files are still there. A start makes all copies
// the same before it deletes anything. So each whole copy can be gone on with at any time.
const numCopies = 3

// copyPaths are where the copies of a file are, the first one first.
func copyPaths(set disk.Set, name string) []string {
	var paths []string
	for i := range min(numCopies, set.Len()) {
		paths = append(paths, set.Path(i, name))
	}
	return paths
}

// readManifest returns nil when there is none. bad are the faults of copies that can't be used; a manifest is returned all the same
// if one is whole.
func readManifest(set disk.Set) (m *manifest, bad []error, err error) {
	for i, path := range copyPaths(set, manifestName) {
		data, err := disk.ReadFile(set.FS, path)
		var c *manifest
		if err == nil {
			c, err = decodeManifest(path, data)
		}
		switch {
		case errors.Is(err, ErrIncompatible), errors.Is(err, disk.ErrCrashed):
			return nil, nil, err
		case err != nil:
			bad = append(bad, fmt.Errorf("crawl: read manifest: %w", err))
		case i == 0:
			return c, nil, nil
		case m == nil || c.Gen > m.Gen:
			m = c
		}
	}
	if m != nil {
		return m, bad, nil
	}
	for _, err := range bad {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	return nil, nil, nil
}

// writeManifest replaces the manifest, then its copies.
func (r *ring) writeManifest(data []byte) error {
	for _, path := range copyPaths(r.set, manifestName) {
		if err := disk.WriteFileAtomic(r.set.FS, path, data); err != nil {
			return err
		}
	}
	return nil
}

// healCopies makes the copies of a file those of data, and durable. Files that are the same already stay.
func (r *ring) healCopies(name string, data []byte) error {
	for i, path := range copyPaths(r.set, name) {
		was, err := disk.ReadFile(r.set.FS, path)
		if err == nil && bytes.Equal(was, data) {
			// After kill -9 what is seen may not be durable yet. Recovery deletes what the manifest doesn't name, so it must be: or a power
			// cut could bring back the one before it, without its files.
			if err := r.set.FS.SyncDir(r.set.Path(i, "state")); err != nil {
				return fmt.Errorf("crawl: %w", err)
			}
			continue
		}
		if err := disk.WriteFileAtomic(r.set.FS, path, data); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
	}
	return nil
}

// damagedCopies are the faults of manifest, secret and their copies.
func (r *ring) damagedCopies(secret weburl.Secret) (bad []error) {
	note := func(i int, err error) {
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) { // a copy that a crash left out is made at the next start
			bad = append(bad, err)
		}
	}
	for i, path := range copyPaths(r.set, manifestName) {
		data, err := disk.ReadFile(r.set.FS, path)
		if err == nil {
			_, err = decodeManifest(path, data)
		}
		note(i, err)
	}
	for i, path := range copyPaths(r.set, secretName) {
		s, err := readSecret(r.set.FS, path)
		if err == nil && s != secret {
			err = &disk.CorruptError{Path: path, Want: "the secret of the manifest", Got: "another one"}
		}
		note(i, err)
	}
	return bad
}

func readSecret(fsys disk.FS, path string) (weburl.Secret, error) {
	data, err := disk.ReadFile(fsys, path)
	if err != nil {
		return weburl.Secret{}, err
	}
	s, err := weburl.ParseSecret(string(bytes.TrimSpace(data)))
	if err != nil {
		return s, &disk.CorruptError{Path: path, Want: "32 hexadecimal digits", Got: "something else"}
	}
	return s, nil
}

// openSecret reads the secret that belongs to a manifest; with none, that of a crawl that has just begun, or makes one.
func (r *ring) openSecret(m *manifest) (weburl.Secret, error) {
	var first weburl.Secret // readable, but not the manifest's
	var found bool
	var firstErr error
	for _, path := range copyPaths(r.set, secretName) {
		s, err := readSecret(r.set.FS, path)
		if err == nil && (m == nil || weburl.NewHasher(s).ContentKey([]byte(secretCheckText)) == m.Frozen.SecretCheck) {
			return s, nil
		}
		if err == nil && !found {
			first, found = s, true
		}
		if err != nil && (firstErr == nil || errors.Is(firstErr, fs.ErrNotExist)) {
			firstErr = err
		}
	}
	switch {
	case found:
		return first, nil // its check fails: the caller says so
	case m != nil || !errors.Is(firstErr, fs.ErrNotExist):
		return weburl.Secret{}, fmt.Errorf("crawl: read the hash secret: %w", firstErr)
	}
	s, err := weburl.NewSecret()
	if err != nil {
		return s, err
	}
	if err := r.healCopies(secretName, secretFile(s)); err != nil {
		return s, fmt.Errorf("crawl: write the hash secret: %w", err)
	}
	return s, nil
}

func secretFile(s weburl.Secret) []byte { return []byte(s.Hex() + "\n") }
