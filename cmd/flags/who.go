package flags

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strings"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// Who identifies the crawler and its operator.
type Who struct {
	Agent     string `group:"politeness" common:"" placeholder:"TOKEN" default:"${defaultAgent}"`
	Contact   string `group:"politeness" common:"" site:"" placeholder:"WHO"`
	UserAgent string `group:"politeness" placeholder:"TEXT"`
	From      string `group:"politeness" placeholder:"MAIL"`
}

// maxUserAgent bounds --user-agent: servers cut or refuse longer ones.
const maxUserAgent = 512

// noFrom is the value of --from that sends none.
const noFrom = "none"

// Check returns the first fault.
func (w *Who) Check() error {
	w.Contact = strings.TrimSpace(w.Contact)
	if w.Contact == "" {
		return errors.New("--contact is missing: site owners must be able to reach the operator; " +
			"give a mail address or a URL, which is sent with every request")
	}
	if i := strings.IndexFunc(w.Contact,
		func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()\"<>`, r) }); i >= 0 {
		return fmt.Errorf("--contact %q: %q is not allowed in a header; give a mail address or a URL",
			w.Contact, w.Contact[i:i+1])
	}
	if err := checkAgent(w.Agent); err != nil {
		return err
	}
	if w.From != "" && w.From != noFrom && !isMail(w.From) {
		return fmt.Errorf("--from %q is not a mail address such as crawl@example.org", w.From)
	}
	return w.checkUserAgent()
}

// checkAgent checks a product token by RFC 9309, section 2.2.1.
func checkAgent(agent string) error {
	if agent == "" || strings.IndexFunc(agent, func(r rune) bool { return !inToken(r) }) >= 0 {
		return fmt.Errorf(
			"--agent %q: use letters, - and _ only: robots.txt can name no other product token (RFC 9309)", agent)
	}
	if strings.Contains(strings.ToLower(agent), "irlbot") {
		return fmt.Errorf("--agent %q: IRLbot was another crawler, and sites have rules for it; choose another name",
			agent)
	}
	return nil
}

// inToken reports whether r may be in a product token of robots.txt.
func inToken(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_'
}

// checkUserAgent requires the token and the contact in the header, so site owners know what to put into
// robots.txt and whom to ask.
func (w *Who) checkUserAgent() error {
	text := w.UserAgent
	switch {
	case text == "":
		return nil
	case len(text) > maxUserAgent || text != strings.TrimSpace(text) ||
		strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) >= 0:
		return fmt.Errorf("--user-agent %.60q: must have at most %d characters of printable ASCII, without spaces "+
			"at the ends", text, maxUserAgent)
	case !hasWord(text, w.Agent):
		return fmt.Errorf(
			"--user-agent %q lacks the token %s, which selects the robots.txt group (RFC 9309, 2.2.1); set "+
				"--agent too", text, w.Agent)
	case !strings.Contains(text, w.Contact):
		return fmt.Errorf("--user-agent %q lacks the contact %s", text, w.Contact)
	}
	return nil
}

// hasWord reports whether text contains token, not as a part of a longer token.
func hasWord(text, token string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], token)
		if i < 0 {
			return false
		}
		begin, end := at+i, at+i+len(token)
		if (begin == 0 || !inToken(rune(text[begin-1]))) && (end == len(text) || !inToken(rune(text[end]))) {
			return true
		}
		at = begin + 1
	}
}

// Complete sets From and UserAgent from the contact where they are empty, and returns a warning about the
// contact, or "".
func (w *Who) Complete() (note string) {
	if w.From == "" {
		w.From = noFrom
		if m := strings.TrimPrefix(w.Contact, "mailto:"); isMail(m) {
			w.From = m
		}
	}
	if w.UserAgent == "" {
		w.UserAgent = UserAgent(w.Agent, w.Contact)
	}
	if ContactLink(w.Contact) == "" {
		return fmt.Sprintf("--contact %s is neither a mail address nor a URL: site owners cannot use it", w.Contact)
	}
	return ""
}

// Apply sets a crawl's options; Complete has been called.
func (w *Who) Apply(o *crawl.IdentityOptions) {
	o.Agent, o.Contact, o.UserAgent, o.Version = w.Agent, w.Contact, w.UserAgent, term.Version()
}

// FromHeader returns the From header; "" for none.
func (w *Who) FromHeader() string {
	if w.From == noFrom {
		return ""
	}
	return w.From
}

// isMail reports whether s is a bare mail address, without a name or brackets.
func isMail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && a.Name == "" &&
		strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// ContactLink returns a URL for the contact: mailto: for a mail address, an http or https URL as it is, else
// "".
func ContactLink(contact string) string {
	if m := strings.TrimPrefix(contact, "mailto:"); isMail(m) {
		return "mailto:" + m
	}
	if u, err := url.Parse(contact); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return contact
	}
	return ""
}

// UserAgent returns the default User-Agent header: product token, version, and the contact as a comment (RFC
// 9110, section 10.1.5). It does not imitate a browser ("Mozilla/5.0 (compatible; …)"); --user-agent can.
func UserAgent(agent, contact string) string {
	return fmt.Sprintf("%s/%s (+%s)", agent, term.Version(), contact)
}
