package erase

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/state/repair"
	"drumbeat/warc"
	"drumbeat/warc/outfile"
)

// outWACZ is a WACZ: a ZIP file with WARC files, their index and a list of pages.
const outWACZ outKind = "wacz"

// Members of a WACZ that drumbeat export writes, beside the WARC files.
const (
	waczArchive = "archive/"
	waczIndex   = "indexes/index.cdx.gz"
	waczSummary = "indexes/index.idx"
	waczPages   = "pages/pages.jsonl"
	waczAbout   = "datapackage.json"
	waczDigest  = "datapackage-digest.json"
)

// openWACZ opens a WACZ, and refuses one with members that drumbeat export does not write.
func openWACZ(f io.ReaderAt, size int64) (*zip.Reader, map[string]*zip.File, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, nil, fmt.Errorf("it is a ZIP file that cannot be read: %w", err)
	}
	members := map[string]*zip.File{}
	for _, m := range z.File {
		name, isWARC := strings.CutPrefix(m.Name, waczArchive)
		known := []string{waczIndex, waczSummary, waczPages, waczAbout, waczDigest}
		if isWARC && (m.Method != zip.Store || !disk.PlainName(name) || !strings.HasSuffix(name, ".warc.gz")) ||
			!isWARC && !slices.Contains(known, m.Name) {
			return nil, nil, fmt.Errorf("it has the member %.100q, as no WACZ of drumbeat export has", m.Name)
		}
		members[m.Name] = m
	}
	for _, name := range []string{waczIndex, waczPages, waczAbout} {
		if members[name] == nil {
			return nil, nil, fmt.Errorf("it has no %s, as a WACZ has", name)
		}
	}
	return z, members, nil
}

// section returns the bytes of a stored member.
func section(f io.ReaderAt, m *zip.File) (*io.SectionReader, error) {
	at, err := m.DataOffset()
	return io.NewSectionReader(f, at, int64(m.UncompressedSize64)), err
}

