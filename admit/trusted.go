package admit

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"drumbeat/disk"
	"drumbeat/star"
	"drumbeat/weburl"
)

// maxTrustedFaults is the number of faults that ReadTrusted lists one by one.
const maxTrustedFaults = 100

// ReadTrusted reads a file of PLDs that are trusted, and returns their keys, ascending; nil without a name. A
// line is as that of a seed file: a URL, a host or a PLD, and comments; its PLD counts. pldKey returns the
// key of a host's PLD. Errors name the lines with faults. There must be from 1 to star.MostSeeds PLDs.
func ReadTrusted(fsys disk.FS, name string, pldKey func(host []byte) uint64) (_ []uint64, err error) {
	if name == "" {
		return nil, nil
	}
	fail := func(err error) error { return fmt.Errorf("crawl: read trusted PLDs %s: %w", name, err) }
	file, err := fsys.OpenRead(name)
	if err != nil {
		return nil, fail(err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, fail(err)
	}
	set := map[uint64]struct{}{}
	var faults []error
	more := 0
	lines := NewLineReader(io.NewSectionReader(file, 0, size))
	for n := 1; ; n++ {
		line, _, err := lines.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fail(err)
		}
		url, _, err := ParseSeed(string(line))
		switch {
		case err != nil && len(faults) == maxTrustedFaults:
			more++
		case err != nil:
			faults = append(faults, fmt.Errorf("%s:%d: %w", name, n, err))
		case url != "":
			set[pldKey(weburl.Split([]byte(url)).Host)] = struct{}{}
		}
		if len(set) > star.MostSeeds {
			faults = append(faults, fmt.Errorf("%s:%d: more than %d PLDs", name, n, star.MostSeeds))
			break
		}
	}
	if more > 0 {
		faults = append(faults, fmt.Errorf("and %d more", more))
	}
	if len(faults) == 0 && len(set) == 0 {
		faults = append(faults, errors.New("no line has a PLD"))
	}
	if len(faults) > 0 {
		return nil, fail(errors.Join(faults...))
	}
	return slices.Sorted(maps.Keys(set)), nil
}
