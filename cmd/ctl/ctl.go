// Package ctl is the command ctl, which watches and steers a running crawl from a shell, through its admin
// server (package admin).
//
// It asks by the Unix socket in the crawl's first directory, where the kernel says who is at the other end, or the
// server that --url names, with the token of --token-file. It never takes an address from the directory: after a
// kill -9 somebody else may listen there. Each subcommand is one operation of the server: those that read
// print a table, those that change something print one line. --json prints the server's answer as it is.
// top shows the state on the full screen until q is pressed, with the same numbers as status.
//
// With --nodes a command runs on all nodes of a file, on some at a time (nodes.go).
//
// If no crawl runs, the error says when and why the last run ended (ended.go), from the manifest and the history.
//
// Exit codes: 0; term.ExitUsage (2) if the server refuses a change as impossible, or a flag is bad;
// term.ExitDirectory (4) if no crawl with an admin server runs there; 1 for everything else, such as a
// missing token.
//
// A change carries the name of the user who makes it, for the journal that ctl changes prints.
//
// Output of the server can contain names of sites; it is printed through the App's Plain, which lets no
// control character pass. The package starts goroutines in top and for --nodes alone.
package ctl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"drumbeat/admin"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
)

// Where says where the server is.
type Where struct {
	Dir       []string `short:"d" placeholder:"DIR" default:"${defaultDir}"`
	URL       string   `name:"url" placeholder:"URL"`
	TokenFile string   `placeholder:"FILE"`
	JSON      bool     `name:"json"`

	several bool // the node is one of --nodes
	// Changes of a command, and those of them that all nodes of a cluster carry out.
	changes, everywhere int
}

// Command is the table of ctl's commands.
type Command struct {
	Where
	Nodes string `placeholder:"FILE"`

	Status     statusCmd     `cmd:""`
	Top        topCmd        `cmd:""`
	Structures structuresCmd `cmd:""`
	Slots      slotsCmd      `cmd:""`
	Hosts      hostsCmd      `cmd:""`
	PLDs       pldsCmd       `cmd:"" name:"plds"`
	Explain    explainCmd    `cmd:""`
	Limits     limitsCmd     `cmd:""`
	History    historyCmd    `cmd:""`
	Log        logCmd        `cmd:""`
	Changes    changesCmd    `cmd:""`
	Pause      pauseCmd      `cmd:""`
	Resume     resumeCmd     `cmd:""`
	Checkpoint checkpointCmd `cmd:""`
	Drain      drainCmd      `cmd:""`
	Stop       stopCmd       `cmd:""`
	Delay      delayCmd      `cmd:""`
	Block      blockCmd      `cmd:""`
	Unblock    unblockCmd    `cmd:""`
	Budget     budgetCmd     `cmd:""`
	Function   functionCmd   `cmd:"" name:"budget-function"`
	Priority   priorityCmd   `cmd:""`
	Seeds      seedsCmd      `cmd:""`
	Enqueue    enqueueCmd    `cmd:""`
	Erase      eraseCmd      `cmd:""`
	Reload     reloadCmd     `cmd:""`
}

// atDir is for commands without arguments of their own: they take the crawl's directory as argument, too.
type atDir struct {
	At []string `arg:"" optional:"" name:"dir"`
}

// AfterApply moves the argument into --dir.
func (x *atDir) AfterApply(k *kong.Context, c *given) (err error) {
	if c.Nodes != "" && len(x.At) > 0 {
		return errors.New("--nodes says where the crawls are: give no directory")
	}
	c.Dir, err = flags.OneCrawl(k, c.Dir, x.At)
	return err
}

// given are the flags of all subcommands, for their arguments.
type given struct{ *Command }

// AfterApply hands the flags to the subcommands. With --nodes, Several says where the crawl is.
func (c *Command) AfterApply(k *kong.Context) error {
	k.Bind(&given{c})
	if c.Nodes != "" {
		return c.checkNodes(k)
	}
	k.Bind(&c.Where)
	return nil
}

func (w *Where) client() (*admin.Client, error) {
	c := admin.NewClient(w.dir())
	switch {
	case w.URL != "":
		token := ""
		if w.TokenFile != "" {
			data, err := os.ReadFile(w.TokenFile)
			if err != nil {
				return nil, term.Usage(fmt.Errorf("--token-file: %w", err))
			}
			token = strings.TrimSpace(string(data))
		}
		var err error
		if c, err = admin.NewRemote(w.URL, token); err != nil {
			return nil, term.Usage(fmt.Errorf("--url: %w", err))
		}
	case w.TokenFile != "":
		return nil, term.Usage(errors.New("--token-file: the socket in --dir needs no token; give --url, too"))
	}
	if u, err := user.Current(); err == nil {
		c.Who = u.Username
	}
	return c, nil
}

