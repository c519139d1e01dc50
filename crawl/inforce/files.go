package inforce

import (
	"errors"
	"fmt"

	"drumbeat/admit"
	"drumbeat/botauth"
	"drumbeat/internal/scope"
	"drumbeat/internal/sites"
)

// rulesShare limits rules and blacklist to 1/rulesShare of the Go heap. There are two of each during a
// reload.
const rulesShare = 8

// sitesShare limits the settings of sites to 1/sitesShare of the Go heap. There are two of them during a
// reload.
const sitesShare = 16

// readRules reads the files of rules and blacklist. blocked are rules of the blacklist that precede the
// files.
func (r *Reloader) readRules(blocked []scope.Source) (rules, blacklist *scope.Set, err error) {
	o := r.opt.Admission
	rules, err1 := admit.ReadRules(r.opt.FS, scope.Rules, r.saved.Suffixes, o.Rules, o.KeepEscapes)
	blacklist, err2 := admit.ReadRules(r.opt.FS, scope.Blacklist, r.saved.Suffixes, o.Blacklist, o.KeepEscapes,
		blocked...)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	most := r.opt.Plan.HeapBytes / rulesShare
	if n := rules.Stats().Bytes + blacklist.Stats().Bytes; n > most {
		return nil, nil, fmt.Errorf("crawl: rules and blacklist take %d bytes of RAM, twice that during a reload,"+
			" and the limit is %d: use more RAM or fewer rules", n, most)
	}
	return rules, blacklist, nil
}

// readTrusted reads the file of trusted PLDs; nil without one.
func (r *Reloader) readTrusted() ([]uint64, error) {
	return admit.ReadTrusted(r.opt.FS, r.opt.Trusted, r.saved.PLDKey)
}

// readSites reads the settings of sites; nil without a file.
func (r *Reloader) readSites() (*sites.Set, error) {
	o := r.opt.Admission
	set, err := admit.ReadSettings(r.opt.FS, o.Sites, sites.Options{Suffixes: r.saved.Suffixes,
		KeepEscapes: o.KeepEscapes, Agent: r.opt.Agent, Contact: r.opt.Contact, Env: r.env})
	if err != nil {
		return nil, err
	}
	if n := set.Stats().Bytes; n > r.opt.Plan.HeapBytes/sitesShare {
		return nil, fmt.Errorf("crawl: the site settings take %d bytes of RAM, twice that during a reload,"+
			" and the limit is %d: use more RAM or fewer sites", n, r.opt.Plan.HeapBytes/sitesShare)
	}
	return set, nil
}

// env returns a variable of the environment.
func (r *Reloader) env(name string) (value string, ok bool) {
	if r.opt.Admission.Env == nil {
		return "", false
	}
	return r.opt.Admission.Env(name)
}

// CheckBlocked returns why the blacklist cannot have the rules of the operator in blocked: they are
// invalid, or do not fit into RAM.
func (r *Reloader) CheckBlocked(blocked []scope.Source) error {
	_, _, err := r.readRules(blocked)
	return err
}

// CheckFiles returns the errors of the files that a reload would read.
func (r *Reloader) CheckFiles() error {
	_, err1 := r.readSites()
	_, err2 := r.readTrusted()
	err := errors.Join(err1, err2)
	if r.opt.Signer != nil {
		_, err3 := botauth.ReadKeys(r.opt.KeyFile)
		err = errors.Join(err, err3)
	}
	if len(r.opt.Admission.Rules)+len(r.opt.Admission.Blacklist) > 0 {
		err = errors.Join(err, r.CheckBlocked(r.others.Blocked()))
	}
	return err
}
