package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// WriteFileAtomic durably replaces the content of name by data: it writes and syncs a temporary file,
// renames it and syncs the directory. After a crash, name holds either the old or the new content. Only one
// writer may use a name at a time.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	temp := name + tempSuffix
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("disk: write %s: %w", name, err)
	}
	if err := writeSynced(fsys, temp, data); err != nil {
		return fmt.Errorf("disk: write %s: %w", name, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		return fmt.Errorf("disk: write %s: %w", name, err)
	}
	if err := fsys.SyncDir(path.Dir(name)); err != nil {
		return fmt.Errorf("disk: write %s: %w", name, err)
	}
	return nil
}

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ReadFile returns the whole content of name.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenRead(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	return data, ReadFull(f, data, 0)
}
