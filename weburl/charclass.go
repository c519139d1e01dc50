package weburl

// Bits of byteClass.
const (
	encodedInPath  = 1 << iota // percent-encoded in a path: controls, space, " < > ^ ` { }, not ASCII
	encodedInQuery             // percent-encoded in a query: controls, space, " # < > ', not ASCII
	endsSegment                // / \ ? #
	endsQuery                  // #
	isAlpha                    // A-Z a-z
	plainHost                  // lower case of what stands for itself in a host: a-z 0-9 - _ and '.'
	upperHost                  // A-Z
	beginsEscape               // %

	stopsPath = encodedInPath | endsSegment
	endsHost  = endsSegment
)

// byteClass says what a byte is to the parts of a URL (URL standard, section 1.3). Never written to.
var byteClass = classify()

func classify() (class [256]uint8) {
	for i := range class {
		c := byte(i)
		if c <= ' ' || c >= 0x7F {
			class[c] |= encodedInPath | encodedInQuery
		}
		switch {
		case c >= 'a' && c <= 'z':
			class[c] |= isAlpha | plainHost
		case c >= 'A' && c <= 'Z':
			class[c] |= isAlpha | upperHost
		case c >= '0' && c <= '9', c == '-', c == '_', c == '.':
			class[c] |= plainHost
		}
	}
	for _, c := range []byte("\"<>^`{}") {
		class[c] |= encodedInPath
	}
	for _, c := range []byte("\"#<>'") {
		class[c] |= encodedInQuery
	}
	for _, c := range []byte("/\\?#") {
		class[c] |= endsSegment
	}
	class['#'] |= endsQuery
	class['%'] |= beginsEscape
	return class
}
