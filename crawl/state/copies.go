package state

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

// CopyPaths are where the copies of a file are, the first one first.
func CopyPaths(set disk.Set, name string) []string {
	var paths []string
	for i := range min(numCopies, set.Len()) {
		paths = append(paths, set.Path(i, name))
	}
	return paths
}

// ReadManifest returns nil when there is none. bad are the faults of copies that can't be used; a manifest is returned all the same
// if one is whole.
func ReadManifest(set disk.Set) (m *Manifest, bad []error, err error) {
	for i, path := range CopyPaths(set, ManifestName) {
		data, err := disk.ReadFile(set.FS, path)
		var c *Manifest
		if err == nil {
			c, err = DecodeManifest(path, data)
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
			return nil, nil, &LostError{ManifestName, err}
		}
	}
	return nil, nil, nil
}

// WriteManifest replaces the manifest, then its copies.
func (s *Saved) WriteManifest(data []byte) error {
	for _, path := range CopyPaths(s.Set, ManifestName) {
		if err := disk.WriteFileAtomic(s.Set.FS, path, data); err != nil {
			return err
		}
	}
	return nil
}

// HealCopies makes the copies of a file those of data, and durable. Files that are the same already stay.
func (s *Saved) HealCopies(name string, data []byte) error {
	for i, path := range CopyPaths(s.Set, name) {
		was, err := disk.ReadFile(s.Set.FS, path)
		if err == nil && bytes.Equal(was, data) {
			// After kill -9 what is seen may not be durable yet. Recovery deletes what the manifest doesn't name, so it must be: or a power
			// cut could bring back the one before it, without its files.
			if err := s.Set.FS.SyncDir(s.Set.Path(i, "state")); err != nil {
				return fmt.Errorf("crawl: %w", err)
			}
			continue
		}
		if err := disk.WriteFileAtomic(s.Set.FS, path, data); err != nil {
			return fmt.Errorf("crawl: %w", err)
		}
	}
	return nil
}

// DamagedCopies are the faults of manifest, secret and their copies.
func (s *Saved) DamagedCopies(secret weburl.Secret) (bad []error) {
	note := func(i int, err error) {
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) { // a copy that a crash left out is made at the next start
			bad = append(bad, err)
		}
	}
	for i, path := range CopyPaths(s.Set, ManifestName) {
		data, err := disk.ReadFile(s.Set.FS, path)
		if err == nil {
			_, err = DecodeManifest(path, data)
		}
		note(i, err)
	}
	for i, path := range CopyPaths(s.Set, SecretName) {
		copied, err := readSecret(s.Set.FS, path)
		if err == nil && copied != secret {
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

// OpenSecret reads the secret that belongs to a manifest; with none, that of a crawl that has just begun, or makes one.
func (s *Saved) OpenSecret(m *Manifest) (weburl.Secret, error) {
	var first weburl.Secret // readable, but not the manifest's
	var found bool
	var firstErr error
	for _, path := range CopyPaths(s.Set, SecretName) {
		secret, err := readSecret(s.Set.FS, path)
		if err == nil && (m == nil || weburl.NewHasher(secret).ContentKey([]byte(SecretCheckText)) == m.Frozen.SecretCheck) {
			return secret, nil
		}
		if err == nil && !found {
			first, found = secret, true
		}
		if err != nil && (firstErr == nil || errors.Is(firstErr, fs.ErrNotExist)) {
			firstErr = err
		}
	}
	switch {
	case found:
		return first, nil // its check fails: the caller says so
	case m != nil || !errors.Is(firstErr, fs.ErrNotExist):
		return weburl.Secret{}, &LostError{SecretName, fmt.Errorf("crawl: read the hash secret: %w", firstErr)}
	}
	secret, err := weburl.NewSecret()
	if err != nil {
		return secret, err
	}
	if err := s.HealCopies(SecretName, SecretFile(secret)); err != nil {
		return secret, fmt.Errorf("crawl: write the hash secret: %w", err)
	}
	return secret, nil
}

// SecretFile is the content of the file of the secret.
func SecretFile(s weburl.Secret) []byte { return []byte(s.Hex() + "\n") }
