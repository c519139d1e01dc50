package objstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
)

// Scheme begins the URL of a bucket.
const Scheme = "s3://"

// Place says where the objects of a crawl are. It has no credentials: those come from the SDK's chain.
type Place struct {
	Bucket    string `json:"bucket"`
	Prefix    string `json:"prefix,omitempty"` // without slashes at its ends
	Endpoint  string `json:"endpoint,omitempty"`
	Region    string `json:"region,omitempty"`
	PathStyle bool   `json:"path_style,omitempty"`
	Insecure  bool   `json:"insecure,omitempty"` // plain HTTP also beyond loopback
}

// ParsePlace parses s3://bucket/prefix.
func ParsePlace(text string) (Place, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	bucket, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	switch {
	case !ok:
		return Place{}, fmt.Errorf("%q does not begin with %s", text, Scheme)
	case bucket == "" || strings.ContainsAny(rest, "?#@ \x00") || strings.Contains(bucket, ":"):
		return Place{}, fmt.Errorf("%q is not %sBUCKET/PREFIX", text, Scheme)
	case prefix != "" && path.Clean("/"+prefix) != "/"+prefix:
		return Place{}, fmt.Errorf("the prefix of %q has an empty part, or a part . or .. in it", text)
	}
	return Place{Bucket: bucket, Prefix: prefix}, nil
}

// String returns the URL of the bucket and prefix.
func (p Place) String() string { return strings.TrimSuffix(Scheme+p.Bucket+"/"+p.Prefix, "/") }

// Same reports whether two places have the same objects, as far as their names tell. An endpoint may get another name.
func (p Place) Same(q Place) bool { return p.Bucket == q.Bucket && p.Prefix == q.Prefix }

// Key returns the key of a file of a crawl.
func (p Place) Key(crawl string, node int, file string) string {
	return path.Join(p.Prefix, crawl, fmt.Sprint(node), file)
}

// CheckEndpoint returns an error for an endpoint to which requests would go in the clear.
func (p Place) CheckEndpoint() error {
	if p.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(p.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("endpoint %q is not http(s)://HOST[:PORT]", p.Endpoint)
	case u.User != nil:
		return errors.New("an endpoint cannot contain credentials: they come from the environment or the shared files")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("endpoint %q has more than scheme, host and port", p.Endpoint)
	}
	if u.Scheme == "https" || p.Insecure || u.Hostname() == "localhost" {
		return nil
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("endpoint %s is plain HTTP beyond loopback: data and object names would travel unencrypted",
		p.Endpoint)
}
