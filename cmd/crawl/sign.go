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
	if o.Signer, err = botauth.NewSigner(keys, agent); err != nil {
		return term.Usage(fmt.Errorf("--sign: %w", err))
	}
	o.KeyFile, o.SignAlways = c.Sign.Sign.File, c.Sign.Sign.When == "always"
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
