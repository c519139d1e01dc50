package crawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestManifestVersions: a manifest of another program version must be read, or refused with an error that
// says why.
func TestManifestVersions(t *testing.T) {
	body, err := json.Marshal(&state.Manifest{Gen: 7})
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		state.ManifestVersion: "",
		fmt.Sprintf("%d.%d", state.ManifestMajor, state.ManifestMinor-1): "", // of an older program
		fmt.Sprintf("%d.%d", state.ManifestMajor, state.ManifestMinor+1): "newer program",
		fmt.Sprintf("%d.0", state.ManifestMajor+1):                       "has format version",
		"1":                             "has format version",
		fmt.Sprint(state.ManifestMajor): "has format version",
		fmt.Sprintf("%d.0%d", state.ManifestMajor, state.ManifestMinor): "has format version",
		fmt.Sprintf("%d.-1", state.ManifestMajor):                       "has format version",
	} {
		data := append(fmt.Appendf(nil, "%s %s %d %016x\n", state.ManifestMagic, version, len(body), state.ManifestSum(version, body)), body...)
		m, err := state.DecodeManifest("d0/M", data)
		if want == "" {
			if err != nil || m.Gen != 7 {
				t.Errorf("%s: %v", version, err)
			}
		} else if !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "d0/M") {
			t.Errorf("%s: got %v, want %q", version, err, want)
		}
	}
}

// TestScopeIsATail: sites that redirects added to the scope must be in a tail file, 8 bytes each, and not
// in the manifest.
func TestScopeIsATail(t *testing.T) {
	mem := memfs.New(*seedFlag)
	set := disk.Set{FS: mem, Paths: []string{"d0"}}
	tails, err := disk.CreateTails(set, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := admit.NewSites(state.ScopeHost, func(b []byte) uint64 { return uint64(len(b)) << 40 }, []uint64{5, 1 << 63})
	s.Extend([]byte("a.test"), 0)
	want := []uint64{5, 6 << 40, 1 << 63}
	ref, err := tails.Write(0, admit.DumpKeys(s.Extensions()))
	if err = errors.Join(err, tails.Close()); err != nil || ref.Len != 24 {
		t.Fatalf("%+v, %v", ref, err)
	}
	if got, err := admit.ReadSites(set, ref); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := admit.ReadSites(set, disk.Ref{}); err != nil || len(got) > 0 {
		t.Errorf("no extensions: got %v, %v", got, err)
	}
	ref.Len--
	if _, err := admit.ReadSites(set, ref); err == nil {
		t.Error("a string of another length was accepted")
	}
}

// TestStructuresAreNamed: the table that opens structures must have exactly those that each manifest must
// have.
func TestStructuresAreNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		c := openCrawler(t, simOptions(t, web, memfs.New(*seedFlag)))
		var names []string
		for _, s := range c.checkpointer.structures {
			names = append(names, s.name)
		}
		if want := state.Structures[:]; !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", names, want)
		}
	})
}
