package weburl

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/weppos/publicsuffix-go/publicsuffix"
)

// Suffixes is the public suffix list of a crawl. It determines the pay-level domain of any host. It is
// immutable and may be shared.
type Suffixes struct {
	rules   []suffixRule          // both sections, sorted, without duplicates
	nodes   map[string]suffixNode // every suffix of every rule in force, without wildcard labels
	digest  string
	private bool
}

// suffixRule is one rule of the list in punycode: "co.uk", "*.ck", "!www.ck".
type suffixRule struct {
	text    string
	private bool
}

// maxSuffixBytes is the length of the longest DNS name. A longer rule could match no host.
const maxSuffixBytes = 253

// suffixNode describes the rules that end at a name.
type suffixNode uint8

const (
	nodeNormal    suffixNode = 1 << iota // the name is a suffix
	nodeWildcard                         // the name with any one label before it is a suffix
	nodeException                        // the name is not a suffix, despite a wildcard
	nodeParent                           // longer names have rules
)

// NewSuffixes returns the list compiled into the library. With private it includes the section of privately
// run suffixes (github.io, blogspot.com), otherwise only the ICANN section.
func NewSuffixes(private bool) *Suffixes {
	if private {
		return builtinPrivate().Suffixes
	}
	return builtin().Suffixes
}

// Parsing the library's list takes 10 ms, so it is done once. Crawls keep a copy of the list, which is
// nearly always this text.
var (
	builtin        = sync.OnceValue(func() builtinList { return takeBuiltin(false) })
	builtinPrivate = sync.OnceValue(func() builtinList { return takeBuiltin(true) })
)

// builtinList is the library's list and the output of its WriteTo.
type builtinList struct {
	*Suffixes
	text []byte
}

func takeBuiltin(private bool) builtinList {
	list := publicsuffix.DefaultRules()
	rules := make([]suffixRule, 0, len(list))
	for i := range list {
		text := list[i].Value
		switch list[i].Type {
		case publicsuffix.WildcardType:
			text = "*." + text
		case publicsuffix.ExceptionType:
			text = "!" + text
		}
		rules = append(rules, suffixRule{text, list[i].Private})
	}
	l := builtinList{Suffixes: newSuffixes(rules, private)}
	var text bytes.Buffer
	_, _ = l.WriteTo(&text) // a Buffer does not fail
	l.text = text.Bytes()
	return l
}

// LoadSuffixes parses a list in the format of publicsuffix.org, as WriteTo writes it. Names may be in
// Unicode or punycode. private is as for NewSuffixes. An invalid line is an error, as is a list without an
// ICANN rule.
func LoadSuffixes(text []byte, private bool) (*Suffixes, error) {
	own := builtin
	if private {
		own = builtinPrivate
	}
	if bytes.Equal(text, own().text) {
		return own().Suffixes, nil
	}
	return parseSuffixes(text, private)
}

func parseSuffixes(text []byte, private bool) (*Suffixes, error) {
	var rules []suffixRule
	section, icann := false, 0
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.HasPrefix(line, "//") {
			if strings.Contains(line, "===BEGIN PRIVATE DOMAINS===") {
				section = true
			} else if strings.Contains(line, "===END PRIVATE DOMAINS===") {
				section = false
			}
			continue
		}
		line, _, _ = strings.Cut(strings.ReplaceAll(line, "\t", " "), " ") // a rule ends at the first space
		if line == "" {
			continue
		}
		text, err := parseSuffixRule(line)
		if err != nil {
			return nil, fmt.Errorf("weburl: load suffix list: line %d: %w", n, err)
		}
		if !section {
			icann++
		}
		rules = append(rules, suffixRule{text, section})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("weburl: load suffix list: %w", err)
	}
	if icann == 0 {
		return nil, fmt.Errorf("weburl: load suffix list: no rule outside the private section")
	}
	return newSuffixes(rules, private), nil
}

// parseSuffixRule validates a rule and returns it in lower case and punycode.
func parseSuffixRule(line string) (string, error) {
	prefix, name := "", line
	if rest, ok := strings.CutPrefix(line, "*."); ok {
		prefix, name = "*.", rest
	} else if rest, ok := strings.CutPrefix(line, "!"); ok {
		prefix, name = "!", rest
	}
	name, err := publicsuffix.ToASCII(strings.ToLower(name))
	if err != nil {
		return "", fmt.Errorf("rule %q: %w", line, err)
	}
	if len(name) > maxSuffixBytes {
		return "", fmt.Errorf("rule %q…: longer than the %d bytes of a host", line[:min(len(line), 40)], maxSuffixBytes)
	}
	control := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if name == "" || strings.ContainsFunc(name, control) || strings.ContainsAny(name, "*!/") ||
		strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return "", fmt.Errorf("rule %q: not a suffix", line)
	}
	return prefix + name, nil
}

func newSuffixes(rules []suffixRule, private bool) *Suffixes {
	slices.SortFunc(rules, func(a, b suffixRule) int {
		if a.private != b.private {
			if b.private {
				return -1
			}
			return 1
		}
		return strings.Compare(a.text, b.text)
	})
	s := &Suffixes{rules: slices.Compact(rules), private: private}
	s.nodes = make(map[string]suffixNode, 2*len(rules))
	hash := sha256.New()
	for _, r := range s.rules {
		if r.private && !private {
			continue
		}
		io.WriteString(hash, r.text+"\n")
		s.insert(r.text)
	}
	s.digest = hex.EncodeToString(hash.Sum(nil)[:16])
	return s
}

