package botauth

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"
)

// label is the label of a signature that nobody asked for.
const label = "sig1"

// Fields has the values of the fields of a signed request.
type Fields struct {
	SignatureAgent, SignatureInput, Signature string
}

// signedHosts bounds each of the two generations of signatures that a Signer keeps: with 1000 requests per second and
// 22 of them for each host and window, a window has 41,000 hosts. A host that is no longer kept is signed for once
// more.
const signedHosts = 32 << 10

// Signer signs requests. It is safe for concurrent use.
type Signer struct {
	agent string        // the URL of the directory
	field string        // the value of Signature-Agent
	life  time.Duration // of signatures

	mu   sync.Mutex // guards what follows; held for no signature and no I/O
	keys Keys
	slot *slot
}

// slot has the signatures of a window by one key. All but hosts is constant.
type slot struct {
	from   time.Time
	key    Key
	fields Fields // without the signature
	tail   string // of the signature base, after the authority

	hosts, older map[string]string // authority to signature
}

// NewSigner returns a signer with the keys at the URL of a directory, as ParseAgent returns it. Signatures are valid
// for life, MinLife to Life.
func NewSigner(keys Keys, agent string, life time.Duration) (*Signer, error) {
	if life < MinLife || life > Life {
		return nil, fmt.Errorf("a signature cannot be valid for %s: want %s to %s", life, MinLife, Life)
	}
	agent, err := ParseAgent(agent)
	if err != nil {
		return nil, err
	}
	field, err := agentField(label, agent)
	if err != nil {
		return nil, err
	}
	if err := keys.validate(); err != nil {
		return nil, err
	}
	return &Signer{agent: agent, field: field, life: life, keys: keys}, nil
}

func agentField(label, agent string) (string, error) {
	d := httpsfv.NewDictionary()
	d.Add(label, httpsfv.NewItem(agent))
	return httpsfv.Marshal(d)
}

// Agent returns the URL of the directory.
func (s *Signer) Agent() string { return s.agent }

// SetKeys replaces the keys, for the next signature.
func (s *Signer) SetKeys(keys Keys) error {
	if err := keys.validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
	return nil
}

// Keys returns the keys, which the caller must not change.
func (s *Signer) Keys() Keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

// Sign returns the fields for a request. The authority is the host in lower case, with its port unless that is the
// scheme's default. The signature may be repeated, and is valid for at least a quarter of its life from now.
func (s *Signer) Sign(authority string, now time.Time) Fields {
	s.mu.Lock()
	slot := s.current(now)
	signed, found := slot.find(authority)
	s.mu.Unlock()
	if !found {
		signed = slot.sign(authority)
		s.mu.Lock()
		slot.put(strings.Clone(authority), signed)
		s.mu.Unlock()
	}
	f := slot.fields
	f.Signature = signed
	return f
}

// current returns the slot for a time. A caller with a slightly older time than another gets the newer slot.
func (s *Signer) current(now time.Time) *slot {
	key := s.keys.At(now)
	from := now.UTC().Truncate(window(s.life))
	if key.From.After(from) && !key.From.After(now) {
		from = key.From // no signature is older than its key
	}
	old := s.slot
	if old != nil && old.key.id == key.id && !from.After(old.from) && old.from.Sub(from) <= window(s.life) {
		return old
	}
	params := appendParameters(nil, key.id, from, from.Add(s.life), Tag)
	covered := `("@authority" "signature-agent";key="` + label + `")`
	agent, _ := httpsfv.Marshal(httpsfv.NewItem(s.agent)) // NewSigner has marshaled it
	s.slot = &slot{from: from, key: key,
		fields: Fields{SignatureAgent: s.field, SignatureInput: label + "=" + covered + string(params)},
		tail: "\n\"signature-agent\";key=\"" + label + "\": " + agent +
			"\n\"@signature-params\": " + covered + string(params),
		hosts: map[string]string{}}
	return s.slot
}

func (s *slot) find(authority string) (string, bool) {
	signed, found := s.hosts[authority]
	if !found {
		signed, found = s.older[authority]
	}
	return signed, found
}

func (s *slot) put(authority, signed string) {
	if len(s.hosts) >= signedHosts {
		s.hosts, s.older = map[string]string{}, s.hosts
	}
	s.hosts[authority] = signed
}

// sign returns the value of Signature.
func (s *slot) sign(authority string) string {
	base := `"@authority": ` + authority + s.tail
	return label + "=:" + base64.StdEncoding.EncodeToString(ed25519.Sign(s.key.private(), []byte(base))) + ":"
}

