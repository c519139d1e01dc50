// Package corpus finds HTML files that comparisons take as pages, and makes pages where there are none.
//
// Files lists the regular files named *.html, *.htm or *.xhtml of some directories, at any depth, in the order of their
// names; symbolic links below a directory aren't followed, but the directory may be one. Spread takes some of them evenly,
// so that a sample is like the whole.
//
// Made makes a page of words by Zipf's law in paragraphs, most of them in sentences that come again, and links. gzip packs it
// about as it does documentation.
//
// # Memory
//
// Names of 2^20 files at most are held; more are an error. Nothing is read here.
//
// # Concurrency
//
// Nothing here starts goroutines.
package corpus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
)

// File is a page of a corpus.
type File struct {
	Path string
	Rel  string // its path from the directory of the corpus
	Size int64
}

const mostFiles = 1 << 20

// Files lists the pages of directories; others is how many that have a page's name are no regular files.
func Files(ctx context.Context, dirs []string) (files []File, others int, err error) {
	for _, dir := range dirs {
		top, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, 0, fmt.Errorf("corpus: %w", err)
		}
		err = filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			switch strings.ToLower(filepath.Ext(name)) {
			case ".html", ".htm", ".xhtml":
			default:
				return nil
			}
			if !e.Type().IsRegular() {
				others++
				return nil
			}
			if len(files) == mostFiles {
				return fmt.Errorf("more than %d files", mostFiles)
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(top, name)
			files = append(files, File{name, rel, info.Size()})
			return err
		})
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if err != nil {
			return nil, 0, fmt.Errorf("corpus %s: %w", dir, err)
		}
	}
	if len(dirs) > 0 && len(files) == 0 {
		return nil, 0, fmt.Errorf("corpus: no HTML file in %s", strings.Join(dirs, ", "))
	}
	return files, others, nil
}

// Spread takes n files, or all if there are no more, evenly.
func Spread(files []File, n int) []File {
	n = min(n, len(files))
	some := make([]File, n)
	for i := range some {
		some[i] = files[i*len(files)/n]
	}
	return some
}

// Made makes a page of about size bytes.
func Made(rng *rand.Rand, size int) []byte {
	zipf := rand.NewZipf(rng, 1.1, 3, 8000)
	b := []byte("<!DOCTYPE html>\n<html lang=\"en\">\n<head><title>A page of words</title>\n<link rel=\"stylesheet\" href=\"/style.css\">" +
		"</head>\n<body>\n")
	var old []string
	for len(b) < size {
		b = append(b, "<p class=\"text\">"...)
		for range 2 + rng.IntN(4) {
			if len(old) > 3 && rng.IntN(3) < 2 {
				b = append(b, old[rng.IntN(len(old))]...)
				continue
			}
			from := len(b)
			for range 5 + rng.IntN(12) {
				b = fmt.Appendf(b, "%s%s ", word(zipf.Uint64()), word(zipf.Uint64()%7))
			}
			b = fmt.Appendf(b, "<a href=\"/docs/%s/%s.html\">%s</a>. ", word(zipf.Uint64()), word(zipf.Uint64()), word(zipf.Uint64()))
			old = append(old, string(b[from:]))
		}
		b = append(b, "</p>\n"...)
	}
	return append(b, "</body>\n</html>\n"...)
}

// word is a word for a number.
func word(n uint64) string {
	var b strings.Builder
	for {
		b.WriteString("bdfklmnprst"[n%11:][:1])
		b.WriteString("aeiou"[n%5:][:1])
		if n /= 11; n == 0 {
			return b.String()
		}
	}
}
