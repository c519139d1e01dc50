// Package botpage is the command bot-page: it prints or serves a page for site owners, which the operator of
// a crawl publishes. The page says who crawls and why, how to stop the crawler or slow it down, what it
// obeys, and which addresses it uses.
//
// Command is its flags: those of a crawl that the page describes (flags.Who, Delays, Health), so that equal
// values give the page of that crawl, and its own: the purpose, the addresses, and the form. page.go has the
// text and its forms: HTML in one file without external resources, and plain text. html/template escapes all
// values of flags. files.go has what programs read: the addresses (draft-illyes-webbotauth-jafar-00), the agent
// card (draft-meunier-webbotauth-registry-04), and the directory of the public keys of --sign (package botauth).
//
// --out replaces a file atomically, and --out-dir each file of a document root. --serve answers GET and HEAD
// for the same files (serve.go). Connections, headers and times are bounded, since anybody may send requests;
// after a signal, responses in flight have five seconds.
//
// Exit codes: 0, also after a signal; term.ExitUsage (2) for a bad flag or an address that cannot be used.
package botpage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// Command is the table of bot-page's flags: some of a crawl's, and the page's own.
type Command struct {
	flags.Who
	Purpose   string            `group:"what" common:"" placeholder:"TEXT"`
	Addresses []flags.NetPrefix `group:"what" common:"" placeholder:"CIDR"`
	URL       string            `group:"what" common:"" name:"url" placeholder:"URL"`
	Removals  string            `group:"what" placeholder:"WHO"`
	Nginx     string            `group:"what" placeholder:"FILE"`
	Out       string            `group:"what" common:"" placeholder:"FILE"`
	OutDir    string            `group:"what" common:"" placeholder:"DIR"`
	JSON      bool              `group:"what" common:"" name:"json" xor:"form"`
	Text      bool              `group:"what" common:"" xor:"form"`
	Serve     string            `group:"what" common:"" placeholder:"ADDR" xor:"form"`
	flags.Sign
	flags.Delays
	flags.Health
	flags.RobotsMeta
	flags.Sources

	person string // whom the page names: the contact, or the mail address beside it
}

// Run prints or serves the page.
func (c *Command) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	now := time.Now()
	if c.Serve != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return c.serve(ctx, a)
	}
	if c.OutDir != "" {
		return c.writeDir(now)
	}
	keys, err := c.Keys()
	if err != nil {
		return term.Usage(err)
	}
	var data []byte
	switch {
	case c.JSON:
		data, err = c.ranges(now)
	case c.Text:
		data = c.page(now, keys).text()
	default:
		data, err = c.page(now, keys).html()
	}
	if err != nil {
		return err
	}
	if c.Out == "" {
		_, err = a.Stdout.Write(data)
		return err
	}
	if err := publish(c.Out, data); err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, plain(c.Out, err))
	}
	return nil
}

func (c *Command) check() error {
	if err := c.Who.Check(); err != nil {
		return err
	}
	if c.Purpose = strings.TrimSpace(c.Purpose); c.Purpose == "" {
		return errors.New("--purpose is missing: describe the purpose of the crawl in a sentence")
	}
	switch {
	case c.JSON && len(c.Addresses) == 0:
		return errors.New("--json prints the --addresses, but none are given")
	case c.Serve != "" && c.Out != "":
		return errors.New("give either --serve or --out, not both")
	case c.OutDir != "" && (c.Out != "" || c.Serve != "" || c.JSON || c.Text):
		return errors.New("--out-dir excludes --out, --serve, --json and --text")
	case c.OutDir != "" && c.URL == "":
		return errors.New("--out-dir needs --url, the URL at which the server publishes the files: they name it")
	case c.Nginx != "" && (c.Sign.Sign.File == "" || c.OutDir == ""):
		return errors.New("--nginx needs --sign and --out-dir: it has the signatures of the key directory")
	case c.Sign.Sign.File != "" && c.URL == "":
		return errors.New("--sign needs --url, on whose host the key directory is published")
	case c.Removals != "" && flags.ContactLink(c.Removals) == "":
		return fmt.Errorf("--removals %q is neither a mail address nor a URL", c.Removals)
	}
	if err := errors.Join(c.checkURL(), c.Sign.Check()); err != nil {
		return err
	}
	if c.Sign.Sign.File != "" {
		if err := c.checkSign(); err != nil {
			return err
		}
	}
	c.Who.Complete()
	if c.person = c.Contact; c.URL != "" && strings.TrimSuffix(c.Contact, "/") == strings.TrimSuffix(c.URL, "/") {
		if c.person = c.FromHeader(); c.person == "" {
			return errors.New("--contact is the page itself, which needs a mail address for its readers: add --from")
		}
	}
	if c.Removals == "" {
		c.Removals = c.person
	}
	if c.HostDelay.Usual == nil {
		c.HostDelay.Usual = new(flags.DefaultHostDelay)
	}
	return c.Delays.Complete()
}

// maxURL bounds --url, which stands in all files.
const maxURL = 512

// checkURL checks --url, and adds the / after a host. The drafts require https; http is for tries on this machine.
func (c *Command) checkURL() error {
	if c.URL == "" {
		return nil
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || len(c.URL) > maxURL || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("--url %q is not a URL such as https://bot.example.org/", c.URL)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return fmt.Errorf("--url %s: must begin with https://, because no verifier trusts other URLs", c.URL)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	if !strings.HasSuffix(u.Path, "/") {
		return fmt.Errorf("--url %s: must end with /, because it is the directory of all files", c.URL)
	}
	c.URL = u.String()
	return nil
}

// checkSign checks the key file, and that --url is where the requests of the crawl say that the directory is.
func (c *Command) checkSign() error {
	if _, err := c.Keys(); err != nil {
		return err
	}
	if c.Sign.Sign.Directory == "" {
		return nil
	}
	at, err := c.DirectoryURL("")
	if err == nil && at != c.keysURL() {
		err = fmt.Errorf("--sign: directory=%s: bot-page publishes it at %s, on the host of --url", at, c.keysURL())
	}
	return err
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// writeDir replaces all files of --out-dir.
func (c *Command) writeDir(now time.Time) error {
	files, err := c.files(now)
	if err != nil {
		return err
	}
	for _, name := range sortedNames(files) {
		path := filepath.Join(c.OutDir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o755) // for a web server of another user
		if err == nil {
			err = publish(path, files[name].data)
		}
		if err != nil {
			return fmt.Errorf("--out-dir %s: %s: %w", c.OutDir, name, plain(path, err))
		}
	}
	if c.Nginx == "" {
		return nil
	}
	if err := publish(c.Nginx, c.nginx(files[directoryName], now)); err != nil {
		return fmt.Errorf("--nginx %s: %w", c.Nginx, plain(c.Nginx, err))
	}
	return nil
}

// publish replaces a file atomically, so its readers never see a part of it.
func publish(name string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".tmp*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o644) // for a web server of another user
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// plain returns the cause of an error of a file, whose name the caller has, or of its directory.
func plain(name string, err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", filepath.Dir(name))
	case errors.As(err, &pe):
		return pe.Err
	}
	return err
}
