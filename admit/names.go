package admit

import (
	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Names are the names of hosts and PLDs that a page's links bring to the store of names.
type Names struct {
	text   []byte
	Tuples []drum.Tuple
}

// Reset clears the names. It keeps buffers of ordinary size for the next page.
func (l *Names) Reset() {
	if cap(l.text) > keepLinkBytes || cap(l.Tuples) > keepLinks {
		*l = Names{}
	}
	l.text, l.Tuples = l.text[:0], l.Tuples[:0]
}

func (l *Names) add(key uint64, pldBytes int, text []byte) {
	from := len(l.text) // if text grows, earlier values keep the old array
	l.text = state.AppendName(l.text, pldBytes, text)
	value := l.text[from:len(l.text):len(l.text)]
	l.Tuples = append(l.Tuples, drum.Tuple{Key: drum.Key(key), Op: drum.CheckUpdate, Value: value})
}

// nameHost adds the names of a site's host and PLD, once a page.
func (b *Batch) nameHost(s *Site) {
	b.namePLD(s)
	if !s.hostNamed {
		s.hostNamed = true
		host := weburl.TrimDot(s.host()) // as in Saved.HostKey
		b.Names.add(b.p.Hasher.HostKey(host), s.pldBytes, host)
	}
}

// pldName returns the name of a site's PLD.
func (s *Site) pldName() []byte {
	host := weburl.TrimDot(s.host())
	return host[len(host)-s.pldBytes:]
}

// namePLD adds the name of a site's PLD, once a page.
func (b *Batch) namePLD(s *Site) {
	if !s.pldNamed {
		s.pldNamed = true
		b.Names.add(s.pld, 0, s.pldName())
	}
}
