package admit

import (
	"bytes"

	"drumbeat/crawl/state"
	"drumbeat/drum"
)

// Names are the names that go with the links of a page.
type Names struct {
	text   []byte
	Tuples []drum.Tuple
}

// Reset forgets the names, and keeps buffers of ordinary size.
func (l *Names) Reset() {
	if cap(l.text) > keepLinkBytes || cap(l.Tuples) > keepLinks {
		*l = Names{}
	}
	l.text, l.Tuples = l.text[:0], l.Tuples[:0]
}

func (l *Names) add(key uint64, pldBytes int, text []byte) {
	from := len(l.text) // values made before stay valid where they are if this grows
	l.text = state.AppendName(l.text, pldBytes, text)
	l.Tuples = append(l.Tuples, drum.Tuple{Key: drum.Key(key), Op: drum.CheckUpdate, Value: l.text[from:len(l.text):len(l.text)]})
}

// nameHost notes the names of a site's host and PLD, once a page.
func (b *Batch) nameHost(s *Site) {
	b.namePLD(s)
	if !s.hostNamed {
		s.hostNamed = true
		host := bytes.TrimSuffix(s.host(), []byte(".")) // as hostKey does
		b.Names.add(b.p.Hasher.HostKey(host), s.pldBytes, host)
	}
}

// namePLD notes the name of a site's PLD, once a page.
func (b *Batch) namePLD(s *Site) {
	if !s.pldNamed {
		s.pldNamed = true
		host := bytes.TrimSuffix(s.host(), []byte("."))
		b.Names.add(s.pld, 0, host[len(host)-s.pldBytes:])
	}
}
