package export_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// TestExportWithoutIndex: exports that find pages by the indexes refuse a WARC file whose index is not there, and
// write nothing. A file that was moved away with its index is left out.
func TestExportWithoutIndex(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fsys := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, testworld.Mirrors(1, 40), fsys, "http://m0.test/")
		opt.Output.Store, opt.Output.WARCFileBytes = true, 10_000
		crawltest.MustRun(t, t.Context(), opt)
		dir := opt.Disk.Dirs[0] + "/warc/"
		names, err := fsys.List(dir)
		must(t, err)
		index := ""
		for _, name := range names {
			if strings.HasSuffix(name, ".cdxj") {
				index = name
			}
		}
		data := strings.TrimSuffix(index, ".cdxj") + ".warc.gz"
		for _, moved := range []string{index, data} {
			must(t, fsys.Rename(dir+moved, moved))
			for _, x := range []export.Options{
				{Kind: export.Links, Format: tabular.CSV}, {Kind: export.Links, Format: export.Arc},
				{Kind: export.Near, Format: tabular.CSV}, {Kind: export.PLDEdges, Format: tabular.CSV,
					CountLinks: true}, {Kind: export.Index, Format: export.CDXJ}, {Kind: export.WACZ},
			} {
				x.FS, x.Dirs, x.Target, x.TempDir = fsys, opt.Disk.Dirs, "t-"+string(x.Kind)+string(x.Format), "tmp"
				_, err := export.Run(t.Context(), x)
				if moved == data {
					if err != nil {
						t.Errorf("%s, both files are gone: %v", x.Target, err)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), data) ||
					!strings.Contains(err.Error(), "move back its .cdxj") {
					t.Errorf("%s: %v", x.Target, err)
				}
				if list, err := fsys.List(x.Target); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was made: %q, %v", x.Target, list, err)
				}
			}
		}
	})
}

// TestExportAbsent: exports and the report of a site say how many files of the crawl are not there. They say nothing
// while all are.
func TestExportAbsent(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fsys := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, testworld.Mirrors(1, 40), fsys, "http://m0.test/")
		opt.Output.Store, opt.Output.WARCFileBytes = true, 10_000
		crawltest.MustRun(t, t.Context(), opt)
		files := map[string]int{}
		for _, gone := range []bool{false, true} {
			for _, sub := range []string{"warc", "log"} {
				dir := opt.Disk.Dirs[0] + "/" + sub + "/"
				names, err := fsys.List(dir)
				must(t, err)
				for _, name := range names {
					if !gone && (strings.HasSuffix(name, ".cdxj") || strings.HasPrefix(name, "crawl-")) {
						files[sub]++
					} else if gone {
						must(t, fsys.Remove(dir+name))
					}
				}
			}
			for kind, subs := range map[export.Kind][]string{export.Links: {"warc"}, export.Near: {"warc"},
				export.Index: {"warc"}, export.WACZ: {"warc"}, export.Refused: {"log"}, export.Pages: {"warc", "log"}} {
				x := export.Options{FS: fsys, Dirs: opt.Disk.Dirs, Kind: kind, Format: tabular.CSV,
					Target: fmt.Sprintf("t-%s-%v", kind, gone), TempDir: "tmp"}
				if kind == export.Index {
					x.Format = export.CDXJ
				}
				rep, err := export.Run(t.Context(), x)
				must(t, err)
				said := strings.Join(rep.Notes, "\n")
				for sub, n := range files {
					// What is small and not final yet is in the checkpoint, where an export finds it.
					want := map[string]string{"warc": "the indexes of %d of the crawl's",
						"log": "%d of the crawl's 1 files of the crawl log"}[sub]
					if strings.Contains(said, fmt.Sprintf(want, n)) != (gone && slices.Contains(subs, sub)) {
						t.Errorf("%s, files gone: %v: %s: notes %q", kind, gone, sub, rep.Notes)
					}
				}
			}
		}
		if files["warc"] < 3 || files["log"] < 1 {
			t.Errorf("files %v", files)
		}
	})
}