// Ask is what a site asks a signature to be, by Accept-Signature.
type Ask struct {
	// Label is the label of the signature, at most 32 bytes.
	Label string
	// Nonce is empty if the site gave none. It has at most 256 bytes.
	Nonce string
	// Covers has derived components that the signature covers beside those of every signature.
	Covers []string
}

const (
	maxLabelBytes = 32
	maxNonceBytes = 256
)

// askable are the components that a site may ask for.
var askable = []string{"@authority", "@method", "@path", "@query", "@request-target", "@scheme", "@target-uri"}

// ParseAccept returns the first member of the field Accept-Signature that a Signer can satisfy. It has the tag of this
// protocol or none, and asks for components of the request's target alone. It returns false if there is none.
func ParseAccept(values []string) (Ask, bool) {
	if len(values) == 0 {
		return Ask{}, false
	}
	d, err := parseDictionary("Accept-Signature", values)
	if err != nil || len(d.Names()) > maxSignatures {
		return Ask{}, false
	}
	for _, name := range d.Names() {
		member, _ := d.Get(name)
		if list, ok := member.(httpsfv.InnerList); ok {
			if ask, ok := askOf(name, list); ok {
				return ask, true
			}
		}
	}
	return Ask{}, false
}

// askOf returns the Ask of a member, if it can be satisfied.
func askOf(name string, list httpsfv.InnerList) (Ask, bool) {
	ask := Ask{Label: strings.Clone(name)} // which else keeps the field in memory
	if len(name) > maxLabelBytes || len(list.Items) > maxComponents {
		return ask, false
	}
	for _, item := range list.Items {
		component, _ := item.Value.(string)
		switch params := item.Params.Names(); {
		case component == "signature-agent":
			if key, _ := item.Params.Get("key"); len(params) > 1 || len(params) == 1 && key != name {
				return ask, false
			}
		case len(params) > 0 || !slices.Contains(askable, component):
			return ask, false
		case component != "@authority" && !slices.Contains(ask.Covers, component):
			ask.Covers = append(ask.Covers, component)
		}
	}
	for _, p := range list.Params.Names() {
		v, _ := list.Params.Get(p)
		switch text, isText := v.(string); p {
		case "created", "expires": // every signature has them
		case "tag":
			if v != Tag {
				return ask, false
			}
		case "alg":
			if v != algorithm {
				return ask, false
			}
		case "nonce":
			if !isText || len(text) > maxNonceBytes {
				return ask, false
			}
			ask.Nonce = text
		case "keyid":
			if v != true { // it names a key that is not ours; without a value it asks for any
				return ask, false
			}
		default:
			return ask, false
		}
	}
	return ask, true
}

// nonceBytes is the length of a nonce of our own.
const nonceBytes = 64

// Answer returns the fields for a single request that a site asked to be signed. The message needs no fields of its
// own. The signature has the nonce of the site, or else a random one. That of a request in clear covers its scheme, so
// that nobody who reads it can send it to the same host over TLS.
func (s *Signer) Answer(m *Message, ask Ask, now time.Time) (Fields, error) {
	if ask.Nonce == "" {
		var random [nonceBytes]byte
		rand.Read(random[:]) // never fails
		ask.Nonce = base64.StdEncoding.EncodeToString(random[:])
	}
	var f Fields
	var err error
	if f.SignatureAgent, err = agentField(ask.Label, s.agent); err != nil {
		return f, fmt.Errorf("botauth: Signature-Agent: %w", err)
	}
	signed := *m
	signed.Header = map[string][]string{"Signature-Agent": {f.SignatureAgent}}
	key := s.Keys().At(now)
	input := httpsfv.InnerList{Items: []httpsfv.Item{httpsfv.NewItem("@authority")},
		Params: parameters(key.id, now, now.Add(s.life), ask.Nonce, Tag)}
	if m.Scheme == "http" && !slices.Contains(ask.Covers, "@scheme") {
		input.Items = append(input.Items, httpsfv.NewItem("@scheme"))
	}
	for _, component := range ask.Covers {
		input.Items = append(input.Items, httpsfv.NewItem(component))
	}
	agent := httpsfv.NewItem("signature-agent")
	agent.Params.Add("key", ask.Label)
	input.Items = append(input.Items, agent)
	base, err := signatureBase(&signed, input)
	if err != nil {
		return f, err
	}
	inputs, signatures := httpsfv.NewDictionary(), httpsfv.NewDictionary()
	inputs.Add(ask.Label, input)
	signatures.Add(ask.Label, httpsfv.NewItem(ed25519.Sign(key.private(), []byte(base))))
	if f.SignatureInput, err = httpsfv.Marshal(inputs); err != nil {
		return f, fmt.Errorf("botauth: Signature-Input: %w", err)
	}
	f.Signature, err = httpsfv.Marshal(signatures)
	return f, err
}
