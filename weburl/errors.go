package weburl

import "errors"

// Why a reference is not a URL to crawl. These errors are returned without detail, because pages are full of
// such references and the crawl only counts them.
var (
	// ErrScheme: the scheme is neither http nor https.
	ErrScheme = errors.New("weburl: scheme is neither http nor https")
	// ErrTooLong: the canonical URL would be longer than the limit.
	ErrTooLong = errors.New("weburl: URL is longer than the limit")
	// ErrParse: the standard's parser fails (bad host, bad port).
	ErrParse = errors.New("weburl: not a URL")
	// ErrRecord: the bytes are not a record as written by Append.
	ErrRecord = errors.New("weburl: damaged record")
)
