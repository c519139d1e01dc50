package weburl

import "errors"

// What a reference can be other than a URL for us. They are returned as they are, without detail, since pages
// are full of them and the crawl only counts them.
var (
	// ErrScheme: the reference is of another scheme than http and https.
	ErrScheme = errors.New("weburl: scheme is neither http nor https")
	// ErrTooLong: the canonical URL would be longer than the limit.
	ErrTooLong = errors.New("weburl: URL is longer than the limit")
	// ErrParse: the standard calls the reference a failure (bad host, bad port).
	ErrParse = errors.New("weburl: not a URL")
	// ErrRecord: the bytes are not a record as Append writes it.
	ErrRecord = errors.New("weburl: damaged record")
)
