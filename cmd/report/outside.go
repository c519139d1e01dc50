package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/human"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/state/sitereport"
	"drumbeat/weburl"
)

// Bounds of the check of links to other sites.
const (
	defaultOutside = 1000
	maxOutside     = 10_000 // their answers take some 10 MB of RAM
	// outsideTime is enough for some 700 targets on one host.
	outsideTime = time.Hour
	// outsideRedirects is half of what browsers follow.
	outsideRedirects = 10
	// outsideRAM is the least for a crawl.
	outsideRAM = 128 << 20
)

// outsideFlags are those of the crawl that checks. Other sites get a delay of their own: that of the crawl may be one
// for a server of the operator's. A request is a GET that is cut off behind the head, since many servers answer HEAD
// with an error that no visitor sees; RFC 9110 does not ask them to support it for all resources.
var outsideFlags = []string{"--strategy=snapshot", "--store=none", "--crawl-log=all", "--history-bytes=0",
	"--max-body=1KiB", "--skip-extensions=none", "--guards=depth=0,repeats=0,params=0", "--sitemaps=false",
	"--budget=equal,default=10000", "--host-delay=5s,min=5s", "--retries=1", "--robots-wait=1m", "--linger=1m",
	"--connections=32", "--when-full=stop", "--keep-free=16MiB"}

