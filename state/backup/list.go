package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/state"
)

// Names of the objects of a place.
const (
	latestName  = "latest"
	partialName = "partial"
	listsDir    = "lists/"
	packsDir    = "packs/"
)

// Magic words of lists, and of the file latest.
const (
	listMagic   = "drumbeat-backup"
	latestMagic = "drumbeat-backups"
)

// formatVersion is the version of lists and of latest.
const formatVersion = 1

// Bounds of what is read from a place, so that damage does not take all RAM.
const (
	maxLatestBytes = 16 << 20
	maxListBytes   = 1 << 30 // decoded
)

// The kinds of directories.
const (
	inState = "state" // of the crawl
	inOut   = "out"   // separate directories of the output
)

// Head describes a backup.
type Head struct {
	Number   int64  `json:"number"` // from 1
	Lineage  string `json:"lineage"`
	Erasures int64  `json:"erasures,omitempty"` // state.Manifest.Erasures
	Table    uint64 `json:"table,omitempty"`    // of owners: state.Frozen.Table
	Gen      uint64 `json:"gen"`                // checkpoint
	Time     int64  `json:"time"`               // of the checkpoint, Unix seconds
	Name     string `json:"name"`               // of the list
	Sum      uint64 `json:"sum"`                // xxhash64 of the list as stored
	Bytes    int64  `json:"bytes"`              // of the files, without gaps
	Copied   int64  `json:"copied"`             // of them, bytes that no earlier backup had
	Files    int    `json:"files"`
	NextPack int64  `json:"next_pack"` // as in the list
}

// Latest is what a place has.
type Latest struct {
	V     int    `json:"v"`
	Crawl string `json:"crawl"`
	Node  int    `json:"node"` // of a cluster
	// Backups are complete, the oldest one first.
	Backups []Head `json:"backups"`
	// Delete are objects that nothing names any more.
	Delete []string `json:"delete,omitempty"`
}

// last returns the newest backup; nil if there is none.
func (l *Latest) last() *Head {
	if l == nil || len(l.Backups) == 0 {
		return nil
	}
	return &l.Backups[len(l.Backups)-1]
}

// list is the content of a backup.
type list struct {
	V        int      `json:"v"`
	Crawl    string   `json:"crawl"`
	Lineage  string   `json:"lineage"`
	Program  string   `json:"program"` // version of the program
	Dirs     int      `json:"dirs"`
	Outs     int      `json:"outs"` // separate directories of the output
	Manifest []byte   `json:"manifest"`
	NextPack int64    `json:"next_pack"` // number of the next pack of the lineage
	Packs    []pack   `json:"packs"`
	Files    []listed `json:"files"`
}

type pack struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// listed is a file of a backup.
type listed struct {
	In     string  `json:"in"` // kind of its directory
	Dir    int     `json:"dir"`
	Name   string  `json:"name"` // below the directory
	Size   int64   `json:"size"`
	Sum    uint64  `json:"sum,omitempty"` // xxhash64 of a loose file
	Pieces []piece `json:"pieces"`        // a later one counts where two overlap
}

// piece is a range of bytes of a file in a pack.
type piece struct {
	Pack int    `json:"p"` // index in list.Packs
	Off  int64  `json:"o"` // in the pack
	From int64  `json:"f"` // in the file
	N    int64  `json:"n"`
	Sum  uint64 `json:"s"` // xxhash64
}

// end returns the offset in the file behind the piece.
func (p *piece) end() int64 { return p.From + p.N }

// fileID identifies a file of a crawl.
type fileID struct {
	in   string
	dir  int
	name string
}

func (f *listed) id() fileID { return fileID{f.In, f.Dir, f.Name} }

// encode returns the stored form of a list: its sealed JSON, compressed.
func (l *list) encode() ([]byte, error) {
	l.V = formatVersion
	data, err := state.Seal(listMagic, l)
	if err != nil {
		return nil, err
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil), nil
}

// decodeList decodes and checks a list. name is for errors.
func decodeList(name string, data []byte) (*list, error) {
	r, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxListBytes))
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxListBytes))
	if err != nil {
		return nil, &disk.CorruptError{Path: name, Want: "a compressed list", Got: err.Error()}
	}
	l := new(list)
	if err := state.Unseal(listMagic, name, text, l); err != nil {
		return nil, err
	}
	if l.V != formatVersion {
		return nil, fmt.Errorf("backup: %s has version %d, this program reads %d: %w", name, l.V, formatVersion,
			state.ErrIncompatible)
	}
	if err := l.check(); err != nil {
		return nil, &disk.CorruptError{Path: name, Want: "a list whose parts fit", Got: err.Error()}
	}
	return l, nil
}

