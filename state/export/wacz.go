package export

import (
	"archive/zip"
	"bytes"
	"cmp"
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

	"golang.org/x/net/html"

	"drumbeat/disk"
	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/mimetype"
	"drumbeat/internal/pagetext"
	"drumbeat/internal/response"
	"drumbeat/state"
	"drumbeat/warc"
)

// WACZ is not a table: the WARC files, their index and the list of pages as one ZIP file, Options.Target, which
// replay tools read by ranges (Web Archive Collection Zipped, version 1.1.1). WARC files and index are stored, not
// compressed again. The WARC files must be compressed by gzip.
const WACZ Kind = "wacz"

const (
	waczVersion = "1.1.1"
	waczIndex   = "index.cdx.gz"
	// titleBytes bounds how far a page is read for its title, and maxTitle the title.
	titleBytes = 64 << 10
	maxTitle   = 1 << 10
)

func waczTable() table {
	return table{files: indexFiles, logs: []string{"warc"}, parts: []string{"warc"}, indexed: true}
}

// wacz writes the file.
func (j *job) wacz() (err error) {
	if j.opt.Begin != nil {
		j.opt.Begin(j.report)
	}
	lines, err := j.indexLines()
	if err != nil {
		return err
	}
	j.meter.Add(0)
	p := &pack{j: j}
	defer func() {
		for _, f := range []*disk.Staged{p.out, p.idx, p.pages} {
			if f != nil {
				f.Abort()
			}
		}
	}()
	if p.out, err = disk.Stage(j.opt.FS, j.opt.Target); err != nil {
		return err
	}
	for name, f := range map[string]**disk.Staged{"pages.jsonl": &p.pages, "index.idx": &p.idx} {
		if *f, err = disk.Stage(j.opt.FS, j.opt.TempDir+"/"+name); err != nil {
			return err
		}
	}
	p.zip = zip.NewWriter(p.out)
	for _, write := range []func() error{p.archive, func() error { return p.index(lines) }, p.describe, p.zip.Close,
		p.out.End, p.out.Rename} {
		if err := write(); err != nil {
			return err
		}
	}
	j.report.Parts, j.report.Bytes = 1, p.out.Size()
	j.meter.Complete()
	return nil
}

// pack writes the members of a WACZ.
type pack struct {
	j     *job
	out   *disk.Staged
	zip   *zip.Writer
	pages *disk.Staged // pages.jsonl
	idx   *disk.Staged // the summary of the index
	list  []resource
	first waczPage // the earliest page

	revisits int64 // which the list leaves out
	heads    int64 // as well: pages that are stored without their body
	damage   error // the first of Report.Damaged
}

// counting is an io.Writer that adds to the progress.
type counting struct{ *state.ProgressMeter }

func (c counting) Write(b []byte) (int, error) {
	c.Add(int64(len(b)))
	return len(b), nil
}

// resource is a member as datapackage.json lists it.
type resource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes"`
}

// waczPage is a line of pages.jsonl.
type waczPage struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	TS    string `json:"ts"`
	Title string `json:"title,omitempty"`
}

// member is the open member of a pack.
type member struct {
	w     io.Writer
	sum   hash.Hash
	bytes int64
	live  func() error
}

// Write implements io.Writer.
func (m *member) Write(b []byte) (int, error) {
	if err := m.live(); err != nil {
		return 0, err
	}
	n, err := m.w.Write(b)
	m.sum.Write(b[:n])
	m.bytes += int64(n)
	return n, err
}

// add adds a member that write writes. It is listed unless it describes the others.
func (p *pack) add(name string, method uint16, write func(w io.Writer) error) (sum string, err error) {
	w, err := p.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: p.j.report.Time})
	if err != nil {
		return "", fmt.Errorf("export: %s: %w", name, err)
	}
	m := &member{w: w, sum: sha256.New(), live: p.j.live}
	if err := write(m); err != nil {
		return "", err
	}
	sum = "sha256:" + hex.EncodeToString(m.sum.Sum(nil))
	if !strings.HasPrefix(name, "datapackage") {
		p.list = append(p.list, resource{strings.ToLower(path.Base(name)), name, sum, m.bytes})
	}
	return sum, nil
}

