package flags

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"drumbeat/botauth"
)

// Sign says how requests are signed.
type Sign struct {
	Sign Signing `group:"politeness" type:"parts" placeholder:"FILE"`
}

// Signing is the value of --sign.
type Signing struct {
	File      string        `part:"" placeholder:"FILE"`
	Directory string        `part:"directory" placeholder:"URL"`
	When      string        `part:"when" enum:"always,challenge,never" default:"always"`
	Life      time.Duration `part:"life" default:"20m" least:"2m" most:"20m"`
}

// Check returns the first fault that can be seen in the flag alone.
func (s *Sign) Check() error {
	if s.Sign.File == "" && s.Sign != (Signing{When: s.Sign.When, Life: s.Sign.Life}) {
		return errors.New("--sign: the key file is missing: put it first, as in --sign bot.key,directory=URL")
	}
	return nil
}

// DirectoryURL returns the URL of the key directory: that of the flag, or else the well-known one on the host of
// the contact.
func (s *Sign) DirectoryURL(contact string) (string, error) {
	at := s.Sign.Directory
	if at == "" {
		u, err := url.Parse(contact)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return "", errors.New("--sign: --contact is no https URL on whose host the key directory could be; " +
				"add directory=URL")
		}
		at = "https://" + u.Host
	}
	agent, err := botauth.ParseAgent(at)
	if err != nil {
		return "", fmt.Errorf("--sign: directory: %w", err)
	}
	return agent, nil
}

// Keys reads the key file. It returns none without the flag.
func (s *Sign) Keys() (botauth.Keys, error) {
	if s.Sign.File == "" {
		return nil, nil
	}
	keys, err := botauth.ReadKeys(s.Sign.File)
	if err != nil {
		return nil, fmt.Errorf("--sign: %w", err)
	}
	return keys, nil
}
