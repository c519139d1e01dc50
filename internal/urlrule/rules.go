package urlrule

import (
	"errors"
	"fmt"
)

// Options of Rules. The zero value has no rules.
type Options struct {
	// StripParams are the names of parameters to remove, in the form of ParseParams.
	StripParams []string
	// SortQuery sorts the parameters of the query by name; parameters with the same name keep their order.
	SortQuery bool
	// CollapseSlashes replaces runs of slashes in the path by one slash.
	CollapseSlashes bool
	// SkipExtensions are extensions in lower case without dots, in the form of ParseExtensions.
	SkipExtensions []string
	// MaxPathDepth is the maximum number of path segments; 0: no limit.
	MaxPathDepth int
	// MaxRepeats is the maximum number of times that a path may have the same segment; 0: no limit.
	MaxRepeats int
	// MaxParams is the maximum number of query parameters; 0: no limit.
	MaxParams int
}

// Rules are compiled Options. The zero value has no rules. Immutable, safe for concurrent use.
type Rules struct {
	params         []param
	sort, collapse bool

	extensions           []uint64 // open addressing, length a power of two; 0 is a free slot
	shift                uint8    // from a hash to a slot
	depth, repeats, most int      // most: number of parameters
	judges               bool
}

// param matches parameters by name.
type param struct {
	name   string // in lower case
	prefix bool   // matches every name that starts with it
	token  bool   // matches only values that look like a session token
}

// New returns the compiled rules, or all errors of the options joined.
func New(opt Options) (*Rules, error) {
	r := &Rules{sort: opt.SortQuery, collapse: opt.CollapseSlashes,
		depth: opt.MaxPathDepth, repeats: opt.MaxRepeats, most: opt.MaxParams}
	var faults []error
	for _, n := range []struct {
		name string
		v    int
	}{{"path depth", opt.MaxPathDepth}, {"repeats", opt.MaxRepeats}, {"parameters", opt.MaxParams}} {
		if n.v < 0 {
			faults = append(faults, fmt.Errorf("urlrule: negative number of %s: %d", n.name, n.v))
		}
	}
	for _, name := range opt.StripParams {
		switch {
		case name == "session":
			r.params = append(r.params, sessionParams()...)
		case name == "tracking":
			r.params = append(r.params, trackingParams()...)
		case name == "":
			faults = append(faults, errors.New("urlrule: parameter without a name"))
		case name[len(name)-1] == '*':
			r.params = append(r.params, param{name: name[:len(name)-1], prefix: true})
		default:
			r.params = append(r.params, param{name: name})
		}
	}
	if n := len(opt.SkipExtensions); n > 0 {
		bits := uint8(3)
		for 1<<bits < 4*n {
			bits++
		}
		r.extensions, r.shift = make([]uint64, 1<<bits), 64-bits
		for _, name := range opt.SkipExtensions {
			x := pack(name)
			if x == 0 {
				faults = append(faults,
					fmt.Errorf("urlrule: extension %q: want 1 to %d letters and digits", name, maxExtensionBytes))
				continue
			}
			i := x * hashFactor >> r.shift
			for r.extensions[i] != 0 && r.extensions[i] != x {
				i = (i + 1) % uint64(len(r.extensions))
			}
			r.extensions[i] = x
		}
	}
	r.judges = len(r.extensions) > 0 || r.depth > 0 || r.repeats > 0 || r.most > 0
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return r, nil
}

// hashFactor spreads packed extensions: 2⁶⁴ divided by the golden ratio.
const hashFactor = 0x9E3779B97F4A7C15

// pack returns an extension in lower case as a number; 0 if it isn't 1 to 8 letters and digits.
func pack(name string) (x uint64) {
	if len(name) > maxExtensionBytes {
		return 0
	}
	for i := len(name) - 1; i >= 0; i-- {
		c := letterOrDigit[name[i]]
		if c == 0 {
			return 0
		}
		x = x<<8 | uint64(c)
	}
	return x
}

// letterOrDigit maps a letter to lower case, a digit to itself, and any other byte to 0. Read-only.
var letterOrDigit = func() (to [256]byte) {
	for c := byte('0'); c <= '9'; c++ {
		to[c] = c
	}
	for c := byte('a'); c <= 'z'; c++ {
		to[c], to[c-'a'+'A'] = c, c
	}
	return to
}()