// addFile adds what was written to a temporary file.
func (p *pack) addFile(name string, f *disk.Staged) error {
	_, err := p.add(name, zip.Deflate, func(w io.Writer) error { return f.CopyTo(w) })
	return err
}

// archive adds the WARC files and lists their pages.
func (p *pack) archive() error {
	st, err := part[warc.State](p.j, state.NameWARC)
	if err != nil {
		return err
	}
	p.j.meter.Set("WARC files")
	if _, err := io.WriteString(p.pages, `{"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}`+
		"\n"); err != nil {
		return err
	}
	moved := 0
	err = warc.WalkIndexes(p.j.WARCFiles(), st, func(x *warc.Index) error {
		data, err := x.Data(p.j.WARCFiles())
		if errors.Is(err, warc.ErrMoved) {
			moved++
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = data.Close() }() // it was read
		if !strings.HasSuffix(data.File, ".gz") {
			return fmt.Errorf("export: %s is compressed with Zstandard, which WACZ does not allow: crawl with --warc "+
				"gz, or use index", data.File)
		}
		if _, err := p.add("archive/"+data.File, zip.Store, func(w io.Writer) error {
			n, err := io.Copy(io.MultiWriter(w, counting{p.j.meter}), data.Reader())
			if err == nil && n < data.Size() {
				err = &disk.CorruptError{Path: data.File, Offset: n, Want: fmt.Sprintf("%d bytes", data.Size()),
					Got: fmt.Sprintf("%d bytes", n)}
			}
			return err
		}); err != nil {
			return err
		}
		return p.listPages(x, data)
	})
	if p.damage != nil {
		p.j.note("%s damaged and copied unchanged into the archive; the first: %v",
			human.Counted(int64(p.j.report.Damaged), "record is", "records are"), p.damage)
	}
	if p.revisits > 0 {
		p.j.note("%s a body that is stored with another page: replayed, but not in the list of pages",
			human.Counted(p.revisits, "response has", "responses have"))
	}
	if p.heads > 0 {
		p.j.note("%s without body (--near-duplicates, --robots-meta): not in the list of pages",
			human.Counted(p.heads, "page is stored", "pages are stored"))
	}
	if moved > 0 {
		p.j.note("%s moved away: pages are missing", human.Counted(int64(moved), "WARC file was", "WARC files were"))
	}
	return err
}

// listPages adds the pages of a WARC file to pages.jsonl, in the order of their records. It reads the records of all
// responses to their end, and counts damage.
func (p *pack) listPages(x *warc.Index, data *warc.Data) error {
	var pages []warc.Indexed // a WARC file has some 100,000
	if err := x.Lines(func(line []byte) error {
		c, err := x.Parse(line)
		if err != nil || c.Kind != warc.KindPage {
			return err
		}
		if c.IsRevisit() {
			p.revisits++
		} else {
			pages = append(pages, *c)
		}
		return err
	}); err != nil {
		return err
	}
	slices.SortFunc(pages, func(a, b warc.Indexed) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := range pages {
		c := &pages[i]
		if err := p.j.live(); err != nil {
			return err
		}
		isPage := c.Status == 200 && isHTML(c.MIME)
		title, head, err := titleOf(data, c, isPage)
		if err != nil {
			if p.j.report.Damaged++; p.damage == nil {
				p.damage = err
			}
		}
		if !isPage {
			continue
		}
		if head {
			p.heads++
			continue
		}
		p.j.report.Rows++
		page := waczPage{ID: fmt.Sprintf("p%d", p.j.report.Rows), URL: c.URL,
			TS: c.Time.UTC().Format(time.RFC3339), Title: title}
		if p.first.TS == "" || page.TS < p.first.TS {
			p.first = page
		}
		if err := writeJSON(p.pages, page); err != nil {
			return err
		}
	}
	return nil
}

func isHTML(mime string) bool { return mimetype.Parse(mime).IsHTML() }

// titleOf reads the record of a response. It returns the title if that is a page, whether the record has the head only,
// and what is wrong with it.
func titleOf(data *warc.Data, c *warc.Indexed, isPage bool) (title string, head bool, err error) {
	r, err := data.Record(c)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = r.Close() }() // the file stays open
	resp, err := response.Open(r, func(string) {})
	if err != nil {
		return "", false, err
	}
	defer resp.Close()
	if isPage {
		title = pageTitle(io.LimitReader(resp.Body, titleBytes), resp.ContentType())
	}
	return title, resp.HeadOnly, resp.SkipBody()
}

