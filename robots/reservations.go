package robots

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
)

// ReservationsPath is the path of the file with the reservations of a site (TDMRep, a report of the W3C's community
// group, 10 May 2024, section 6.2).
const ReservationsPath = "/.well-known/tdmrep.json"

// Limits of reservations. A file has a few rules; the limits bound what a hostile one costs.
const (
	MaxReservations = 3 << 10 // bytes of coded reservations
	// maxSummedReservations is the size of reservations whose paths were given up.
	maxSummedReservations = 8
	maxReservationRules   = 64
	maxPolicyBytes        = 140 // of a policy's URL; longer ones do not fit into a Statement
)

// Reservations are the rules of a tdmrep.json, in its order: the first that matches a path counts.
type Reservations struct {
	Rules []Reservation
	// Cut says that limits have removed something. Then the rules reserve more than the file does, or lack policies.
	Cut bool
}

// Reservation says whether the rights to mine the files below a path are reserved.
type Reservation struct {
	Reserved bool
	Policy   string // URL of the terms; "": none
	pattern  []byte // compiled, see pattern.go
}

// Text returns the rule as tables have it: path, 0 or 1, and the policy.
func (r *Reservation) Text() string {
	text := string(appendText(nil, r.pattern)) + " " + r.Value()
	if len(r.pattern) == 0 {
		text = "*" + text
	}
	if r.Policy != "" {
		text += " " + r.Policy
	}
	return text
}

// Value returns the value of tdm-reservation: 0 or 1.
func (r *Reservation) Value() string { return [...]string{"0", "1"}[boolInt(r.Reserved)] }

// ParseReservations reads a tdmrep.json: an array of objects with location, tdm-reservation and tdm-policy. A file with
// another syntax says nothing, and neither does a rule without a path and a reservation of 0 or 1, as a number or text.
// Paths match as those of a robots.txt do. A policy counts only where rights are reserved. Of a file beyond MaxInput
// the rules before it count, and all other paths are reserved.
func ParseReservations(body []byte) (r Reservations) {
	body, r.Cut = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), len(body) > MaxInput
	d := json.NewDecoder(bytes.NewReader(body[:min(len(body), MaxInput)]))
	if start, err := d.Token(); err != nil || start != json.Delim('[') || !r.Cut && !json.Valid(body) {
		return Reservations{}
	}
	for d.More() {
		var rule struct {
			Location    any `json:"location"`
			Reservation any `json:"tdm-reservation"`
			Policy      any `json:"tdm-policy"`
		}
		err := d.Decode(&rule)
		if _, odd := err.(*json.UnmarshalTypeError); odd {
			continue // not an object
		}
		if err != nil {
			break // at MaxInput
		}
		reserved := rule.Reservation == 1.0 || rule.Reservation == "1"
		location, _ := rule.Location.(string)
		if compiled, ok := compile([]byte(location), false); ok &&
			(reserved || rule.Reservation == 0.0 || rule.Reservation == "0") {
			policy, _ := rule.Policy.(string)
			r.add(Reservation{reserved, policy, compiled.pattern})
		}
	}
	if r.Cut {
		r.Rules = append(r.Rules, Reservation{Reserved: true})
	}
	return r.fit(MaxReservations)
}

// add appends a rule, without a policy that is not kept, and with a path that is short enough.
func (r *Reservations) add(rule Reservation) {
	odd := func(c byte) bool { return c <= ' ' || c >= 0x7f }
	for i := range len(rule.Policy) {
		if !rule.Reserved || odd(rule.Policy[i]) || len(rule.Policy) > maxPolicyBytes {
			r.Cut = r.Cut || rule.Reserved
			rule.Policy = ""
			break
		}
	}
	if len(rule.pattern) > maxUsagePattern {
		if r.Cut = true; !rule.Reserved {
			return
		}
		rule.pattern = rule.pattern[:maxUsagePattern] // it then matches more
	}
	r.Rules = append(r.Rules, rule)
}

// fit returns reservations whose coding has at most limit bytes, at least maxSummedReservations. If a rule after those
// that fit reserves rights, they are reserved at all paths that no rule before it matches.
func (r Reservations) fit(limit int) Reservations {
	size := maxSummedReservations
	for i := range r.Rules {
		size += len(r.Rules[i].append(nil))
		if size <= limit && i < maxReservationRules {
			continue
		}
		rest := r.Rules[i:]
		r.Rules, r.Cut = r.Rules[:i:i], true
		for _, rule := range rest {
			if rule.Reserved {
				r.Rules = append(r.Rules, Reservation{Reserved: true})
				break
			}
		}
		break
	}
	return r
}

// Coding of Reservations; see docs/reference/files/robots.md.
const reservationsVersion = 1

// Append appends the coding of r to dst: at most MaxReservations bytes, and never none.
func (r *Reservations) Append(dst []byte) []byte {
	dst = append(dst, reservationsVersion, byte(boolInt(r.Cut)))
	for i := range r.Rules {
		dst = r.Rules[i].append(dst)
	}
	return dst
}

func (r *Reservation) append(dst []byte) []byte {
	dst = append(appendField(dst, string(r.pattern)), byte(boolInt(r.Reserved)))
	return append(binary.AppendUvarint(dst, uint64(len(r.Policy))), r.Policy...)
}

var errReservations = errors.New("robots: decode reservations: bad coding")

// DecodeReservations decodes what Append wrote. The result refers to b.
func DecodeReservations(b []byte) (r Reservations, err error) {
	if len(b) == 0 {
		return r, nil
	}
	d := decoder{b: b}
	version, flags := d.byte(), d.byte()
	r.Cut = flags != 0
	for len(d.b) > 0 && !d.bad {
		pattern, reserved, policy := d.text(maxUsagePattern), d.byte(), d.text(maxPolicyBytes)
		r.Rules = append(r.Rules, Reservation{reserved == 1, string(policy), pattern})
		d.bad = d.bad || reserved > 1
	}
	if d.bad || version != reservationsVersion || flags > 1 || len(b) > MaxReservations ||
		len(r.Rules) > maxReservationRules+1 {
		return Reservations{}, errReservations
	}
	return r, nil
}

// At returns the first rule that matches a path with its query; nil: none does.
func (r *Reservations) At(pathQuery []byte) *Reservation {
	if len(r.Rules) == 0 {
		return nil
	}
	path := normal(nil, pathQuery)
	folded := foldedForm(path)
	for i := range r.Rules {
		pat, against := r.Rules[i].pattern, path
		if namesDelimiters(pat) {
			against = folded
		}
		if matches(pat, against, isSpecial(pat)) {
			return &r.Rules[i]
		}
	}
	return nil
}

// WantsReservations reports whether tdmrep.json must be requested before a URL may be fetched: nothing is known about
// the file yet, and the site's rules allow it. own is that of DecideFor.
func (h *HostData) WantsReservations(own bool) bool {
	return len(h.Reservations) == 0 &&
		(h.State == StateNoFile || h.State == StateRules && (own || Match(h.Rules, []byte(ReservationsPath))))
}

// setReservations sets what is known of the file. coded has at most MaxReservations bytes. Without rules in force it
// changes nothing: the next answer about robots.txt comes first.
func (h *HostData) setReservations(coded []byte) {
	if h.State != StateRules && h.State != StateNoFile {
		return
	}
	if h.Reservations = coded; len(h.Rules)+len(h.Signals)+len(coded) > MaxEncoded {
		if r, err := DecodeReservations(coded); err == nil {
			r = r.fit(maxSummedReservations)
			h.Reservations = r.Append(nil)
		}
	}
}
