package flags

// Admin are the flags of the admin server.
type Admin struct {
	Admin      string `group:"report" placeholder:"ADDR" default:"127.0.0.1:7878" help:"Serve the admin interface on ADDR (HOST:PORT). If the port of a loopback address is taken, the next free one is used, with a warning. Changes need the token in DIR/admin-token, which is new at each start; on other than loopback addresses, so does everything. ctl uses the socket DIR/admin.sock, which needs no token. none: no admin server, and no socket."`
	AdminToken string `name:"admin-token-file" group:"report" placeholder:"FILE" help:"Use the token in FILE (mode 0600, 16 to 512 characters), so that it outlives the run, for instance for a Prometheus on another machine."`
	AdminCert  string `group:"report" placeholder:"FILE" help:"Serve the admin interface by TLS with this certificate (PEM)."`
	AdminKey   string `group:"report" placeholder:"FILE" help:"Private key of --admin-cert (PEM)."`
	AdminPlain bool   `group:"report" help:"Serve the admin interface unencrypted on an address that is not loopback."`
}

// Off reports whether there is no admin server.
func (a Admin) Off() bool { return a.Admin == "none" || a.Admin == "" }