// checkOutside asks once for each target of links to other sites, in the name of the crawl. checked has a text for
// each one that it can judge: what is wrong, or "". The notes say what it cannot judge.
func (c *Command) checkOutside(ctx context.Context, a *term.App, p *term.Progress, targets []sitereport.Row) (
	checked map[string]string, notes []string, err error) {
	m, _, err := state.ReadManifest(disk.Set{FS: disk.Shared(), Paths: flags.Clean(c.Dir)})
	if err != nil {
		return nil, nil, err
	}
	args, err := outsideArgs(m)
	if err != nil || len(targets) == 0 {
		return nil, nil, err
	}
	temp, err := os.MkdirTemp("", "drumbeat-outside-")
	if err != nil {
		return nil, nil, fmt.Errorf("--check-outside: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	list := filepath.Join(temp, "targets.txt")
	var urls strings.Builder
	for _, t := range targets {
		urls.WriteString(t.URL + "\n")
	}
	if err := os.WriteFile(list, []byte(urls.String()), 0o600); err != nil {
		return nil, nil, fmt.Errorf("--check-outside: %w", err)
	}
	args = append(args, "--dir="+filepath.Join(temp, "crawl"), "--seeds="+list,
		fmt.Sprintf("--ram=%d", max(int64(c.RAM), outsideRAM)))
	n := human.Counted(int64(len(targets)), "address", "addresses")
	p.Say(fmt.Sprintf("checks links to other sites: %s, one request every 5 seconds to a host, for %s at most", n,
		human.Duration(outsideTime)))
	err = crawlcmd.Once(ctx, a, append(args, c.outsideMore...), func(s *crawl.Snapshot) {
		p.Update(fmt.Sprintf("checks links to other sites: %s, %s so far", n,
			human.Counted(s.Counters[state.CountResponses], "answer", "answers")))
	})
	p.Clear()
	var end *term.Ended
	switch {
	case errors.As(err, &end) && end.Code == term.ExitTime:
		notes = append(notes, "the check of links to other sites ended after "+human.Duration(outsideTime))
	case errors.As(err, &end) && end.Code == term.ExitOutage:
	case err != nil:
		return nil, nil, fmt.Errorf("--check-outside: %w", err)
	}
	answers, err := readAnswers(disk.Set{FS: disk.Shared(), Paths: []string{filepath.Join(temp, "crawl")}})
	if err != nil {
		return nil, nil, fmt.Errorf("--check-outside: %w", err)
	}
	checked, more := answers.judgeAll(targets)
	return checked, append(notes, more...), nil
}

// outsideArgs returns the flags of the crawl that checks, except those of its directory.
func outsideArgs(m *state.Manifest) ([]string, error) {
	run := m.Run
	if run == nil || run.Contact == "" {
		return nil, term.Usage(errors.New("--check-outside: an older program made this crawl and kept no " +
			"contact, which each request must name: start the crawl again with this program first"))
	}
	args := append(slices.Clone(outsideFlags), "--agent="+run.Agent, "--contact="+run.Contact,
		"--user-agent="+run.UserAgent, fmt.Sprintf("--max-redirects=%d", outsideRedirects),
		fmt.Sprintf("--max-time=%v", outsideTime))
	if set := run.Ports.String(); set != "" {
		args = append(args, "--ports="+set)
	}
	if m.Frozen.KeepEscapes {
		args = append(args, "--canonical=escapes=keep")
	}
	for _, list := range []struct {
		flag   string
		values []string
	}{{"allow-net", run.AllowNets}, {"resolver", run.NameServers}, {"blacklist", run.Blacklist}} {
		for _, v := range list.values {
			args = append(args, "--"+list.flag+"="+strings.ReplaceAll(v, ",", `\,`)) // a comma separates values
		}
	}
	return args, nil
}

// answer is what became of a URL.
type answer struct {
	status                int
	reason, redirect, tls string
}

// answers are those of a crawl by URL, and those of robots.txt.
type answers struct{ pages, robots map[string]answer }

// readAnswers reads the logs of a crawl that has ended.
func readAnswers(set disk.Set) (*answers, error) {
	all := &answers{pages: map[string]answer{}, robots: map[string]answer{}}
	for prefix, into := range map[string]map[string]answer{"crawl": all.pages, "robots": all.robots} {
		files, err := crawllog.Files(set, prefix)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			err := crawllog.ReadFile(set.FS, name, func(e *crawllog.Entry) error {
				into[e.URL] = answer{status: e.Status, reason: e.Reason, redirect: e.Redirect, tls: e.TLS}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// judgeAll judges all targets.
func (s *answers) judgeAll(targets []sitereport.Row) (checked map[string]string, notes []string) {
	anything := false
	for _, of := range []map[string]answer{s.pages, s.robots} {
		for _, a := range of {
			anything = anything || a.status > 0
		}
	}
	if !anything {
		return nil, []string{"links to other sites could not be checked: no other site has answered; the network " +
			"of the machine that checked may have been down"}
	}
	checked = map[string]string{}
	for _, t := range targets {
		if fault, sure := s.judge(t.URL); sure {
			checked[t.URL] = fault
		}
	}
	if n := int64(len(targets) - len(checked)); n > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be checked: robots.txt of the other site forbids it, the site "+
			"refuses programs, or it did not answer in time",
			human.Counted(n, "link to another site", "links to other sites")))
	}
	return checked, notes
}

// judge returns what visitors find wrong with a URL, "" for nothing. It is not sure if the site may have refused
// only us, or if the fault may be ours.
func (s *answers) judge(url string) (fault string, sure bool) {
	at := url
	say := func(fault string) (string, bool) {
		if at != url {
			fault += ", after a redirect to " + at
		}
		return fault, true
	}
	for range outsideRedirects + 1 {
		a, ok := s.pages[at]
		switch {
		case !ok || a.reason != "":
			if fault := s.unreachable(at, a.reason); fault != "" {
				return say(fault)
			}
			return "", false
		case slices.Contains(warnsOf, a.tls):
			return say("its certificate is bad: " + a.tls)
		case a.redirect != "":
			at = a.redirect
		case a.status == 404 || a.status == 410 || a.status >= 500 && a.status < 600 && a.status != 503:
			return say(fmt.Sprintf("status %d", a.status))
		case a.status >= 200 && a.status < 400:
			return "", true
		default:
			return "", false
		}
	}
	return "redirects in a circle, or too often", true
}

// warnsOf are the certificates that browsers warn of. They find missing authorities by themselves.
var warnsOf = []string{fetch.VerdictExpired, fetch.VerdictNotYetValid, fetch.VerdictName, fetch.VerdictSelfSigned}

// unreachable returns why visitors do not reach a URL without a response, "" if they may.
func (s *answers) unreachable(url, reason string) string {
	const silent, unknown = "the server does not answer", "no such host"
	switch reason {
	case state.ReasonNoHost.String():
		return unknown
	case state.ReasonConnect.String(), state.ReasonTimeout.String():
		return silent
	case state.ReasonTLS.String():
		return "the server offers no secure connection that works"
	case state.ReasonBadResponse.String():
		return "the answer cannot be read"
	case state.ReasonRobotsUnavailable.String(), "":
		// It waited for robots.txt, perhaps until the end.
		name, err := weburl.Canonical(string(weburl.Origin([]byte(url))) + "/robots.txt")
		if err != nil {
			return ""
		}
		switch s.robots[name].reason {
		case robots.NetworkFailure.String():
			return silent
		case robots.NoSuchHost.String():
			return unknown
		}
	}
	return ""
}
