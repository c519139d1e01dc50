package admit

import (
	"bytes"
	"fmt"

	"drumbeat/cluster"
	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Inlet turns the records of a message of another node into tuples for URLseen, edges for STAR and names. The
// sender has judged the links by its rules. Inlet checks that this node owns them and that they are what a crawl
// writes. One goroutine uses it. It implements cluster.Sink.
type Inlet struct {
	p      *Policy
	Tuples []drum.Tuple
	Text   int64 // bytes of the records of Tuples
	Edges  []star.Edge
	Names  Names
	Scopes []uint64 // keys of sites to add to the scope
	Lent   int64    // pages that this node may fetch instead of the sender
	// Onward are links and edges to PLDs that this node does not own: their senders have another table of owners.
	Onward Onward
	// Handed are the records of URLs that their senders found new, and whose hosts this node visits, or another one by
	// its table. They are valid until Reset.
	Handed [][]byte
	// Walkers are those of a random walk that come here. They are valid until Reset.
	Walkers []cluster.Walker
	// Parts are those of slots that move here, in order. They are valid until Reset.
	Parts []MovedPart
	// Arriving are slots that move here: this node has what their giver knows of them, and takes links to them. The
	// owner sets it; Reset keeps it.
	Arriving state.Slots

	rec   weburl.Record
	last  []byte // host of the last link, which is often that of the next one
	pld   uint64 // key of its PLD
	named map[uint64]struct{}
}

// Onward are records for other nodes.
type Onward struct {
	Links []OnwardLink
	Edges []OnwardEdge
}

// OnwardLink is a link for another node.
type OnwardLink struct {
	Node   int
	Key    uint64
	Record []byte
}

// OnwardEdge is an edge for another node.
type OnwardEdge struct {
	Node     int
	From, To []byte
}

// MovedPart is a part of the state of a slot that moves here.
type MovedPart struct {
	Kind cluster.MovedKind
	Data []byte
}

// NewInlet returns an empty inlet.
func NewInlet(p *Policy) *Inlet { return &Inlet{p: p, named: map[uint64]struct{}{}} }

// Reset prepares for the next message.
func (in *Inlet) Reset() {
	in.Tuples, in.Edges, in.Scopes, in.Text, in.last, in.Lent = in.Tuples[:0], in.Edges[:0], in.Scopes[:0], 0, nil, 0
	in.Onward.Links, in.Onward.Edges, in.Parts = in.Onward.Links[:0], in.Onward.Edges[:0], in.Parts[:0]
	in.Walkers, in.Handed = in.Walkers[:0], in.Handed[:0]
	in.Names.Reset()
	clear(in.named)
}

// Moved takes a part of the state of a slot that moves here. It keeps rec until Reset.
func (in *Inlet) Moved(kind cluster.MovedKind, rec []byte) error {
	in.Parts = append(in.Parts, MovedPart{kind, rec})
	return nil
}

// Walker takes a walker of a random walk. If the table has changed since it left, it jumps.
func (in *Inlet) Walker(w *cluster.Walker) error {
	if !in.p.Walks {
		return fmt.Errorf("crawl: %w: a walker, but this crawl is no random walk", cluster.ErrMessage)
	}
	walker := *w
	if len(w.URL) > 0 {
		if len(weburl.Split(w.URL).Host) == 0 {
			return fmt.Errorf("crawl: %w: a walker to a URL without a host: %.80q", cluster.ErrMessage, w.URL)
		}
		if node, ok := in.p.Elsewhere(w.URL); ok && in.p.Table.Moves() == 0 {
			return fmt.Errorf("crawl: %w: a walker to %.80q, which belongs to node %d", cluster.ErrMessage, w.URL, node)
		} else if ok {
			walker.URL = nil
		}
	}
	in.Walkers = append(in.Walkers, walker)
	return nil
}

// Link takes a record of URLseen. It keeps record until Reset.
func (in *Inlet) Link(record []byte) (key uint64, err error) {
	if err := in.rec.Decode(record); err != nil {
		return 0, fmt.Errorf("crawl: %w: %w", cluster.ErrMessage, err)
	}
	url := in.rec.URL
	host := weburl.Split(url).Host
	if len(host) == 0 {
		return 0, fmt.Errorf("crawl: %w: a URL without a host: %.80q", cluster.ErrMessage, url)
	}
	if !bytes.Equal(host, in.last) {
		pld := in.p.Suffixes.PLDBytes(host)
		pldKey := in.p.Hasher.PLDKey(pld)
		if node := in.p.owner(pldKey); node != in.p.Node && !in.Arriving.HasPLD(pldKey) {
			key := in.p.Hasher.URLKeyOf(url, pldKey)
			in.Onward.Links = append(in.Onward.Links, OnwardLink{node, key, record})
			return key, nil
		}
		in.last, in.pld = host, pldKey
		in.nameHost(host, pld, pldKey)
	}
	key = in.p.Hasher.URLKeyOf(url, in.pld)
	in.Tuples = append(in.Tuples, drum.Tuple{Key: drum.Key(key), Op: drum.CheckUpdate, Aux: record})
	in.Text += int64(len(record))
	return key, nil
}

// Checked takes a URL that the sender found new. It keeps record until Reset.
func (in *Inlet) Checked(record []byte) (key uint64, err error) {
	if err := in.rec.Decode(record); err != nil {
		return 0, fmt.Errorf("crawl: %w: %w", cluster.ErrMessage, err)
	}
	host := weburl.Split(in.rec.URL).Host
	if len(host) == 0 {
		return 0, fmt.Errorf("crawl: %w: a URL without a host: %.80q", cluster.ErrMessage, in.rec.URL)
	}
	pld := in.p.Suffixes.PLDBytes(host)
	pldKey := in.p.Hasher.PLDKey(pld)
	in.nameHost(host, pld, pldKey)
	in.Handed = append(in.Handed, record)
	return in.p.Hasher.URLKeyOf(in.rec.URL, pldKey), nil
}

// nameHost names a host and its PLD.
func (in *Inlet) nameHost(host, pld []byte, pldKey uint64) {
	name := weburl.TrimDot(host) // as in Saved.HostKey
	in.namePLD(pldKey, name[len(name)-len(pld):])
	if key := in.p.Hasher.HostKey(name); in.first(key) {
		in.Names.add(key, len(pld), name)
	}
}

// Edge takes an edge between two PLDs.
func (in *Inlet) Edge(from, to []byte) error {
	e := star.Edge{From: in.p.Hasher.PLDKey(from), To: in.p.Hasher.PLDKey(to)}
	node := in.p.owner(e.To)
	if parts := in.p.partsOf(to); in.Arriving.HasPLD(e.To) || parts != nil && parts.Share(in.p.Node) > 0 {
		node = in.p.Node
	}
	if node != in.p.Node {
		in.Onward.Edges = append(in.Onward.Edges, OnwardEdge{node, from, to})
		return nil
	}
	if len(from) > state.MaxNameBytes-1 || len(to) > state.MaxNameBytes-1 {
		return fmt.Errorf("crawl: %w: a PLD of %d bytes", cluster.ErrMessage, max(len(from), len(to)))
	}
	in.namePLD(e.From, from)
	in.namePLD(e.To, to)
	in.Edges = append(in.Edges, e)
	return nil
}

// Scope takes the key of a site.
func (in *Inlet) Scope(key uint64) error {
	in.Scopes = append(in.Scopes, key)
	return nil
}

// Pages takes a number of pages.
func (in *Inlet) Pages(n int64) error {
	if in.Lent+n < 0 {
		return fmt.Errorf("crawl: %w: too many pages", cluster.ErrMessage)
	}
	in.Lent += n
	return nil
}

func (in *Inlet) namePLD(key uint64, name []byte) {
	if in.first(key) {
		in.Names.add(key, 0, name)
	}
}

// first reports whether a key is new in this message.
func (in *Inlet) first(key uint64) bool {
	_, known := in.named[key]
	in.named[key] = struct{}{}
	return !known
}
