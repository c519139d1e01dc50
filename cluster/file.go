package cluster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"drumbeat/weburl"
)

// File describes a cluster: the owners of all PLDs, and the secret from which all keys derive. Every node
// needs a copy of it. Guard it like the SECRET of a crawl.
type File struct {
	Crawl  string // identifies the crawl, 32 hexadecimal digits
	Secret weburl.Secret
	Table  *Table
}

// fileVersion is the version of the file.
const fileVersion = 1

// fileForm is the file: a JSON object.
type fileForm struct {
	Version int    `json:"drumbeat_cluster"`
	Crawl   string `json:"crawl"`
	Nodes   int    `json:"nodes"`
	Owners  string `json:"owners"`          // of the slots, 2 bytes each, base64
	Moves   int    `json:"moves,omitempty"` // how often slots were moved
	// Departed lists the nodes that take part no more.
	Departed []int          `json:"departed,omitempty"`
	Divided  []divisionForm `json:"divided,omitempty"` // divided PLDs
	Secret   string         `json:"secret"`
	// Sum is xxhash64 of the other fields, each with a newline; Moves, Departed and Divided last, if any.
	Sum string `json:"sum"`
}

func (f *fileForm) sum() string {
	text := fmt.Sprintf("%d\n%s\n%d\n%s\n%s\n", f.Version, f.Crawl, f.Nodes, f.Owners, f.Secret)
	if f.Moves != 0 {
		text += fmt.Sprintf("%d\n", f.Moves)
	}
	for _, node := range f.Departed {
		text += fmt.Sprintf("departed %d\n", node)
	}
	for _, d := range f.Divided {
		text += fmt.Sprintf("divided %s %d %s\n", d.PLD, d.Slot, d.Nodes)
	}
	return fmt.Sprintf("%016x", xxhash.Sum64String(text))
}

// NewFile makes the file of a new cluster, with a secret of its own.
func NewFile(weights []float64) (*File, error) {
	t, err := NewTable(weights)
	if err != nil {
		return nil, err
	}
	id, err := weburl.NewSecret()
	if err != nil {
		return nil, err
	}
	secret, err := weburl.NewSecret()
	if err != nil {
		return nil, err
	}
	return &File{Crawl: id.Hex(), Secret: secret, Table: t}, nil
}

// Encode returns the content of the file.
func (f *File) Encode() ([]byte, error) {
	form := fileForm{Version: fileVersion, Crawl: f.Crawl, Nodes: f.Table.Nodes(),
		Owners: base64.StdEncoding.EncodeToString(f.Table.appendOwners(nil)), Moves: f.Table.moves,
		Departed: f.Table.Departed(), Divided: f.Table.divisionForms(), Secret: f.Secret.Hex()}
	form.Sum = form.sum()
	data, err := json.MarshalIndent(form, "", "\t")
	return append(data, '\n'), err
}

// ErrFile means that bytes are not the file of a cluster. It comes wrapped.
var ErrFile = errors.New("not a cluster file")

// DecodeFile decodes the content of the file.
func DecodeFile(data []byte) (*File, error) {
	var form fileForm
	if err := json.Unmarshal(data, &form); err != nil {
		return nil, fmt.Errorf("cluster: %w: %w", ErrFile, err)
	}
	switch {
	case form.Version != fileVersion:
		return nil, fmt.Errorf("cluster: %w: version %d, want %d", ErrFile, form.Version, fileVersion)
	case form.Sum != form.sum():
		return nil, fmt.Errorf("cluster: %w: its checksum is wrong", ErrFile)
	}
	owners, err := base64.StdEncoding.DecodeString(form.Owners)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w: %w", ErrFile, err)
	}
	f := &File{Crawl: form.Crawl}
	if f.Table, err = ParseTable(form.Nodes, owners); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if form.Moves < 0 {
		return nil, fmt.Errorf("cluster: %w: %d moves", ErrFile, form.Moves)
	}
	f.Table.moves = form.Moves
	if err := f.Table.setDivisions(form.Divided); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if err := f.Table.depart(form.Departed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if f.Secret, err = weburl.ParseSecret(form.Secret); err != nil {
		return nil, fmt.Errorf("cluster: %w: its secret is invalid", ErrFile)
	}
	if err := f.Table.CheckSlots(weburl.NewHasher(f.Secret)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if _, err := weburl.ParseSecret(f.Crawl); err != nil {
		return nil, fmt.Errorf("cluster: %w: crawl %.40q", ErrFile, f.Crawl)
	}
	return f, nil
}

// Key returns the number that identifies the crawl in messages.
func (f *File) Key() uint64 { return xxhash.Sum64String(f.Crawl) }
