package cmd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// newFixture names the release whose fixture TestUpgrade writes first.
var newFixture = flag.String("fixture", "", "write testdata/upgrade/NAME.tar.gz with this version, for TestUpgrade")

// Files of a fixture beside the directory "crawl" of the crawl.
const (
	fixtureFetched = "fetched" // the URLs that the crawl requested, one a line
	fixtureWeb     = "web"     // checksum of the URLs that a crawl of the whole web fetches
)

// upgradeWeb serves the web of all fixtures. Its options may never change: the crawls in the fixtures
// continue in it. It has no dead hosts, which a crawl resumed after some time tries again for seconds.
func upgradeWeb(t *testing.T) (*simweb.Web, []string) {
	t.Helper()
	return cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.Seed, o.PLDs, o.Hosts, o.Pages, o.IPs, o.SeedURLs = 11, 15, 45, 450, 15, 5
		o.Dead, o.Robots.ServerError = simweb.DeadHosts{}, 0
	})
}

// webSum returns the checksum of the URLs that a crawl of the whole web fetches.
func webSum(web *simweb.Web) string {
	urls := slices.Sorted(web.Expected("drumbeat").FetchedURLs())
	sum := sha256.Sum256([]byte(strings.Join(urls, "\n")))
	return hex.EncodeToString(sum[:])
}

// TestUpgrade: a crawl that an earlier release began and stopped continues with this version. It fetches each
// URL that an undisturbed crawl fetches, and none twice; the audit balances.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if *newFixture != "" {
		writeFixture(t, filepath.Join("testdata", "upgrade", *newFixture+".tar.gz"))
	}
	fixtures, err := filepath.Glob("testdata/upgrade/*.tar.gz")
	if err != nil || len(fixtures) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, fixture := range fixtures {
		t.Run(strings.TrimSuffix(filepath.Base(fixture), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			resumeFixture(t, fixture)
		})
	}
}

func resumeFixture(t *testing.T, fixture string) {
	tmp := t.TempDir()
	unpack(t, fixture, tmp)
	web, args := upgradeWeb(t)
	sum, err := os.ReadFile(filepath.Join(tmp, fixtureWeb))
	if err != nil || strings.TrimSpace(string(sum)) != webSum(web) {
		t.Fatalf("internal/simweb no longer makes the web of this fixture (%v): undo that change for these options",
			err)
	}
	dir := filepath.Join(tmp, "crawl")
	wantExit(t, term.ExitDone, "", "audit", "--deep", dir)
	wantExit(t, term.ExitDone, "", append(args, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir)...)
	if out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", dir); !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
	before, err := os.ReadFile(filepath.Join(tmp, fixtureFetched))
	must(t, err)
	log := web.Log().Snapshot()
	if n := len(log.Fetches); n < 100 {
		t.Errorf("the resumed crawl fetched only %d URLs", n)
	}
	for url := range strings.Lines(string(before)) {
		log.Fetches[strings.TrimSpace(url)]++
	}
	if err := log.CheckFetched(web.Expected("drumbeat"), 1); err != nil {
		t.Error(err)
	}
}

// writeFixture writes the fixture of this version: a crawl that stopped cleanly at half of its web. It has no
// WARC files, which a crawl never needs again.
func writeFixture(t *testing.T, name string) {
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s: never replace a fixture (%v)", name, err)
	}
	web, args := upgradeWeb(t)
	tmp := t.TempDir()
	dir := filepath.Join(tmp, "crawl")
	wantExit(t, term.ExitPages, "",
		append(args, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir, "--max-pages=180")...)
	must(t, os.RemoveAll(filepath.Join(dir, "warc")))
	must(t, os.Mkdir(filepath.Join(dir, "warc"), 0o700))
	fetched := slices.Sorted(maps.Keys(web.Log().Snapshot().Fetches))
	for name, text := range map[string]string{fixtureFetched: strings.Join(fetched, "\n"), fixtureWeb: webSum(web)} {
		must(t, os.WriteFile(filepath.Join(tmp, name), []byte(text+"\n"), 0o600))
	}
	must(t, os.WriteFile(name, pack(t, tmp), 0o644))
}

// pack returns the compressed tar archive of a directory, without owners and times.
func pack(t *testing.T, dir string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		head := &tar.Header{Name: filepath.ToSlash(rel), Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0)}
		if d.IsDir() {
			head.Typeflag, head.Name = tar.TypeDir, head.Name+"/"
			return w.WriteHeader(head)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		head.Typeflag, head.Size = tar.TypeReg, int64(len(data))
		if err := w.WriteHeader(head); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	must(t, errors.Join(err, w.Close(), z.Close()))
	return out.Bytes()
}

// unpack writes the files of an archive of pack below dir.
func unpack(t *testing.T, name, dir string) {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	r := tar.NewReader(z)
	for {
		head, err := r.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		path := filepath.Join(dir, head.Name)
		if head.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, fs.FileMode(head.Mode))
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, fs.FileMode(head.Mode))
			}
		}
		must(t, err)
	}
}
