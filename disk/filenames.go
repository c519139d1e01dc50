package disk

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	stateDirName     = "state"
	tailsPrefix      = "tails-"
	identityFileName = "drumbeat-dir.json"
	lockFileName     = "drumbeat.lock"
	tempSuffix       = ".tmp"
)

// tailsName returns the name of generation gen's tail file inside the state directory.
func tailsName(gen uint64) string { return fmt.Sprintf("%s%010d", tailsPrefix, gen) }

// parseTailsName is the inverse of tailsName. ok is false for any other name.
func parseTailsName(name string) (gen uint64, ok bool) {
	digits, found := strings.CutPrefix(name, tailsPrefix)
	if !found {
		return 0, false
	}
	gen, err := strconv.ParseUint(digits, 10, 64)
	return gen, err == nil && tailsName(gen) == name
}

// TailPath returns the path of generation gen's tail file in directory dir.
func TailPath(set Set, dir int, gen uint64) string {
	return set.Path(dir, stateDirName, tailsName(gen))
}

// LockPath returns the path of a directory's lock file.
func LockPath(dir string) string { return Set{Paths: []string{dir}}.Path(0, lockFileName) }
