package admit

import (
	"fmt"

	"drumbeat/disk"
	"drumbeat/internal/sites"
)

// ReadSettings reads and compiles a file with the settings of sites, and the files that its secrets name unless
// opt.Env is nil. It returns nil without a name.
func ReadSettings(fsys disk.FS, name string, opt sites.Options) (*sites.Set, error) {
	if name == "" {
		return nil, nil
	}
	text, err := readAtMost(fsys, name, sites.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read the site settings: %w", err)
	}
	if opt.Env != nil {
		opt.File = func(name string) ([]byte, error) { return readAtMost(fsys, name, sites.MaxValueBytes) }
	}
	set, err := sites.Parse(name, text, opt)
	if err != nil {
		return nil, fmt.Errorf("site settings:\n%w", err)
	}
	return set, nil
}

// readAtMost reads a file of at most so many bytes.
func readAtMost(fsys disk.FS, name string, most int64) ([]byte, error) {
	switch size, err := fsys.Size(name); {
	case err != nil:
		return nil, err
	case size > most:
		return nil, fmt.Errorf("%d bytes; the limit is %d", size, most)
	}
	return disk.ReadFile(fsys, name)
}
