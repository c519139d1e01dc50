package measure

import (
	"errors"
	"fmt"
	"os"
)

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
