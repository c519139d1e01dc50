package export

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/state/export"
)

// checkTarget refuses an output that would be among the files of the crawl, or would replace something else.
func (r *run) checkTarget() error {
	if r.output == "-" {
		return nil
	}
	if err := flags.Outside(slices.Concat(r.opt.Dirs, r.opt.Out), r.opt.Target, r.opt.TempDir); err != nil {
		return err
	}
	if r.opt.Kind != export.WACZ || replaceable(r.opt.Target) {
		return nil
	}
	return &term.Ended{Code: term.ExitDirectory,
		Why: fmt.Sprintf("%s exists and is not a WACZ file: name another file, or delete it", r.opt.Target)}
}

// replaceable tells whether a WACZ may take the place of what has its name: nothing, an empty file or a WACZ.
func replaceable(name string) bool {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if info.Size() == 0 {
		return true
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		return false
	}
	defer func() { _ = z.Close() }() // it was read
	return slices.ContainsFunc(z.File, func(f *zip.File) bool { return f.Name == "datapackage.json" })
}
