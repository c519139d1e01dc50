package publish

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/internal/tabular"
	"drumbeat/warc"
)

const (
	// shardLines is the number of lines of a file of the index, as in Common Crawl's.
	shardLines = 10e6
)

// indexer writes the sorted index and the table of it.
type indexer struct {
	j     *job
	files []file

	shards  int
	shard   *output
	blocks  *warc.LineBlocks
	lines   int64 // of the open shard
	cluster *output

	tables [numSubsets]tableWriter
	row    []tabular.Value
}

// index writes the index and the table of all captures, and returns their files.
func (j *job) index(ctx context.Context, parts []*part) (_ []file, err error) {
	sorter := extsort.New(extsort.Options{FS: j.opt.FS, Dir: j.opt.TempDir + "/sort", RAMBytes: j.opt.RAMBytes / 4})
	x := &indexer{j: j}
	for s := range x.tables {
		x.tables[s] = tableWriter{j: j, columns: tableColumns,
			dir: fmt.Sprintf("cc-index/table/cc-main/warc/crawl=%s/subset=%s", j.report.Name, Subset(s))}
	}
	defer func() {
		for _, o := range []*output{x.shard, x.cluster, x.tables[Pages].out, x.tables[Robots].out,
			x.tables[Diagnostics].out} {
			if o != nil {
				o.Abort()
			}
		}
		err = errors.Join(err, sorter.Close())
	}()
	for _, p := range parts {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := addLines(j.opt.FS, sorter, p.path+linesSuffix, p.Lines); err != nil {
			return nil, err
		}
	}
	if err := sorter.Sort(); err != nil {
		return nil, err
	}
	if x.cluster, err = j.create(x.dir() + "cluster.idx"); err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		line, err := sorter.Next()
		if err != nil {
			return nil, err
		}
		if line == nil {
			break
		}
		if err := x.add(line); err != nil {
			return nil, err
		}
	}
	err = x.close()
	return x.files, err
}

// addLines adds the lines of a file to the sorter, without their newlines.
func addLines(fsys disk.FS, sorter *extsort.Sorter, name string, size int64) error {
	f, err := fsys.OpenRead(name)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	defer func() { _ = f.Close() }() // it was read
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), extsort.MaxRecordBytes)
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err == nil {
			err = sorter.Add(bytes.TrimSuffix(line, []byte{'\n'}))
		}
		if err != nil {
			return fmt.Errorf("publish: read %s: %w", name, err)
		}
	}
}

func (x *indexer) dir() string { return "cc-index/collections/" + x.j.report.Name + "/indexes/" }

// add adds a line to the index and to the table.
func (x *indexer) add(line []byte) (err error) {
	if x.shard == nil {
		name := fmt.Sprintf("cdx-%05d.gz", x.shards)
		if x.shard, err = x.j.create(x.dir() + name); err != nil {
			return err
		}
		x.shards++
		x.blocks = warc.NewLineBlocks(x.shard, warc.ZipNumLine(x.cluster, name))
	}
	if err := x.blocks.Add(append(bytes.Clone(line), '\n')); err != nil {
		return err
	}
	if x.lines++; x.lines == shardLines {
		if err := x.endShard(); err != nil {
			return err
		}
	}
	key, at, c, err := parseLine(line)
	if err != nil {
		return err
	}
	segment, subset, ok := placeOf(c.Filename)
	if !ok {
		return fmt.Errorf("publish: the line %.200q of the index: no subset in %q", line, c.Filename)
	}
	if x.row, err = x.j.row(x.row[:0], key, at, c, segment); err != nil {
		return fmt.Errorf("publish: the row of %.200s: %w", c.URL, err)
	}
	return x.tables[subset].write(x.row)
}

func (x *indexer) endShard() error {
	if x.shard == nil {
		return nil
	}
	if err := x.blocks.Close(); err != nil {
		return err
	}
	f, err := x.shard.close()
	x.files = append(x.files, f)
	x.shard, x.lines = nil, 0
	return err
}

