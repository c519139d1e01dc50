package botauth

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"drumbeat/internal/human"
)

// Errors of Verify and VerifyDirectory. They are wrapped with the cause.
var (
	ErrNoSignature = errors.New("no signature")
	ErrMalformed   = errors.New("malformed signature fields")
	ErrCoverage    = errors.New("unacceptable covered components")
	ErrAlgorithm   = errors.New("unknown algorithm")
	ErrFuture      = errors.New("the signature was made in the future")
	ErrExpired     = errors.New("the signature has expired")
	ErrTooLong     = errors.New("the signature is valid for too long")
	ErrUnknownKey  = errors.New("unknown key")
	ErrMismatch    = errors.New("the signature does not match the message")
)

// Policy says which signatures Verify accepts.
type Policy struct {
	Now time.Time
	// Skew is how far in the future a signature may have been made. 0 means 0.
	Skew time.Duration
	// MaxLife is how long a signature may be valid. 0 means a day, as the draft recommends.
	MaxLife time.Duration
	// Tag is the tag of the signatures to look at. Empty: Tag.
	Tag string
	// Key returns the key with an id in the directory at a URL, which is empty if Tag is not Tag. It returns
	// ErrUnknownKey, wrapped, for a key that it does not know.
	Key func(agent, id string) (ed25519.PublicKey, error)
}

// Verified is what a signature says.
type Verified struct {
	Label, KeyID, Nonce string
	// Agent is the URL of the directory that the signature covers.
	Agent            string
	Created, Expires time.Time
	// Covers has the covered components as in Signature-Input.
	Covers []string
}

// Verify checks the signatures of a message that have the policy's tag, and returns the first that is valid. If none
// is, it returns the error of the first.
func Verify(m *Message, p Policy) (Verified, error) {
	if p.Tag == "" {
		p.Tag = Tag
	}
	if p.MaxLife == 0 {
		p.MaxLife = 24 * time.Hour
	}
	signatures, err := parseSignatures(m, p.Tag)
	if err != nil {
		return Verified{}, err
	}
	var first error
	for i := range signatures {
		s := &signatures[i]
		if err := s.verify(m, p); err == nil {
			return s.Verified, nil
		} else if first == nil {
			first = err
		}
	}
	return Verified{}, first
}

// signature is a parsed signature.
type signature struct {
	Verified
	input httpsfv.InnerList
	bytes []byte
}

const (
	// maxFieldBytes bounds each of the fields with signatures.
	maxFieldBytes = 16 << 10
	// maxSignatures bounds the signatures of a message.
	maxSignatures = 16
)

// parseSignatures returns the signatures of a message that have a tag, at least one.
func parseSignatures(m *Message, tag string) ([]signature, error) {
	inputs, err := dictionary(m, "Signature-Input")
	if err != nil {
		return nil, err
	}
	values, err := dictionary(m, "Signature")
	if err != nil {
		return nil, err
	}
	if n := len(inputs.Names()); n > maxSignatures {
		return nil, fmt.Errorf("%w: %d signatures, the limit is %d", ErrMalformed, n, maxSignatures)
	}
	var list []signature
	for _, label := range inputs.Names() {
		member, _ := inputs.Get(label)
		input, ok := member.(httpsfv.InnerList)
		if !ok {
			return nil, fmt.Errorf("%w: Signature-Input %s is not an inner list", ErrMalformed, label)
		}
		if got, _ := input.Params.Get("tag"); got != tag {
			continue
		}
		value, _ := values.Get(label)
		item, _ := value.(httpsfv.Item)
		bytes, ok := item.Value.([]byte)
		if !ok {
			return nil, fmt.Errorf("%w: Signature has no byte sequence %s", ErrMalformed, label)
		}
		s := signature{input: input, bytes: bytes}
		if err := s.parse(label); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w with the tag %s", ErrNoSignature, tag)
	}
	return list, nil
}

// dictionary returns a field of m that must be a dictionary.
func dictionary(m *Message, name string) (*httpsfv.Dictionary, error) {
	values := m.Header.Values(name)
	if len(values) == 0 {
		return nil, fmt.Errorf("%w: no field %s", ErrNoSignature, name)
	}
	return parseDictionary(name, values)
}

func parseDictionary(name string, values []string) (*httpsfv.Dictionary, error) {
	bytes := 0
	for _, v := range values {
		bytes += len(v)
	}
	if bytes > maxFieldBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrMalformed, name, bytes, maxFieldBytes)
	}
	d, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not a dictionary: %w", ErrMalformed, name, err)
	}
	return d, nil
}

