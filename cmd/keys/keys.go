// Package keys is the command keys: it makes and changes the key file by which a crawl signs its requests (crawl
// --sign), and prints its public keys.
//
// Command has a command for each action: keys new writes a file with one key, keys rotate puts a new key before those
// of a file, keys show prints them. Package botauth has the format of the file. Private keys go to the file alone.
//
// keys rotate replaces the file at once, or not at all. The new key begins to sign later (--after), so that the
// directory can be published first: sites keep copies of it. A running crawl reads the file again with its other
// files (ctl reload).
//
// Exit codes: 0; term.ExitUsage (2) for a bad flag, a file that cannot be used, or one that exists and must not.
//
// A key that is waiting, signing or retired is shown as the directory has it; keys that no directory needs are left
// out, and the next rotation drops them.
//
// The package keeps no state and starts no goroutine. A file has at most 16 keys.
package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"drumbeat/botauth"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

// Command is the table of keys' commands.
type Command struct {
	New    newCmd    `cmd:""`
	Rotate rotateCmd `cmd:""`
	Show   showCmd   `cmd:""`
}

// newCmd is the table of keys new's flags.
type newCmd struct {
	File string `arg:""`
}

// rotateCmd is the table of keys rotate's flags.
type rotateCmd struct {
	File  string        `arg:""`
	After time.Duration `placeholder:"DURATION" default:"1d"`
}

// showCmd is the table of keys show's flags.
type showCmd struct {
	File string `arg:""`
	JSON bool   `name:"json"`
}

// Run makes a key file.
func (c *newCmd) Run(a *term.App) error {
	now := time.Now()
	key, err := botauth.NewKey(now)
	if err != nil {
		return err
	}
	keys := botauth.Keys{key}
	if err := botauth.CreateKeys(c.File, keys); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%[1]s exists: name a new file, or add a key to it: drumbeat keys rotate %[1]s", c.File)
		}
		return term.Usage(err)
	}
	fmt.Fprintf(a.Stdout, "%s has a new key.\n", c.File)
	return printKeys(a.Stdout, keys, now)
}

// Run adds a key to a file.
func (c *rotateCmd) Run(a *term.App) error {
	if c.After < 0 || c.After > maxAfter {
		return term.Usage(fmt.Errorf("--after: want 0s to %s", human.Duration(maxAfter)))
	}
	keys, err := botauth.ReadKeys(c.File)
	if err != nil {
		return term.Usage(err)
	}
	now := time.Now()
	rotated, err := keys.Rotate(now, now.Add(c.After))
	if err == nil {
		err = botauth.ReplaceKeys(c.File, rotated)
	}
	if err != nil {
		return term.Usage(err)
	}
	fmt.Fprintf(a.Stdout, "%s has a new key. Publish the key directory again, and run drumbeat ctl reload if a "+
		"crawl is running.\n", c.File)
	return printKeys(a.Stdout, rotated, now)
}

// maxAfter bounds --after.
const maxAfter = 365 * 24 * time.Hour

// Run prints the public keys of a file.
func (c *showCmd) Run(a *term.App) error {
	keys, err := botauth.ReadKeys(c.File)
	if err != nil {
		return term.Usage(err)
	}
	if c.JSON {
		return term.WriteJSON(a.Stdout, keysJSON(keys, time.Now()))
	}
	return printKeys(a.Stdout, keys, time.Now())
}

// shownKey is the JSON form of a key.
type shownKey struct {
	ID    string      `json:"id"`
	State string      `json:"state"`
	From  *time.Time  `json:"signs_from,omitempty"`
	Until *time.Time  `json:"listed_until,omitempty"`
	JWK   botauth.JWK `json:"jwk"`
}

// keysJSON returns the JSON form of the keys that a directory has now.
func keysJSON(keys botauth.Keys, now time.Time) any {
	list := []shownKey{}
	directory := keys.Directory(now)
	for i, key := range keys.Listed(now) {
		k := shownKey{ID: key.ID(), State: stateOf(keys, i, now), JWK: directory.Keys[i]}
		if !key.From.IsZero() {
			k.From = &key.From
		}
		if until := keys.Until(i); !until.IsZero() {
			k.Until = &until
		}
		list = append(list, k)
	}
	return struct {
		Keys []shownKey `json:"keys"`
	}{list}
}

// The states of a key.
const (
	waits   = "waits"
	signs   = "signs"
	retired = "retired"
)

func stateOf(keys botauth.Keys, i int, now time.Time) string {
	switch signer := keys.At(now).ID(); {
	case keys[i].ID() == signer:
		return signs
	case keys[i].From.After(now):
		return waits
	}
	return retired
}

// printKeys prints the keys that a directory has now, newest first.
func printKeys(w io.Writer, keys botauth.Keys, now time.Time) error {
	for i, key := range keys.Listed(now) {
		state := stateOf(keys, i, now)
		text := "signs now"
		switch {
		case state == waits:
			text = "signs from " + key.From.Format(time.RFC3339)
		case state == retired:
			text = "no longer signs; must stay in the key directory until " + keys.Until(i).Format(time.RFC3339)
		case i > 0:
			text += fmt.Sprintf(" until %s; must stay in the key directory until %s",
				keys[i-1].From.Format(time.RFC3339), keys.Until(i).Format(time.RFC3339))
		}
		if _, err := fmt.Fprintf(w, "key %s\n  %s\n  public key %s\n", key.ID(), text,
			keys.Directory(now).Keys[i].X); err != nil {
			return err
		}
	}
	return nil
}