func (w *Where) dir() string {
	if dirs := flags.Clean(w.Dir); len(dirs) > 0 {
		return dirs[0]
	}
	return "."
}

// call sends a request and prints the answer by print, or as JSON.
func call(a *term.App, w *Where, method, path string, body any, print func(json.RawMessage) error) error {
	c, err := w.client()
	if err != nil {
		return w.classify(err)
	}
	answer, err := c.Do(context.Background(), method, path, body)
	if err != nil {
		return w.classify(err)
	}
	var order admin.Everywhere
	if method != http.MethodGet {
		_ = json.Unmarshal(answer, &order) // some answers have none
		w.changes++
	}
	if order.Everywhere {
		w.everywhere++
	}
	if order.Alone != "" {
		fmt.Fprintln(a.Stderr, "the other nodes of the cluster do not get this order: "+order.Alone)
	}
	if w.JSON {
		var out bytes.Buffer
		if err := json.Indent(&out, answer, "", "  "); err != nil {
			return err
		}
		_, err := fmt.Fprintln(a.Stdout, out.String())
		return err
	}
	if err := print(answer); err != nil || !order.Everywhere || w.several {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, "all nodes of the cluster carry it out, each as soon as it runs")
	return err
}

// classify gives an error of the server its exit code, and says of a stopped crawl how it ended.
func (w *Where) classify(err error) error {
	var p *admin.Problem
	switch {
	case errors.Is(err, admin.ErrNoServer):
		why := ""
		if w.URL == "" {
			why = endOf(disk.OS(), w.dir())
		}
		return &term.Ended{Code: term.ExitDirectory, Why: cmp.Or(why, strings.TrimPrefix(err.Error(), "admin: "))}
	case errors.As(err, &p) && (p.Status == http.StatusBadRequest || p.Status == http.StatusUnprocessableEntity):
		return term.Usage(err)
	}
	return err
}

// change makes a change and prints what was done.
func change(a *term.App, w *Where, method, path string, body any, done string) error {
	return call(a, w, method, path, body, func(json.RawMessage) error {
		_, err := fmt.Fprintln(a.Stdout, done)
		return err
	})
}

type pauseCmd struct{ atDir }

// Run pauses the crawl.
func (pauseCmd) Run(a *term.App, w *Where) error {
	return change(a, w, http.MethodPost, "/api/v1/pause", nil, "paused; drumbeat ctl resume continues")
}

type resumeCmd struct{ atDir }

// Run resumes the crawl.
func (resumeCmd) Run(a *term.App, w *Where) error {
	return change(a, w, http.MethodPost, "/api/v1/resume", nil, "resumed")
}

type checkpointCmd struct{ atDir }

// Run makes a checkpoint.
func (checkpointCmd) Run(a *term.App, w *Where) error {
	return change(a, w, http.MethodPost, "/api/v1/checkpoint", nil, "the checkpoint is durable")
}

type drainCmd struct {
	atDir
	Off bool
}

// Run switches draining.
func (c drainCmd) Run(a *term.App, w *Where) error {
	done := "new links are not queued; drumbeat ctl drain --off queues them again"
	if c.Off {
		done = "new links are queued"
	}
	return change(a, w, http.MethodPost, "/api/v1/drain", admin.Drain{On: !c.Off}, done)
}

type stopCmd struct {
	atDir
	Wait bool
}

// Run stops the crawl.
func (c stopCmd) Run(a *term.App, w *Where) error {
	if err := change(a, w, http.MethodPost, "/api/v1/stop", nil, "stopping"); err != nil || !c.Wait {
		return err
	}
	client, err := w.client()
	if err == nil {
		err = client.WaitStopped(context.Background())
	}
	if err != nil {
		return w.classify(err)
	}
	if !w.JSON {
		_, err = fmt.Fprintln(a.Stdout, "stopped")
	}
	return err
}

type delayCmd struct {
	Host  string `arg:""`
	Delay string `arg:""`
}

// Run sets the delay.
func (c delayCmd) Run(a *term.App, w *Where) error {
	path := "/api/v1/hosts/" + url.PathEscape(c.Host) + "/delay"
	if c.Delay == "normal" {
		return change(a, w, http.MethodDelete, path, nil, c.Host+" has the usual delay")
	}
	d, err := human.ParseDuration(c.Delay)
	if err != nil {
		return term.Usage(fmt.Errorf("the delay %w, or normal", err))
	}
	return change(a, w, http.MethodPut, path, admin.Delay{Delay: d.Seconds()},
		fmt.Sprintf("%s has a delay of %s", c.Host, human.Duration(d)))
}

// sites are the arguments of block and unblock.
type sites struct {
	Kind string   `arg:"" enum:"host,pld,net"`
	Name []string `arg:""`
}

