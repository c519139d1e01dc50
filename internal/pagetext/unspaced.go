package pagetext

// Unspaced returns the number of characters that are taken as a word in a script that has no spaces between words;
// 0 for other scripts.
func Unspaced(r rune) int32 {
	switch {
	case r < 0x0e00:
	case r >= 0x3040 && r <= 0x30ff || r >= 0x3400 && r <= 0x4dbf || r >= 0x4e00 && r <= 0x9fff ||
		r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x3ffff: // kana and Han
		return 2
	case r <= 0x0eff || r >= 0x1000 && r <= 0x109f || r >= 0x1780 && r <= 0x17ff: // Thai, Lao, Burmese, Khmer
		return 4
	}
	return 0
}
