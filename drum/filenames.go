package drum

import (
	"fmt"
	"strings"
)

const stateDirName = "state"

// validName accepts a single path element of safe characters.
func validName(s string) bool {
	const ok = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return s != "" && strings.Trim(s, ok) == ""
}

// bucketName returns the name of the file of one stream of a bucket, or of the text log of a directory.
func bucketName(kind blockKind, bucket int, gen uint64) string {
	return fmt.Sprintf("%s-%07d-%010d", kind, bucket, gen)
}

// buffersName returns the name of a file with the content of buffers at checkpoints.
func buffersName(gen uint64) string { return fmt.Sprintf("buffers-%010d", gen) }

// cacheName returns the name of a file with parts of the cache.
func cacheName(gen uint64) string { return fmt.Sprintf("cache-%010d", gen) }

// uniqueName returns the name of a file with lists of numbers in the text logs.
func uniqueName(gen uint64) string { return fmt.Sprintf("unique-%010d", gen) }

// path returns the path of a file of the store in directory dir, or with name "" the store's directory there.
func (o *Options) path(dir int, name string) string {
	if name == "" {
		return o.Set.Path(dir, stateDirName, o.Name)
	}
	return o.Set.Path(dir, stateDirName, o.Name, name)
}

// partPath returns the path of a file of parts.
func (o *Options) partPath(kind string, dir int, gen uint64) string {
	if kind == uniqueKind {
		return o.path(dir, uniqueName(gen))
	}
	return o.path(dir, cacheName(gen))
}
