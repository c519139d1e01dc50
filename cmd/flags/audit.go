package flags

import (
	"path/filepath"
	"strings"
)

// Audit holds the flags of the commands that read a stopped crawl.
type Audit struct {
	Out  []string `placeholder:"DIR"`
	RAM  Size     `name:"ram" placeholder:"SIZE" default:"256MiB"`
	Tmp  string   `placeholder:"DIR"`
	JSON bool     `name:"json"`
}

// Directories returns the values of --out without object stores, which the manifest names.
func Directories(outs []string) (dirs []string) {
	for _, out := range outs {
		if !strings.HasPrefix(out, "s3://") {
			dirs = append(dirs, out)
		}
	}
	return dirs
}

// Clean returns filepath.Clean of each path.
func Clean(paths []string) (out []string) {
	for _, p := range paths {
		out = append(out, filepath.Clean(p))
	}
	return out
}
