package polite

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// Coding of a Delay, little-endian:
//
//	offset size field  meaning
//	0      1    V      version, 1
//	1      1    kind   0 host, 1 IPv4 server, 2 IPv6 server
//	2      8    until  Unix time in ms, signed, rounded up
//	10     8    key    host: its key; IPv4: the address and four zero bytes; IPv6: the first half of the /64
const (
	delayVersion = 1
	// DelayBytes is the length of a coded Delay.
	DelayBytes = 18

	kindHost = 0
	kind4    = 1
	kind6    = 2
)

// Append appends the coding of d to dst. It rounds Until up to a millisecond.
func (d *Delay) Append(dst []byte) []byte {
	ms := d.Until.UnixMilli()
	if time.UnixMilli(ms).Before(d.Until) {
		ms++
	}
	kind, key := byte(kindHost), [8]byte{}
	switch {
	case !d.Server.IsValid():
		binary.LittleEndian.PutUint64(key[:], d.Host)
	case d.Server.Unmap().Is4():
		a := d.Server.Unmap().As4()
		kind = kind4
		copy(key[:], a[:])
	default:
		a := d.Server.As16()
		kind = kind6
		copy(key[:], a[:])
	}
	dst = append(dst, delayVersion, kind)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(ms))
	return append(dst, key[:]...)
}

// Decode decodes b, which must be the coding of exactly one Delay.
func (d *Delay) Decode(b []byte) error {
	if len(b) != DelayBytes {
		return fmt.Errorf("polite: decode delay: got %d bytes, want %d", len(b), DelayBytes)
	}
	if b[0] != delayVersion {
		return fmt.Errorf("polite: decode delay: got version %d, want %d", b[0], delayVersion)
	}
	got := Delay{Until: time.UnixMilli(int64(binary.LittleEndian.Uint64(b[2:])))}
	key := [8]byte(b[10:])
	switch b[1] {
	case kindHost:
		got.Host = binary.LittleEndian.Uint64(key[:])
	case kind4:
		if [4]byte(key[4:]) != [4]byte{} {
			return fmt.Errorf("polite: decode delay: bytes after an IPv4 address: %x", key)
		}
		got.Server = netip.AddrFrom4([4]byte(key[:]))
	case kind6:
		var a [16]byte
		copy(a[:], key[:])
		got.Server = netip.AddrFrom16(a)
	default:
		return fmt.Errorf("polite: decode delay: unknown kind %d", b[1])
	}
	*d = got
	return nil
}
