package flags

import (
	"slices"
	"strings"

	"drumbeat/internal/urlrule"
)

// Fetching holds --fetch, which stands for values of --accept, --skip-extensions, --max-body and --follow.
type Fetching struct {
	Fetch []string `common:"" site:"" placeholder:"KIND" default:"pages" enum:"pages,pdf,documents,images,media,all"`
}

// fetchKind is a kind of files beside pages.
type fetchKind struct {
	types []string
	size  Size // of a body
	parts bool // pages show such files, too
}

// fetchKinds are the kinds of --fetch that have files of their own.
var fetchKinds = map[string]fetchKind{
	"pdf": {types: []string{"application/pdf"}, size: 20 << 20},
	"documents": {types: []string{"application/msword", "application/rtf", "application/epub+zip",
		"application/postscript", "application/vnd.ms-excel", "application/vnd.ms-powerpoint",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		"application/vnd.openxmlformats-officedocument.presentationml.presentation",
		"application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.spreadsheet",
		"application/vnd.oasis.opendocument.presentation"}, size: 20 << 20},
	"images": {types: []string{"image/*"}, size: 10 << 20, parts: true},
	"media":  {types: []string{"audio/*", "video/*", "application/ogg"}, size: 100 << 20, parts: true},
}

// fetchAllSize is the size of a body with --fetch all.
const fetchAllSize = 20 << 20

// Apply puts the kinds into the flags for which they stand. A value of --skip-extensions or --max-body that is not
// the default stays as it is.
func (f *Fetching) Apply(b *Bodies, u *URLRules, l *Links) {
	plain := u.SkipExtensions == "default"
	sized := b.MaxBody.String() == defaultMaxBody
	var followed []string // extensions
	for _, kind := range f.Fetch {
		k := fetchKinds[kind]
		switch kind {
		case "pages":
			continue
		case "all":
			b.Accept, l.Follow.Assets = []string{"*/*"}, true
			if plain {
				u.SkipExtensions = "none"
			}
			if sized {
				b.MaxBody.all = max(b.MaxBody.all, fetchAllSize)
			}
			plain = false
			continue
		case "documents": // PDF is one
			b.take("pdf", sized)
			followed = append(followed, urlrule.Extensions("pdf")...)
		}
		b.take(kind, sized)
		followed = append(followed, urlrule.Extensions(kind)...)
		l.Follow.Assets = l.Follow.Assets || k.parts
	}
	if plain && len(followed) > 0 {
		list, _ := urlrule.ParseExtensions("default") // it is right
		u.SkipExtensions = strings.Join(slices.DeleteFunc(list, func(name string) bool {
			return slices.Contains(followed, name)
		}), ",")
	}
}

// take accepts the types of a kind. sized says that --max-body is the default, so the kind has a size of its own.
func (f *Bodies) take(kind string, sized bool) {
	k := fetchKinds[kind]
	for _, t := range k.types {
		if slices.Contains(f.Accept, t) {
			continue
		}
		f.Accept = append(f.Accept, t)
		if sized {
			f.MaxBody.types = append(f.MaxBody.types, bodySize{t, k.size})
		}
	}
}
