package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Save writes <name>.json and <name>.txt into dir and returns the names. It creates dir if necessary and
// replaces existing files.
func (r *Report) Save(dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("bench: save report: %w", err)
	}
	put := func(name string, b []byte) error {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o666); err != nil {
			return fmt.Errorf("bench: save report: %w", err)
		}
		names = append(names, name)
		return nil
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("bench: save report: %w", err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		return nil, err
	}
	return names, errors.Join(put(r.Name+".json", append(b, '\n')), put(r.Name+".txt", text.Bytes()))
}
