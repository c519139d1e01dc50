package urlrule

import (
	"fmt"
	"slices"
	"strings"
)

// sessionParams is the list "session": names that servers and frameworks use for sessions in URLs. Names
// with token have other meanings too ("sid", the number of a story), so a parameter is removed only if its
// value looks like a session token.
func sessionParams() []param {
	return []param{
		{name: "phpsessid"}, {name: "jsessionid"}, {name: "aspsessionid", prefix: true},
		{name: "asp.net_sessionid"}, {name: "cfid"}, {name: "cftoken"}, {name: "oscsid"}, {name: "zenid"},
		{name: "xtcsid"}, {name: "sessionid"}, {name: "session_id"}, {name: "sessid"},
		{name: "viewstate_session"}, {name: "cfsessionkey"}, {name: "bv_sessionid"}, {name: "sid", token: true},
		{name: "session", token: true}, {name: "sess", token: true}, {name: "s", token: true},
	}
}

// trackingParams is the list "tracking": names that advertising and mailings use to track visitors.
func trackingParams() []param {
	return []param{
		{name: "utm_", prefix: true}, {name: "gclid"}, {name: "gclsrc"}, {name: "dclid"}, {name: "gbraid"},
		{name: "wbraid"}, {name: "fbclid"}, {name: "msclkid"}, {name: "yclid"}, {name: "ysclid"},
		{name: "twclid"}, {name: "ttclid"}, {name: "li_fat_id"}, {name: "igshid"}, {name: "_ga"}, {name: "_gl"},
		{name: "mc_cid"}, {name: "mc_eid"}, {name: "_hsenc"}, {name: "_hsmi"}, {name: "hsctatracking"},
		{name: "mkt_tok"}, {name: "vero_id"}, {name: "oly_anon_id"}, {name: "oly_enc_id"},
		{name: "pk_", prefix: true}, {name: "mtm_", prefix: true}, {name: "_openstat"}, {name: "wt_mc"},
	}
}

// The parts of the list "default". It omits extensions that names of pages end in: top-level domains ("com",
// "ai", "app", "so": a directory's /site/example.com), programs that write pages ("dll", "pl", "py", "sh"), "xml" and
// "txt".
const (
	imageExtensions = "3fr arw avif bmp cr2 cr3 dng emf eps gif heic heif icns ico jfif jp2 jpe jpeg jpg jxl nef " +
		"orf pcx pgm png pnm ppm psd raw svg svgz tga tif tiff webp wmf xbm xcf xpm"
	audioExtensions = "aac ac3 aif aiff amr ape flac m3u m4a m4b mid midi mka mp2 mp3 oga ogg opus pls ra ram wav " +
		"weba wma"
	videoExtensions = "3g2 3gp asf avi divx f4v flv m2ts m4v mkv mov mp4 mpe mpeg mpg mts ogv qt rm rmvb swf vob " +
		"webm wmv"
	pdfExtensions      = "pdf"
	documentExtensions = "doc docm docx dot dotx epub fb2 key mobi azw azw3 numbers odg odp ods odt pages pot potx " +
		"pps ppsx ppt pptm pptx ps pub rtf vsd vsdx xls xlsb xlsm xlsx xlt xltx djvu dvi dwg dxf"
	otherExtensions = "" +
		// Archives.
		"7z ace arj bz2 cab cbr cbz cpio gz img iso jar lha lz lz4 lzh lzma rar tar taz tbz tbz2 tgz txz " +
		"war xz z zip zst " +
		// Fonts.
		"eot otf pfb ttc ttf woff woff2 " +
		// Executables, disk images.
		"apk bin deb dmg dylib elf exe ipa msi msix msu pkg rpm snap vhd vmdk wasm xpi crx " +
		// Data, feeds, scripts, styles.
		"atom csv css ics js json kml kmz less map mjs rss scss torrent tsv vcf geojson gpx parquet " +
		"sqlite sql stl obj"
)

// defaultExtensions returns the list "default".
func defaultExtensions() []string {
	return strings.Fields(strings.Join([]string{imageExtensions, audioExtensions, videoExtensions, pdfExtensions,
		documentExtensions, otherExtensions}, " "))
}

// Extensions returns the part of the list "default" for files of a kind: pdf, documents (of office programs,
// and books), images or media (audio and video); nil for other kinds.
func Extensions(kind string) []string {
	switch kind {
	case "pdf":
		return strings.Fields(pdfExtensions)
	case "documents":
		return strings.Fields(documentExtensions)
	case "images":
		return strings.Fields(imageExtensions)
	case "media":
		return strings.Fields(audioExtensions + " " + videoExtensions)
	}
	return nil
}

// ParseParams parses a comma-separated list of parameter names. An item is a name, a prefix that ends in
// '*', or one of the lists "session" and "tracking". Case is ignored.
func ParseParams(list string) ([]string, error) {
	names, err := fields(list)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == "*" || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			return nil, fmt.Errorf("urlrule: parameter %q: want a name, or a prefix and '*'", name)
		}
		for i := range len(name) {
			if c := name[i]; c <= ' ' || c >= 0x7F || strings.IndexByte("&=;/?#", c) >= 0 {
				return nil, fmt.Errorf("urlrule: parameter %q: a name cannot contain %q", name, c)
			}
		}
	}
	return names, nil
}

// maxExtensionBytes bounds the length of an extension.
const maxExtensionBytes = 8

// ParseExtensions parses a comma-separated list of extensions, with or without dots. "default" is the
// default list, "none" the empty list.
func ParseExtensions(list string) ([]string, error) {
	if list == "none" {
		return nil, nil
	}
	names, err := fields(list)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		if name == "default" {
			out = append(out, defaultExtensions()...)
			continue
		}
		name = strings.TrimPrefix(name, ".")
		if len(name) == 0 || len(name) > maxExtensionBytes || pack(name) == 0 {
			return nil, fmt.Errorf("urlrule: extension %q: want 1 to %d letters and digits", name, maxExtensionBytes)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// maxListed bounds the number of names in a list.
const maxListed = 500

func fields(list string) (names []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			names = append(names, name)
		}
	}
	if len(names) > maxListed {
		return nil, fmt.Errorf("urlrule: %d names; the limit is %d", len(names), maxListed)
	}
	return names, nil
}