// scanWACZ reports whether something in a WACZ changes. It counts lines of the index and pages that go.
func (x *run) scanWACZ(f io.ReaderAt, size int64) (changed bool, err error) {
	z, members, err := openWACZ(f, size)
	if err != nil {
		return false, err
	}
	for _, m := range z.File {
		if !strings.HasPrefix(m.Name, waczArchive) {
			continue
		}
		in, err := section(f, m)
		if err == nil {
			err = warc.EachRecord(in, in.Size(), func(rec *warc.Record, block io.Reader) (err error) {
				p := warc.Piece{Type: rec.Type(), Record: rec,
					URL: strings.TrimPrefix(rec.Get("WARC-Target-URI"), warc.RenderedPrefix)}
				if p.Type == "metadata" && rec.Size <= warc.MaxSifted {
					rec.Block, err = io.ReadAll(block)
				}
				j := x.judge(&p)
				changed = changed || j.drop || j.changes
				return err
			})
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	index, err := section(f, members[waczIndex])
	if err != nil {
		return false, err
	}
	if _, named, err := x.readPackage(members[waczAbout]); err != nil {
		return false, err
	} else if named {
		changed = true
	}
	if err := x.eachIndexLine(outZipNum, index, index.Size(), func(line, next []byte, _ *volume) error {
		if next == nil {
			x.j.Erased.Rows++
		}
		changed = changed || !bytes.Equal(line, next)
		return nil
	}); err != nil {
		return false, err
	}
	err = x.eachPage(members[waczPages], func(_ []byte, goes bool) error {
		if goes {
			x.j.Erased.Rows++
		}
		changed = changed || goes
		return nil
	})
	return changed, err
}

// eachPage calls fn with each line of a list of pages.
func (x *run) eachPage(m *zip.File, fn func(line []byte, goes bool) error) error {
	r, err := m.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for in.Scan() {
		var page struct {
			URL string `json:"url"`
		}
		if err := json.Unmarshal(in.Bytes(), &page); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		if err := fn(append(in.Bytes(), '\n'), x.t.Text(page.URL)); err != nil {
			return err
		}
	}
	return in.Err()
}

// waczDir is the directory of the work files of a WACZ, which become the files of a crawl for a while.
const waczDir = "wacz"

// pack is a WACZ that is rewritten.
type pack struct {
	*run      // of the WARC files in it
	f         io.ReaderAt
	z         *zip.Reader
	members   map[string]*zip.File
	out       *zip.Writer
	rewritten map[string]bool // names of WARC files
	index     *extsort.Sorter
	summary   bytes.Buffer // of the index: 100 bytes for 3,000 lines
	resources map[string]resource
}

// resource is what a package says of a member.
type resource struct {
	hash  string
	bytes int64
}

// rewriteWACZ writes a WACZ without the targets.
func (x *run) rewriteWACZ(f io.ReaderAt, size int64, to io.Writer) (err error) {
	w := &pack{f: f, out: zip.NewWriter(to), rewritten: map[string]bool{}, resources: map[string]resource{}}
	if w.z, w.members, err = openWACZ(f, size); err != nil {
		return err
	}
	dir := x.work(waczDir)
	if err := errors.Join(repair.RemoveTree(x.r.Set.FS, dir), x.r.Set.FS.MkdirAll(dir+"/warc")); err != nil {
		return err
	}
	free, _, err := x.r.Set.FS.Space(dir)
	if err != nil {
		return err
	}
	if need := 2*size + spareBytes; free < need {
		return &SpaceError{Dir: dir, File: "a WACZ", Need: need, Free: free}
	}
	opt := *x.opt
	opt.DryRun = false
	saved := *x.r
	saved.Out = disk.Set{FS: x.r.Set.FS, Paths: []string{dir}}
	w.run = &run{opt: &opt, r: &saved, m: x.m, t: x.t, sub: waczDir + "/", j: &journal{}}
	w.index = x.sorter("wacz-index.sort")
	defer func() { err = errors.Join(err, w.index.Close(), repair.RemoveTree(x.r.Set.FS, dir)) }()
	for _, step := range []func() error{w.unpack, w.rewriteWARCs, w.archive, w.writeIndex, w.writePages, w.describe} {
		if err := step(); err != nil {
			return err
		}
	}
	return w.out.Close()
}

// unpack copies the WARC files and the lines of the index to work files, as a crawl has them.
func (w *pack) unpack() error {
	fsys, dir := w.r.Set.FS, w.r.Out.Path(0, "warc")
	byFile := w.sorter("lines.sort")
	err := w.unpackLines(byFile)
	for i := 0; err == nil && i < len(w.z.File); i++ {
		m := w.z.File[i]
		name, ok := strings.CutPrefix(m.Name, waczArchive)
		if !ok {
			continue
		}
		var in *io.SectionReader
		if in, err = section(w.f, m); err == nil {
			err = staged(fsys, dir+"/"+name, func(to io.Writer) error {
				_, err := io.Copy(to, in)
				return err
			})
		}
	}
	return errors.Join(err, byFile.Close())
}

// staged makes a durable file.
func staged(fsys disk.FS, name string, write func(to io.Writer) error) error {
	to, err := disk.Stage(fsys, name)
	if err != nil {
		return err
	}
	defer to.Abort()
	if err := write(to); err != nil {
		return err
	}
	return endStaged(to)
}

// unpackLines writes the lines of the index to an index for each WARC file.
func (w *pack) unpackLines(byFile *extsort.Sorter) error {
	index, err := section(w.f, w.members[waczIndex])
	if err != nil {
		return err
	}
	if err := w.eachRawLine(index, func(line []byte, file string) error {
		return byFile.Add(slices.Concat([]byte(file), []byte{0}, line))
	}); err != nil {
		return err
	}
	if err := byFile.Sort(); err != nil {
		return err
	}
	rec, err := byFile.Next()
	for err == nil && rec != nil {
		file, _, _ := bytes.Cut(bytes.Clone(rec), []byte{0})
		name := w.r.Out.Path(0, "warc", warc.NameOf(string(file))+".cdxj")
		err = staged(w.r.Set.FS, name, func(to io.Writer) error {
			for rec != nil && bytes.HasPrefix(rec, append(file[:len(file):len(file)], 0)) {
				if _, err := to.Write(rec[len(file)+1:]); err != nil {
					return err
				}
				var err error
				if rec, err = byFile.Next(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}

// eachRawLine calls fn with each line of the index as it is.
func (w *pack) eachRawLine(index *io.SectionReader, fn func(line []byte, file string) error) error {
	return w.eachIndexLine(outZipNum, index, index.Size(), func(line, _ []byte, _ *volume) error {
		_, _, file, err := warc.EditLine(line, func(string) bool { return false })
		if err == nil && w.members[waczArchive+file] != nil {
			err = fn(line, file)
		}
		return err
	})
}

// rewriteWARCs rewrites the WARC files in which something changes. A body moves within the WACZ.
func (w *pack) rewriteWARCs() (err error) {
	bodies, refs := w.sorter("bodies.sort"), w.sorter("refs.sort")
	defer func() { err = errors.Join(err, bodies.Close(), refs.Close()) }()
	opened := map[uint32]*warc.Volume{}
	opt := warc.Options{Set: w.r.Out, State: w.r.Set}
	if err := warc.EachVolume(opt, &warc.State{Files: *outfile.NoState()}, func(v *warc.Volume) error {
		return w.planVolume(v, nil, bodies, opened)
	}); err != nil {
		return err
	}
	if err := bodies.Sort(); err != nil {
		return err
	}
	if err := staged(w.r.Set.FS, w.work("bodies"), func(to io.Writer) error {
		return w.joinBodies(bodies, refs, opened, to.(*disk.Staged))
	}); err != nil {
		return err
	}
	if err := refs.Sort(); err != nil {
		return err
	}
	if err := w.writeSorted("refs", refs); err != nil {
		return err
	}
	of, err := w.openRefs()
	if err != nil {
		return err
	}
	defer of.close()
	defer func() {
		if w.bodies != nil {
			err = errors.Join(err, w.bodies.Close())
		}
	}()
	for i := range w.volumes {
		n := &w.volumes[i]
		rows, err := of.of(n.number)
		if err != nil {
			return err
		}
		w.rewritten[n.File] = true
		n.Next = n.Name
		if _, err := opened[n.number].Rewrite(n.Next, func(p *warc.Piece) (warc.Edit, error) { return w.edit(p, rows) },
			w.t.Text); err != nil {
			return err
		}
	}
	return nil
}

// add adds a member, and notes what the package says of it.
func (w *pack) add(name string, write func(to io.Writer) error) error {
	method, modified := zip.Deflate, time.Time{}
	if m := w.members[name]; m != nil {
		method, modified = m.Method, m.Modified
	}
	to, err := w.out.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: modified})
	if err != nil {
		return err
	}
	m := &summed{to: to, sum: sha256.New()}
	if err := write(m); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.resources[name] = resource{"sha256:" + hex.EncodeToString(m.sum.Sum(nil)), m.n}
	return nil
}

type summed struct {
	to  io.Writer
	sum hash.Hash
	n   int64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	_, _ = s.sum.Write(b[:n]) // a hash returns no error
	s.n += int64(n)
	return n, err
}

// archive adds the WARC files: those that were not rewritten as they are.
func (w *pack) archive() error {
	for _, m := range w.z.File {
		name, ok := strings.CutPrefix(m.Name, waczArchive)
		if !ok {
			continue
		}
		if !w.rewritten[name] {
			if err := w.out.Copy(m); err != nil {
				return err
			}
			continue
		}
		f, err := w.r.Set.FS.OpenRead(w.r.Out.Path(0, "warc", name))
		if err != nil {
			return err
		}
		size, err := f.Size()
		if err == nil {
			err = w.add(m.Name, func(to io.Writer) error {
				_, err := io.Copy(to, io.NewSectionReader(f, 0, size))
				return err
			})
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// writeIndex adds the index: the lines of the files that were not rewritten, and the new ones of the others.
func (w *pack) writeIndex() error {
	index, err := section(w.f, w.members[waczIndex])
	if err != nil {
		return err
	}
	if err := w.eachRawLine(index, func(line []byte, file string) error {
		if w.rewritten[file] {
			return nil
		}
		return w.index.Add(line)
	}); err != nil {
		return err
	}
	for i := range w.volumes {
		if err := w.addLines(&w.volumes[i], w.index); err != nil {
			return err
		}
	}
	if err := w.index.Sort(); err != nil {
		return err
	}
	name := path.Base(waczIndex)
	fmt.Fprintf(&w.summary, "!meta 0 {\"format\":\"cdxj-gzip-1.0\",\"filename\":%q}\n", name)
	if err := w.add(waczIndex, func(to io.Writer) error {
		blocks := warc.NewLineBlocks(to, func(b *warc.Block) error {
			_, err := fmt.Fprintf(&w.summary, "%s {\"offset\":%d,\"length\":%d,\"filename\":%q}\n", b.Key, b.Start,
				b.Length, name)
			return err
		})
		for {
			line, err := w.index.Next()
			if err != nil {
				return err
			}
			if line == nil {
				return blocks.Close()
			}
			if err := blocks.Add(line); err != nil {
				return err
			}
		}
	}); err != nil {
		return err
	}
	return w.add(waczSummary, func(to io.Writer) error {
		_, err := to.Write(w.summary.Bytes())
		return err
	})
}

func (w *pack) writePages() error {
	return w.add(waczPages, func(to io.Writer) error {
		return w.eachPage(w.members[waczPages], func(line []byte, goes bool) error {
			if goes {
				return nil
			}
			_, err := to.Write(line)
			return err
		})
	})
}

// readPackage reads the description of a package, without the texts that name targets, such as a title that is a seed.
func (x *run) readPackage(m *zip.File) (about map[string]any, changed bool, err error) {
	r, err := m.Open()
	if err != nil {
		return nil, false, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxAbout))
	if err = errors.Join(err, r.Close()); err == nil {
		err = json.Unmarshal(data, &about)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", m.Name, err)
	}
	words := newWords(x.t, x.resolver())
	for name, value := range about {
		if text, _ := value.(string); words.in(text) {
			delete(about, name)
			changed = true
		}
	}
	if about["mainPageUrl"] == nil {
		delete(about, "mainPageDate")
	}
	return about, changed, nil
}

// describe adds the description of the package, with the new hashes, and its digest.
func (w *pack) describe() error {
	about, _, err := w.readPackage(w.members[waczAbout])
	if err != nil {
		return err
	}
	list, _ := about["resources"].([]any)
	for _, one := range list {
		member, _ := one.(map[string]any)
		name, _ := member["path"].(string)
		if now, ok := w.resources[name]; ok {
			member["hash"], member["bytes"] = now.hash, now.bytes
		}
	}
	if err := w.add(waczAbout, func(to io.Writer) error { return json.NewEncoder(to).Encode(about) }); err != nil {
		return err
	}
	return w.add(waczDigest, func(to io.Writer) error {
		return json.NewEncoder(to).Encode(map[string]string{"path": waczAbout, "hash": w.resources[waczAbout].hash})
	})
}
