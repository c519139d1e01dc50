package crawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/backups"
	"drumbeat/internal/human"
	"drumbeat/internal/objstore"
)

// backupFlags have the running crawl backed up.
type backupFlags struct {
	Backup      string        `group:"output" placeholder:"PLACE"`
	BackupEvery time.Duration `group:"output" placeholder:"DURATION" default:"6h"`
	BackupKeep  flags.Count   `group:"output" placeholder:"N" default:"3"`
	BackupRate  flags.Size    `group:"output" placeholder:"SIZE" default:"50MB"`
}

// leastBackupEvery bounds --backup-every: a backup asks for a checkpoint, and looks at each file that it names.
const leastBackupEvery = time.Second

// checkBackup returns the first fault of the flags of backups.
func (c *Command) checkBackup() error {
	switch {
	case c.Backup == "":
		return nil
	case c.BackupEvery < leastBackupEvery:
		return fmt.Errorf("--backup-every %v: must be at least %v", human.Exact(c.BackupEvery), leastBackupEvery)
	case c.BackupKeep < 1 || c.BackupKeep > 1000:
		return fmt.Errorf("--backup-keep %d: must be between 1 and 1000", c.BackupKeep)
	}
	if err := c.CheckBackups(c.Backup); err != nil {
		return fmt.Errorf("--backup: %w", err)
	}
	if !strings.HasPrefix(c.Backup, objstore.Scheme) {
		dirs := slices.Concat(c.dirs(), flags.Directories(c.outs()))
		if err := flags.Outside(flags.Clean(dirs), c.Backup); err != nil {
			return errors.Join(errors.New("--backup"), err)
		}
	}
	return nil
}

// openBackup opens the place of the backups, if there is one.
func (c *Command) openBackup(o *crawl.Options) error {
	if c.Backup == "" {
		return nil
	}
	place, err := c.Backups(c.Backup, c.Node)
	if err != nil {
		return err
	}
	o.Backup = &backups.Options{Place: place, Every: c.BackupEvery, Keep: int(c.BackupKeep),
		BytesPerSecond: int64(c.BackupRate)}
	return nil
}

// backupText says which backup is the newest, and whether backups fail; "" without them.
func backupText(s *crawl.Snapshot) string {
	b := &s.Backup
	if !b.On {
		return ""
	}
	text := "none yet"
	if b.Number > 0 {
		text = fmt.Sprintf("number %d, as of %s UTC, %s; %s made in this run, %s copied", b.Number,
			b.Time.UTC().Format(time.DateTime), human.Bytes(b.Bytes), human.Counted(b.Made, "backup", "backups"),
			human.Bytes(b.Copied))
	}
	if b.Failing != "" {
		text += "; last error: " + term.PlainText(b.Failing)
	}
	return text
}
