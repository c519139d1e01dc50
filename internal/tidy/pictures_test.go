package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostPictureBytes bounds the checked-in pictures, which each clone and each reader of the README loads.
const mostPictureBytes = 300_000

var (
	picture = regexp.MustCompile(`(?:src|srcset)="([^"]+)"|!\[[^\]]*\]\(([^)\s]+)\)`)
	image   = regexp.MustCompile(`(?s)<img\s[^>]*>`)
)

// TestPictures: the pictures are small, each is WebP and on a page, pages name no missing one, and each has words
// for those who do not see it.
func TestPictures(t *testing.T) {
	used := map[string]bool{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		for _, m := range picture.FindAllStringSubmatch(string(text), -1) {
			name := filepath.Join(filepath.Dir(page), m[1]+m[2])
			if strings.Contains(name, ":") {
				t.Errorf("%s has a picture from elsewhere: %s", page, name)
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
			used[name] = true
		}
		for _, m := range image.FindAllString(string(text), -1) {
			if !regexp.MustCompile(`alt="[^"]{20,}"`).MatchString(m) {
				t.Errorf("%s: no text tells what is on %s", page, m)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "docs/pictures/*"))
	must(t, err)
	if len(files) < 2 {
		t.Errorf("docs/pictures has %d pictures", len(files))
	}
	total := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		total += len(text)
		name, err := filepath.Rel(root, file)
		must(t, err)
		if !used[filepath.ToSlash(name)] {
			t.Errorf("no page has %s", name)
		}
		if len(text) < 12 || string(text[:4]) != "RIFF" || string(text[8:12]) != "WEBP" {
			t.Errorf("%s is not WebP", name)
		}
	}
	if total > mostPictureBytes {
		t.Errorf("the pictures have %d bytes, at most %d: scripts/pictures.sh makes them", total, mostPictureBytes)
	}
}
