package term

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// release is the tag of a release, such as v0.2.0. The linker sets it (scripts/release.sh); "" in other builds.
var release string

// unreleased is the version in User-Agent and WARC files of other builds.
const unreleased = "0.1.0"

// Version returns the version in User-Agent and in WARC files, without the leading v of the tag.
func Version() string { return cmp.Or(strings.TrimPrefix(release, "v"), unreleased) }

// Build returns the tag of a release; for other builds the version of the module, or the commit of a build in
// the repository.
func Build() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
		}
	}
	return v
}
