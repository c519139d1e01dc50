package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"path"

	"drumbeat/disk"
	"drumbeat/warc"
)

// file is a file of the tree.
type file struct {
	Path  string `json:"path"` // in the tree
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sha256"`
}

// output is a file of the tree that is being written.
type output struct {
	*disk.Staged
	path string
	sum  hash.Hash
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.sum.Write(b)
	return o.Staged.Write(b)
}

// create begins a file of the tree.
func (j *job) create(name string) (*output, error) {
	full := j.opt.TempDir + "/" + treeDir + "/" + name
	err := j.opt.FS.MkdirAll(path.Dir(full))
	if err != nil {
		return nil, fmt.Errorf("publish: make the directory of %s: %w", name, err)
	}
	f, err := disk.Stage(j.opt.FS, full)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return &output{f, name, sha256.New()}, nil
}

// close makes the file durable and gives it its name, or deletes it.
func (o *output) close() (file, error) {
	err := o.End()
	if err == nil {
		err = o.Rename()
	}
	if err != nil {
		o.Abort()
	}
	return file{o.path, o.Size(), hex.EncodeToString(o.sum.Sum(nil))}, err
}

// random returns the source of record ids of a file, which is the same in each Run.
func (j *job) random(name string) warc.Random {
	return rand.NewChaCha8(sha256.Sum256([]byte(j.seed + "\n" + name)))
}

// segment returns the path of a segment in the tree. Its name is made as Common Crawl makes them: a time and a number.
func (j *job) segment(n int) string {
	return fmt.Sprintf("crawl-data/%s/segments/%d.%d", j.report.Name, j.report.Time.UnixMilli(), n)
}
