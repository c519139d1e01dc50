package cluster

import (
	"context"
	"fmt"
	"os"
	"time"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
)

// balanceName is the command without a node.
const balanceName = "balance"

// begin refuses a command while another one changes the table, or was interrupted. A node that joins may leave.
func (c *changer) begin(name string, node int) error {
	if c.last != nil {
		m := c.last.Command
		if m == nil && c.last.Kind == cluster.ChangeGrow { // of an earlier version
			m = &cluster.TableCommand{Name: "join", Node: c.table.Nodes() - 1}
		}
		if m != nil && (m.Node != node || m.Name != name && (m.Name == balanceName || name == balanceName)) {
			return term.Usage(fmt.Errorf("%s is in progress: wait until it has ended. If it was interrupted, continue "+
				"it with %s", commandText(m), againText(m)))
		}
	}
	host, _ := os.Hostname() // for people
	c.command = &cluster.TableCommand{Name: name, Node: node, Host: host, Time: time.Now().UTC().Truncate(time.Second)}
	return nil
}

// another is the error for a change that another command has made first; nil: an unreadable one.
func another(now *cluster.TableChange) error {
	what := "another command"
	if now != nil && now.Command != nil {
		what = commandText(now.Command)
	}
	return fmt.Errorf("%s has changed the table of owners: run this command again when that one has ended", what)
}

// commandText names a command that somebody has given.
func commandText(m *cluster.TableCommand) string {
	text := "cluster " + m.Name
	if m.Name != balanceName && m.Name != divideName {
		text += fmt.Sprintf(" of node %d", m.Node)
	}
	if m.Host != "" {
		text += " on " + m.Host
	}
	if !m.Time.IsZero() {
		text += " since " + m.Time.Local().Format(time.DateTime)
	}
	return term.PlainText(text)
}

// againText is the command that continues an interrupted one.
func againText(m *cluster.TableCommand) string {
	switch m.Name {
	case "join":
		return fmt.Sprintf("drumbeat cluster join --node %d", m.Node)
	case "leave":
		return fmt.Sprintf("drumbeat cluster leave FILE %d", m.Node)
	}
	if m.Name == divideName {
		return "drumbeat cluster divide"
	}
	return "drumbeat cluster balance --apply"
}

// conclude writes that the command makes no further change, if its last one does not say so.
func (c *changer) conclude(ctx context.Context) error {
	if c.last == nil || c.last.Command == nil {
		return nil
	}
	v, err := c.e.Get(ctx, cluster.BucketCrawl, cluster.TableKey)
	if err != nil {
		return err
	}
	now, _, err := cluster.DecodeTableChange(v.Data)
	if err != nil || now.ID != c.last.ID {
		return err
	}
	now.Command = nil
	data, err := now.Encode()
	if err == nil {
		_, err = c.e.Update(ctx, cluster.BucketCrawl, cluster.TableKey, data, v.Revision)
	}
	return err
}
