package simweb

import (
	"bytes"
	"strconv"
)

// painter builds responses. Each connection has one and reuses its buffers.
type painter struct {
	w       *Web
	body    []byte
	ref     []byte // the current reference
	path    []byte
	scratch []byte
	links   []node
	ans     answer
}

// linkContext is the context of a link.
type linkContext struct {
	from node
	dir  []byte // directory of the base URL; begins and ends with "/"
}

// baseDir returns the directory of a path: everything up to the last slash before the query.
func baseDir(path []byte) []byte {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	return path[:bytes.LastIndexByte(path, '/')+1]
}

// reference writes to p.ref a reference that resolves to t from c by the WHATWG rules, in a form drawn from
// r. Duplicates have a fragment.
func (p *painter) reference(c *linkContext, t node, r *rng, duplicate bool) {
	l := &p.w.opt.Link
	from, to := &p.w.hosts[c.from.host], &p.w.hosts[t.host]
	p.path = p.w.appendPath(p.path[:0], t)
	if r.next()&1 == 0 {
		p.path = bytes.Replace(p.path, []byte("caf%C3%A9"), []byte("café"), 1)
	}
	sameHost := c.from.host == t.host && c.from.sub == t.sub
	odd, dots := r.unit() < l.Odd, r.unit() < l.DotSegments
	p.ref = p.ref[:0]
	u := r.unit()
	switch {
	case sameHost && u < l.Relative:
		p.relative(c, dots, odd, r)
	case sameHost && u < l.Relative+l.AbsolutePath:
		p.absolutePath(dots, odd, r)
	default:
		if v := r.unit(); v >= l.ProtocolRelative || from.scheme != to.scheme {
			p.ref = append(p.ref, to.scheme...)
			if r.unit() < l.UpperHost {
				upper(p.ref)
			}
			p.ref = append(p.ref, ':')
		}
		p.authority(t, odd, r)
		p.absolutePath(dots, odd, r)
	}
	if duplicate || r.unit() < l.Fragment {
		p.ref = append(p.ref, "#part-"...)
		p.ref = strconv.AppendUint(p.ref, r.next()%10, 10)
	}
	if odd && r.next()&1 == 0 {
		i := r.below(uint64(len(p.ref) + 1))
		p.ref = append(p.ref, 0)
		copy(p.ref[i+1:], p.ref[i:])
		p.ref[i] = "\n\t"[r.next()&1]
	}
}

// authority appends the slashes, the host and the port.
func (p *painter) authority(t node, odd bool, r *rng) {
	l := &p.w.opt.Link
	to := &p.w.hosts[t.host]
	slashes := "//"
	if odd && len(p.ref) > 0 {
		slashes = [...]string{"//", `\\`, `/\`, "///"}[r.next()%4]
	}
	p.ref = append(p.ref, slashes...)
	start := len(p.ref)
	if to.unicode != "" && r.next()&1 == 0 {
		p.ref = append(p.ref, to.unicode...)
	} else {
		p.ref = p.w.appendHost(p.ref, t)
	}
	if r.unit() < l.UpperHost {
		upper(p.ref[start:])
	}
	switch {
	case to.port == 8080:
		p.ref = append(p.ref, ":8080"...)
	case r.unit() < l.DefaultPort:
		p.ref = append(p.ref, ':')
		if odd {
			p.ref = append(p.ref, "00"...)
		}
		if odd || r.next()%3 != 0 {
			p.ref = strconv.AppendUint(p.ref, uint64(to.port), 10)
		}
	}
}

// absolutePath appends p.path.
func (p *painter) absolutePath(dots, odd bool, r *rng) {
	if dots {
		p.ref = append(p.ref, [...]string{"/.", "/x/..", "/x/y/../.."}[r.next()%3]...)
		if odd {
			p.ref = append(p.ref, "/%2e"...)
		}
	}
	start := len(p.ref)
	p.ref = append(p.ref, p.path...)
	if odd {
		slash := p.ref[start:]
		if i := bytes.IndexByte(slash, '?'); i >= 0 {
			slash = slash[:i]
		}
		if i := bytes.LastIndexByte(slash, '/'); i > 0 || start > 0 {
			slash[i] = '\\'
		}
	}
}

// relative appends p.path relative to the base directory.
func (p *painter) relative(c *linkContext, dots, odd bool, r *rng) {
	start := len(p.ref)
	if dots {
		p.ref = append(p.ref, "./"...)
	}
	if rest, ok := bytes.CutPrefix(p.path, c.dir); ok {
		p.ref = append(p.ref, rest...)
	} else {
		for range bytes.Count(c.dir, []byte("/")) - 1 {
			up := "../"
			if odd {
				up = [...]string{"../", `..\`, ".%2E/", "%2e%2e/"}[r.next()%4]
			}
			p.ref = append(p.ref, up...)
		}
		p.ref = append(p.ref, p.path[1:]...)
	}
	if len(p.ref) == start || p.ref[start] == '?' {
		// An empty reference means the document itself, and "?…" its path.
		p.ref = append(p.ref, "./"...)
		copy(p.ref[start+2:], p.ref[start:])
		copy(p.ref[start:], "./")
	}
}

func upper(b []byte) {
	for i, c := range b {
		if c >= 'a' && c <= 'z' && i%3 != 1 {
			b[i] = c - 'a' + 'A'
		}
	}
}

// attribute appends name="p.ref" to the body in one of HTML's spellings.
func (p *painter) attribute(name string, r *rng) {
	x := r.next()
	if x&7 == 0 {
		p.body = append(p.body, bytes.ToUpper([]byte(name))...)
	} else {
		p.body = append(p.body, name...)
	}
	quote := byte('"')
	switch x >> 3 & 15 {
	case 0, 1, 2:
		quote = '\''
	case 3:
		if !bytes.ContainsAny(p.ref, " \t\n\"'=<>`") {
			quote = 0
		}
	}
	if x>>7&15 == 0 {
		p.body = append(p.body, ' ')
	}
	p.body = append(p.body, '=')
	if x>>7&15 <= 1 {
		p.body = append(p.body, ' ')
	}
	pad := x>>11&31 == 0 && quote != 0
	if quote != 0 {
		p.body = append(p.body, quote)
	}
	if pad {
		p.body = append(p.body, " \n"...)
	}
	p.escaped(r.unit() < p.w.opt.Link.Entities, x>>16&7 == 0, r)
	if pad {
		p.body = append(p.body, ' ')
	}
	if quote != 0 {
		p.body = append(p.body, quote)
	}
}

// escaped appends p.ref with its ampersands escaped, or unescaped if bare is set and that is also valid. If
// many is set it uses more character references than necessary.
func (p *painter) escaped(many, bare bool, r *rng) {
	for _, c := range p.ref {
		switch {
		case many && c < 0x80 && r.next()&3 == 0:
			p.body = append(p.body, "&#"...)
			if r.next()&1 == 0 {
				p.body = append(p.body, 'x')
				p.body = strconv.AppendUint(p.body, uint64(c), 16)
			} else {
				p.body = strconv.AppendUint(p.body, uint64(c), 10)
			}
			p.body = append(p.body, ';')
		case c == '&' && !bare:
			p.body = append(p.body, "&amp;"...)
		default:
			p.body = append(p.body, c)
		}
	}
}
