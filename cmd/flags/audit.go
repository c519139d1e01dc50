package flags

import "path/filepath"

// Audit are those of the commands that read a stopped crawl.
type Audit struct {
	Out  []string `placeholder:"DIR" help:"Directories of the output, if the crawl has --out. Without them the output is left out."`
	RAM  Size     `name:"ram" placeholder:"SIZE" default:"256MiB" help:"RAM for sorting keys. What the crawl had in buffers at its last checkpoint comes on top."`
	Tmp  string   `placeholder:"DIR" help:"Where keys are sorted that don't fit into --ram, 13 bytes a URL, in a directory audit-tmp that is removed at the end. Default: the first directory."`
	JSON bool     `name:"json" help:"Print JSON."`
}

// Clean is filepath.Clean of each.
func Clean(paths []string) (out []string) {
	for _, p := range paths {
		out = append(out, filepath.Clean(p))
	}
	return out
}
