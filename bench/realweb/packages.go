package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// packageRoot finds the directory with a Debian package's HTML: a directory "html" of the package, which may
// be a symbolic link into another package, or else the topmost one with an index.html. A name with a slash
// is a directory itself.
func packageRoot(pkg string) (string, error) {
	if strings.Contains(pkg, "/") {
		return servable(pkg)
	}
	out, err := exec.Command("dpkg-query", "--listfiles", pkg).Output()
	if err != nil {
		return "", fmt.Errorf("realweb: list files of package %s (is it installed?): %w", pkg, err)
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
