package flags

// Admin are the flags of the admin server.
type Admin struct {
	Admin      string `group:"report" placeholder:"ADDR" default:"127.0.0.1:7878"`
	AdminToken string `name:"admin-token-file" group:"report" placeholder:"FILE"`
	AdminCert  string `group:"report" placeholder:"FILE"`
	AdminKey   string `group:"report" placeholder:"FILE"`
	AdminPlain bool   `group:"report"`
}

// Off reports whether there is no admin server.
func (a Admin) Off() bool { return a.Admin == "none" || a.Admin == "" }
