package crawllog

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
)

// Read calls fn with each entry of a log file (zstd frames of JSON lines); the entry is valid until the
// next call. Read stops at an error of fn and returns it.
func Read(r io.Reader, fn func(*Entry) error) error {
	dec, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return fmt.Errorf("crawllog: read: %w", err)
	}
	defer dec.Close()
	sc := bufio.NewScanner(dec)
	sc.Buffer(make([]byte, 0, MaxLine), 4*MaxLine)
	for n := 1; sc.Scan(); n++ {
		var e Entry
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			return fmt.Errorf("crawllog: read line %d: %w", n, err)
		}
		if err := fn(&e); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("crawllog: read: %w", err)
	}
	return nil
}

// ReadFile reads the log file with the given name; see Read.
func ReadFile(fsys disk.FS, name string, fn func(*Entry) error) error {
	f, err := fsys.OpenRead(name)
	if err != nil {
		return fmt.Errorf("crawllog: read: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("crawllog: read %s: %w", name, err)
	}
	if err := Read(io.NewSectionReader(f, 0, size), fn); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Files returns the paths of the final files of the log with a prefix, in the order of writing; it sorts by
// serial, not by time.
func Files(set disk.Set, prefix string) ([]string, error) {
	names, err := set.FS.List(set.Path(0, subdir))
	if err != nil {
		return nil, fmt.Errorf("crawllog: list: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return serial(name, prefix) < 0 })
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(serial(a, prefix), serial(b, prefix)) })
	for i, name := range names {
		names[i] = set.Path(0, subdir, name)
	}
	return names, nil
}

// serial returns the serial number in a final file's name; -1 for other names.
func serial(name, prefix string) int64 {
	base, ok := strings.CutSuffix(name, suffix)
	if !ok || !strings.HasPrefix(base, prefix+"-") {
		return -1
	}
	n, err := strconv.ParseUint(base[strings.LastIndexByte(base, '-')+1:], 10, 62)
	if err != nil {
		return -1
	}
	return int64(n)
}
