package crawl

import (
	"fmt"
	"io"
	"time"

	"drumbeat/botauth"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// checkSign returns the first fault of --sign.
func (c *Command) checkSign() error {
	if err := c.Sign.Check(); err != nil || c.Sign.Sign.File == "" {
		return err
	}
	_, err := c.DirectoryURL(c.Contact)
	return err
}

// readKeys reads the key file of --sign. The flags have been checked.
func (c *Command) readKeys(o *crawl.IdentityOptions) error {
	keys, err := c.Sign.Keys()
	if err != nil {
		return term.Usage(err)
	}
	if keys == nil {
		return nil
	}
	agent, err := c.DirectoryURL(o.Contact)
	if err != nil {
		return term.Usage(err)
	}
	if o.Signer, err = botauth.NewSigner(keys, agent, c.Sign.Sign.Life); err != nil {
		return term.Usage(fmt.Errorf("--sign: %w", err))
	}
	o.KeyFile, o.Sign = c.Sign.Sign.File, map[string]crawl.SignWhen{"always": crawl.SignAlways,
		"challenge": crawl.SignOnChallenge, "never": crawl.SignNever}[c.Sign.Sign.When]
	return nil
}

// printSigner says by which key requests are signed, and where the public keys must be.
func printSigner(out io.Writer, o *crawl.IdentityOptions) error {
	if o.Signer == nil {
		return nil
	}
	what := "key "
	if o.Sign == crawl.SignNever {
		what = "nothing; key "
	}
	_, err := fmt.Fprintf(out, "# sign: %s%s; key directory %s\n", what, o.Signer.Keys().At(time.Now()).ID(),
		o.Signer.Agent())
	return err
}
