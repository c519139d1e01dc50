package crawl

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"drumbeat/crawl/export"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
)

// TestExportWithoutIndex: exports that find pages by the indexes refuse a WARC file whose index is not there, and
// write nothing. A file that was moved away with its index is left out.
func TestExportWithoutIndex(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fsys := memfs.New(*seedFlag)
		opt := mirrors(1, 40).options(t, fsys, "http://m0.test/")
		opt.Store, opt.WARCFileBytes = true, 10_000
		mustRun(t, t.Context(), opt)
		dir := opt.Dirs[0] + "/warc/"
		names, err := fsys.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		index := ""
		for _, name := range names {
			if strings.HasSuffix(name, ".cdxj") {
				index = name
			}
		}
		data := strings.TrimSuffix(index, ".cdxj") + ".warc.gz"
		for _, moved := range []string{index, data} {
			if err := fsys.Rename(dir+moved, moved); err != nil {
				t.Fatal(err)
			}
			for _, x := range []export.Options{
				{Kind: export.Links, Format: tabular.CSV}, {Kind: export.Links, Format: export.Arc}, {Kind: export.Near, Format: tabular.CSV},
				{Kind: export.PLDEdges, Format: tabular.CSV, CountLinks: true}, {Kind: export.Index, Format: export.CDXJ}, {Kind: export.WACZ},
			} {
				x.FS, x.Dirs, x.Target, x.TempDir = fsys, opt.Dirs, "t-"+string(x.Kind)+string(x.Format), "tmp"
				_, err := export.Run(t.Context(), x)
				if moved == data {
					if err != nil {
						t.Errorf("%s, both files are gone: %v", x.Target, err)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), data) || !strings.Contains(err.Error(), "move back its .cdxj") {
					t.Errorf("%s: %v", x.Target, err)
				}
				if list, err := fsys.List(x.Target); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was made: %q, %v", x.Target, list, err)
				}
			}
		}
	})
}
