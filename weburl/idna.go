package weburl

import "strings"

// mapNewer applies the mappings that UTS #46 gained between Unicode 15.0, the version of x/net/idna, and
// 17.0: capital letters that were disallowed and are now mapped, invisible characters that are now ignored,
// and five compatibility ideographs. It remains correct when idna learns them. It omits characters added
// since 15.0: names with them are still rejected.
func mapNewer(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x4C0:
			return r
		case r >= 0x10A0 && r <= 0x10C5: // Georgian capitals
			return r - 0x10A0 + 0x2D00
		case r >= 0x1CCD6 && r <= 0x1CCEF: // outlined A to Z
			return r - 0x1CCD6 + 'a'
		case r >= 0x1CCF0 && r <= 0x1CCF9: // outlined digits
			return r - 0x1CCF0 + '0'
		case r >= 0x2061 && r <= 0x2063, r >= 0x206A && r <= 0x206F,
			r >= 0x1D173 && r <= 0x1D17A: // invisible
			return -1
		}
		switch r {
		case 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFFA0: // fillers, vowels, a separator
			return -1
		case 0x4C0:
			return 0x4CF
		case 0x1E9E: // capital sharp s, "ss" until 15.0
			return 0xDF
		case 0x2132:
			return 0x214E
		case 0x2183:
			return 0x2184
		case 0xA7CB:
			return 0x264
		case 0xA7DC:
			return 0x19B
		case 0xA7F1:
			return 's'
		case 0x2F868:
			return 0x36FC
		case 0x2F874:
			return 0x5F53
		case 0x2F91F:
			return 0x243AB
		case 0x2F95F:
			return 0x7AEE
		case 0x2F9BF:
			return 0x45D7
		}
		return r
	}, name)
}