// close ends all files.
func (x *indexer) close() error {
	err := x.endShard()
	for i := range x.tables {
		if err == nil {
			err = x.tables[i].end()
		}
		x.files = append(x.files, x.tables[i].files...)
	}
	if err != nil {
		return err
	}
	f, err := x.cluster.close()
	x.files = append(x.files, f)
	return err
}

// lists are the files with lists of paths, by the directories of these.
var lists = []struct{ name, dir string }{
	{"warc.paths.gz", "warc"}, {"wet.paths.gz", "wet"}, {"wat.paths.gz", "wat"}, {"robotstxt.paths.gz", "robotstxt"},
	{"non200responses.paths.gz", "crawldiagnostics"}, {"cc-index.paths.gz", "collections"},
	{"cc-index-table.paths.gz", "table"}, {"host-index.paths.gz", "host-index"},
}

// listOf returns the directory that tells in which list a file is, and its segment.
func listOf(name string) (dir, segment string) {
	parts := strings.Split(name, "/")
	switch parts[0] {
	case "cc-index":
		return parts[1], ""
	case "host-index":
		return parts[0], ""
	}
	segment, subset, _ := placeOf(name)
	return subset.String(), segment
}

// placeOf returns the segment and the subset in the path of a WARC file.
func placeOf(name string) (segment string, subset Subset, ok bool) {
	parts := strings.Split(name, "/") // crawl-data/NAME/segments/SEGMENT/SUBSET/FILE
	if len(parts) != 6 {
		return "", 0, false
	}
	at := slices.Index(subsetNames[:], parts[4])
	return parts[3], Subset(at), at >= 0
}

func sortedFiles(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.Path, b.Path) })
}

// finish writes the lists of files and the checksums, and gives the tree its name.
func (j *job) finish(files []file) error {
	j.meter.Set("checksums")
	dir := "crawl-data/" + j.report.Name + "/"
	var segments []string
	byList := make([][]string, len(lists))
	for _, f := range sortedFiles(files) {
		in, segment := listOf(f.Path)
		if segment = dir + "segments/" + segment + "/"; in != "" && !slices.Contains(segments, segment) &&
			strings.HasPrefix(f.Path, segment) {
			segments = append(segments, segment)
		}
		for i, l := range lists {
			if l.dir == in {
				byList[i] = append(byList[i], f.Path)
			}
		}
	}
	for i, l := range lists {
		f, err := j.writeList(dir+l.name, byList[i])
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	f, err := j.writeList(dir+"segment.paths.gz", segments)
	if err != nil {
		return err
	}
	files = append(files, f)
	sums, err := j.create(dir + "SHA256SUMS")
	if err != nil {
		return err
	}
	defer sums.Abort()
	for _, f := range sortedFiles(files) {
		if _, err := fmt.Fprintf(sums, "%s  %s\n", f.Sum, f.Path); err != nil {
			return err
		}
	}
	last, err := sums.close()
	if err != nil {
		return err
	}
	files = append(files, last)
	j.report.Files = len(files)
	for _, f := range files {
		j.report.Bytes += f.Bytes
	}
	return j.name()
}

// writeList writes a list of paths.
func (j *job) writeList(name string, paths []string) (file, error) {
	o, err := j.create(name)
	if err != nil {
		return file{}, err
	}
	defer o.Abort()
	z := gzip.NewWriter(o)
	for _, p := range paths {
		if _, err := io.WriteString(z, p+"\n"); err != nil {
			return file{}, err
		}
	}
	if err := z.Close(); err != nil {
		return file{}, err
	}
	return o.close()
}

// name gives the tree its name, durably.
func (j *job) name() error {
	fsys := j.opt.FS
	err := fsys.SyncFS(j.opt.TempDir) // the names of the directories
	if err == nil {
		err = fsys.Rename(j.opt.TempDir+"/"+treeDir, j.opt.Target)
	}
	if err == nil {
		err = fsys.SyncDir(path.Dir(j.opt.Target))
	}
	if err != nil {
		return fmt.Errorf("publish: name %s: %w", j.opt.Target, err)
	}
	return nil
}
