package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"drumbeat/disk"
	"drumbeat/weburl"
)

// numCopies is the number of copies of the manifest and of the secret, one in each of the first directories,
// or fewer if there are fewer directories. These are the two files that can't be rebuilt from others.
//
// The copy in the first directory counts. If it is damaged or missing, the manifest with the highest
// generation counts, and the secret that matches the manifest's check.
//
// A checkpoint writes the first manifest, then the other copies one by one, then deletes the files that it
// does not name. A crash in between leaves copies of the previous generation, whose files still exist. A
// start makes all copies equal before it deletes anything. The crawl can therefore continue from any whole
// copy.
const numCopies = 3

// CopyPaths returns the paths of a file's copies, the first directory's first.
func CopyPaths(set disk.Set, name string) []string {
	var paths []string
	for i := range min(numCopies, set.Len()) {
		paths = append(paths, set.Path(i, name))
	}
	return paths
}

// ReadManifest returns the manifest, or nil if there is none. bad are the errors of copies that are
// unreadable. If a copy exists and none is readable, the error is a *LostError.
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

// ManifestStamp returns the first line of the manifest in the first directory, "" if there is none. A manifest of the
// same line has the same content, since the line has its checksum.
func ManifestStamp(set disk.Set) (string, error) {
	f, err := set.FS.OpenRead(set.Path(0, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("crawl: read manifest: %w", err)
	}
	defer f.Close()
	var b [256]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("crawl: read manifest: %w", err)
	}
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	return line, nil
}

// WriteManifest replaces the manifest and then its copies. Each replacement is atomic.
func (s *Saved) WriteManifest(data []byte) error {
	for _, path := range CopyPaths(s.Set, ManifestName) {
		if err := disk.WriteFileAtomic(s.Set.FS, path, data); err != nil {
			return err
		}
	}
	return nil
}

// HealCopies makes all copies of a file equal to data and durable. It does not rewrite equal ones.
func (s *Saved) HealCopies(name string, data []byte) error {
	for i, path := range CopyPaths(s.Set, name) {
		was, err := disk.ReadFile(s.Set.FS, path)
		if err == nil && bytes.Equal(was, data) {
			// After kill -9 a visible file may not be durable yet. Recovery deletes what the manifest does
			// not name, so the manifest must be durable first. Otherwise a power cut could restore the
			// previous one without its files.
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

// DamagedCopies returns the errors of unreadable or wrong copies of manifest and secret.
func (s *Saved) DamagedCopies(secret weburl.Secret) (bad []error) {
	note := func(i int, err error) {
		// A crash may leave out a copy other than the first; the next start writes it.
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
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

// OpenSecret returns the secret that matches a manifest. With a nil manifest it returns the secret of a new
// crawl, and creates it if there is none. If no copy is readable, the error is a *LostError. A readable
// secret that does not match is returned without error: the caller checks it.
func (s *Saved) OpenSecret(m *Manifest) (weburl.Secret, error) {
	var first weburl.Secret // readable, but it does not match the manifest
	var found bool
	var firstErr error
	for _, path := range CopyPaths(s.Set, SecretName) {
		secret, err := readSecret(s.Set.FS, path)
		if err == nil && (m == nil || secretCheck(secret) == m.Frozen.SecretCheck) {
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
		return first, nil // the caller's check fails and reports it
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

// secretCheck returns the value of Frozen.SecretCheck for a secret.
func secretCheck(s weburl.Secret) uint64 {
	return weburl.NewHasher(s).ContentKey([]byte(SecretCheckText))
}

// SecretFile returns the content of the secret's file.
func SecretFile(s weburl.Secret) []byte { return []byte(s.Hex() + "\n") }
