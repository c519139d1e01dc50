package robots

import "errors"

// Job is a request for an origin's robots.txt, or for its addresses alone.
type Job struct {
	Origin    []byte // scheme://host:port
	AddrsOnly bool
	Tries     uint8  // exchanges or lookups for it that failed and weren't confirmed, at most MaxTries
	Waits     uint8  // times that its server's turn was too late to wait for it in RAM, at most MaxWaits
	Depth     uint16 // of the URL that it was made for
	// Known: the name had an address before.
	Known bool
	// Failing is set if the last request failed, and that was confirmed: the site isn't asked several times in a row. (Names are: that
	// is how an outage of the name servers is noticed.)
	Failing bool
}

// MaxTries and MaxWaits are where these counts end: more make no difference.
const MaxTries, MaxWaits = 3, 7

// Bits of a job's flags, besides the tries (bits 1 and 2) and the waits (3 to 5).
const (
	jobAddrsOnly = 1
	jobFailing   = 1 << 6
	jobDepth     = 1 << 7

	jobKnown = 1 // of the second byte
)

// Append codes a job: flags byte (bit 0 addresses only, bits 1 and 2 the tries, 3 to 5 the waits, 6 failing, 7: a depth
// follows), a second one (bit 0 known), depth in 2 bytes if it isn't 0, origin.
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
	if j.Depth == 0 {
		return append(append(dst, flags, more), j.Origin...)
	}
	return append(append(dst, flags|jobDepth, more, byte(j.Depth), byte(j.Depth>>8)), j.Origin...)
}

// Decode is the inverse of Append. Origin is a slice of b.
func (j *Job) Decode(b []byte) error {
	*j = Job{}
	if len(b) < 2 {
		return errors.New("crawl: empty coding of a robots request")
	}
	j.Origin = b[2:]
	if b[0]&jobDepth != 0 && len(b) > 3 {
		j.Depth, j.Origin = uint16(b[2])|uint16(b[3])<<8, b[4:]
	}
	if b[1]&^jobKnown != 0 || b[0]&jobDepth != 0 && j.Depth == 0 || len(j.Origin) < len("http://h:1") {
		return errors.New("crawl: bad coding of a robots request")
	}
	j.Known = b[1]&jobKnown != 0
	j.AddrsOnly, j.Failing = b[0]&jobAddrsOnly != 0, b[0]&jobFailing != 0
	j.Tries, j.Waits = b[0]>>1&MaxTries, b[0]>>3&MaxWaits
	return nil
}
