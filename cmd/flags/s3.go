package flags

import (
	"context"
	"fmt"
	"strings"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/objstore"
	"drumbeat/state/backup"
)

// S3 are the flags by which object stores are reached.
type S3 struct {
	S3Endpoint  string `group:"output" name:"s3-endpoint" placeholder:"URL"`
	S3Region    string `group:"output" name:"s3-region" placeholder:"NAME"`
	S3PathStyle bool   `group:"output" name:"s3-path-style"`
	S3Insecure  bool   `group:"output" name:"s3-insecure"`
}

// Given reports whether one of the flags was given.
func (f *S3) Given() bool {
	return f.S3Endpoint != "" || f.S3Region != "" || f.S3PathStyle || f.S3Insecure
}

// StorePlace returns the place that s3://BUCKET/PREFIX and the flags name.
func (f *S3) StorePlace(text string) (objstore.Place, error) {
	p, err := objstore.ParsePlace(text)
	p.Endpoint, p.Region, p.PathStyle, p.Insecure = f.S3Endpoint, f.S3Region, f.S3PathStyle, f.S3Insecure
	return p, err
}

// CheckBackups returns the first fault of a place of backups: s3://BUCKET/PREFIX or a directory.
func (f *S3) CheckBackups(text string) error {
	switch {
	case text == "":
		return fmt.Errorf("a directory or %sBUCKET/PREFIX is missing", objstore.Scheme)
	case !strings.HasPrefix(text, objstore.Scheme):
		return nil
	}
	p, err := f.StorePlace(text)
	if err != nil {
		return err
	}
	if err := p.CheckEndpoint(); err != nil {
		return fmt.Errorf("--s3-endpoint: %w", err)
	}
	return nil
}

// Backups returns a place of backups, with credentials of the SDK's chain for an object store. In a cluster each node
// has a place below it.
func (f *S3) Backups(text string, node *int) (backup.Place, error) {
	if node != nil {
		text = fmt.Sprintf("%s/node-%d", strings.TrimRight(text, "/"), *node)
	}
	if err := f.CheckBackups(text); err != nil {
		return nil, term.Usage(err)
	}
	if !strings.HasPrefix(text, objstore.Scheme) {
		return backup.Directory(disk.OS(), text), nil
	}
	p, err := f.StorePlace(text)
	if err != nil {
		return nil, term.Usage(err)
	}
	b, err := objstore.OpenS3(context.Background(), p)
	if err != nil {
		return nil, term.Usage(err)
	}
	return backup.Bucket(b, p), nil
}
