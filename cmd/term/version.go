package term

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// release is the tag of a release, such as v0.2.0. The linker sets it (scripts/release.sh); "" in other builds.
var release string

// unreleased is the version of other builds: the next release is 0.1.0.
const unreleased = "0.1.0-devel"

// Version returns the version: the tag of a release without its v. It is the same on the command line, in User-Agent,
// in WARC files, on the dashboard and in reports.
func Version() string { return cmp.Or(strings.TrimPrefix(release, "v"), unreleased) }

// Build says of what this program was built.
type Build struct {
	Version string `json:"version"`
	// Commit is that of the repository in which it was built; "" if the build does not know.
	Commit string `json:"commit,omitempty"`
	// Modified says that files differed from the commit.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// ThisBuild returns the build of this program.
func ThisBuild() Build {
	b := Build{Version: Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	return b
}

// shownCommit is the number of digits of a commit that a person reads.
const shownCommit = 12

// String returns the version, the commit and the platform on one line.
func (b Build) String() string {
	commit := ""
	if b.Commit != "" {
		commit = "commit " + b.Commit[:min(shownCommit, len(b.Commit))] + ", "
		if b.Modified {
			commit = "modified " + commit
		}
	}
	return fmt.Sprintf("%s (%s%s, %s/%s)", b.Version, commit, b.Go, b.OS, b.Arch)
}
