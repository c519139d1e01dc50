package snapshot

// SeenCheck compares the measurements of URLseen in this run with the predictions of the formulas. It
// changes at the end of a pass. Unknown values are 0.
type SeenCheck struct {
	// Links is the number of links merged in Passes. URLBytes is the mean length of the text added for a
	// link, and TextRatio its compression on disk. Unique is the share of new links.
	Links     int64   `json:"links"`
	Passes    int64   `json:"passes"`
	URLBytes  float64 `json:"urlBytes"`
	TextRatio float64 `json:"textRatio"`
	Unique    float64 `json:"unique"`
	// Bytes is the I/O for a link. Predicted is drum.Options.Cost for the actual passes; Full is the cost
	// if all passes had been full. Small crawls merge early to keep fetchers busy.
	Bytes     float64 `json:"linkBytes"`
	Predicted float64 `json:"predictedLinkBytes"`
	Full      float64 `json:"fullLinkBytes"`
	// Alpha and PredictedAlpha are Bytes and Predicted in units of URLBytes.
	Alpha          float64 `json:"alpha"`
	PredictedAlpha float64 `json:"predictedAlpha"`
	// DiskBandwidth is the speed of passes that move at least 1 MiB, in bytes/s, including the results they
	// emit.
	DiskBandwidth float64 `json:"diskBandwidth"`
	// PageBytes is the I/O of the whole crawl for a page. PredictedPageBytes is that of Forecast for the
	// links and URLs found. DiskRate and PredictedDiskRate are the pages/s that DiskBandwidth then allows
	// (Theorem 3).
	PageBytes          float64 `json:"pageBytes"`
	PredictedPageBytes float64 `json:"predictedPageBytes"`
	DiskRate           float64 `json:"diskRate"`
	PredictedDiskRate  float64 `json:"predictedDiskRate"`
}