// pageTitle returns the title of a page; "" if it has none.
func pageTitle(body io.Reader, contentType string) string {
	text, _ := pagetext.NewReader(body, contentType)
	tokens := html.NewTokenizer(text)
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken:
			if name, _ := tokens.TagName(); string(name) != "title" {
				continue
			}
			if tokens.Next() != html.TextToken {
				return ""
			}
			title := strings.Join(strings.Fields(strings.ToValidUTF8(string(tokens.Text()), "")), " ")
			for i := range title {
				if i >= maxTitle {
					return title[:i]
				}
			}
			return title
		}
	}
}

func writeJSON(w io.Writer, value any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// index adds the index of all WARC files: blocks of lines, and a summary of the blocks.
func (p *pack) index(lines *extsort.Sorter) error {
	p.j.meter.Set("index")
	if err := lines.Sort(); err != nil {
		return err
	}
	header := map[string]string{"format": "cdxj-gzip-1.0", "filename": waczIndex}
	if _, err := io.WriteString(p.idx, "!meta 0 "); err != nil {
		return err
	}
	if err := writeJSON(p.idx, header); err != nil {
		return err
	}
	if _, err := p.add("indexes/"+waczIndex, zip.Store, func(w io.Writer) error {
		blocks := warc.NewLineBlocks(w, func(b *warc.Block) error {
			if _, err := p.idx.Write(append(bytes.Clone(b.Key), ' ')); err != nil {
				return err
			}
			return writeJSON(p.idx, struct {
				Offset   int64  `json:"offset"`
				Length   int64  `json:"length"`
				Filename string `json:"filename"`
			}{b.Start, b.Length, waczIndex})
		})
		for {
			line, err := lines.Next()
			if err != nil {
				return err
			}
			if line == nil {
				return blocks.Close()
			}
			if err := blocks.Add(append(bytes.Clone(line), '\n')); err != nil {
				return err
			}
		}
	}); err != nil {
		return err
	}
	return p.addFile("indexes/index.idx", p.idx)
}

// describe adds the list of pages and what describes the members.
func (p *pack) describe() error {
	if err := p.addFile("pages/pages.jsonl", p.pages); err != nil {
		return err
	}
	about := p.about()
	sum, err := p.add("datapackage.json", zip.Deflate, func(w io.Writer) error {
		return writeJSON(w, struct {
			Profile      string        `json:"profile"`
			Version      string        `json:"wacz_version"`
			Title        string        `json:"title"`
			Description  string        `json:"description,omitempty"`
			Contributors []contributor `json:"contributors,omitempty"`
			Software     string        `json:"software"`
			Created      string        `json:"created"`
			MainURL      string        `json:"mainPageUrl,omitempty"`
			MainDate     string        `json:"mainPageDate,omitempty"`
			Resources    []resource    `json:"resources"`
		}{"data-package", waczVersion, about.Title, about.Description, contributors(about.Operator), "drumbeat",
			p.j.report.Time.Format(time.RFC3339), p.first.URL, p.first.TS, p.list})
	})
	if err != nil {
		return err
	}
	_, err = p.add("datapackage-digest.json", zip.Deflate, func(w io.Writer) error {
		return writeJSON(w, struct {
			Path string `json:"path"`
			Hash string `json:"hash"`
		}{"datapackage.json", sum})
	})
	return err
}

// about returns the texts of the package: those of the export, else those of the crawl's last run. A crawl without a
// title gets one from its seeds.
func (p *pack) about() state.About {
	m, given := p.j.Manifest, p.j.opt.About
	var about state.About
	if m.Run != nil {
		about = m.Run.About
	}
	about.Title = cmp.Or(given.Title, m.Run.Name(m.Crawl))
	about.Description = cmp.Or(given.Description, about.Description)
	about.Operator = cmp.Or(given.Operator, about.Operator)
	return about
}

// contributor is a person or institution that made a data package (Data Package, version 1).
type contributor struct {
	Title string `json:"title"`
	Role  string `json:"role"`
}

// contributors returns the operator as the author of the package; nil without one.
func contributors(operator string) []contributor {
	if operator == "" {
		return nil
	}
	return []contributor{{operator, "author"}}
}
