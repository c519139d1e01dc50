package term

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// environmentPrefix begins the name of each variable that sets a flag.
const environmentPrefix = "DRUMBEAT_"

// ownVariables set no flag: they are for the tests and the tools of this repository.
var ownVariables = [...]string{"DRUMBEAT_FUZZ", "DRUMBEAT_LONG", ChildMode, "DRUMBEAT_LIMIT_CHILD", "DRUMBEAT_CRAWL_TEST_CHILD"}

// ChildMode in the environment makes the test binary be the command.
const ChildMode = "DRUMBEAT_TEST_CHILD"

// CheckEnvironment refuses a variable that sets no flag: a misspelt --host-delay is an error, so its variable is, too.
func CheckEnvironment(parser *kong.Kong) error {
	var names []string
	for _, command := range parser.Model.Children {
		for _, node := range append([]*kong.Node{command}, command.Children...) {
			for _, flag := range node.Flags {
				names = append(names, flag.Envs...)
			}
		}
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, environmentPrefix) || slices.Contains(names, name) || slices.Contains(ownVariables[:], name) {
			continue
		}
		text := fmt.Sprintf("environment: %s sets no flag", name)
		if like := nearest(name, names); like != "" {
			text += ", did you mean " + like + "?"
		}
		return fmt.Errorf("%s", text)
	}
	return nil
}

// maxMisspelt is how many letters may differ in what is suggested.
const maxMisspelt = 3

// nearest is the name with the fewest differences, "" if none is near.
func nearest(name string, names []string) (best string) {
	least := maxMisspelt + 1
	for _, n := range names {
		if d := differences(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// differences is the number of letters to be added, left out or exchanged (Levenshtein).
func differences(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}
