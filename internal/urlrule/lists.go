package urlrule

import (
	"fmt"
	"slices"
	"strings"
)

// sessionParams is the list "session": names by which servers and frameworks carry a session in URLs. Those with tokens are
// words of other meanings too ("sid", a story's number), so only a value that looks like a session's goes.
func sessionParams() []param {
	return []param{
		{name: "phpsessid"}, {name: "jsessionid"}, {name: "aspsessionid", prefix: true}, {name: "asp.net_sessionid"},
		{name: "cfid"}, {name: "cftoken"}, {name: "oscsid"}, {name: "zenid"}, {name: "xtcsid"}, {name: "sessionid"},
		{name: "session_id"}, {name: "sessid"}, {name: "viewstate_session"}, {name: "cfsessionkey"}, {name: "bv_sessionid"},
		{name: "sid", token: true}, {name: "session", token: true}, {name: "sess", token: true}, {name: "s", token: true},
	}
}

// trackingParams is the list "tracking": names by which advertising and mail follow a visitor.
func trackingParams() []param {
	return []param{
		{name: "utm_", prefix: true}, {name: "gclid"}, {name: "gclsrc"}, {name: "dclid"}, {name: "gbraid"}, {name: "wbraid"},
		{name: "fbclid"}, {name: "msclkid"}, {name: "yclid"}, {name: "ysclid"}, {name: "twclid"}, {name: "ttclid"},
		{name: "li_fat_id"}, {name: "igshid"}, {name: "_ga"}, {name: "_gl"}, {name: "mc_cid"}, {name: "mc_eid"},
		{name: "_hsenc"}, {name: "_hsmi"}, {name: "hsctatracking"}, {name: "mkt_tok"}, {name: "vero_id"}, {name: "oly_anon_id"},
		{name: "oly_enc_id"}, {name: "pk_", prefix: true}, {name: "mtm_", prefix: true}, {name: "_openstat"}, {name: "wt_mc"},
	}
}

// defaultExtensions is the list "default". It leaves out what also ends names of pages: "com", "ai", "app", "so" and other top-level
// domains (a directory's /site/example.com), "dll", "pl", "py" and "sh" (programs that write pages), "xml" and "txt".
const defaultExtensions = "" +
	"3fr arw avif bmp cr2 cr3 dng emf eps gif heic heif icns ico jfif jp2 jpe jpeg jpg jxl nef orf pcx pgm png pnm ppm psd raw svg svgz " + // images
	"tga tif tiff webp wmf xbm xcf xpm " +
	"aac ac3 aif aiff amr ape flac m3u m4a m4b mid midi mka mp2 mp3 oga ogg opus pls ra ram wav weba wma " + // audio
	"3g2 3gp asf avi divx f4v flv m2ts m4v mkv mov mp4 mpe mpeg mpg mts ogv qt rm rmvb swf vob webm wmv " + // video
	"7z ace arj bz2 cab cbr cbz cpio gz img iso jar lha lz lz4 lzh lzma rar tar taz tbz tbz2 tgz txz war xz z zip zst " + // archives
	"eot otf pfb ttc ttf woff woff2 " + // fonts
	"apk bin deb dmg dylib elf exe ipa msi msix msu pkg rpm snap vhd vmdk wasm xpi crx " + // executables, images of disks
	"doc docm docx dot dotx epub fb2 key mobi azw azw3 numbers odg odp ods odt pages pdf pot potx pps ppsx ppt pptm pptx ps pub rtf " + // documents
	"vsd vsdx xls xlsb xlsm xlsx xlt xltx djvu dvi dwg dxf " +
	"atom csv css ics js json kml kmz less map mjs rss scss torrent tsv vcf geojson gpx parquet sqlite sql stl obj" // data, feeds, scripts, styles

// ParseParams reads a list of names of parameters, separated by commas: a name, a beginning of names that ends in '*', or one of the
// lists "session" and "tracking". Case doesn't count.
func ParseParams(list string) ([]string, error) {
	names, err := fields(list)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == "*" || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			return nil, fmt.Errorf("urlrule: parameter %q: want a name, or a beginning and '*'", name)
		}
		for i := range len(name) {
			if c := name[i]; c <= ' ' || c >= 0x7F || strings.IndexByte("&=;/?#", c) >= 0 {
				return nil, fmt.Errorf("urlrule: parameter %q: %q can't stand in a name", name, c)
			}
		}
	}
	return names, nil
}

// maxExtensionBytes bounds an extension.
const maxExtensionBytes = 8

// ParseExtensions reads a list of extensions, separated by commas, with or without their dots: "default" stands for the default list,
// "none" for nothing.
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
			out = append(out, strings.Fields(defaultExtensions)...)
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

// maxListed bounds a list.
const maxListed = 500

func fields(list string) (names []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			names = append(names, name)
		}
	}
	if len(names) > maxListed {
		return nil, fmt.Errorf("urlrule: %d names: at most %d", len(names), maxListed)
	}
	return names, nil
}
