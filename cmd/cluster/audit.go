package cluster

import (
	"errors"
	"os"
	"path/filepath"

	"drumbeat/cluster"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/state/audit"
)

type auditCmd struct {
	Path        []string `arg:"" name:"path"`
	Deep        bool
	ClusterFile string `placeholder:"FILE"`
	flags.Audit
}

// Run compares the nodes and prints the result.
func (c *auditCmd) Run(a *term.App) error {
	p := term.NewProgress(a.Stderr)
	opt := audit.ClusterOptions{Deep: c.Deep,
		Options: audit.Options{FS: disk.OS(), RAMBytes: int64(c.RAM), TempDir: c.Tmp, Progress: p.Show}}
	if err := c.sort(&opt); err != nil {
		return err
	}
	if c.Deep {
		if c.ClusterFile == "" || len(opt.Others) > 0 {
			return term.Usage(errors.New("--deep needs --cluster-file, and the directories of the nodes"))
		}
		f, err := read(c.ClusterFile)
		if err != nil {
			return err
		}
		opt.Table = f.Table
	}
	rep, err := audit.AuditDirs(opt)
	p.Clear()
	if err != nil {
		return err
	}
	if c.JSON {
		err = term.WriteJSON(a.Stdout, reportOf(rep))
	} else {
		err = rep.Write(a.Stdout)
	}
	switch {
	case err != nil:
		return err
	case rep.Back != nil:
		return rep.Back
	case rep.Damaged:
		return &term.Ended{Code: term.ExitDamage, Why: "a node is damaged", Quiet: true}
	case !rep.Balanced():
		return &term.Ended{Code: term.ExitFailure, Why: "the nodes do not balance", Quiet: true}
	}
	return nil
}

// sort sorts the arguments into directories and files of audits, and reads these.
func (c *auditCmd) sort(opt *audit.ClusterOptions) error {
	opt.Dirs = flags.Clean(flags.Directories(c.Out))
	for _, path := range flags.Clean(c.Path) {
		info, err := os.Stat(path)
		if err != nil {
			return term.Usage(err)
		}
		if info.IsDir() {
			opt.Dirs = append(opt.Dirs, path)
			continue
		}
		n, err := readAudit(path)
		if err != nil {
			return term.Usage(err)
		}
		opt.Others = append(opt.Others, n)
	}
	return nil
}

func readAudit(path string) (n audit.Node, err error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return n, err
	}
	defer f.Close()
	return audit.ReadNode(path, f)
}

// reportJSON is the JSON form of audit.ClusterReport.
type reportJSON struct {
	Balanced bool     `json:"balanced"`
	Nodes    []int    `json:"nodes"`
	Missing  []int    `json:"missing"`
	Pairs    int      `json:"pairs"`
	Sent     sumsJSON `json:"sent"`
	Taken    sumsJSON `json:"taken"`
	Waiting  sumsJSON `json:"waiting"`
	GivenUp  []int    `json:"given_up,omitempty"` // nodes
	Departed []int    `json:"departed,omitempty"` // nodes, without a comparison
	Dropped  sumsJSON `json:"dropped,omitzero"`   // for those given up
	Lost     sumsJSON `json:"lost,omitzero"`      // of taken, by resyncs
	SetBack  *int     `json:"set_back,omitempty"` // the node; -1 if it can be either of two
	Damaged  bool     `json:"damaged"`
	Own      *int64   `json:"urls_of_own_slots,omitempty"`
	Foreign  *int64   `json:"urls_of_others,omitempty"`
	History  *int64   `json:"urls_ended_before_moves,omitempty"`
	Leaving  *int64   `json:"urls_leaving,omitempty"`
	Twice    *int64   `json:"keys_on_two_nodes,omitempty"`
	Wrong    int      `json:"wrong"`
	Bad      []string `json:"bad"` // the first ones
}

type sumsJSON struct {
	Links int64 `json:"links"`
	Edges int64 `json:"edges"`
}

func reportOf(rep *audit.ClusterReport) reportJSON {
	sums := func(t cluster.Totals) sumsJSON { return sumsJSON{Links: t.Links.N, Edges: t.Edges.N} }
	j := reportJSON{Balanced: rep.Balanced(), Nodes: []int{}, Missing: append([]int{}, rep.Missing...),
		Pairs: rep.Pairs, Sent: sums(rep.Out), Taken: sums(rep.Taken), Waiting: sums(rep.Above),
		GivenUp: rep.Abandoned, Departed: rep.Departed, Dropped: sums(rep.Dropped), Lost: sums(rep.Lost),
		Damaged: rep.Damaged, Wrong: rep.BadCount, Bad: append([]string{}, rep.Bad...)}
	for i := range rep.Nodes {
		j.Nodes = append(j.Nodes, rep.Nodes[i].Cluster.Node)
	}
	if rep.Back != nil {
		j.SetBack = &rep.Back.Back
	}
	if d := rep.Deep; d != nil {
		j.Own, j.Foreign, j.History, j.Leaving, j.Twice = &d.Own, &d.Foreign, &d.History, &d.Leaving, &d.Twice
	}
	return j
}