// parse sets what the input says.
func (s *signature) parse(label string) error {
	s.Label = label
	params := s.input.Params
	for name, to := range map[string]*time.Time{"created": &s.Created, "expires": &s.Expires} {
		v, _ := params.Get(name)
		seconds, ok := v.(int64)
		if !ok {
			return fmt.Errorf("%w: parameter %[3]s of signature %[2]s is not a time in whole seconds", ErrMalformed,
				label, name)
		}
		*to = time.Unix(seconds, 0).UTC()
	}
	for name, to := range map[string]*string{"keyid": &s.KeyID, "nonce": &s.Nonce} {
		v, found := params.Get(name)
		text, ok := v.(string)
		if found && !ok || name == "keyid" && !found {
			return fmt.Errorf("%w: parameter %[3]s of signature %[2]s is not a string", ErrMalformed, label, name)
		}
		*to = text
	}
	if alg, found := params.Get("alg"); found && alg != algorithm {
		return fmt.Errorf("%w %v, want %s", ErrAlgorithm, alg, algorithm)
	}
	for _, item := range s.input.Items {
		id, err := httpsfv.Marshal(item)
		if err != nil {
			return fmt.Errorf("%w: a covered component: %w", ErrMalformed, err)
		}
		s.Covers = append(s.Covers, id)
	}
	return nil
}

func (s *signature) covers(id string) bool {
	for _, c := range s.Covers {
		if c == id {
			return true
		}
	}
	return false
}

// verify checks the clocks, the coverage and the signature.
func (s *signature) verify(m *Message, p Policy) error {
	switch {
	case s.Created.After(p.Now.Add(p.Skew)):
		return fmt.Errorf("%w: created %s, now %s", ErrFuture, s.Created.Format(time.RFC3339),
			p.Now.UTC().Format(time.RFC3339))
	case !s.Expires.After(p.Now):
		return fmt.Errorf("%w: at %s, now %s", ErrExpired, s.Expires.Format(time.RFC3339),
			p.Now.UTC().Format(time.RFC3339))
	case s.Expires.Sub(s.Created) > p.MaxLife:
		return fmt.Errorf("%w: %s, the limit is %s", ErrTooLong,
			human.Duration(s.Expires.Sub(s.Created)), human.Duration(p.MaxLife))
	}
	if p.Tag == Tag {
		if !s.covers(`"@authority"`) && !s.covers(`"@target-uri"`) {
			return fmt.Errorf(`%w: want "@authority" or "@target-uri"`, ErrCoverage)
		}
		if err := s.findAgent(m); err != nil {
			return err
		}
	}
	base, err := signatureBase(m, s.input)
	if err != nil {
		return err
	}
	key, err := p.Key(s.Agent, s.KeyID)
	if err != nil {
		return err
	}
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, []byte(base), s.bytes) {
		return fmt.Errorf("%w: key %s", ErrMismatch, s.KeyID)
	}
	return nil
}

// findAgent sets the agent: the covered member of Signature-Agent with the label of the signature, or else the first
// covered member.
func (s *signature) findAgent(m *Message) error {
	d, err := dictionary(m, "Signature-Agent")
	if err != nil {
		return err
	}
	for _, item := range s.input.Items {
		key, _ := item.Params.Get("key")
		name, ok := key.(string)
		if item.Value != "signature-agent" || !ok || s.Agent != "" && name != s.Label {
			continue
		}
		member, _ := d.Get(name)
		value, _ := member.(httpsfv.Item)
		agent, ok := value.Value.(string)
		if !ok || len(value.Params.Names()) > 0 {
			return fmt.Errorf("%w: member %q of Signature-Agent is not a string without parameters", ErrMalformed,
				name)
		}
		if u, err := url.Parse(agent); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%w: Signature-Agent %q is not an https URL", ErrMalformed, agent)
		}
		s.Agent = agent
	}
	if s.Agent == "" {
		return fmt.Errorf("%w: want a member of Signature-Agent", ErrCoverage)
	}
	return nil
}

// ParseAgent returns the value for Signature-Agent: the https URL of a directory. For a URL without a path it is
// DirectoryPath on that host.
func ParseAgent(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		return "", fmt.Errorf("%q is not an https URL", text)
	case u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return "", fmt.Errorf("%q must have no user name, query or fragment", text)
	case len(text) > maxAgentBytes:
		return "", fmt.Errorf("the URL has %d bytes, the limit is %d", len(text), maxAgentBytes)
	}
	u.Host = strings.ToLower(u.Host)
	if u.Path == "" || u.Path == "/" {
		u.Path = DirectoryPath
	}
	return u.String(), nil
}

// maxAgentBytes bounds the URL of a directory, which goes out with each request.
const maxAgentBytes = 512