func (s *Suffixes) insert(rule string) {
	kind, name := nodeNormal, rule
	switch rule[0] {
	case '*':
		kind, name = nodeWildcard|nodeParent, rule[2:]
	case '!':
		kind, name = nodeException, rule[1:]
	}
	s.nodes[name] |= kind
	for {
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			return
		}
		name = rest
		s.nodes[name] |= nodeParent
	}
}

// WriteTo writes the whole list, both sections. LoadSuffixes restores the same Suffixes from it.
func (s *Suffixes) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	b.WriteString("// Public suffix list as this crawl uses it. Do not edit: keys on disk depend on it.\n")
	b.WriteString("// ===BEGIN ICANN DOMAINS===\n")
	private := false
	for _, r := range s.rules {
		if r.private && !private {
			private = true
			b.WriteString("// ===END ICANN DOMAINS===\n// ===BEGIN PRIVATE DOMAINS===\n")
		}
		b.WriteString(r.text)
		b.WriteByte('\n')
	}
	if private {
		b.WriteString("// ===END PRIVATE DOMAINS===\n")
	} else {
		b.WriteString("// ===END ICANN DOMAINS===\n")
	}
	n, err := io.WriteString(w, b.String())
	if err != nil {
		return int64(n), fmt.Errorf("weburl: write suffix list: %w", err)
	}
	return int64(n), nil
}

// Digest returns a hash of the rules in force in 32 hexadecimal digits. With equal digests every host has
// the same PLD.
func (s *Suffixes) Digest() string { return s.digest }

// Private reports whether the private section is in force.
func (s *Suffixes) Private() bool { return s.private }

// Len returns the number of rules in both sections.
func (s *Suffixes) Len() int { return len(s.rules) }

// ListVersion returns the version of the list compiled into the library.
func ListVersion() string { return publicsuffix.ListVersion }

// PLD returns the pay-level domain of a host as in a canonical URL: its public suffix and one more label. A
// host that is a suffix or an IP address is its own PLD. The result omits a trailing dot. It is a part of
// host; PLD does not allocate.
func (s *Suffixes) PLD(host string) string {
	start, end := pldSpan(s.nodes, host)
	return host[start:end]
}

// PLDBytes is PLD for bytes. The result is a slice of host.
func (s *Suffixes) PLDBytes(host []byte) []byte {
	start, end := pldSpan(s.nodes, host)
	return host[start:end:end]
}

// IsSuffix reports whether host itself is a public suffix. An address is not.
func (s *Suffixes) IsSuffix(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if host == "" || IsAddress(host) {
		return false
	}
	return suffixStart(s.nodes, host) == 0
}

// TrimDot returns a host without the dot at its end. The host "." keeps its one, as PLDBytes does.
func TrimDot(host []byte) []byte {
	if len(host) > 1 {
		return bytes.TrimSuffix(host, []byte("."))
	}
	return host
}

// IsMainHost reports whether a host has the name of its PLD, with or without "www" in front.
func IsMainHost(host, pld []byte) bool {
	host = TrimDot(host)
	return len(host) == len(pld) || len(host) == len(pld)+len("www.") && bytes.HasPrefix(host, []byte("www."))
}

// pldSpan returns the start and end of the PLD in host.
func pldSpan[T string | []byte](nodes map[string]suffixNode, host T) (start, end int) {
	end = len(host)
	if end > 1 && host[end-1] == '.' {
		end--
	}
	if IsAddress(host[:end]) {
		return 0, end
	}
	start = suffixStart(nodes, host[:end])
	if start == 0 {
		return 0, end
	}
	return lastDot(host[:start-1]) + 1, end
}

// suffixStart returns the start of the longest public suffix in host. Without a matching rule, the last
// label is a suffix.
func suffixStart[T string | []byte](nodes map[string]suffixNode, host T) int {
	start := lastDot(host) + 1
	suffix := start
	wild := false // the name without its first label has a wildcard
	for {
		node := nodes[string(host[start:])]
		switch {
		case node&nodeException != 0:
			return start + firstDot(host[start:]) + 1
		case node&nodeNormal != 0 || wild:
			suffix = start
		}
		wild = node&nodeWildcard != 0
		if node&nodeParent == 0 || start == 0 {
			return suffix
		}
		start = lastDot(host[:start-1]) + 1
	}
}

func lastDot[T string | []byte](s T) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			return i
		}
	}
	return -1
}

func firstDot[T string | []byte](s T) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '.' {
			return i
		}
	}
	return -1
}

// IsAddress reports whether a canonical host is an IP address: in brackets, or with a number as the last
// label. The standard turns every such host into an IPv4 address or rejects it.
func IsAddress[T string | []byte](host T) bool {
	if len(host) == 0 {
		return false
	}
	if host[0] == '[' {
		return true
	}
	i := len(host)
	for i > 0 && host[i-1] >= '0' && host[i-1] <= '9' {
		i--
	}
	return i < len(host) && (i == 0 || host[i-1] == '.')
}
