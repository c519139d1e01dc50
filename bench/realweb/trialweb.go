package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// newTrialWeb makes the web of the trials: plain HTTP, a number of hosts for each package, and pages
// compressed in advance, so the server needs little CPU, and the same for each contender.
func newTrialWeb(ctx context.Context, c *raceCmd) (*web, error) {
	work, err := filepath.Abs(c.Work)
	if err != nil {
		return nil, err
	}
	w := &web{work: work, byName: map[string]*host{}, static: true}
	left := map[string]int{}
	var order []string
	for _, p := range c.Packages {
		name, times, _ := strings.Cut(p, "*")
		n := 1
		if times != "" {
			if n, err = strconv.Atoi(times); err != nil || n < 1 || n > 1000 {
				return nil, fmt.Errorf(
					"realweb: --packages %s: want NAME[:SUBDIRECTORY][*HOSTS] with 1 to 1000 hosts", p)
			}
		}
		if left[name] == 0 {
			order = append(order, name)
		}
		left[name] += n
		w.addrs += n
	}
	trees := map[string]string{}
	for i, name := range order {
		pkg, sub, _ := strings.Cut(name, ":")
		root, err := packageRoot(pkg)
		if err == nil {
			root, err = servable(filepath.Join(root, sub))
		}
		if err != nil {
			return nil, err
		}
		trees[name] = w.path("tree", strconv.Itoa(i))
		if err := pressTree(ctx, root, trees[name]); err != nil {
			return nil, err
		}
	}
	for i := 0; len(w.hosts) < w.addrs; i++ { // round robin, so neighbouring hosts differ
		name := order[i%len(order)]
		if left[name] == 0 {
			continue
		}
		left[name]--
		n := len(w.hosts)
		h := &host{name: hostName(n), addr: w.address(n), root: trees[name], robots: true}
		nth := i / len(order) // among the package's hosts
		if nth == 2 {
			h.disallow = disallowed(h.root)
		}
		h.plain = c.Web == webFull && nth%3 == 2
		w.add(h)
	}
	return w, nil
}

// maxDepth bounds the depth of a tree, since symbolic links to directories are followed.
const maxDepth = 32

// pressTree makes a directory like root, with symbolic links to its files and a gzip file (level 6) beside
// each page.
func pressTree(ctx context.Context, root, to string) error {
	var pages []string // in root
	if err := linkTree(root, to, 0, &pages); err != nil {
		return err
	}
	work := make(chan string)
	failed := make(chan error, 8)
	var wg sync.WaitGroup
	for range cap(failed) {
		wg.Go(func() {
			z, _ := gzip.NewWriterLevel(nil, 6)
			for name := range work {
				rel, _ := filepath.Rel(root, name)
				if err := press(z, name, filepath.Join(to, rel)+".gz"); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	err := func() error {
		defer close(work)
		for _, name := range pages {
			select {
			case work <- name:
			case err := <-failed:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}()
	wg.Wait()
	close(failed)
	return errors.Join(err, <-failed)
}

func press(z *gzip.Writer, from, to string) error {
	body, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	z.Reset(f)
	_, err = z.Write(body)
	return errors.Join(err, z.Close(), f.Close())
}

func linkTree(from, to string, depth int, pages *[]string) error {
	if depth > maxDepth {
		return fmt.Errorf("realweb: %s is more than %d directories deep", from, maxDepth)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		info, err := os.Stat(source)
		switch {
		case err != nil: // a link to a file of a package that is not installed
			continue
		case info.IsDir():
			err = linkTree(source, target, depth+1, pages)
		case info.Mode().IsRegular():
			if filepath.Ext(source) == ".html" {
				*pages = append(*pages, source)
			}
			if source, err = filepath.EvalSymlinks(source); err == nil {
				err = os.Symlink(source, target)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// packageRoot finds the directory with a Debian package's HTML: a directory "html" of the package, which may
// be a symbolic link into another package, or else the topmost one with an index.html. A name with a slash
// is a directory itself.
func packageRoot(pkg string) (string, error) {
	if strings.Contains(pkg, "/") {
		return servable(pkg)
	}
	out, err := exec.Command("dpkg-query", "--listfiles", pkg).Output()
	if err != nil {
		return "", fmt.Errorf("realweb: list the files of package %s; it may not be installed: %w", pkg, err)
	}
	var named, index string
	for line := range bytes.Lines(out) {
		name := strings.TrimSpace(string(line))
		switch path.Base(name) {
		case "html":
			if named == "" || len(name) < len(named) {
				named = name
			}
		case "index.html":
			if dir := path.Dir(name); index == "" || len(dir) < len(index) {
				index = dir
			}
		}
	}
	for _, dir := range []string{named, index} {
		if dir == "" {
			continue
		}
		if root, err := servable(dir); err == nil {
			return root, nil
		}
	}
	return "", fmt.Errorf("realweb: package %s has no directory with an index.html", pkg)
}

// servable resolves a directory and checks that it has an index page.
func servable(dir string) (string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("realweb: documentation in %s: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(root, "index.html")); err != nil {
		return "", fmt.Errorf("realweb: documentation in %s: %w", dir, err)
	}
	return filepath.Abs(root)
}
