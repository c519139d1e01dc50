package options

import (
	"errors"
	"fmt"

	"drumbeat/botauth"
	"drumbeat/state"
)

// Identity says who crawls, to sites and in the records of the output.
type Identity struct {
	// Agent is the product token of User-Agent and robots.txt matching (RFC 9309 2.2.1). It is required.
	Agent string
	// Contact is an e-mail address or URL of the operator, sent with every request.
	Contact string
	// UserAgent is the User-Agent header of Fetcher, for the records of the output; "" omits it.
	UserAgent string
	// Version is that of the program, for the records of the output.
	Version string
	// Host is the name of the machine in the names of WARC files and in warcinfo records; "" means localhost.
	Host string
	// Signer signs requests; nil: none. Sign says which. KeyFile is its key file; each reload reads it again.
	Signer  *botauth.Signer
	Sign    SignWhen
	KeyFile string
	// About is for the people who get the results.
	About state.About
}

// Validate returns an error if there is no agent, or a text of About is no line.
func (o *Identity) Validate() error {
	if o.Agent == "" {
		return errors.New("crawl: no agent token given")
	}
	if err := o.About.Check(); err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	return nil
}

// Keep writes the group into what the manifest keeps of a run.
func (o *Identity) Keep(run *state.LastRun) {
	run.Version, run.Agent, run.Contact, run.UserAgent, run.About = o.Version, o.Agent, o.Contact, o.UserAgent, o.About
}

// SignWhen says which requests a Signer signs.
type SignWhen uint8

// The values of SignWhen.
const (
	SignOnChallenge SignWhen = iota // those to sites that ask for it
	SignAlways                      // all that use TLS, and those to sites that ask for it
	SignNever
)
