package scope

import (
	"crypto/sha256"
	"hash/maphash"
)

// names is a hash table from a name to the first rule with it. It uses open addressing, 8 bytes a slot, at
// most 3/4 full. The names are stored with the rules. The seed is random, so that no list of names can
// force collisions.
type names struct {
	seed  maphash.Seed
	slots []slot // length is a power of 2
	used  int
}

// slot is a slot of the table. rule is the rule's number plus one; 0: the slot is free.
type slot struct{ hash, rule uint32 }

// add adds the name of rule n, unless an earlier rule has it.
func (t *names) add(s *Set, n Number) {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.grow()
	}
	name := s.name(n)
	hash := t.hash(name)
	if at := t.find(s, hash, name); t.slots[at].rule == 0 {
		t.slots[at] = slot{hash, uint32(n) + 1}
		t.used++
	}
}

func (t *names) grow() {
	if len(t.slots) == 0 {
		t.seed = maphash.MakeSeed()
	}
	old := t.slots
	t.slots = make([]slot, max(8, 2*len(old)))
	for _, e := range old {
		if e.rule == 0 {
			continue
		}
		i := int(e.hash) & (len(t.slots) - 1)
		for t.slots[i].rule != 0 {
			i = (i + 1) & (len(t.slots) - 1)
		}
		t.slots[i] = e
	}
}

func (t *names) hash(name []byte) uint32 { return uint32(maphash.Bytes(t.seed, name)) }

// find returns the index of a name's slot, or of the free slot for it.
func (t *names) find(s *Set, hash uint32, name []byte) int {
	mask := len(t.slots) - 1
	i := int(hash) & mask
	for t.slots[i].rule != 0 && (t.slots[i].hash != hash || string(s.name(Number(t.slots[i].rule-1))) != string(name)) {
		i = (i + 1) & mask
	}
	return i
}

// get returns the rule of a name, or None.
func (t *names) get(s *Set, name []byte) Number {
	if t.used == 0 {
		return None
	}
	return Number(t.slots[t.find(s, t.hash(name), name)].rule - 1) // None if the slot is free
}

// digest returns the first rule with the digest of a name, or None.
func (t *names) digest(s *Set, name []byte) Number {
	if len(name) == 0 {
		return None
	}
	var space [len(digestPrefix) + 2*sha256.Size]byte
	return t.get(s, appendDigest(space[:0], name))
}
