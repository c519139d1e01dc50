package scope

import (
	"bytes"
	"slices"
	"sort"
)

// scheme is an index into prefix.best.
type scheme uint8

const (
	httpScheme scheme = iota
	httpsScheme
	numSchemes
)

// schemes is a bit set of schemes.
type schemes uint8

const bothSchemes schemes = 1<<httpScheme | 1<<httpsScheme

// prefix is a SURT prefix without scheme: "(org,example,)/docs/".
type prefix struct {
	key    []byte
	parent int32 // index of the longest other prefix of the key; -1: none
	// best is the smallest rule number of this prefix and its ancestors, by scheme.
	best [numSchemes]Number
}

// prefixes is a sorted list of prefixes. With fold, keys are in lower case and lookups ignore case.
type prefixes struct {
	fold bool
	list []prefix
}

// add adds the prefix of rule n; call finish after the last add.
func (t *prefixes) add(key []byte, in schemes, n Number) {
	p := prefix{key: key, parent: -1, best: [numSchemes]Number{None, None}}
	for s := range p.best {
		if in&(1<<s) != 0 {
			p.best[s] = n
		}
	}
	t.list = append(t.list, p)
}

// finish sorts the list and sets parent and best.
func (t *prefixes) finish() {
	slices.SortStableFunc(t.list, func(a, b prefix) int { return bytes.Compare(a.key, b.key) })
	out := t.list[:0]
	for _, p := range t.list {
		if n := len(out); n > 0 && bytes.Equal(out[n-1].key, p.key) {
			out[n-1].better(&p)
			continue
		}
		p.parent = int32(len(out)) - 1
		for p.parent >= 0 && !bytes.HasPrefix(p.key, out[p.parent].key) {
			p.parent = out[p.parent].parent
		}
		if p.parent >= 0 {
			p.better(&out[p.parent])
		}
		out = append(out, p)
	}
	clear(t.list[len(out):])
	t.list = slices.Clip(out)
}

// better takes over smaller rule numbers of another prefix.
func (p *prefix) better(o *prefix) {
	for s := range p.best {
		p.best[s] = min(p.best[s], o.best[s])
	}
}

// span is the range of prefixes that extend the authority of an origin, which has n bytes in SURT form.
type span struct{ lo, hi, n int32 }

// origin returns the span of an authority, and the smallest rule of the prefixes of the authority itself,
// or None.
func (t *prefixes) origin(authority []byte, s scheme) (span, Number) {
	if len(t.list) == 0 {
		return span{}, None
	}
	exact := prefixes{list: t.list} // canonical hosts are in lower case
	lo := exact.behind(span{0, int32(len(t.list)), 0}, authority)
	at := span{int32(lo), int32(lo), int32(len(authority))}
	if lo < len(t.list) && bytes.HasPrefix(t.list[lo].key, authority) {
		at.hi += int32(sort.Search(len(t.list)-lo, func(i int) bool {
			return !bytes.HasPrefix(t.list[lo+i].key, authority)
		}))
	}
	if found := t.longest(lo-1, 0, authority); found >= 0 {
		return at, t.list[found].best[s]
	}
	return at, None
}

// find returns the smallest rule in a span that is a prefix of the path, or None.
func (t *prefixes) find(at span, s scheme, path []byte) Number {
	if at.lo == at.hi {
		return None
	}
	last := t.behind(at, path) - 1
	if last < int(at.lo) {
		return None
	}
	if found := t.longest(last, int(at.n), path); found >= int(at.lo) {
		return t.list[found].best[s]
	}
	return None
}

// behind returns the first index in a span whose key, without its first n bytes, is greater than the text.
func (t *prefixes) behind(at span, text []byte) int {
	lo, hi := int(at.lo), int(at.hi)
	for lo < hi {
		mid := (lo + hi) / 2
		if t.compare(t.list[mid].key[at.n:], text) > 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// longest returns the index of the longest prefix of a text, -1 without one. It ignores the first n bytes
// of the keys. i is the last index whose key is not greater than the text: all prefixes of the text are
// this key or its ancestors.
func (t *prefixes) longest(i, n int, text []byte) int {
	if i < 0 {
		return -1
	}
	key := t.list[i].key[n:]
	same := 0
	for same < len(key) && same < len(text) && key[same] == t.lower(text[same]) {
		same++
	}
	for i >= 0 && len(t.list[i].key)-n > same {
		i = int(t.list[i].parent)
	}
	return i
}

func (t *prefixes) lower(c byte) byte {
	if t.fold && c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// compare is bytes.Compare of a key and a text, with the folding of t.
func (t *prefixes) compare(key, text []byte) int {
	if !t.fold {
		return bytes.Compare(key, text)
	}
	for i := 0; i < len(key) && i < len(text); i++ {
		if a, b := key[i], t.lower(text[i]); a != b {
			return int(a) - int(b)
		}
	}
	return len(key) - len(text)
}