// rules returns the rules of a blacklist that name the sites.
func (s sites) rules() (rules []string) {
	for _, name := range s.Name {
		rules = append(rules, s.Kind+" "+name)
	}
	return rules
}

type blockCmd struct{ sites }

// Run blocks sites.
func (c blockCmd) Run(a *term.App, w *Where) error {
	for _, rule := range c.rules() {
		if err := change(a, w, http.MethodPost, "/api/v1/blocks", admin.Rule{Rule: rule},
			"blocked: "+rule); err != nil {
			return err
		}
	}
	return nil
}

type unblockCmd struct{ sites }

// Run unblocks sites.
func (c unblockCmd) Run(a *term.App, w *Where) error {
	for _, rule := range c.rules() {
		path := "/api/v1/blocks?rule=" + url.QueryEscape(rule)
		if err := call(a, w, http.MethodDelete, path, nil, func(answer json.RawMessage) error {
			var un admin.Unblocked
			if err := json.Unmarshal(answer, &un); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, "no longer blocked: "+rule)
			if un.Refused > 0 {
				fmt.Fprintf(a.Stdout,
					"%s that the blacklist has refused stay refused: the crawler tries no URL twice,\n"+
						"not even as a seed. Other URLs of the site: drumbeat ctl seeds URL...\n",
					human.Counted(un.Refused, "URL", "URLs"))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

type budgetCmd struct {
	PLD     string `arg:"" name:"pld"`
	Budget  string `arg:""`
	Requeue bool
}

// Run fixes the budget.
func (c budgetCmd) Run(a *term.App, w *Where) error {
	path := "/api/v1/plds/" + url.PathEscape(c.PLD) + "/budget"
	if c.Budget == "free" {
		if c.Requeue {
			path += "?requeue=true"
		}
		return change(a, w, http.MethodDelete, path, nil, c.PLD+" has the budget of its in-degree")
	}
	n, err := strconv.ParseUint(c.Budget, 10, 32)
	if err != nil {
		return term.Usage(fmt.Errorf("budget %q: want a number of pages, or free", c.Budget))
	}
	return change(a, w, http.MethodPut, path, admin.Budget{Budget: uint32(n), Requeue: c.Requeue},
		fmt.Sprintf("%s has a budget of %s", c.PLD, human.Counted(n, "page", "pages")))
}

type functionCmd struct {
	Function string `arg:"" enum:"paper,equal,popular,inverse,proportional,supporters,flags"`
	Default  uint32 `placeholder:"PAGES" default:"10"`
	Max      uint32 `placeholder:"PAGES" default:"10000"`
}

// Run changes the budget function.
func (c functionCmd) Run(a *term.App, w *Where) error {
	if c.Function == "flags" {
		return call(a, w, http.MethodDelete, "/api/v1/budget", nil, printRequeued(a))
	}
	return call(a, w, http.MethodPut, "/api/v1/budget",
		admin.Function{Function: c.Function, Default: c.Default, Max: c.Max}, printRequeued(a))
}

// printRequeued prints the answer to a change that places queued URLs again.
func printRequeued(a *term.App) func(json.RawMessage) error {
	return func(answer json.RawMessage) error {
		var set admin.FunctionSet
		if err := json.Unmarshal(answer, &set); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.Stdout, "changed; %s placed again\n",
			human.Counted(set.Moves, "queued URL is", "queued URLs are"))
		return err
	}
}

type priorityCmd struct {
	Priority string   `arg:"" enum:"none,depth,indegree,hook,sitemap,flags"`
	Weights  []uint32 `placeholder:"N"`
}

// Run changes the priority.
func (c priorityCmd) Run(a *term.App, w *Where) error {
	if c.Priority == "flags" {
		return call(a, w, http.MethodDelete, "/api/v1/priority", nil, printRequeued(a))
	}
	return call(a, w, http.MethodPut, "/api/v1/priority", admin.Priority{Priority: c.Priority, Weights: c.Weights},
		printRequeued(a))
}

type limitsCmd struct {
	atDir
	Rate        *string `placeholder:"N"`
	Bandwidth   *string `placeholder:"RATE"`
	Connections *string `placeholder:"N"`
}

// Run prints or changes the limits.
func (c limitsCmd) Run(a *term.App, w *Where) error {
	if c.Rate != nil || c.Bandwidth != nil || c.Connections != nil {
		body := admin.LimitChange{Rate: c.Rate, Bandwidth: c.Bandwidth, Connections: c.Connections}
		if err := change(a, w, http.MethodPut, "/api/v1/limits", body, "changed"); err != nil || w.JSON {
			return err
		}
	}
	return call(a, w, http.MethodGet, "/api/v1/limits", nil, printer(a, printLimits))
}
