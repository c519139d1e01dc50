package flags

import (
	"errors"
	"strings"

	"github.com/alecthomas/kong"
)

// Moved maps the flags of crawl that earlier releases had to their place today: a flag with the part, as it is
// written, or a sentence for a flag that is gone. No old name works; this is the text of the errors.
var Moved = map[string]string{
	"max-path-depth":     "--guards depth=N",
	"max-repeats":        "--guards repeats=N",
	"max-params":         "--guards params=N",
	"max-url-length":     "--guards length=BYTES",
	"escapes":            "--canonical escapes=keep",
	"sort-query":         "--canonical sort",
	"collapse-slashes":   "--canonical slashes",
	"max-pages-per-host": "--max-pages host=N",
	"max-pages-per-pld":  "--max-pages pld=N",
	"host-delay-min":     "--host-delay min=DURATION",
	"server-delay-min":   "--server-delay min=DURATION",
	"pld-delay-min":      "--pld-delay min=DURATION",
	"backoff-max":        "--backoff max=DURATION",
	"host-failures":      "--give-up failures=N",
	"host-rests":         "--give-up backoffs=N",
	"host-refusals":      "--give-up refusals=N",
	"robots-forget":      "the crawl forgets a host 30d after its robots.txt expired",
	"link-rels":          "--follow next=off,prev,canonical,alternate,other",
	"forms":              "--follow forms",
	"assets":             "--follow assets",
	"nofollow":           "--robots-meta nofollow=ignore",
	"noarchive":          "--robots-meta noarchive=drop",
	"noindex":            "--robots-meta noindex=drop",
	"tls-legacy":         "--tls legacy",
	"connect-timeout":    "--timeout connect=DURATION",
	"first-byte-timeout": "--timeout first-byte=DURATION",
	"archive-robots":     "--store robots=off",
	"archive-dns":        "--store dns=off",
	"sitemap-body":       "--max-body 2MiB,sitemap=SIZE",
	"budget-default":     "--budget default=PAGES",
	"budget-queue":       "--budget queue=PAGES",
	"budget-max":         "--budget max=PAGES",
	"budget-ranks":       "--budget ranks=PLDS",
	"trusted":            "--budget trusted=FILE",
	"trap-score":         "--budget traps",
	"queues-max":         "BEAST has at most 1,024 queues ahead of the current one",
	"trace-limit":        "the trace of --trace-links ends at 8 GiB",
	"sites-at-once":      "--strategy sites=N",
	"walkers":            "--strategy walkers=N",
	"walk-urls":          "--strategy urls=N",
	"walk-jump":          "--strategy jump=P",
	"lanes":              "--priority lanes=N",
	"lane-weights":       "--priority weights=8:4:2:1",
	"drum-buffer":        "--drum buffer=SIZE",
	"drum-chunk":         "--drum chunk=SIZE",
	"drum-buckets":       "--drum buckets=N",
	"drum-bucket":        "--drum merge=SIZE",
	"drum-disk":          "--drum disk=SIZE",
	"drum-workers":       "--drum workers=N",
	"cache-ram":          "--drum cache=SIZE",
	"warc-format":        "--warc VALUE",
	"warc-level":         "--warc level=LEVEL",
	"warc-dict":          "--warc dict=FILE",
	"render-tabs":        "--render-limits tabs=N",
	"render-time":        "--render-limits time=DURATION",
	"render-longest":     "--render-limits longest=DURATION",
	"render-requests":    "--render-limits requests=N",
	"render-bytes":       "--render-limits bytes=SIZE",
	"render-queue":       "--render-limits queue=SIZE",
	"render-cache":       "--render-limits cache=SIZE",
	"revisit-policy":     "--revisit VALUE",
	"revisit-default":    "--revisit default=DURATION",
	"revisit-min":        "--revisit min=DURATION",
	"revisit-max":        "--revisit max=DURATION",
	"revisit-gone":       "the crawl gives up a page after 2 consecutive visits that find none",
	"hook-procs":         "--hook-limits procs=N",
	"hook-timeout":       "--hook-limits timeout=DURATION",
	"hook-body":          "--hook-limits body=SIZE",
}

// movedTo says where a flag of an earlier release is today; "" if there was none.
func movedTo(name string) string {
	to, ok := Moved[strings.TrimPrefix(name, "no-")]
	switch {
	case !ok:
		return ""
	case strings.HasPrefix(to, "--"):
		return "this flag is " + to + " now"
	}
	return "this flag is gone: " + to
}

// movedVariable does the same for the name of an environment variable.
func movedVariable(name string) string {
	return movedTo(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "DRUMBEAT_"), "_", "-")))
}

// explainMoved returns the parser's error for args, with a hint if it is a flag that has moved.
func explainMoved(err error) error {
	var parse *kong.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	_, name, unknown := strings.Cut(err.Error(), "unknown flag --")
	name, _, _ = strings.Cut(name, ",")
	to := movedTo(name)
	if !unknown || to == "" || !hasMoved(parse.Context.Selected(), to) {
		return err
	}
	return errors.New("--" + name + ": " + to)
}

// hasMoved reports whether the command has the flag that a text of movedTo names.
func hasMoved(command *kong.Node, to string) bool {
	_, name, named := strings.Cut(to, "--")
	name, _, _ = strings.Cut(name, " ")
	return command != nil && (flagNamed(command, name) != nil || !named && command.Name == "crawl")
}
