package measure

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Count is a whole number of a flag, which may be written 1e6 or 20_000.
type Count int64

// UnmarshalText reads a number.
func (c *Count) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(strings.ReplaceAll(string(text), "_", ""), 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f >= 1<<53 {
		return fmt.Errorf("%q is no number such as 1e6 or 20_000", text)
	}
	*c = Count(f)
	return nil
}

// Size is a number of bytes of a flag.
type Size int64

// UnmarshalText reads a number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is no size such as 256MiB or 8GB", text)
	}
	*s = Size(n)
	return nil
}

// Default is the value of an option that wasn't given.
func Default[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}

// DefaultList is Default for a list.
func DefaultList[T any](option *[]T, values []T) {
	if len(*option) == 0 {
		*option = values
	}
}

// Quick is the value of a default that a quick run lowers.
func Quick[T any](quick bool, lower, usual T) T {
	if quick {
		return lower
	}
	return usual
}

// Faults collects what is wrong with a benchmark's options: need adds a fault unless ok, and joined are all
// of them.
func Faults(bench string) (need func(ok bool, format string, args ...any), joined func() error) {
	var faults []error
	need = func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("bench: "+bench+": "+format, args...))
		}
	}
	return need, func() error { return errors.Join(faults...) }
}

// Self is the command line of another command of this program.
func Self(args ...string) ([]string, error) {
	program, err := os.Executable()
	return append([]string{program}, args...), err
}
