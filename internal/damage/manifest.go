package damage

import (
	"encoding/json"
	"errors"
	"io/fs"

	"drumbeat/disk"
)

// StoreManifest does the work of a checkpoint between Save and Commit: it makes all files in dirs durable,
// then writes m as JSON to the file name.
func StoreManifest(fsys disk.FS, name string, m any, dirs ...string) error {
	for _, dir := range dirs {
		if err := fsys.SyncFS(dir); err != nil {
			return err
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(fsys, name, data)
}

// LoadManifest reads the output of StoreManifest into m, a pointer. If the file doesn't exist, m stays
// unchanged.
func LoadManifest(fsys disk.FS, name string, m any) error {
	data, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(data, m)
}
