package crawl

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"drumbeat/botauth"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// signFlags say how requests are signed.
type signFlags struct {
	Sign signing `group:"politeness" type:"parts" placeholder:"FILE"`
}

type signing struct {
	File      string `part:"" placeholder:"FILE"`
	Directory string `part:"directory" placeholder:"URL"`
	When      string `part:"when" enum:"always,challenge" default:"always"`
}

// directory returns the URL of the key directory: that of the flag, or else the well-known one on the host of the
// contact.
func (f *signFlags) directory(contact string) (string, error) {
	if f.Sign.Directory != "" {
		agent, err := botauth.ParseAgent(f.Sign.Directory)
		if err != nil {
			return "", fmt.Errorf("--sign: directory: %w", err)
		}
		return agent, nil
	}
	u, err := url.Parse(contact)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", errors.New("--sign: --contact is no https URL on whose host the key directory could be; " +
			"add directory=URL")
	}
	return botauth.ParseAgent("https://" + u.Host)
}

// check returns the first fault of the flags.
func (f *signFlags) check(contact string) error {
	if f.Sign.File == "" {
		if f.Sign != (signing{When: f.Sign.When}) {
			return errors.New("--sign: the key file is missing: put it first, as in --sign bot.key,directory=URL")
		}
		return nil
	}
	_, err := f.directory(contact)
	return err
}

// read reads the key file. The flags have been checked.
func (f *signFlags) read(o *crawl.IdentityOptions) error {
	if f.Sign.File == "" {
		return nil
	}
	keys, err := botauth.ReadKeys(f.Sign.File)
	if err != nil {
		return term.Usage(fmt.Errorf("--sign: %w", err))
	}
	agent, err := f.directory(o.Contact)
	if err != nil {
		return term.Usage(err)
	}
	if o.Signer, err = botauth.NewSigner(keys, agent); err != nil {
		return term.Usage(fmt.Errorf("--sign: %w", err))
	}
	o.KeyFile, o.SignAlways = f.Sign.File, f.Sign.When == "always"
	return nil
}

// printSigner says by which key requests are signed, and where the public keys must be.
func printSigner(out io.Writer, o *crawl.IdentityOptions) error {
	if o.Signer == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "# sign: key %s; key directory %s\n", o.Signer.Keys().At(time.Now()).ID(),
		o.Signer.Agent())
	return err
}

func (c *Command) checkSign() error { return c.signFlags.check(c.Contact) }
