package crawl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/output"
	"drumbeat/internal/human"
	"drumbeat/internal/objstore"
)

// storeFlags say how the object store of --out s3://… is reached.
type storeFlags struct {
	flags.S3
	Spool *flags.Size `group:"output" placeholder:"SIZE"`
}

// leastSpool is four WARC files.
const leastSpool = 4_000_000_000

// stores returns the object stores among the values of --out.
func (c *Command) stores() (list []string) {
	for _, out := range c.Out {
		if strings.HasPrefix(out, objstore.Scheme) {
			list = append(list, out)
		}
	}
	return list
}

// checkStore returns the first fault of the flags of the object store.
func (c *Command) checkStore() error {
	f := &c.storeFlags
	list := c.stores()
	for _, dir := range append(append([]string{}, c.Dir...), append(c.AddDir, c.AddOut...)...) {
		if strings.HasPrefix(dir, objstore.Scheme) {
			return fmt.Errorf("%s: only --out accepts an object store", dir)
		}
	}
	switch {
	case len(list) > 1:
		return fmt.Errorf("--out %s: one object store only", list[1])
	case len(list) == 0 && f.Spool != nil:
		return errors.New("--spool needs --out s3://BUCKET/PREFIX")
	case len(list) == 0 && f.Given() && !strings.HasPrefix(c.Backup, objstore.Scheme):
		return errors.New("--s3-endpoint, --s3-region, --s3-path-style and --s3-insecure need --out or --backup " +
			"s3://BUCKET/PREFIX")
	case len(list) == 0:
		return nil
	case f.Spool != nil && *f.Spool < leastSpool:
		return fmt.Errorf("--spool %v: must be at least %v, four WARC files", human.Bytes(*f.Spool),
			human.Bytes(int64(leastSpool)))
	}
	p, err := c.storePlace()
	if err != nil {
		return fmt.Errorf("--out %w", err)
	}
	if err := p.CheckEndpoint(); err != nil {
		return fmt.Errorf("--s3-endpoint: %w", err)
	}
	return nil
}

// storePlace returns the place of the object store.
func (c *Command) storePlace() (objstore.Place, error) {
	return c.StorePlace(c.stores()[0])
}

// openStore opens the object store, if there is one, with credentials of the SDK's chain.
func (c *Command) openStore(o *crawl.Options) error {
	if len(c.stores()) == 0 {
		return nil
	}
	p, err := c.storePlace()
	if err != nil {
		return term.Usage(err)
	}
	b, err := objstore.OpenS3(context.Background(), p)
	if err != nil {
		return term.Usage(err)
	}
	o.ObjectStore = &output.ObjectStoreOptions{Bucket: b, Place: p, SpoolBytes: int64(flags.OrZero(c.Spool))}
	return nil
}

// uploadsText says what the object store has, and what it lacks; "" without one.
func uploadsText(s *crawl.Snapshot) string {
	u := &s.Uploads
	if !u.On {
		return ""
	}
	text := fmt.Sprintf("%s put in this run, %s; %s in all", human.Counted(u.Files, "file", "files"),
		human.Bytes(u.Bytes), human.Counted(u.Objects, "file", "files"))
	if u.Waiting > 0 {
		text += fmt.Sprintf("; %s and logs wait here, %s",
			human.Counted(u.Waiting, "WARC file", "WARC files"), human.Bytes(u.WaitingBytes))
	}
	if u.Failing != "" {
		text += "; last error: " + term.PlainText(u.Failing)
	} else if u.Faults > 0 {
		text += "; " + human.Counted(u.Faults, "failed attempt", "failed attempts")
	}
	return text
}
