package export

import (
	"context"
	"io"
	"runtime/debug"
	"testing"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/state/export"
)

// TestCheck: flags that do not fit together are refused.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		c    Command
		good bool
	}{
		{Command{Kind: "plds", Format: "parquet", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd"},
			true},
		{Command{Kind: "plds", Format: "csv", Output: "-", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd",
			Queued: true}, true},
		{Command{Kind: "pld-edges", Format: "arc", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd"},
			true},
		{Command{Kind: "pld-edges", Format: "arc", Output: "-", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd"},
			false},
		{Command{Kind: "hosts", Format: "arc", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd"},
			false},
		{Command{Kind: "hosts", Format: "parquet", Output: "-", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd"},
			false},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM - 1, PartSize: 1 << 10, Compression: "zstd"},
			false},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM, Compression: "zstd"}, false},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM, PartSize: 1<<10 - 1, Compression: "zstd"},
			false},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "snappy"},
			false},
		{Command{Kind: "hosts", Format: "parquet", Output: "x", RAM: leastRAM, PartSize: 1 << 10,
			Compression: "snappy"}, true},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd",
			Queued: true}, false},
		{Command{Kind: "pages", Format: "csv", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd",
			Languages: true}, true},
		{Command{Kind: "links", Format: "csv", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd",
			Languages: true}, false},
		{Command{Kind: "pld-edges", Format: "csv", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd",
			CountLinks: true}, true},
		{Command{Kind: "pld-edges", Format: "arc", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd",
			CountLinks: true}, false},
		{Command{Kind: "hosts", Format: "csv", Output: "x", RAM: leastRAM, PartSize: 1 << 10, Compression: "zstd",
			CountLinks: true}, false},
	} {
		if err := c.c.check(); (err == nil) != c.good {
			t.Errorf("%+v: %v", c.c, err)
		}
	}
}

// TestDedup: texts that are no way to find copies are refused; others are read as they are written.
func TestDedup(t *testing.T) {
	for text, want := range map[string]dedup{"exact": {how: export.DedupExact}, "near": {how: export.DedupNear},
		"near=0.8": {export.DedupNear, 0.8}, "near=0.7": {export.DedupNear, 0.7}, "near=1": {export.DedupNear, 1}} {
		var d dedup
		if err := d.UnmarshalText([]byte(text)); err != nil || d != want || d.String() != text {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "far", "=0.8", "exact=0.8", "near=", "near=x", "near=0.69", "near=1.01",
		"near=NaN", "near=0.8=0.9"} {
		if err := new(dedup).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// limitFS notes the memory limit of the runtime when a directory is read.
type limitFS struct {
	disk.FS
	limit *int64
}

func (f limitFS) List(dir string) ([]string, error) {
	*f.limit = debug.SetMemoryLimit(-1)
	return f.FS.List(dir)
}

// TestMemoryLimit: the heap, garbage included, is held below --ram while the table is made, and not afterwards.
func TestMemoryLimit(t *testing.T) {
	const ram, heap = 256 << 20, 208 << 20
	before, during := debug.SetMemoryLimit(-1), int64(0)
	r := run{app: &term.App{Stdout: io.Discard, Stderr: io.Discard,
		StopOnSignal: func(ctx context.Context) (context.Context, func()) {
			return ctx, func() {}
		}}, command: "export", kind: "hosts", opt: export.Options{
		FS: limitFS{disk.OS(), &during}, Dirs: []string{t.TempDir()}, Kind: export.Hosts, Format: "csv", RAMBytes: ram}}
	r.to(t.TempDir()+"/hosts", "")
	if err := r.do("rows"); err == nil {
		t.Error("an empty directory was exported")
	}
	if after := debug.SetMemoryLimit(-1); during != heap || after != before {
		t.Errorf("the limit was %d, during the export %d, after it %d; want %d during it", before, during, after, heap)
	}
}
