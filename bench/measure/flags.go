package measure

import (
	"errors"
	"fmt"
	"os"
)

// Default sets an option that has its zero value to value.
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

// Quick returns lower in a quick run, otherwise usual.
func Quick[T any](quick bool, lower, usual T) T {
	if quick {
		return lower
	}
	return usual
}

// Faults collects the faults of a benchmark's options: need adds a fault unless ok; joined returns all faults
// behind the name of the command.
func Faults(bench string) (need func(ok bool, format string, args ...any), joined func() error) {
	var faults []error
	need = func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	return need, func() error {
		if faults == nil {
			return nil
		}
		return fmt.Errorf("bench %s: %w", bench, errors.Join(faults...))
	}
}

// Self returns the command line of another command of this program.
func Self(args ...string) ([]string, error) {
	program, err := os.Executable()
	return append([]string{program}, args...), err
}
