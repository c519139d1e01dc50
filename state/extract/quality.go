package extract

import (
	"math"

	"drumbeat/internal/tabular"
	"drumbeat/internal/textquality"
)

// qualityColumns are those of the field Quality, in the order of appendQuality.
var qualityColumns = []tabular.Column{
	{Name: "words", Type: tabular.Int64},
	{Name: "mean_word_length", Type: tabular.Float64},
	{Name: "alphabetic_words", Type: tabular.Float64},
	{Name: "symbols_per_word", Type: tabular.Float64},
	{Name: "gopher_stop_words", Type: tabular.Int64},
	{Name: "stop_words", Type: tabular.Float64, Nullable: true},
	{Name: "lines", Type: tabular.Int64},
	{Name: "bullet_lines", Type: tabular.Float64},
	{Name: "ellipsis_lines", Type: tabular.Float64},
	{Name: "punctuated_lines", Type: tabular.Float64},
	{Name: "short_lines", Type: tabular.Float64},
	{Name: "duplicate_lines", Type: tabular.Float64},
	{Name: "duplicate_line_chars", Type: tabular.Float64},
	{Name: "top_2gram", Type: tabular.Float64},
	{Name: "top_3gram", Type: tabular.Float64},
	{Name: "top_4gram", Type: tabular.Float64},
	{Name: "duplicate_5gram", Type: tabular.Float64},
	{Name: "duplicate_6gram", Type: tabular.Float64},
	{Name: "duplicate_7gram", Type: tabular.Float64},
	{Name: "duplicate_8gram", Type: tabular.Float64},
	{Name: "duplicate_9gram", Type: tabular.Float64},
	{Name: "duplicate_10gram", Type: tabular.Float64},
	{Name: "curly_bracket", Type: tabular.Bool},
	{Name: "lorem_ipsum", Type: tabular.Bool},
}

// appendQuality appends the values of qualityColumns, to four decimals.
func appendQuality(row []tabular.Value, s textquality.Stats) []tabular.Value {
	float := func(f float64) tabular.Value { return tabular.Float(math.Round(f*1e4) / 1e4) }
	stops := tabular.Null
	if s.StopWords >= 0 {
		stops = float(s.StopWords)
	}
	row = append(row, tabular.Int(s.Words), float(s.MeanWordLength), float(s.AlphabeticWords), float(s.SymbolsPerWord),
		tabular.Int(s.GopherStopWords), stops, tabular.Int(s.Lines), float(s.BulletLines), float(s.EllipsisLines),
		float(s.PunctuatedLines), float(s.ShortLines), float(s.DuplicateLines), float(s.DuplicateLineChars))
	for _, f := range append(s.TopNGrams[:], s.DuplicateNGrams[:]...) {
		row = append(row, float(f))
	}
	return append(row, tabular.Truth(s.CurlyBracket), tabular.Truth(s.LoremIpsum))
}
