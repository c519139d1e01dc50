package langid

import wl "github.com/RadhiFadlillah/whatlanggo"

// lacking are the languages of whatlanggo that the model lacks, with their codes.
var lacking = map[wl.Lang]string{wl.Aka: "aka", wl.Bho: "bho", wl.Ceb: "ceb", wl.Ilo: "ilo", wl.Mai: "mai",
	wl.Nya: "nya", wl.Run: "run", wl.Skr: "skr", wl.Tir: "tir", wl.Ydd: "yid"}

// related lists, for an answer of the model, the languages that may be meant: the first is the answer.
var related = map[string][]wl.Lang{
	"amh": {wl.Amh, wl.Tir}, "heb": {wl.Heb, wl.Ydd}, "hbo": {wl.Heb, wl.Ydd}, "hin": {wl.Hin, wl.Bho, wl.Mai},
	"kin": {wl.Kin, wl.Run}, "nep": {wl.Nep, wl.Mai, wl.Bho}, "sna": {wl.Sna, wl.Nya}, "tgl": {wl.Tgl, wl.Ceb, wl.Ilo},
	"urd": {wl.Urd, wl.Skr},
}

const (
	// unsure is the confidence below which the model may have met a language that it lacks: nine of ten of its right
	// answers are above it.
	unsure = 0.9
	// leastSecond is the confidence that whatlanggo must have then.
	leastSecond = 0.5
	// secondBytes is how much of a text whatlanggo reads. It takes 0.3 us a byte.
	secondBytes = pieceBytes
)

// decide returns the answer of the model, or the language that whatlanggo knows and the model lacks.
func decide(code string, confidence float64, sample []byte) (string, float64) {
	var opt wl.Options
	if langs, ok := related[code]; ok {
		opt.Whitelist = map[wl.Lang]bool{}
		for _, l := range langs {
			opt.Whitelist[l] = true
		}
	} else if confidence >= unsure || code == NoLanguage {
		return code, confidence
	}
	if len(sample) > secondBytes {
		sample = sample[:secondBytes]
	}
	info := wl.DetectWithOptions(string(sample), opt)
	if other := lacking[info.Lang]; other != "" && (opt.Whitelist != nil || info.Confidence >= leastSecond) {
		return other, info.Confidence
	}
	return code, confidence
}
