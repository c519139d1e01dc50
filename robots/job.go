package robots

import "errors"

// Job is a request for an origin's robots.txt, its tdmrep.json, or only for its addresses.
type Job struct {
	Origin    []byte // scheme://host:port
	AddrsOnly bool
	Reserve   bool   // tdmrep.json
	Tries     uint8  // failed, unconfirmed exchanges or lookups for it, at most MaxTries
	Waits     uint8  // times it went to disk because its server's turn was far off, at most MaxWaits
	Depth     uint16 // depth of the URL for which it was made
	// Known says that the name had an address before.
	Known bool
	// Failing says that the last request failed and the failure was confirmed. Such a site is not asked
	// several times in a row. Names are, because that is how an outage of the name servers is noticed.
	Failing bool
}

// MaxTries and MaxWaits are where these counts saturate.
const MaxTries, MaxWaits = 3, 7

// Bits of a job's flags besides the tries (bits 1 and 2) and the waits (bits 3 to 5).
const (
	jobAddrsOnly = 1
	jobFailing   = 1 << 6
	jobDepth     = 1 << 7

	// In the second byte:
	jobKnown   = 1
	jobReserve = 2
)

// Append appends the coding of a job: a flags byte (bit 0 addresses only, bits 1 and 2 tries, 3 to 5 waits,
// 6 failing, 7 a depth follows), a second one (bit 0 known, 1 tdmrep.json), the depth in 2 bytes if it is not 0, and
// the origin.
func (j *Job) Append(dst []byte) []byte {
	flags := min(j.Tries, MaxTries)<<1 | min(j.Waits, MaxWaits)<<3
	if j.AddrsOnly {
		flags |= jobAddrsOnly
	}
	if j.Failing {
		flags |= jobFailing
	}
	more := byte(0)
	if j.Known {
		more = jobKnown
	}
	if j.Reserve {
		more |= jobReserve
	}
	if j.Depth == 0 {
		return append(append(dst, flags, more), j.Origin...)
	}
	return append(append(dst, flags|jobDepth, more, byte(j.Depth), byte(j.Depth>>8)), j.Origin...)
}

// Decode is the inverse of Append. Origin is a slice of b.
func (j *Job) Decode(b []byte) error {
	*j = Job{}
	if len(b) < 2 {
		return errors.New("robots: decode request: too short")
	}
	j.Origin = b[2:]
	if b[0]&jobDepth != 0 && len(b) > 3 {
		j.Depth, j.Origin = uint16(b[2])|uint16(b[3])<<8, b[4:]
	}
	if b[1]&^(jobKnown|jobReserve) != 0 || b[0]&jobDepth != 0 && j.Depth == 0 || len(j.Origin) < len("http://h:1") {
		return errors.New("robots: decode request: bad coding")
	}
	j.Known, j.Reserve = b[1]&jobKnown != 0, b[1]&jobReserve != 0
	j.AddrsOnly, j.Failing = b[0]&jobAddrsOnly != 0, b[0]&jobFailing != 0
	j.Tries, j.Waits = b[0]>>1&MaxTries, b[0]>>3&MaxWaits
	return nil
}
