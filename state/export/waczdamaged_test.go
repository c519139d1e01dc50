package export_test

import (
	"strings"
	"testing"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// TestExportDamagedRecord: a damaged record is counted by a WACZ, which has it as it is, and by the report of a site.
func TestExportDamagedRecord(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.WebOptions(t, testworld.Mirrors(1, 40), fs, "http://m0.test/")
		opt.Output.Store = true
		crawltest.MustRun(t, t.Context(), opt)
		wacz := func() *export.Report {
			rep, err := export.Run(t.Context(),
				export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.WACZ, Target: "site.wacz", TempDir: "tmp"})
			must(t, err)
			return rep
		}
		if rep := wacz(); rep.Damaged != 0 || len(rep.Notes) > 0 {
			t.Errorf("without damage: %d damaged, notes %q", rep.Damaged, rep.Notes)
		}
		if _, err := export.Run(t.Context(),
			export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Pages, Format: tabular.JSONL,
				Target: "pages", TempDir: "tmp"}); err != nil {
			t.Fatal(err)
		}
		for _, r := range testworld.ExportedRows(t, fs, "pages") {
			if r["url"] != "http://m0.test/p7" {
				continue
			}
			name := opt.Disk.Dirs[0] + "/warc/" + r["warc_filename"].(string)
			data, err := disk.ReadFile(fs, name)
			must(t, err)
			data[int(r["warc_record_offset"].(float64)+r["warc_record_length"].(float64))-12] ^= 0x40 // near the end
			must(t, disk.WriteFileAtomic(fs, name, data))
		}
		if rep := wacz(); rep.Damaged != 1 || len(rep.Notes) != 1 ||
			!strings.Contains(rep.Notes[0], "1 record is damaged") {
			t.Errorf("%d damaged, notes %q", rep.Damaged, rep.Notes)
		}
		site, _, err := export.Site(t.Context(),
			export.Options{FS: fs, Dirs: opt.Disk.Dirs, TempDir: "tmp"}, "m0.test", export.SiteOptions{Rows: 10})
		if err != nil || site.Damaged != 1 || len(site.Notes) == 0 {
			t.Errorf("%v, %d damaged, notes %q", err, site.Damaged, site.Notes)
		}
	})
}
