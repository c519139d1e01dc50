package erase

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/weburl"
)

// The crawl's own copies of its seeds and of its watch list.
const (
	seedsFile = "seeds.txt"
	watchFile = "watch.txt"
)

// blankList returns one of these copies with the lines of targets blanked, so that its length stays; nil if
// none is. sum is the checksum before.
func (x *run) blankList(name string) (data []byte, sum uint64, _ error) {
	data, err := disk.ReadFile(x.r.Set.FS, x.r.Set.Path(0, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	sum, changed := xxhash.Sum64(data), false
	resolver := x.resolver()
	for line := range bytes.Lines(data) { // a part of data
		line = bytes.TrimRight(line, "\r\n")
		if name == watchFile { // a deadline may follow
			line, _, _ = bytes.Cut(line, []byte(" "))
		}
		if x.seedGoes(resolver, line) {
			for i := range line {
				line[i] = '#'
			}
			changed = true
		}
	}
	if !changed {
		return nil, sum, nil
	}
	return data, sum, nil
}

// seeds corrects the checksums of the copies, which conclude changes.
func (w *next) seeds() error {
	for name, saved := range map[string]*state.Seeds{seedsFile: &w.Next.Seeds, watchFile: &w.Next.Watch} {
		data, sum, err := w.blankList(name)
		if err != nil {
			return err
		}
		if data != nil && saved.Sum == sum {
			saved.Sum = xxhash.Sum64(data)
		}
	}
	return nil
}

func (x *run) resolver() *weburl.Resolver {
	return weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: !x.m.Frozen.KeepEscapes})
}

// seedGoes reports whether a line of seeds names a target: a URL, or a host without a scheme.
func (x *run) seedGoes(resolver *weburl.Resolver, line []byte) bool {
	for _, scheme := range []string{"", "http://", "https://"} {
		if url, err := resolver.AppendResolve(nil, nil, append([]byte(scheme), line...)); err == nil && x.t.URL(url) {
			return true
		}
	}
	return false
}
