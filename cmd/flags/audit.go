package flags

import (
	"path/filepath"
	"strings"
)

// Audit holds the flags of the commands that read a stopped crawl.
type Audit struct {
	Out  []string `placeholder:"DIR" help:"Output directories, if the crawl has --out. Without this flag the output is not read."`
	RAM  Size     `name:"ram" placeholder:"SIZE" default:"256MiB" help:"RAM for sorting keys, in addition to what the crawl held in buffers at its last checkpoint."`
	Tmp  string   `placeholder:"DIR" help:"Sort keys that do not fit into --ram in DIR/audit-tmp, 13 bytes per URL, removed at the end. Default: the first directory."`
	JSON bool     `name:"json" help:"Print JSON."`
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
