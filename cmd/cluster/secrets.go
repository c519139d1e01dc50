package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

// mostServers bounds --server: a broker has 5 servers at most, each with several names and addresses.
const mostServers = 64

// hostName is the form of a host's name in a certificate.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?$`)

type secretsCmd struct {
	File   string   `arg:"" name:"file"`
	Dir    string   `arg:"" name:"dir"`
	Server []string `required:"" placeholder:"HOST"`
}

// Run makes the files that are missing, and replaces none.
func (c *secretsCmd) Run(a *term.App) error {
	if len(c.Server) > mostServers {
		return term.Usage(fmt.Errorf("--server has %d values: must be %d at most", len(c.Server), mostServers))
	}
	for _, host := range c.Server {
		if net.ParseIP(host) == nil && !hostName.MatchString(host) {
			return term.Usage(fmt.Errorf("--server %s: must be a host name or an IP address, without a port", host))
		}
	}
	f, err := read(c.File)
	if err != nil {
		return err
	}
	users, err := natsUsers(f.Crawl, f.Table.Nodes())
	if err != nil {
		return err
	}
	if err := os.Mkdir(c.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	ca, err := c.load(authority)
	if err != nil {
		return err
	}
	pairs := []pair{{"nats", "drumbeat nats", c.Server}, {"node", nodeUser, nil}, {"status", statusUser, nil}}
	var missing []pair
	for _, p := range pairs { // all are checked before one is made
		if have, err := c.check(ca, p); err != nil {
			return err
		} else if !have {
			missing = append(missing, p)
		}
	}
	if err := c.users(users); err != nil {
		return err
	}
	if ca == nil {
		if ca, err = newSigner(authority.common); err != nil {
			return err
		}
		if err := c.write(authority, ca); err != nil {
			return err
		}
	}
	for _, p := range missing {
		s, err := ca.sign(p.common, p.hosts)
		if err != nil {
			return err
		}
		if err := c.write(p, s); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Stdout, "%s has all secrets, %s; keep it, and copy to each machine only what it needs\n", c.Dir,
		madeOrKept(len(missing), len(pairs)))
	return nil
}

// madeOrKept says how many certificates are new.
func madeOrKept(made, all int) string {
	switch made {
	case 0:
		return "as before"
	case all:
		return "new"
	}
	return fmt.Sprintf("%s new", human.Counted(made, "certificate", "certificates"))
}

// Common names of the certificates of clients. A server takes them for the names of its users.
const (
	nodeUser   = "drumbeat node"
	statusUser = "drumbeat status"
)

// natsUsers returns the part of a NATS server's configuration that maps certificates to permissions.
func natsUsers(crawl string, nodes int) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The users of crawl %s at its NATS servers, by their certificates (drumbeat cluster secrets).\n"+
		"# The server needs verify_and_map in its tls section.\nauthorization {\n  users = [\n", crawl)
	for _, u := range []struct {
		name string
		all  bool
	}{{nodeUser, true}, {statusUser, false}} {
		p, err := nats.NeededPermissions(crawl, nodes, u.all)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "{\nuser: %q\n", "CN="+u.name)
		if err := printPermissions(&b, p); err != nil {
			return nil, err
		}
		b.WriteString("}\n")
	}
	b.WriteString("  ]\n}\n")
	return b.Bytes(), nil
}

// users writes users.conf.
func (c *secretsCmd) users(text []byte) error {
	name := filepath.Join(c.Dir, "users.conf")
	old, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return create(name, text)
	}
	if err == nil && !bytes.Equal(old, text) {
		err = term.Usage(fmt.Errorf("%s belongs to another crawl or version: delete it, and run the command again",
			name))
	}
	return err
}

// pair is a certificate and its key, NAME.pem and NAME.key.
type pair struct {
	name, common string
	hosts        []string // of servers; nil: of clients
}

var authority = pair{name: "ca", common: "drumbeat CA"}

// check reports whether a certificate exists. It is an error if it cannot be used with the CA.
func (c *secretsCmd) check(ca *signer, p pair) (bool, error) {
	have, err := c.load(p)
	if err != nil || have == nil {
		return false, err
	}
	if ca == nil {
		err = fmt.Errorf("%s, which signed it, is missing", c.path(authority.name+".pem"))
	} else {
		err = have.fits(ca, p.hosts)
	}
	if err != nil {
		return true, term.Usage(fmt.Errorf("%s: %w: delete it and %s, and run the command again",
			c.path(p.name+".pem"), err, c.path(p.name+".key")))
	}
	return true, nil
}

func (c *secretsCmd) path(name string) string { return filepath.Join(c.Dir, name) }

// load reads a pair. It returns nil if neither file exists.
func (c *secretsCmd) load(p pair) (*signer, error) {
	var texts [2][]byte
	var missing []string
	for i, end := range []string{".key", ".pem"} {
		text, err := os.ReadFile(c.path(p.name + end))
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, c.path(p.name+end))
		} else if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	if len(missing) == 2 {
		return nil, nil
	}
	// The key is written first, so a run that was killed leaves it alone.
	if len(missing) == 1 {
		names := slices.DeleteFunc([]string{c.path(p.name + ".key"), c.path(p.name + ".pem")},
			func(n string) bool { return n == missing[0] })
		return nil, term.Usage(fmt.Errorf("%s exists, but %s does not: delete the first or restore the second",
			names[0], missing[0]))
	}
	s, err := parseSigner(texts[1], texts[0])
	if err == nil && p.name == authority.name && !s.cert.IsCA {
		err = errors.New("it is no CA's certificate")
	}
	if err != nil {
		return nil, term.Usage(fmt.Errorf("%s: %w", c.path(p.name+".pem"), err))
	}
	return s, nil
}

// write writes a pair.
func (c *secretsCmd) write(p pair, s *signer) error {
	cert, key, err := s.encode()
	if err != nil {
		return err
	}
	defer clear(key)
	if err := create(c.path(p.name+".key"), key); err != nil {
		return err
	}
	return create(c.path(p.name+".pem"), cert)
}
