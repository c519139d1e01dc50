package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// The manifest is one file in the first directory, replaced atomically, with copies in others (copies.go). It names all that belongs to the crawl as of one
// checkpoint; docs/FORMATS.md has its layout. Text, since an operator at three in the morning wants to read it.
//
// Its version is major.minor. A manifest of another major is refused, and so is a larger minor: this program would misread it.
// Raise manifestMajor when what older files hold is coded anew: a record, a field. Reasons, places and counters that are appended
// raise the minor by themselves; raise manifestAdded for anything else that an older program may not ignore.
const (
	ManifestName  = "state/MANIFEST"
	ManifestMagic = "drumbeat-manifest"
	ManifestMajor = 2
	manifestAdded = 0
	ManifestMinor = manifestAdded + int(NumPlaces) + int(NumReasons) + int(NumCounters)
)

// ManifestVersion is the version of the manifests that this program writes.
var ManifestVersion = fmt.Sprintf("%d.%d", ManifestMajor, ManifestMinor)

// Manifest is the body of the file, JSON.
type Manifest struct {
	Gen    uint64   `json:"gen"`           // counts checkpoints from 1
	Crawl  string   `json:"crawl"`         // identity of the crawl
	Time   int64    `json:"time"`          // unix seconds
	Clean  bool     `json:"clean"`         // written at an orderly stop: nothing was in flight
	Done   string   `json:"done"`          // why the crawl is over; "" while it is not
	Frozen Frozen   `json:"frozen"`        // what may not change between runs
	Active int64    `json:"active"`        // ms that fetching has run, over all runs
	Runs   int      `json:"runs"`          // starts of the program
	Run    *LastRun `json:"run,omitempty"` // options of the last run, for explain

	Accounts Accounts                   `json:"accounts"`
	Seeds    Seeds                      `json:"seeds"`
	Held     Held                       `json:"held"`
	Parts    map[string]json.RawMessage `json:"parts"`    // state of each structure, by name
	RAM      disk.Ref                   `json:"ram"`      // URL records in RAM: uvarint length, record
	Jobs     disk.Ref                   `json:"jobs"`     // robots requests in RAM, coded alike
	Delays   disk.Ref                   `json:"delays"`   // hosts and servers that rest for long
	Hosts    disk.Ref                   `json:"hosts"`    // health of hosts in trouble
	Sketches disk.Ref                   `json:"sketches"` // distinct hosts and servers
	Scope    disk.Ref                   `json:"scope"`    // sites that redirects of seeds added to the scope
}

// Frozen are the values that a crawl can't change once it has begun.
type Frozen struct {
	SecretCheck uint64 `json:"secret_check"` // keyed hash of a constant
	Suffixes    string `json:"suffixes"`     // digest of the public suffix list
	Private     bool   `json:"private"`
	SeparateOut bool   `json:"separate_out"`
	KeepEscapes bool   `json:"keep_escapes"`
}

// EncodeManifest returns the file: "drumbeat-manifest <version> <length> <xxhash64 hex>\n" and the JSON body.
func EncodeManifest(m *Manifest) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("crawl: encode manifest: %w", err)
	}
	head := fmt.Sprintf("%s %s %d %016x\n", ManifestMagic, ManifestVersion, len(body), ManifestSum(ManifestVersion, body))
	return append([]byte(head), body...), nil
}

// ManifestSum is the checksum of a manifest. It covers the version: a smaller minor is read, but with less in it.
func ManifestSum(version string, body []byte) uint64 {
	d := xxhash.New()
	_, _ = d.WriteString(version + "\n") // a Digest returns no error
	_, _ = d.Write(body)
	return d.Sum64()
}

// DecodeManifest is its inverse. Damage is a *disk.CorruptError naming path.
func DecodeManifest(path string, data []byte) (*Manifest, error) {
	corrupt := func(off int64, want, got string) error {
		return &disk.CorruptError{Path: path, Offset: off, Want: want, Got: got}
	}
	head, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, corrupt(0, "a header line", "none")
	}
	fields := strings.Split(string(head), " ") // no other white space: any byte that changed is damage
	if len(fields) != 4 || fields[0] != ManifestMagic {
		return nil, corrupt(0, ManifestMagic, string(head[:min(len(head), 40)]))
	}
	if err := checkVersion(path, fields[1]); err != nil {
		return nil, err
	}
	if fields[2] != strconv.Itoa(len(body)) {
		return nil, corrupt(int64(len(head)), fields[2]+" bytes", strconv.Itoa(len(body))+" bytes")
	}
	if sum := fmt.Sprintf("%016x", ManifestSum(fields[1], body)); sum != fields[3] {
		return nil, corrupt(int64(len(head))+1, fields[3], sum)
	}
	var m Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("crawl: manifest %s: %w", path, err)
	}
	return &m, nil
}

// checkVersion refuses the manifests that this program would misread.
func checkVersion(path, version string) error {
	major, minor, _ := strings.Cut(version, ".")
	n, err := strconv.ParseUint(minor, 10, 31)
	if major != strconv.Itoa(ManifestMajor) || err != nil || strconv.FormatUint(n, 10) != minor {
		return fmt.Errorf("crawl: manifest %s has format version %s, this program reads %s: %w", path, version, ManifestVersion,
			ErrIncompatible)
	}
	if n > uint64(ManifestMinor) {
		return fmt.Errorf("crawl: manifest %s was written by a newer program (format version %s, this program knows %s): use that program: %w",
			path, version, ManifestVersion, ErrIncompatible)
	}
	return nil
}

// Whole is an error when the manifest has no state of a structure that every crawl has: it would begin anew, empty.
func (m *Manifest) Whole() error {
	for _, name := range Structures {
		if len(m.Parts[name]) == 0 {
			return fmt.Errorf("crawl: manifest has no state of %s: %w", name, ErrIncompatible)
		}
	}
	return nil
}

// Part decodes the state of one structure; nil when the manifest has none.
func Part[S any](m *Manifest, name string) (*S, error) {
	if m == nil {
		return nil, nil
	}
	raw, ok := m.Parts[name]
	if !ok {
		return nil, nil
	}
	s := new(S)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("crawl: manifest: state of %s: %w", name, err)
	}
	return s, nil
}
