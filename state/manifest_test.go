package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestManifestVersions: a manifest of another program version must be read, or refused with an error that
// says why.
func TestManifestVersions(t *testing.T) {
	body, err := json.Marshal(&Manifest{Gen: 7})
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		ManifestVersion: "",
		fmt.Sprintf("%d.%d", manifestMajor, manifestMinor-1): "", // of an older program
		fmt.Sprintf("%d.%d", manifestMajor, manifestMinor+1): "newer program",
		fmt.Sprintf("%d.0", manifestMajor+1):                 "has format version",
		"1":                                                  "has format version",
		fmt.Sprint(manifestMajor):                            "has format version",
		fmt.Sprintf("%d.0%d", manifestMajor, manifestMinor):  "has format version",
		fmt.Sprintf("%d.-1", manifestMajor):                  "has format version",
	} {
		data := append(fmt.Appendf(nil, "%s %s %d %016x\n", ManifestMagic, version, len(body),
			ManifestSum(version, body)), body...)
		m, err := DecodeManifest("d0/M", data)
		if want == "" {
			if err != nil || m.Gen != 7 {
				t.Errorf("%s: %v", version, err)
			}
		} else if !errors.Is(err, ErrIncompatible) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "d0/M") {
			t.Errorf("%s: got %v, want %q", version, err, want)
		}
	}
}
