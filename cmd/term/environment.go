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

// ownVariables set no flag: tests and scripts of this repository use them.
var ownVariables = [...]string{"DRUMBEAT_FUZZ", "DRUMBEAT_LONG", ChildMode, "DRUMBEAT_LIMIT_CHILD",
	"DRUMBEAT_CRAWL_TEST_CHILD"}

// ChildMode is the variable that makes a test binary run as the command.
const ChildMode = "DRUMBEAT_TEST_CHILD"

// CheckEnvironment refuses a variable that sets no flag, so a misspelt variable is an error like a misspelt
// flag. moved says where the flag of a variable is today, "" for one that never was.
func CheckEnvironment(parser *kong.Kong, moved func(name string) string) error {
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
		if !strings.HasPrefix(name, environmentPrefix) || slices.Contains(names, name) ||
			slices.Contains(ownVariables[:], name) {
			continue
		}
		if to := moved(name); to != "" {
			return fmt.Errorf("environment: %s: %s", name, to)
		}
		text := fmt.Sprintf("environment: %s sets no flag", name)
		if like := Nearest(name, names); like != "" {
			text += ", did you mean " + like + "?"
		}
		return fmt.Errorf("%s", text)
	}
	return nil
}

// SetVariable returns the first of names that the environment sets; "" if none.
func SetVariable(names []string) string {
	for _, name := range names {
		if _, ok := os.LookupEnv(name); ok {
			return name
		}
	}
	return ""
}

// maxMisspelt is the largest number of differing letters in a suggestion.
const maxMisspelt = 3

// Nearest returns the name with the fewest differences; "" if all have more than maxMisspelt, or half of the
// letters.
func Nearest(name string, names []string) (best string) {
	least := min(maxMisspelt, len(name)/2) + 1
	for _, n := range names {
		if d := differences(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// differences returns the Levenshtein distance of two names.
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
