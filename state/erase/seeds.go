package erase

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/weburl"
)

// seedsFile is the crawl's own copy of its seeds.
const seedsFile = "seeds.txt"

// blankSeeds returns the copy of the seeds with the lines of targets blanked, so that its length stays; nil if
// none is. sum is the checksum before.
func (x *run) blankSeeds() (data []byte, sum uint64, _ error) {
	data, err := disk.ReadFile(x.r.Set.FS, x.r.Set.Path(0, seedsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	sum, changed := xxhash.Sum64(data), false
	resolver := x.resolver()
	for line := range bytes.Lines(data) { // a part of data
		if line = bytes.TrimRight(line, "\r\n"); x.seedGoes(resolver, line) {
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

// seeds corrects the checksum of the copy of the seeds, which conclude changes.
func (w *next) seeds() error {
	data, sum, err := w.blankSeeds()
	if data != nil && w.Next.Seeds.Sum == sum {
		w.Next.Seeds.Sum = xxhash.Sum64(data)
	}
	return err
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