// check returns the first fault of a list.
func (l *list) check() error {
	if l.Dirs < 0 || l.Outs < 0 || l.NextPack < 0 {
		return errors.New("negative numbers")
	}
	for i := range l.Packs {
		if p := &l.Packs[i]; !isPackName(p.Name) || p.Bytes < 0 || p.Bytes > packBytes {
			return fmt.Errorf("pack %.100q of %d bytes", p.Name, p.Bytes)
		}
	}
	for i := range l.Files {
		f := &l.Files[i]
		dirs := l.Dirs
		if f.In == inOut {
			dirs = l.Outs
		}
		if f.In != inState && f.In != inOut || f.Dir < 0 || f.Dir >= dirs || !plainPath(f.Name) || f.Size < 0 {
			return fmt.Errorf("file %.100q", f.Name)
		}
		for _, p := range f.Pieces {
			if p.Pack < 0 || p.Pack >= len(l.Packs) || p.Off < 0 || p.N <= 0 || p.From < 0 ||
				p.Off > l.Packs[p.Pack].Bytes-p.N || p.From > f.Size-p.N {
				return fmt.Errorf("piece %+v of %.100q", p, f.Name)
			}
		}
	}
	return nil
}

// plainPath reports whether a name of a list stays below its directory, and is one that a crawl has.
func plainPath(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return fs.ValidPath(name) && len(name) < 4096 && slices.Contains(tops[:], top)
}

// tops are the first parts of the names of files that a backup has.
var tops = [...]string{"state", "warc", "log", state.HistoryName, state.ErasedDir, "seeds.txt", "watch.txt"}

// readLatest returns what a place has; an empty Latest if it has nothing.
func readLatest(ctx context.Context, p Place) (*Latest, error) {
	l := new(Latest)
	data, err := p.Get(ctx, latestName, maxLatestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	name := p.String() + "/" + latestName
	if err := state.Unseal(latestMagic, name, data, l); err != nil {
		return nil, err
	}
	if l.V != formatVersion {
		return nil, fmt.Errorf("backup: %s has version %d, this program reads %d: %w", name, l.V, formatVersion,
			state.ErrIncompatible)
	}
	for i := range l.Backups {
		if h := &l.Backups[i]; !isListName(h.Name) || i > 0 && h.Number <= l.Backups[i-1].Number {
			return nil, &disk.CorruptError{Path: name, Want: "backups in order", Got: h.Name}
		}
	}
	return l, nil
}

// putLatest makes l what the place has.
func putLatest(ctx context.Context, p Place, l *Latest) error {
	l.V = formatVersion
	data, err := state.Seal(latestMagic, l)
	if err != nil {
		return err
	}
	return p.Put(ctx, latestName, data)
}

// readList reads the list of a backup.
func readList(ctx context.Context, p Place, h *Head) (*list, error) {
	data, err := p.Get(ctx, h.Name, maxListBytes)
	if err != nil {
		return nil, err
	}
	name := p.String() + "/" + h.Name
	if sum := xxhash.Sum64(data); sum != h.Sum {
		return nil, &disk.CorruptError{Path: name, Want: fmt.Sprintf("checksum %016x", h.Sum),
			Got: fmt.Sprintf("%016x", sum)}
	}
	return decodeList(name, data)
}

// readPartial reads the list of a backup that was interrupted; nil if there is none, or a damaged one: then its packs
// are copied again, under the same names. So after another error nothing may be put: the partial list would then name
// other bytes.
func readPartial(ctx context.Context, p Place) (*list, error) {
	data, err := p.Get(ctx, partialName, maxListBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := decodeList(p.String()+"/"+partialName, data)
	if damaged(err) {
		return nil, nil
	}
	return l, err
}

func listName(number int64, lineage string) string {
	return fmt.Sprintf("%s%010d-%.8s", listsDir, number, lineage)
}

func packName(number int64, lineage string) string {
	return fmt.Sprintf("%s%.16s-%010d", packsDir, lineage, number)
}

func isListName(name string) bool { return isName(name, listsDir) }
func isPackName(name string) bool { return isName(name, packsDir) }

// isName reports whether a name is one of lower-case letters, digits and hyphens below a directory.
func isName(name, dir string) bool {
	if len(name) <= len(dir) || len(name) > 100 || name[:len(dir)] != dir {
		return false
	}
	for _, c := range name[len(dir):] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return true
}
