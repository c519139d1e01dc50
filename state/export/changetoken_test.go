package export

import (
	"fmt"
	"testing"

	"drumbeat/disk"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// TestMark: a mark covers the records that were there, and no others: of files that were open, of those that a long
// body has begun before the checkpoint, and of those that an erasure has written since.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	j := feedJob(t, dir, tabular.JSONL, 1, 1)
	name := func(serial int, end string) string {
		return fmt.Sprintf("DRUMBEAT-20261121224305678-%05d-%s", serial, end)
	}
	st, err := part[warc.State](j, state.NameWARC)
	must(t, err)
	st.Files.Serial = 7
	st.Files.Volumes = []outfile.Volume{
		{Serial: 3, Name: name(3, "node-e5"), Streams: []outfile.StreamState{{Size: 100}, {Size: 10}}},
		{Serial: 5, Name: name(5, "node-e5"), Streams: []outfile.StreamState{{Size: 200}, {Size: 10}}}}
	setPart(t, j, state.NameWARC, st)
	for _, serial := range []int{4, 8} { // of long bodies: begun before and after the checkpoint
		must(t, disk.WriteFileAtomic(disk.OS(),
			dir+"/crawl/warc/"+name(serial, "node-e5")+".warc.gz"+outfile.OpenSuffix, nil))
	}
	m, err := j.markNow()
	must(t, err)
	var read mark
	if rest := read.read(m.append(nil)); rest == nil || len(rest) > 0 || !read.equal(&m) {
		t.Fatalf("%+v is read as %+v", m, read)
	}
	for _, c := range []struct {
		file   string
		offset int64
		want   bool
	}{
		{name(0, "node-e5"), 1 << 40, true}, {name(2, "node-e5-e1"), 1 << 40, true},
		{name(3, "node-e5"), 99, true}, {name(3, "node-e5"), 100, false}, {name(3, "node-e5-e1"), 10, false},
		{name(3, "node-e6"), 10, false}, {name(4, "node-e5"), 0, false}, {name(5, "node-e5"), 199, true},
		{name(5, "node-e5"), 200, false}, {name(6, "node-e5"), 1 << 40, true}, {name(7, "node-e5"), 0, false},
		{name(8, "node-e5"), 0, false},
	} {
		if got := read.covers(c.file+".warc.gz", c.offset); got != c.want {
			t.Errorf("%s, %d: covered %v, want %v", c.file, c.offset, got, c.want)
		}
	}
}
