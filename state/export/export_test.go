package export_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// exportedURLs returns the URLs in the parts of a table, and fails if a file is not whole.
func exportedURLs(t *testing.T, fs disk.FS, dir string) (urls []string) {
	t.Helper()
	for _, row := range testworld.ExportedRows(t, fs, dir) {
		urls = append(urls, row["url"].(string))
	}
	return urls
}

// TestExportFullDisk: an export to a full disk ends with a clear error and whole parts. With more room it
// continues, and its rows are the pages of the web.
func TestExportFullDisk(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web := testworld.SmallWeb(t, nil)
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.SimOptions(t, web, fs)
		if _, err := crawl.Run(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Pages, Format: tabular.JSONL, Target: "table",
			TempDir: "table.tmp", PartBytes: 50_000}
		full := 0
		for room := int64(80_000); ; room += 80_000 {
			fs.SetCapacity(fs.Used() + room)
			rep, err := export.Run(t.Context(), x)
			if err == nil {
				if rep.KeptParts == 0 || rep.Parts <= rep.KeptParts {
					t.Errorf("%+v", rep)
				}
				break
			}
			if full++; !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			exportedURLs(t, fs, "table")
		}
		if full == 0 {
			t.Error("the disk was never full")
		}
		got := exportedURLs(t, fs, "table")
		want := slices.Collect(web.Expected("drumbeat").FetchedURLs())
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d rows, want %d, or they differ", len(got), len(want))
		}
	})
}

// TestWACZFullDisk: a WACZ that does not fit leaves the earlier one, and no other file.
func TestWACZFullDisk(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		web := testworld.SmallWeb(t, nil)
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.SimOptions(t, web, fs)
		if _, err := crawl.Run(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(fs.MkdirAll("out"),
			disk.WriteFileAtomic(fs, "out/site.wacz", []byte("earlier"))); err != nil {
			t.Fatal(err)
		}
		x := export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.WACZ, Target: "out/site.wacz",
			TempDir: "out/site.wacz.tmp"}
		names := func() string {
			list, err := fs.List("out")
			must(t, err)
			return strings.Join(list, " ")
		}
		full := 0
		for room := int64(50_000); ; room += 50_000 {
			fs.SetCapacity(fs.Used() + room)
			rep, err := export.Run(t.Context(), x)
			if err == nil {
				if rep.Rows == 0 || rep.Bytes < 100_000 {
					t.Errorf("%+v", rep)
				}
				break
			}
			if full++; !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			if data, err := disk.ReadFile(fs, x.Target); err != nil || string(data) != "earlier" ||
				names() != "site.wacz" {
				t.Fatalf("%d bytes of room leave %s; the earlier file has %d bytes, %v", room, names(), len(data), err)
			}
		}
		if size, err := fs.Size(x.Target); full == 0 || err != nil || size < 100_000 || names() != "site.wacz" {
			t.Errorf("the disk was full %d times; %d bytes, %v, %s", full, size, err, names())
		}
	})
}

// TestExportStops: an export ends when its context does.
func TestExportStops(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.SimOptions(t, testworld.SmallWeb(t, nil), fs)
		if _, err := crawl.Run(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		errStop := errors.New("stop")
		for _, kind := range []export.Kind{export.Pages, export.PLDEdges} {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errStop)
			_, err := export.Run(ctx, export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: kind, Format: tabular.CSV,
				Target: "t-" + string(kind), TempDir: "tmp"})
			if !errors.Is(err, errStop) {
				t.Errorf("%s: %v", kind, err)
			}
		}
	})
}
